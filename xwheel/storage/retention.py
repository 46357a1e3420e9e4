"""What grows and must be deleted: finished runs, arrivals of chains, and jobs that were deleted.

Everything is found by key ranges and deleted by key in batches, so that neither rows that must stay nor the size of
the table make a batch slow. A batch may be given up anywhere: what is left is found again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Select, cast, delete, exists, func, select, tuple_

from xwheel.storage import job_versions, jobs, run_ids
from xwheel.storage.database.bulk import tuple_in
from xwheel.storage.runs import find_open_roots, of_roots
from xwheel.storage.schema.tables import RUN_TABLES, child_arrival, glue_version, job, run_history

DAY_MS: Final = run_ids.DAY_MS
LEAST_DAYS: Final = 3
"""No run is deleted younger than this: a late outcome, a report or a person may still need it."""


class OldRun(NamedTuple):
    """A run that is old enough to go, if its whole root is; behind its first two values the next page begins."""

    due_ms: int
    id: int
    job_id: int
    root_id: int


def find_old_runs(
    conn: Connection, before_ms: int, after: tuple[int, int], limit: int, job_id: int | None = None
) -> list[OldRun]:
    """Return runs that were due before an instant, of all jobs or of one, by ``(due_ms, id)`` from behind a place."""
    row = run_history.c
    # the first bound is what every database turns into an index range
    query = select(row.due_ms, row.id, row.job_id, row.root_id).where(
        row.due_ms >= after[0], row.due_ms < before_ms, tuple_(row.due_ms, row.id) > tuple_(*after)
    )
    if job_id is not None:
        query = query.where(row.job_id == job_id)
    return [OldRun(*found) for found in conn.execute(query.order_by(row.due_ms, row.id).limit(limit))]


def find_own_retention(conn: Connection, job_ids: Collection[int]) -> dict[int, int]:
    """Return the retention in days of those of the jobs that have one of their own."""
    query = select(job.c.id, job.c.retention_days)
    rows = conn.execute(query.where(job.c.id.in_(sorted(job_ids)), job.c.retention_days > 0))
    return {row.id: row.retention_days for row in rows}


def find_longest(conn: Connection) -> int:
    """Return the longest retention that a job has of its own, in days."""
    return int(conn.execute(select(func.coalesce(func.max(job.c.retention_days), 0))).scalar_one())


def list_retentions(conn: Connection, after_id: int, limit: int) -> list[tuple[int, int]]:
    """Return a page of all jobs, deleted ones too: ``(id, retention_days)``."""
    query = select(job.c.id, job.c.retention_days).where(job.c.id > after_id).order_by(job.c.id).limit(limit)
    return [(row.id, row.retention_days) for row in conn.execute(query)]


def find_jobs_with_old_runs(conn: Connection, job_ids: Collection[int], now_ms: int) -> list[int]:
    """Return those of the jobs with a retention of their own that have runs older than it."""
    # a product of two small integers is a small integer on PostgreSQL, and 25 days do not fit
    age_ms = cast(job.c.retention_days, BigInteger) * DAY_MS
    # one entry of the index; asked whether any is older, MariaDB would walk all runs of a job that has none
    oldest_ms = (
        select(run_history.c.due_ms).where(run_history.c.job_id == job.c.id).order_by(run_history.c.due_ms).limit(1)
    )
    is_old = oldest_ms.scalar_subquery() < now_ms - age_ms
    query = select(job.c.id).where(job.c.id.in_(sorted(job_ids)), job.c.retention_days > 0, is_old)
    return list(conn.execute(query.order_by(job.c.id)).scalars())


def delete_closed(conn: Connection, found: Sequence[OldRun], before: Mapping[int, int]) -> int:
    """Delete those of a few hundred runs whose whole root is final and old; return how many.

    All runs of a root must have been due and finished ``before`` the instant of their job. It is asked which of their
    runs are open before the rows are locked, since one may end meanwhile, and after, since one that was taken for lost
    may be retried.
    """
    roots = sorted({item.root_id for item in found})
    if not roots:
        return 0
    row = run_history.c
    query = select(row.job_id, row.root_id, row.due_ms, row.finished_ms).where(of_roots(run_history, roots))
    kept = find_open_roots(conn, roots)
    locked = conn.execute(query.order_by(row.id).with_for_update()).all()
    kept |= find_open_roots(conn, roots)
    kept |= {
        root_id
        for job_id, root_id, due_ms, finished_ms in locked
        if finished_ms is None or max(due_ms, finished_ms) >= before.get(job_id, 0)
    }
    ids = sorted(item.id for item in found if item.root_id not in kept)
    return conn.execute(delete(run_history).where(run_history.c.id.in_(ids))).rowcount if ids else 0


def delete_arrivals(conn: Connection, before_ms: int, limit: int) -> int:
    """Delete what chains noted before an instant about the parents of a join; return how many rows."""
    key = (child_arrival.c.child_id, child_arrival.c.chain_id, child_arrival.c.parent_id)
    query = select(*key).where(child_arrival.c.created_ms < before_ms).order_by(child_arrival.c.created_ms)
    rows = [tuple(row) for row in conn.execute(query.limit(limit))]
    return conn.execute(delete(child_arrival).where(tuple_in(conn, key, rows))).rowcount if rows else 0


def list_tombstones(conn: Connection, after: tuple[int, int], limit: int) -> list[tuple[int, int]]:
    """Return a page of deleted jobs as ``(deleted_ms, id)``, longest deleted first."""
    key = (job.c.deleted_ms, job.c.id)
    query = select(*key).where(job.c.deleted_ms >= after[0], tuple_(*key) > tuple_(*after)).order_by(*key)
    return [(row.deleted_ms, row.id) for row in conn.execute(query.limit(limit))]


def find_empty_tombstones(conn: Connection, ids: Iterable[int]) -> list[int]:
    """Return those of the jobs that are deleted and have no run."""
    return list(conn.execute(_empty_tombstones(ids)).scalars())


def delete_tombstones(conn: Connection, ids: Iterable[int]) -> int:
    """Delete those of the jobs that are deleted and have no run, with all that is about them."""
    gone = list(conn.execute(_empty_tombstones(ids).with_for_update()).scalars())
    if gone:
        jobs.delete_links(conn, gone)
        conn.execute(delete(glue_version).where(glue_version.c.job_id.in_(gone)))
        job_versions.delete_of(conn, gone)
        conn.execute(delete(job).where(job.c.id.in_(gone)))
    return len(gone)


def _empty_tombstones(ids: Iterable[int]) -> Select[Any]:
    has_no_run = (~exists().where(table.c.job_id == job.c.id) for table in RUN_TABLES)
    query = select(job.c.id).where(job.c.id.in_(sorted(ids)), job.c.deleted_ms.is_not(None), *has_no_run)
    return query.order_by(job.c.id)
