"""What did not happen: runs that do not end, and jobs that do not run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, select, tuple_
from xwheel.storage.database.bulk import any_of
from xwheel.storage.runs import in_both
from xwheel.storage.schema.tables import IS_SENT, job, open_run

from xwheel_alarms.records import AlarmKind
from xwheel_alarms.tables import alarm


class WatchedRun(NamedTuple):
    """A run that is dispatching or running; ``check_ms`` and ``id`` are its place in the walk."""

    check_ms: int
    id: int
    job_id: int
    group_id: int
    partition: int
    root_id: int
    shard_index: int
    dispatched_ms: int
    accepted_ms: int | None
    started_ms: int | None
    reason: str


class WatchedJob(NamedTuple):
    """A started job, and when it was changed last."""

    id: int
    group_id: int
    partition: int
    updated_ms: int


def list_sent(conn: Connection, after: tuple[int, int], limit: int) -> list[WatchedRun]:
    """Return a page of all runs that are dispatching or running, from behind a ``(check_ms, id)``.

    A check between two pages may move a run.
    """
    place = (open_run.c.check_ms, open_run.c.id)
    # the first bound is what every database turns into an index range
    query = select(*(open_run.c[name] for name in WatchedRun._fields)).where(
        IS_SENT, place[0] >= after[0], tuple_(*place) > tuple_(*after)
    )
    return [WatchedRun(*row) for row in conn.execute(query.order_by(*place).limit(limit))]


def find_told_runs(conn: Connection, run_ids: Collection[int]) -> set[tuple[int, int]]:
    """Return ``(run, rule)`` of those of the runs that have an alarm because they still run."""
    query = select(alarm.c.run_id, alarm.c.rule_id).where(
        any_of(conn, alarm.c.run_id, sorted(run_ids)), alarm.c.kind == str(AlarmKind.STILL_RUNNING)
    )
    return {(row.run_id, row.rule_id) for row in conn.execute(query)}


def list_started_jobs(
    conn: Connection, after_id: int, limit: int, *, group_id: int | None = None, ids: Collection[int] = ()
) -> tuple[list[WatchedJob], int | None]:
    """Return a page of started jobs by id: of all, of those of a group, or of some.

    At most ``limit`` jobs are read. With them comes where the next page begins; None after the last one.
    """
    columns = (job.c.id, job.c.group_id, job.c.partition, job.c.updated_ms, job.c.enabled, job.c.deleted_ms)
    query = select(*columns).where(job.c.id > after_id)
    if group_id is not None:
        query = query.where(job.c.group_id == group_id)
    if ids:
        query = query.where(any_of(conn, job.c.id, sorted(ids)))
    rows = conn.execute(query.order_by(job.c.id).limit(limit)).all()
    found = [WatchedJob(*row[:4]) for row in rows if row.enabled and row.deleted_ms is None]
    return found, rows[-1].id if len(rows) == limit else None


def find_ran(conn: Connection, job_ids: Collection[int], since_ms: int) -> set[int]:
    """Return those of the jobs of which an executor took a run that was due at or after an instant.

    Reads every run of theirs that was, so the instant should not be long ago for jobs that run often.
    """

    def of(run: Table) -> Select[Any]:
        taken = (run.c.due_ms >= since_ms, run.c.accepted_ms.is_not(None))
        return select(run.c.job_id).where(run.c.job_id.in_(sorted(job_ids)), *taken).distinct()

    return set(conn.execute(in_both(of)).scalars())
