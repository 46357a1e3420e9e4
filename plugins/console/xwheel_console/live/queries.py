"""What became of runs lately, asked once a second: a few statements, each bounded and answered from an index.

Runs are compared with how they were a second ago, so that nothing has to be written for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, Table, bindparam, func, select
from xwheel.model import RunState
from xwheel.model.reasons import WAITS
from xwheel.storage.database.rows import IN_LIMIT, in_parts
from xwheel.storage.schema.tables import IS_SENT, RUN_TABLES, open_run, run_history
from xwheel_reports.tables import hourly_report


class LiveRun(NamedTuple):
    """A run as the lists show it."""

    id: int
    job_id: int
    group_id: int
    state: RunState
    due_ms: int
    chain_id: int
    waits: bool  # on its executor, which has not begun it


# asked every second: to build them takes longer than to ask them of few rows
_RUNS: Final = {
    table: select(*(table.c[name] for name in LiveRun._fields[:-1]), table.c.reason.like(f"{WAITS}%"))
    for table in RUN_TABLES
}
_WAITING: Final = _RUNS[open_run].where(open_run.c.state == RunState.PLANNED).limit(bindparam("most"))
_SENT: Final = _RUNS[open_run].where(IS_SENT).limit(bindparam("most"))
_DUE: Final = run_history.c.due_ms
_RECENT: Final = (
    _RUNS[run_history]
    .where(bindparam("after_ms") < _DUE, bindparam("until_ms") >= _DUE)
    .order_by(_DUE.desc())
    .limit(bindparam("most"))
)


def list_waiting(conn: Connection, limit: int) -> list[LiveRun]:
    """Return at most ``limit`` planned runs, in no order."""
    return _runs(conn, _WAITING, most=limit)


def list_sent(conn: Connection, limit: int) -> list[LiveRun]:
    """Return at most ``limit`` runs that are dispatching or running, in no order."""
    return _runs(conn, _SENT, most=limit)


def list_recent(conn: Connection, after_ms: int, until_ms: int, limit: int) -> list[LiveRun]:
    """Return at most ``limit`` runs that ended and were due in a stretch of time, latest first.

    ``after_ms`` does not count.
    """
    return _runs(conn, _RECENT, after_ms=after_ms, until_ms=until_ms, most=limit)


def list_by_id(conn: Connection, ids: Collection[int]) -> list[LiveRun]:
    """Return the runs of these ids that are there."""
    found: dict[int, LiveRun] = {}
    for table, query in _RUNS.items():
        where = partial(_by_id, query, table)
        found.update((row[0], _live_run(row)) for row in in_parts(conn, sorted(ids), IN_LIMIT, where))
    return list(found.values())


def _by_id(query: Select[Any], table: Table, ids: Sequence[int]) -> Select[Any]:
    return query.where(table.c.id.in_(ids))


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
    return LiveRun(row[0], row[1], row[2], _STATES[row[3]], row[4], row[5], bool(row[6]))


_STATES: Final = {state.value: state for state in RunState}
