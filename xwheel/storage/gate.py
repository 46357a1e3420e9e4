"""What is open in a group with a limit, or of a job that blocks for the whole cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, literal_column, select, update

from xwheel.model import RunState
from xwheel.storage.bulk import IN_LIMIT, chunks
from xwheel.storage.tables import IS_SENT, executor_group, run

SENT_STATES = (RunState.DISPATCHING, RunState.RUNNING)


class OpenRun(NamedTuple):
    """A run that is dispatching or running."""

    id: int
    job_id: int
    root_id: int
    kill_requested: bool


def lock_limits(conn: Connection, group_ids: Collection[int]) -> dict[int, int]:
    """Lock groups in id order and return how many of their runs may be open; those without a limit are missing.

    Whoever wants to open a run of such a group waits here, so that all nodes count one after the other.
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


def list_open(conn: Connection, job_ids: Collection[int]) -> list[OpenRun]:
    """Return the runs of jobs that are dispatching or running."""
    found: list[OpenRun] = []
    for part in chunks(sorted(job_ids), IN_LIMIT):
        # the sum keeps planners away from the index of a job's whole history
        query = select(run.c.id, run.c.job_id, run.c.root_id, run.c.kill_requested).where(
            IS_SENT, (run.c.job_id + 0).in_(list(part))
        )
        found.extend(OpenRun(*row) for row in conn.execute(query))
    return found


def request_kills(conn: Connection, run_ids: Sequence[int], now_ms: int) -> int:
    """Ask for the end of runs that are still open and let them be looked at now; return how many were asked anew."""
    changed = 0
    for part in chunks(sorted(run_ids), IN_LIMIT):
        ids = conn.execute(
            select(run.c.id)
            .where(run.c.id.in_(list(part)), run.c.state.in_(SENT_STATES), run.c.kill_requested.is_(False))
            .order_by(run.c.id)
            .with_for_update()
        ).scalars()
        query = update(run).where(run.c.id.in_(list(ids)), run.c.state.in_(SENT_STATES))
        changed += conn.execute(query.values(kill_requested=True, check_ms=now_ms)).rowcount
    return changed
