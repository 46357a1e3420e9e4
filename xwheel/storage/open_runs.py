"""Runs that are dispatching or running: the questions about them, and how many a group or job may have.

A check asks an executor about those that are due for one. Groups with a limit, and jobs that block for the whole
cluster, count them before another one is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, and_, bindparam, func, literal_column, or_, select, update

from xwheel.model import Origin, RunState
from xwheel.model.reasons import RunReason
from xwheel.storage.database.bulk import any_of, update_many
from xwheel.storage.database.rows import IN_LIMIT, chunks, in_parts
from xwheel.storage.schema.tables import IS_SENT, executor_group, job, run

SENT: Final = (str(RunState.DISPATCHING), str(RunState.RUNNING))
QUEUE_MS: Final = 86_400_000
"""How far back the queue of a foreign executor is read."""

AHEAD_LIMIT: Final = 20_000


class OpenRun(NamedTuple):
    """What a check needs of a run that was sent and has no outcome.

    Attributes:
        check_ms: When it was due for a question.
        reason: Empty, or what the last checks found; see :mod:`xwheel.scheduler.check.decide`.
        timeout_s: The time limit of its job as it stands now, 0 for none.
    """

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
    check_ms: int
    reason: str
    kill_requested: bool
    timeout_s: int


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


# asked at every step: to build it takes four times as long as to ask it of an empty table
_DUE: Final = (
    select(
        run.c.id,
        run.c.job_id,
        run.c.group_id,
        run.c.partition,
        run.c.state,
        run.c.created_ms,
        func.coalesce(run.c.address, ""),
        func.coalesce(run.c.instance, ""),
        func.coalesce(run.c.dispatched_ms, run.c.created_ms),
        run.c.accepted_ms,
        run.c.check_ms,
        run.c.reason,
        run.c.kill_requested,
        func.coalesce(job.c.timeout_s, 0),
    )
    .join_from(run, job, job.c.id == run.c.job_id, isouter=True)
    .where(
        run.c.check_ms <= bindparam("now_ms"),
        run.c.partition.in_(bindparam("partitions", expanding=True)),
        or_(
            run.c.state == RunState.RUNNING,
            and_(
                run.c.state == RunState.DISPATCHING,
                or_(run.c.check_ms <= bindparam("unanswered_ms"), run.c.kill_requested.is_(True)),
            ),
        ),
    )
    .order_by(run.c.check_ms)
    .limit(bindparam("most"))
)


def list_due(
    conn: Connection, partitions: Collection[int], now_ms: int, unanswered_ms: int, limit: int
) -> list[OpenRun]:
    """Return at most ``limit`` open runs of these partitions that are due for a question, longest due first.

    Dispatching rows that are not to be killed count only if they were due until ``unanswered_ms``: their send is
    repeated first.
    """
    values = {
        "partitions": sorted(partitions),
        "now_ms": now_ms,
        "unanswered_ms": unanswered_ms,
        "most": limit,
    }
    return [OpenRun._make((*row[:4], RunState(row.state), *row[5:])) for row in conn.execute(_DUE, values)]


def lock_checks(conn: Connection, ids: Collection[int]) -> dict[int, tuple[int, int | None, RunState]]:
    """Lock runs that are still open at an executor; return id to ``(partition, check_ms, state)``."""
    query = select(run.c.id, run.c.partition, run.c.check_ms, run.c.state).where(run.c.state.in_(SENT))
    query = query.order_by(run.c.id).with_for_update()
    rows = in_parts(conn, sorted(ids), IN_LIMIT, lambda part: query.where(run.c.id.in_(part)))
    return {row.id: (row.partition, row.check_ms, RunState(row.state)) for row in rows}


def update_findings(conn: Connection, rows: Sequence[tuple[int, int, str]]) -> int:
    """Write when locked rows are checked again, and what this check found: ``(id, check_ms, reason)``."""
    return update_many(conn, run, ("check_ms", "reason"), rows)


def update_checks(conn: Connection, rows: Sequence[tuple[int, int]]) -> int:
    """Write when locked rows are checked again: ``(id, check_ms)``."""
    return update_many(conn, run, ("check_ms",), rows)


def request_kill(conn: Connection, run_id: int, now_ms: int) -> int:
    """Note that this locked run is to end, and make it due for a check."""
    query = update(run).where(run.c.id == run_id, run.c.state.in_(SENT))
    return conn.execute(query.values(kill_requested=True, check_ms=now_ms)).rowcount


def list_holders(conn: Connection, partitions: Collection[int], after_ms: int) -> list[Holder]:
    """Return the executors that hold open runs whose next check is later than ``after_ms``."""
    query = (
        select(run.c.group_id, func.coalesce(run.c.address, ""), func.coalesce(run.c.instance, ""))
        .where(run.c.check_ms > after_ms, run.c.partition.in_(sorted(partitions)))
        .distinct()
    )
    return [Holder(*row) for row in conn.execute(query)]


def find_later(
    conn: Connection, holder: Holder, partitions: Collection[int], after_ms: int, *, after_id: int, limit: int
) -> list[int]:
    """Return open runs of an executor whose next check is later than ``after_ms``, by id after a given one.

    Runs of an xwheel executor are found by its instance, wherever it lived when it got them; so are all runs that
    another instance got at its address, if ``instance`` is empty.
    """
    query = select(run.c.id).where(
        run.c.check_ms > after_ms,
        run.c.id + 0 > after_id,
        run.c.group_id + 0 == holder.group_id,  # a sum, so that no index leads through all runs of the group
        run.c.partition.in_(sorted(partitions)),
        run.c.state.in_(SENT),
    )
    if holder.instance:
        query = query.where(run.c.instance == holder.instance)
    else:
        query = query.where(run.c.address == holder.address)
    return list(conn.execute(query.order_by(run.c.id + 0).limit(limit)).scalars())


def lock_same_job(conn: Connection, job_id: int, holder: Holder) -> list[tuple[int, int | None, str]]:
    """Lock the open runs of a job at a foreign executor: ``(id, dispatched_ms, reason)`` in id order."""
    query = (
        select(run.c.id, run.c.dispatched_ms, run.c.reason)
        .where(
            IS_SENT,
            run.c.group_id + 0 == holder.group_id,  # sums, so that no index leads through all runs of the job
            run.c.job_id + 0 == job_id,
            run.c.address == holder.address,
            run.c.state.in_(SENT),
        )
        .order_by(run.c.id + 0)  # nor through the whole table for the sake of the order
        .with_for_update()
    )
    return [(row.id, row.dispatched_ms, row.reason) for row in conn.execute(query)]


def list_ahead(conn: Connection, rows: Sequence[OpenRun]) -> list[Ahead]:
    """Return runs of the same jobs that may have stood before these in their executors' queues."""
    since_ms = min(row.dispatched_ms for row in rows)
    query = (
        select(run.c.job_id, run.c.address, run.c.dispatched_ms, run.c.finished_ms)
        .where(
            run.c.job_id.in_(sorted({row.job_id for row in rows})),
            run.c.due_ms >= since_ms - QUEUE_MS,
            run.c.due_ms <= max(row.dispatched_ms for row in rows),
            run.c.dispatched_ms.is_not(None),
            or_(run.c.finished_ms.is_(None), run.c.finished_ms >= since_ms),
        )
        .order_by(run.c.due_ms.desc())
        .limit(AHEAD_LIMIT)
    )
    return [Ahead(*row) for row in conn.execute(query)]


