"""What all nodes share: settings by name, and calendars by name, as their authors wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from xwheel.errors import DuplicateError, NotFoundError
from xwheel.storage.database.direct import Prepared
from xwheel.storage.database.rows import hold
from xwheel.storage.schema.tables import calendar, setting

PAUSED: Final = "paused"  # while this setting is there, no schedule fires
CHAINS: Final = "chains"
"""The row that is locked while parents and children are changed, so that no two changes close a cycle together."""


_FIND: Final = Prepared(select(setting.c.value).where(setting.c.name == bindparam("key")))


def find_setting(conn: Connection, name: str) -> str | None:
    """Return a shared setting, or None."""
    rows = _FIND.fetch(conn, {"key": name})
    return str(rows[0][0]) if rows else None


def lock_setting(conn: Connection, name: str) -> None:
    """Hold a shared setting's row until the transaction ends."""
    conn.execute(select(setting.c.value).where(setting.c.name == name).with_for_update()).all()
    hold(conn, "setting", [name])


def insert_setting(conn: Connection, name: str, value: str) -> None:
    """Write a shared setting that is not there yet. Raises DuplicateError: it is there: another node was faster."""
    try:
        conn.execute(insert(setting).values(name=name, value=value))
    except IntegrityError as error:
        raise DuplicateError(f"the setting {name} is there already") from error


def delete_setting(conn: Connection, name: str) -> bool:
    """Remove a shared setting; return whether it was there."""
    return conn.execute(delete(setting).where(setting.c.name == name)).rowcount > 0


def save_calendar(conn: Connection, name: str, definition: Mapping[str, Any], now_ms: int) -> None:
    """Write a calendar, new or changed."""
    # later than every other change, even within one millisecond: the times are also the version
    newest = conn.execute(select(func.max(calendar.c.updated_ms))).scalar_one() or 0
    values = {"definition": json.dumps(definition, ensure_ascii=False), "updated_ms": max(now_ms, newest + 1)}
    if conn.execute(update(calendar).where(calendar.c.name == name).values(values)).rowcount == 0:
        conn.execute(insert(calendar).values(name=name, **values))


def find_calendar(conn: Connection, name: str) -> dict[str, Any] | None:
    """Return a calendar's definition, or None."""
    found = conn.execute(select(calendar.c.definition).where(calendar.c.name == name)).scalar_one_or_none()
    return None if found is None else dict(json.loads(found))


def list_calendars(conn: Connection) -> dict[str, dict[str, Any]]:
    """Return all calendars, name to definition."""
    rows = conn.execute(select(calendar.c.name, calendar.c.definition).order_by(calendar.c.name))
    return {row.name: json.loads(row.definition) for row in rows}


def calendars_version(conn: Connection) -> tuple[tuple[str, int], ...]:
    """Return something that changes whenever a calendar does."""
    rows = conn.execute(select(calendar.c.name, calendar.c.updated_ms).order_by(calendar.c.name))
    return tuple((row.name, row.updated_ms) for row in rows)


def delete_calendar(conn: Connection, name: str) -> None:
    """Delete a calendar. Raises NotFoundError: it does not exist."""
    if conn.execute(delete(calendar).where(calendar.c.name == name)).rowcount == 0:
        raise NotFoundError("calendar", name)
