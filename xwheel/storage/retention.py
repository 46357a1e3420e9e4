"""What grows and must be deleted: finished runs, arrivals of chains, and jobs that were deleted.

Everything is found by key ranges and deleted by key in batches, so that neither rows that must stay nor the size of
the table make a batch slow. A batch may be given up anywhere: what is left is found again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Select, cast, delete, exists, select, tuple_

from xwheel.model import OPEN_STATES
from xwheel.storage import job_versions, jobs
from xwheel.storage.database.bulk import tuple_in
from xwheel.storage.schema.tables import child_arrival, glue_version, job, run

DAY_MS: Final = 86_400_000
LEAST_DAYS: Final = 3
"""No run is deleted younger than this: a late outcome, a report or a person may still need it."""


class OldRun(NamedTuple):
    """A run that is old enough to go, if its whole root is."""

    due_ms: int
    id: int
    job_id: int
    root_id: int

    @property
    def place(self) -> tuple[int, int]:
        """Where the next page begins."""
        return self.due_ms, self.id


def find_old_runs(
    conn: Connection, before_ms: int, after: tuple[int, int], limit: int, job_id: int | None = None
) -> list[OldRun]:
    """Return runs that were due before an instant, of all jobs or of one, by ``(due_ms, id)`` from behind a place."""
    # the first bound is what every database turns into an index range
    query = select(run.c.due_ms, run.c.id, run.c.job_id, run.c.root_id).where(
        run.c.due_ms >= after[0], run.c.due_ms < before_ms, tuple_(run.c.due_ms, run.c.id) > tuple_(*after)
    )
    if job_id is not None:
        query = query.where(run.c.job_id == job_id)
    query = query.order_by(run.c.due_ms, run.c.id).limit(limit)
    return [OldRun(*row) for row in conn.execute(query)]


def find_own_retention(conn: Connection, job_ids: Collection[int]) -> set[int]:
    """Return which of these jobs have a retention of their own."""
    query = select(job.c.id).where(job.c.id.in_(sorted(job_ids)), job.c.retention_days > 0)
    return set(conn.execute(query).scalars())


def list_retentions(conn: Connection, after_id: int, limit: int) -> list[tuple[int, int]]:
    """Return a page of all jobs, deleted ones too: ``(id, retention_days)``."""
    query = select(job.c.id, job.c.retention_days).where(job.c.id > after_id).order_by(job.c.id).limit(limit)
    return [(row.id, row.retention_days) for row in conn.execute(query)]


def find_jobs_with_old_runs(conn: Connection, job_ids: Collection[int], now_ms: int) -> list[int]:
    """Return those of the jobs with a retention of their own that have runs older than it."""
    # a product of two small integers is a small integer on PostgreSQL, and 25 days do not fit
    age_ms = cast(job.c.retention_days, BigInteger) * DAY_MS
    # one entry of the index; asked whether any is older, MariaDB would walk all runs of a job that has none
    oldest_ms = select(run.c.due_ms).where(run.c.job_id == job.c.id).order_by(run.c.due_ms).limit(1)
    is_old = oldest_ms.scalar_subquery() < now_ms - age_ms
    query = select(job.c.id).where(job.c.id.in_(sorted(job_ids)), job.c.retention_days > 0, is_old)
    return list(conn.execute(query.order_by(job.c.id)).scalars())


def delete_closed(conn: Connection, found: Sequence[OldRun], before: Mapping[int, int]) -> int:
    """Delete those of a few hundred runs whose whole root is final and old; return how many.

    All runs of a root must have been due and finished ``before`` the instant of their job. The roots' rows are locked
    and read again: an outcome that corrects a lost run meanwhile wins.
    """
    roots = sorted({item.root_id for item in found})
    if not roots:
        return 0
    columns = (run.c.id, run.c.job_id, run.c.root_id, run.c.state, run.c.due_ms, run.c.finished_ms)
    query = select(*columns).where(run.c.root_id.in_(roots)).order_by(run.c.id).with_for_update()
    kept = {
        row.root_id
        for row in conn.execute(query)
        if row.state in OPEN_STATES
        or row.finished_ms is None
        or max(row.due_ms, row.finished_ms) >= before.get(row.job_id, 0)
    }
    ids = sorted(item.id for item in found if item.root_id not in kept)
    return conn.execute(delete(run).where(run.c.id.in_(ids))).rowcount if ids else 0


def delete_arrivals(conn: Connection, before_ms: int, limit: int) -> int:
    """Delete what chains noted before an instant about the parents of a join; return how many rows."""
    key = (child_arrival.c.child_id, child_arrival.c.chain_id, child_arrival.c.parent_id)
    query = select(*key).where(child_arrival.c.created_ms < before_ms).order_by(child_arrival.c.created_ms)
    rows = [tuple(row) for row in conn.execute(query.limit(limit))]
    return conn.execute(delete(child_arrival).where(tuple_in(conn, key, rows))).rowcount if rows else 0


def list_tombstones(conn: Connection, after: tuple[int, int], limit: int) -> list[tuple[int, int]]:
    """Return a page of deleted jobs as ``(deleted_ms, id)``, longest deleted first."""
    query = (
        select(job.c.deleted_ms, job.c.id)
        .where(job.c.deleted_ms >= after[0], tuple_(job.c.deleted_ms, job.c.id) > tuple_(*after))
        .order_by(job.c.deleted_ms, job.c.id)
        .limit(limit)
    )
    return [(row.deleted_ms, row.id) for row in conn.execute(query)]


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
    has_run = exists().where(run.c.job_id == job.c.id)
    query = select(job.c.id).where(job.c.id.in_(sorted(ids)), job.c.deleted_ms.is_not(None), ~has_run)
    return query.order_by(job.c.id)
