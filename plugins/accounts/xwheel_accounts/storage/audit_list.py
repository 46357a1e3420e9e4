"""Pages of the audit, newest first: each is answered from an index and reads a bounded number of rows.

What no index answers is searched for in at most :data:`LOOK` rows a page; the page then says where to go on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Select, String, TextClause, or_, select, true, tuple_
from xwheel.plugin import AuditOutcome
from xwheel.storage.database.rows import groups_among

from xwheel_accounts.audit.records import AuditRow
from xwheel_accounts.tables import NOT_DONE, audit

LOOK: Final = 400
"""Rows that lie apart, each on a page of its own that a server may have to read from its disk."""

_COLUMNS: Final = tuple(audit.c[name] for name in AuditRow.__struct_fields__)


class AuditKey(NamedTuple):
    """Where a row stands in the order of lists."""

    at_ms: int
    id: int


class AuditFilter(NamedTuple):
    """Which rows are wanted; what is None wants all.

    Attributes:
        from_ms: Written at or after this time.
        to_ms: Written before this time.
        groups: Only rows of these groups; none without a group then.
    """

    actor: str | None = None
    action: str | None = None
    object_kind: str | None = None
    object_id: str | None = None
    group_id: int | None = None
    outcome: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    groups: Collection[int] | None = None


class FoundRows(NamedTuple):
    """Some rows; ``next`` is where the following page begins, None after the last one.

    A page may have fewer rows than wanted, even none, and still be followed by others.
    """

    rows: list[AuditRow]
    next: AuditKey | None


class _Way(NamedTuple):
    """A range of an index, and what the rows in it must have besides."""

    lead: Sequence[tuple[Column[Any], object]]
    rest: Sequence[tuple[Column[Any], Sequence[object]]]
    also: ColumnElement[bool] | TextClause = true()


def page_audit(
    conn: Connection, wanted: AuditFilter, *, before: AuditKey | None = None, limit: int = 50, look: int = LOOK
) -> FoundRows:
    """Return a page of at most ``limit`` rows, from where the page before ended.

    At most ``look`` rows are read for what no index answers, or one page for each of the groups if that is more. With
    ``groups``, where the page ends is told by rows of these alone.
    """
    groups = groups_among(wanted.groups, wanted.group_id)
    if groups is not None and not groups:
        return FoundRows([], None)
    ways = _ways(wanted, groups)
    keys: set[AuditKey] = set()
    horizons = []
    for way in ways:
        found, horizon = _walk(conn, way, wanted, before, limit, max(limit + 1, look // len(ways)))
        keys.update(found)
        if horizon is not None:
            horizons.append(horizon)
    horizon = max(horizons, default=None)
    ordered = sorted((key for key in keys if horizon is None or key >= horizon), reverse=True)
    following = ordered[limit - 1] if len(ordered) > limit else horizon
    ids = [key.id for key in ordered[:limit]]
    known = {row.id: row for row in _rows(conn, ids)}
    return FoundRows([known[row_id] for row_id in ids if row_id in known], following)


def _ways(wanted: AuditFilter, groups: Sequence[int] | None) -> list[_Way]:
    """Return the index ranges that hold all wanted rows: of what few rows have first."""
    tests: dict[str, Sequence[object]] = {
        name: [value]
        for name in ("object_kind", "object_id", "actor", "outcome", "action")
        if (value := getattr(wanted, name)) is not None
    }
    if groups is not None:
        tests["group_id"] = groups
    if wanted.groups is not None:
        # in any other range where the page ends could be the place of a row of other groups
        names: Sequence[str] = ("group_id",)
    elif {"object_kind", "object_id"} <= tests.keys():
        names = ("object_kind", "object_id")
    elif "outcome" in tests and wanted.outcome != AuditOutcome.DONE:
        # SQLite and PostgreSQL use an index of few rows only if the query repeats its condition
        rest = [(audit.c[name], values) for name, values in tests.items() if name != "outcome"]
        return [_Way([(audit.c.outcome, wanted.outcome)], rest, NOT_DONE)]
    else:
        names = next(((name,) for name in ("actor", "group_id", "action") if name in tests), ())
    rest = [(audit.c[name], values) for name, values in tests.items() if name not in names]
    if names == ("group_id",):
        return [_Way([(audit.c.group_id, group_id)], rest) for group_id in tests["group_id"]]
    return [_Way([(audit.c[name], tests[name][0]) for name in names], rest)]


def _walk(
    conn: Connection, way: _Way, wanted: AuditFilter, before: AuditKey | None, limit: int, look: int
) -> tuple[list[AuditKey], AuditKey | None]:
    """Return keys of a range, newest first, and up to where it was read; None if to its end."""
    query = select(audit.c.id, audit.c.at_ms).where(*_range(conn, wanted, before))
    if conn.dialect.name == "postgresql":
        # sorted by what is one value: else, if many rows have it, all rows are walked by their time instead
        query = query.where(*(column.between(value, value) for column, value in way.lead), way.also)
        query = query.order_by(*(column.desc() for column, _ in way.lead))
    else:
        query = query.where(*(column == value for column, value in way.lead), way.also)
    query = query.order_by(audit.c.at_ms.desc(), audit.c.id.desc())
    if not way.rest:
        keys = _keys(conn, query.limit(limit + 1))
        return keys, keys[-1] if len(keys) > limit else None
    seen = query.limit(look).subquery("seen")
    # found in the index alone, and looked at afterwards: else MariaDB walks from the newest row to the page
    matching = select(seen.c.id, seen.c.at_ms).join_from(seen, audit, audit.c.id == seen.c.id)
    is_hidden = conn.dialect.name == "postgresql"
    matching = matching.where(*((_hidden(column) if is_hidden else column).in_(values) for column, values in way.rest))
    keys = _keys(conn, matching.order_by(seen.c.at_ms.desc(), seen.c.id.desc()).limit(limit + 1))
    if len(keys) > limit:
        return keys, keys[-1]
    last = _keys(conn, query.offset(look - 1).limit(1))
    return keys, last[0] if last else None


def _hidden(column: Column[Any]) -> ColumnElement[Any]:
    """Return a column as an expression, that PostgreSQL looks for in no index: it would read all rows of an object."""
    return column.concat("") if isinstance(column.type, String) else column + 0


def _range(conn: Connection, wanted: AuditFilter, before: AuditKey | None) -> list[ColumnElement[bool]]:
    limits: list[ColumnElement[bool]] = []
    if wanted.from_ms is not None:
        limits.append(audit.c.at_ms >= wanted.from_ms)
    if wanted.to_ms is not None:
        limits.append(audit.c.at_ms < wanted.to_ms)
    if before is not None:
        if conn.dialect.name in {"sqlite", "postgresql"}:
            limits.append(tuple_(audit.c.at_ms, audit.c.id) < tuple_(*before))
        else:  # MariaDB reads no range from a comparison of rows
            limits.append(audit.c.at_ms <= before.at_ms)
            limits.append(or_(audit.c.at_ms < before.at_ms, audit.c.id < before.id))
    return limits


def _keys(conn: Connection, query: Select[Any]) -> list[AuditKey]:
    return [AuditKey(row.at_ms, row.id) for row in conn.execute(query)]


def _rows(conn: Connection, ids: Sequence[int]) -> list[AuditRow]:
    query = select(*_COLUMNS).where(audit.c.id.in_(ids))
    return [AuditRow(**row._mapping) for row in conn.execute(query)] if ids else []
