"""The newest alarms, asked once a second while pages are open."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from xwheel_alarms.tables import alarm


class LiveAlarm(NamedTuple):
    """An alarm, and what became of it."""

    id: int
    job_id: int | None
    group_id: int | None
    state: str


# to build it takes longer than to ask it of few rows
_ALARMS: Final = (
    select(*(alarm.c[name] for name in LiveAlarm._fields))
    .where(alarm.c.id > bindparam("after"))
    .order_by(alarm.c.id.desc())
    .limit(bindparam("most"))
)


def list_alarmed(conn: Connection, after: int, limit: int) -> list[LiveAlarm]:
    """Return at most ``limit`` alarms whose id is greater, newest first."""
    return [LiveAlarm(*row) for row in conn.execute(_ALARMS, {"after": after, "most": limit})]


def find_newest_id(conn: Connection) -> int:
    """Return the greatest id of an alarm; 0 if there is none."""
    return conn.execute(select(func.max(alarm.c.id))).scalar() or 0
