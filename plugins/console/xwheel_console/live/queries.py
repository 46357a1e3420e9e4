"""What became of runs lately, asked once a second: a few statements, each bounded and answered from an index.

Runs are compared with how they were a second ago, so that nothing has to be written for it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select
from xwheel.model import PARTITIONS, RunState
from xwheel.storage.database.rows import IN_LIMIT, in_parts
from xwheel.storage.schema.tables import IS_SENT, run
from xwheel_reports.tables import hourly_report


class LiveRun(NamedTuple):
    """A run as the lists show it."""

    id: int
    job_id: int
    group_id: int
    state: RunState
    due_ms: int
    chain_id: int


# asked every second: to build them takes longer than to ask them of few rows
_RUN: Final = select(run.c.id, run.c.job_id, run.c.group_id, run.c.state, run.c.due_ms, run.c.chain_id)
_WAITING: Final = _RUN.where(run.c.open_partition.in_(range(PARTITIONS))).limit(bindparam("most"))
_SENT: Final = _RUN.where(IS_SENT).limit(bindparam("most"))
_RECENT: Final = (
    _RUN.where(run.c.due_ms > bindparam("after_ms"), run.c.due_ms <= bindparam("until_ms"))
    .order_by(run.c.due_ms.desc())
    .limit(bindparam("most"))
)


def list_waiting(conn: Connection, limit: int) -> list[LiveRun]:
    """Return at most ``limit`` planned runs, in no order."""
    return _runs(conn, _WAITING, most=limit)


def list_sent(conn: Connection, limit: int) -> list[LiveRun]:
    """Return at most ``limit`` runs that are dispatching or running, in no order."""
    return _runs(conn, _SENT, most=limit)


def list_recent(conn: Connection, after_ms: int, until_ms: int, limit: int) -> list[LiveRun]:
    """Return at most ``limit`` runs that were due in a stretch of time, latest first; ``after_ms`` does not count."""
    return _runs(conn, _RECENT, after_ms=after_ms, until_ms=until_ms, most=limit)


def list_by_id(conn: Connection, ids: Collection[int]) -> list[LiveRun]:
    """Return the runs of these ids that are there."""
    rows = in_parts(conn, sorted(ids), IN_LIMIT, lambda part: _RUN.where(run.c.id.in_(part)))
    return list(map(_live_run, rows))


def count_failed(conn: Connection, from_ms: int) -> dict[int, int]:
    """Return how many runs of each group failed, timed out, were lost or refused since then, by the hourly report."""
    told = hourly_report.c
    query = (
        select(told.group_id, func.sum(told.failed + told.timed_out + told.lost + told.refused))
        .where(told.hour_ms >= from_ms)
        .group_by(told.group_id)
    )
    return {group_id: int(count) for group_id, count in conn.execute(query)}


def _runs(conn: Connection, query: Select[Any], **values: int) -> list[LiveRun]:
    return list(map(_live_run, conn.execute(query, values)))


def _live_run(row: Any) -> LiveRun:
    return LiveRun(row[0], row[1], row[2], _STATES[row[3]], row[4], row[5])


_STATES: Final = {state.value: state for state in RunState}
