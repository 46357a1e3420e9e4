"""Runs that are dispatching or running: the questions about them, and how many a group or job may have.

A check asks an executor about those that are due for one. Groups with a limit, and jobs that block for the whole
cluster, count them before another one is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, Table, and_, bindparam, desc, func, literal_column, or_, select, update

from xwheel.model import Origin, RunState
from xwheel.model.reasons import RunReason
from xwheel.storage.database.bulk import any_of, fetch_rows, update_many
from xwheel.storage.database.direct import Prepared, in_text
from xwheel.storage.database.rows import IN_LIMIT, hold, in_parts
from xwheel.storage.runs import in_both, locked
from xwheel.storage.schema.tables import IS_SENT, executor_group, job, open_run

SENT: Final = (str(RunState.DISPATCHING), str(RunState.RUNNING))
_AT_EXECUTOR: Final = open_run.c.state != RunState.PLANNED
QUEUE_MS: Final = 86_400_000
"""How far back the queue of a foreign executor is read."""

AHEAD_LIMIT: Final = 20_000


class OpenRun(NamedTuple):
    """What a check needs of a run that was sent and has no outcome."""

    id: int
    job_id: int
    group_id: int
    partition: int
    state: RunState
    created_ms: int
    address: str
    instance: str
    dispatched_ms: int
    accepted_ms: int | None
    check_ms: int  # when it was due for a question
    reason: str  # empty, or what the last checks found; see :mod:`xwheel.scheduler.check.decide`
    kill_requested: bool
    started_ms: int | None  # when its handler began, if its executor told
    timeout_s: int  # the time limit of its job as it stands now, 0 for none


class SentRun(NamedTuple):
    """A run that is dispatching or running."""

    id: int
    job_id: int
    root_id: int
    kill_requested: bool


class Holder(NamedTuple):
    """An executor as rows name it; ``instance`` is empty for foreign ones."""

    group_id: int
    address: str
    instance: str


class Ahead(NamedTuple):
    """A run that may stand before another one in an executor's queue."""

    job_id: int
    address: str
    dispatched_ms: int
    finished_ms: int | None


_OR_ELSE: Final[dict[str, Any]] = {"address": "", "instance": "", "dispatched_ms": open_run.c.created_ms}
_COLUMNS: Final = [
    func.coalesce(open_run.c[name], _OR_ELSE[name]) if name in _OR_ELSE else open_run.c[name]
    for name in OpenRun._fields[:-1]
]
# asked at every step: to build it takes four times as long as to ask it of an empty table
_DUE: Final = Prepared(
    select(*_COLUMNS, func.coalesce(job.c.timeout_s, 0))
    .join_from(open_run, job, job.c.id == open_run.c.job_id, isouter=True)
    .where(
        IS_SENT,
        open_run.c.check_ms <= bindparam("now_ms"),
        in_text(open_run.c.partition),
        or_(
            open_run.c.state == RunState.RUNNING,
            and_(
                open_run.c.state == RunState.DISPATCHING,
                or_(open_run.c.check_ms <= bindparam("unanswered_ms"), open_run.c.kill_requested.is_(True)),
            ),
        ),
    )
    .order_by(open_run.c.check_ms)
    .limit(bindparam("most"))
)


def list_due(
    conn: Connection, partitions: Collection[int], now_ms: int, unanswered_ms: int, limit: int
) -> list[OpenRun]:
    """Return at most ``limit`` open runs of these partitions that are due for a question, longest due first.

    Dispatching rows that are not to be killed count only if they were due until ``unanswered_ms``: their send is
    repeated first.
    """
    values = {"ids": sorted(partitions), "now_ms": now_ms, "unanswered_ms": unanswered_ms, "most": limit}
    rows = _DUE.fetch(conn, values)
    return [OpenRun._make((*row[:4], RunState(row[4]), *row[5:12], bool(row[12]), *row[13:])) for row in rows]


_LOCK_CHECKS: Final = locked(
    select(open_run.c.id, open_run.c.partition, open_run.c.check_ms, open_run.c.state).where(_AT_EXECUTOR)
)


