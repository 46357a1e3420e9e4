"""Small questions that the modules of many tables ask alike: one row or an error, a new row's id, rows in parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Row, Select, Table, insert

from xwheel.errors import NotFoundError

T = TypeVar("T")

# SQLite's default limit of bound parameters is 32,766; other databases take as many or more
IN_LIMIT: Final = 10_000


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Give the items in slices of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def in_parts(
    conn: Connection, items: Sequence[T], size: int, query: Callable[[Sequence[T]], Select[Any]]
) -> Iterator[Any]:
    """Yield the rows of a query that is asked for at most ``size`` items at a time."""
    for part in chunks(items, size):
        yield from conn.execute(query(part))


def groups_among(groups: Collection[int] | None, group_id: int | None) -> list[int] | None:
    """Return the groups whose rows are wanted, in order; None for all.

    ``groups`` are those whose rows may be seen, None for all; ``group_id`` is the one asked for, None for any.
    """
    if group_id is not None:
        return [group_id] if groups is None or group_id in groups else []
    return None if groups is None else sorted(groups)


def one_row(conn: Connection, query: Select[Any], kind: str, key: object) -> Row[Any]:
    """Return the one row of a query.

    Raises NotFoundError if there is none; its message names the kind (``job``) and the key.
    """
    row = conn.execute(query).one_or_none()
    if row is None:
        raise NotFoundError(kind, key)
    return row


def insert_row(conn: Connection, table: Table, values: Mapping[str, Any]) -> int:
    """Insert a row and return the id that the database gave it."""
    key = conn.execute(insert(table).values(values)).inserted_primary_key
    assert key is not None  # noqa: S101 - a single insert always has one
    return int(key[0])
