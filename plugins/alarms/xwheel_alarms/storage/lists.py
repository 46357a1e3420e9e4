"""Pages of alarms and of attempts to send them, newest first."""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Row, select
from xwheel.storage.database.bulk import any_of
from xwheel.storage.database.rows import groups_among, one_row

from xwheel_alarms.records import AlarmAttempt, AlarmKind, AlarmRow, AlarmState, AttemptState
from xwheel_alarms.tables import alarm, alarm_attempt

ALARM_COLUMNS = [alarm.c[name] for name in AlarmRow.__slots__]
ATTEMPT_COLUMNS = [alarm_attempt.c[name] for name in AlarmAttempt.__slots__]


class AlarmFilter(NamedTuple):
    """Which alarms, or attempts to send them, are wanted; None wants all.

    Attributes:
        alarm_id: Alarms that are counted in this one; attempts to send it.
        run_id: Alarms about this run; no limit for attempts.
        groups: Only what is of these groups.
    """

    job_id: int | None = None
    group_id: int | None = None
    alarm_id: int | None = None
    run_id: int | None = None
    groups: Collection[int] | None = None


def get_alarm(conn: Connection, alarm_id: int) -> AlarmRow:
    """Return an alarm.

    Raises:
        NotFoundError: It does not exist.
    """
    return alarm_of(one_row(conn, select(*ALARM_COLUMNS).where(alarm.c.id == alarm_id), "alarm", alarm_id))


def list_alarms(
    conn: Connection, wanted: AlarmFilter, *, before_id: int | None = None, limit: int = 100
) -> list[AlarmRow]:
    """Return a page of alarms, newest first."""
    values = {alarm.c.run_id: wanted.run_id, alarm.c.notice_id: wanted.alarm_id, alarm.c.job_id: wanted.job_id}
    own = groups_among(wanted.groups, wanted.group_id)
    return [alarm_of(row) for row in _page(conn, ALARM_COLUMNS, values, alarm.c.group_id, own, before_id, limit)]


def list_attempts(
    conn: Connection, wanted: AlarmFilter, *, before_id: int | None = None, limit: int = 100
) -> list[AlarmAttempt]:
    """Return a page of attempts, newest first."""
    values = {alarm_attempt.c.alarm_id: wanted.alarm_id, alarm_attempt.c.job_id: wanted.job_id}
    own, column = groups_among(wanted.groups, wanted.group_id), alarm_attempt.c.group_id
    return [attempt_of(row) for row in _page(conn, ATTEMPT_COLUMNS, values, column, own, before_id, limit)]


def get_attempt(conn: Connection, attempt_id: int) -> AlarmAttempt:
    """Return an attempt.

    Raises:
        NotFoundError: It does not exist.
    """
    query = select(*ATTEMPT_COLUMNS).where(alarm_attempt.c.id == attempt_id)
    return attempt_of(one_row(conn, query, "alarm attempt", attempt_id))


def alarm_of(row: Row[Any]) -> AlarmRow:
    """Return an alarm from a row of :data:`ALARM_COLUMNS`, which may have further columns behind them."""
    values = dict(zip(AlarmRow.__slots__, row, strict=False))
    return AlarmRow(**{**values, "kind": AlarmKind(values["kind"]), "state": AlarmState(values["state"])})


def attempt_of(row: Row[Any]) -> AlarmAttempt:
    """Return an attempt from a row of :data:`ATTEMPT_COLUMNS`."""
    values = dict(row._mapping)
    values["receivers"] = tuple(json.loads(values["receivers"]))
    return AlarmAttempt(**{**values, "state": AttemptState(values["state"])})


def storable(text: str, length: int) -> str:
    """Return a text that every database takes, cut to a length; a plugin may answer anything."""
    text = text.replace("\x00", "").encode("utf-8", "replace").decode()
    return text if len(text) <= length else text[: length - 3] + "..."


def _page(
    conn: Connection,
    columns: Sequence[Column[Any]],
    wanted: Mapping[Column[Any], int | None],
    group: Column[Any],
    own: Sequence[int] | None,
    before_id: int | None,
    limit: int,
) -> Sequence[Row[Any]]:
    """Return rows with these values, newest first; only those of some groups unless None."""
    key = columns[0]
    given = {column: value for column, value in wanted.items() if value is not None}
    if own is None:
        found = _ids(conn, key, given, before_id, limit)
    elif len(own) == 1:
        found = _ids(conn, key, {**given, group: own[0]}, before_id, limit)
    elif given:
        # the sum keeps the index of the groups out: what is given has few rows
        found = _ids(conn, key, given, before_id, limit, [(group + 0).in_(own)])
    else:  # group by group: an index has each in order, and no two together
        each = [_ids(conn, key, {group: item}, before_id, limit) for item in own]
        found = heapq.nlargest(limit, chain.from_iterable(each))
    if not found:
        return []
    return conn.execute(select(*columns).where(any_of(conn, key, found)).order_by(key.desc())).all()


def _ids(
    conn: Connection,
    key: Column[Any],
    given: Mapping[Column[Any], int],
    before_id: int | None,
    limit: int,
    more: Sequence[ColumnElement[bool]] = (),
) -> list[int]:
    """Return the ids of rows with these values, the first of which is looked up in its index; newest first."""
    # ids alone: MariaDB reads a range of an index backwards only if that is all it needs
    query = select(key).where(*more)
    if before_id is not None:
        query = query.where(key < before_id)
    for place, (column, value) in enumerate(given.items()):
        if place == 0 and conn.dialect.name == "postgresql":
            # sorted by what is one value: else, if it is that of many rows, all rows are walked by their id instead
            query = query.where(column.between(value, value)).order_by(column.desc())
        else:
            query = query.where(column == value)
    return list(conn.execute(query.order_by(key.desc()).limit(limit)).scalars())