def lock_checks(conn: Connection, ids: Collection[int]) -> dict[int, tuple[int, int | None, RunState]]:
    """Lock runs that are still open at an executor; return id to ``(partition, check_ms, state)``."""
    rows = fetch_rows(conn, *_LOCK_CHECKS(conn, sorted(ids)))
    return {run_id: (partition, check_ms, RunState(state)) for run_id, partition, check_ms, state in rows}


def update_findings(conn: Connection, rows: Sequence[tuple[int, int, str, int | None]]) -> int:
    """Write when locked rows are checked again, and what this check found: ``(id, check_ms, reason, started_ms)``."""
    return update_many(conn, open_run, ("check_ms", "reason", "started_ms"), rows)


def update_checks(conn: Connection, rows: Sequence[tuple[int, int]]) -> int:
    """Write when locked rows are checked again: ``(id, check_ms)``."""
    return update_many(conn, open_run, ("check_ms",), rows)


def request_kill(conn: Connection, run_id: int, now_ms: int) -> int:
    """Note that this locked run is to end, and make it due for a check."""
    query = update(open_run).where(open_run.c.id == run_id, open_run.c.state.in_(SENT))
    return conn.execute(query.values(kill_requested=True, check_ms=now_ms)).rowcount


def list_holders(conn: Connection, partitions: Collection[int], after_ms: int) -> list[Holder]:
    """Return the executors that hold open runs whose next check is later than ``after_ms``."""
    query = select(open_run.c.group_id, func.coalesce(open_run.c.address, ""), func.coalesce(open_run.c.instance, ""))
    query = query.where(IS_SENT, open_run.c.check_ms > after_ms, open_run.c.partition.in_(sorted(partitions)))
    return [Holder(*row) for row in conn.execute(query.distinct())]


def find_later(
    conn: Connection, holder: Holder, partitions: Collection[int], after_ms: int, *, after_id: int, limit: int
) -> list[int]:
    """Return open runs of an executor whose next check is later than ``after_ms``, by id after a given one.

    Runs of an xwheel executor are found by its instance, wherever it lived when it got them; so are all runs that
    another instance got at its address, if ``instance`` is empty.
    """
    query = select(open_run.c.id).where(
        IS_SENT,
        open_run.c.check_ms > after_ms,
        open_run.c.id + 0 > after_id,
        open_run.c.group_id == holder.group_id,
        open_run.c.partition.in_(sorted(partitions)),
        open_run.c.state.in_(SENT),
    )
    at = open_run.c.instance == holder.instance if holder.instance else open_run.c.address == holder.address
    return list(conn.execute(query.where(at).order_by(open_run.c.id + 0).limit(limit)).scalars())


def lock_same_job(conn: Connection, job_id: int, holder: Holder) -> list[tuple[int, int | None, str]]:
    """Lock the open runs of a job at a foreign executor: ``(id, dispatched_ms, reason)`` in id order."""
    query = (
        select(open_run.c.id, open_run.c.dispatched_ms, open_run.c.reason)
        .where(
            IS_SENT,
            open_run.c.group_id == holder.group_id,
            open_run.c.job_id == job_id,
            open_run.c.address == holder.address,
            open_run.c.state.in_(SENT),
        )
        # a sum, so that no planner walks through the whole table for the sake of the order
        .order_by(open_run.c.id + 0)
        .with_for_update()
    )
    return [(row.id, row.dispatched_ms, row.reason) for row in conn.execute(query)]


def list_ahead(conn: Connection, rows: Sequence[OpenRun]) -> list[Ahead]:
    """Return runs of the same jobs that may have stood before these in their executors' queues."""
    since_ms = min(row.dispatched_ms for row in rows)

    def of(run: Table) -> Select[Any]:
        return select(run.c.job_id, run.c.address, run.c.dispatched_ms, run.c.finished_ms, run.c.due_ms).where(
            run.c.job_id.in_(sorted({row.job_id for row in rows})),
            run.c.due_ms >= since_ms - QUEUE_MS,
            run.c.due_ms <= max(row.dispatched_ms for row in rows),
            run.c.dispatched_ms.is_not(None),
            or_(run.c.finished_ms.is_(None), run.c.finished_ms >= since_ms),
        )

    query = in_both(of).order_by(desc("due_ms")).limit(AHEAD_LIMIT)
    return [Ahead(*row[:4]) for row in conn.execute(query)]