def lock_limits(conn: Connection, group_ids: Collection[int]) -> dict[int, int]:
    """Lock groups in id order and return how many of their runs may be open; those without a limit are missing.

    A transaction that opens runs of such a group waits here for others, so that all nodes count one after the other.
    """
    if not group_ids:
        return {}
    query = (
        select(executor_group.c.id, executor_group.c.max_running)
        .where(executor_group.c.id.in_(sorted(group_ids)))
        .order_by(executor_group.c.id)
        .with_for_update()
    )
    return {row.id: row.max_running for row in conn.execute(query) if row.max_running > 0}


def count_open(conn: Connection, group_ids: Collection[int]) -> dict[int, int]:
    """Return how many runs of groups are dispatching or running; every open row has a time of its next check."""
    if not group_ids:
        return {}
    # the sum keeps planners away from the index of a group's whole history, for the grouping too
    group_id = run.c.group_id + literal_column("0")
    query = select(group_id, func.count()).where(IS_SENT, group_id.in_(sorted(group_ids))).group_by(group_id)
    return {row[0]: row[1] for row in conn.execute(query)}


def list_open(conn: Connection, job_ids: Collection[int]) -> list[SentRun]:
    """Return the runs of jobs that are dispatching or running."""
    query = select(run.c.id, run.c.job_id, run.c.root_id, run.c.kill_requested).where(IS_SENT)
    # the sum keeps planners away from the index of a job's whole history
    rows = in_parts(conn, sorted(job_ids), IN_LIMIT, lambda part: query.where((run.c.job_id + 0).in_(part)))
    return [SentRun(*row) for row in rows]


def request_kills(conn: Connection, run_ids: Sequence[int], now_ms: int) -> int:
    """Ask for the end of runs that are still open, and let them be checked now; return how many are asked again."""
    changed = 0
    for part in chunks(sorted(run_ids), IN_LIMIT):
        ids = conn.execute(
            select(run.c.id)
            .where(run.c.id.in_(list(part)), run.c.state.in_(SENT), run.c.kill_requested.is_(False))
            .order_by(run.c.id)
            .with_for_update()
        ).scalars()
        query = update(run).where(run.c.id.in_(list(ids)), run.c.state.in_(SENT))
        changed += conn.execute(query.values(kill_requested=True, check_ms=now_ms)).rowcount
    return changed


def find_last_missed(
    conn: Connection, job_ids: Collection[int], now_ms: int, *, after_ms: int, threshold_ms: int
) -> dict[int, int]:
    """Return the planned time of the last fire after ``after_ms`` that a job missed and that has a run, by job.

    ``threshold_ms`` is the misfire threshold of jobs that have none of their own.
    """
    threshold = func.coalesce(job.c.misfire_threshold_ms, threshold_ms)
    is_missed = or_(run.c.due_ms + threshold < now_ms, run.c.reason == RunReason.MISFIRE)
    query = (
        select(run.c.job_id, func.max(run.c.origin_key))
        .join(job, job.c.id == run.c.job_id)
        .where(any_of(conn, run.c.job_id, sorted(job_ids)), run.c.origin == Origin.SCHEDULE)
        .where(run.c.origin_key > after_ms, is_missed)
        .where(run.c.state.not_in((RunState.SKIPPED, RunState.CANCELLED)))
        .group_by(run.c.job_id)
    )
    return {row[0]: row[1] for row in conn.execute(query)}
