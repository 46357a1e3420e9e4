"""Calendars by name, as their authors wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from xwheel.errors import NotFoundError
from xwheel.storage.tables import calendar


def save_calendar(conn: Connection, name: str, definition: Mapping[str, Any], now_ms: int) -> None:
    """Write a calendar, new or changed."""
    # later than every other change, even within one millisecond: the times are also the version
    newest = conn.execute(select(func.max(calendar.c.updated_ms))).scalar_one() or 0
    values = {"definition": json.dumps(definition, ensure_ascii=False), "updated_ms": max(now_ms, newest + 1)}
    if conn.execute(update(calendar).where(calendar.c.name == name).values(values)).rowcount == 0:
        conn.execute(insert(calendar).values(name=name, **values))


def list_calendars(conn: Connection) -> dict[str, dict[str, Any]]:
    """Return all calendars, name to definition."""
    rows = conn.execute(select(calendar.c.name, calendar.c.definition).order_by(calendar.c.name))
    return {row.name: json.loads(row.definition) for row in rows}


def calendars_version(conn: Connection) -> tuple[tuple[str, int], ...]:
    """Return something that changes whenever a calendar does."""
    rows = conn.execute(select(calendar.c.name, calendar.c.updated_ms).order_by(calendar.c.name))
    return tuple((row.name, row.updated_ms) for row in rows)


def delete_calendar(conn: Connection, name: str) -> None:
    """Delete a calendar.

    Raises:
        NotFoundError: It does not exist.
    """
    if conn.execute(delete(calendar).where(calendar.c.name == name)).rowcount == 0:
        raise NotFoundError("calendar", name)