def lock_limits(conn: Connection, group_ids: Collection[int]) -> dict[int, int]:
    """Lock groups in id order and return how many of their runs may be open; those without a limit are missing.

    A transaction that opens runs of such a group waits here for others, so that all nodes count one after the other.
    """
    if not group_ids:
        return {}
    key = executor_group.c
    query = select(key.id, key.max_running).where(key.id.in_(sorted(group_ids))).order_by(key.id)
    limits = {row.id: row.max_running for row in conn.execute(query.with_for_update()) if row.max_running > 0}
    hold(conn, "group", limits)
    return limits


def count_open(conn: Connection, group_ids: Collection[int]) -> dict[int, int]:
    """Return how many runs of groups are dispatching or running; every open row has a time of its next check."""
    if not group_ids:
        return {}
    # the sum keeps planners away from an index of the group alone, for the grouping too
    group_id = open_run.c.group_id + literal_column("0")
    query = select(group_id, func.count()).where(IS_SENT, group_id.in_(sorted(group_ids))).group_by(group_id)
    return {row[0]: row[1] for row in conn.execute(query)}


def list_open(conn: Connection, job_ids: Collection[int]) -> list[SentRun]:
    """Return the runs of jobs that are dispatching or running."""
    query = select(open_run.c.id, open_run.c.job_id, open_run.c.root_id, open_run.c.kill_requested).where(IS_SENT)
    # the sum keeps planners away from the index of a job's whole history
    rows = in_parts(conn, sorted(job_ids), IN_LIMIT, lambda part: query.where((open_run.c.job_id + 0).in_(part)))
    return [SentRun(*row) for row in rows]


_LOCK_UNASKED: Final = locked(select(open_run.c.id).where(_AT_EXECUTOR, open_run.c.kill_requested.is_(False)))


def request_kills(conn: Connection, run_ids: Sequence[int], now_ms: int) -> int:
    """Ask for the end of runs that are still open, and let them be checked now; return how many are asked again."""
    ids = [run_id for (run_id,) in fetch_rows(conn, *_LOCK_UNASKED(conn, sorted(run_ids)))]
    return update_many(conn, open_run, ("kill_requested", "check_ms"), [(item, True, now_ms) for item in ids])


def find_last_missed(
    conn: Connection, job_ids: Collection[int], now_ms: int, *, after_ms: int, threshold_ms: int
) -> dict[int, int]:
    """Return the planned time of the last fire after ``after_ms`` that a job missed and that has a run, by job.

    ``threshold_ms`` is the misfire threshold of jobs that have none of their own.
    """
    threshold = func.coalesce(job.c.misfire_threshold_ms, threshold_ms)

    def of(run: Table) -> Select[Any]:
        is_missed = or_(run.c.due_ms + threshold < now_ms, run.c.reason == RunReason.MISFIRE)
        query = select(run.c.job_id, func.max(run.c.origin_key)).join(job, job.c.id == run.c.job_id)
        query = query.where(any_of(conn, run.c.job_id, sorted(job_ids)), run.c.origin == Origin.SCHEDULE)
        query = query.where(run.c.origin_key > after_ms, is_missed)
        query = query.where(run.c.state.not_in((RunState.SKIPPED, RunState.CANCELLED)))
        # else MariaDB would read all runs of each job where these are in partitions
        return query.prefix_with("STRAIGHT_JOIN", dialect="mysql").group_by(run.c.job_id)

    last: dict[int, int] = {}
    for job_id, planned_ms in conn.execute(in_both(of)):
        last[job_id] = max(planned_ms, last.get(job_id, planned_ms))
    return last
