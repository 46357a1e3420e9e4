"""Multi-row updates in the form each database likes.

An ``executemany`` of updates is one round trip a row on MariaDB; these are one statement a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, bindparam, text, update
from sqlalchemy.sql.elements import TextClause

T = TypeVar("T")

# SQLite's default limit of bound parameters is 32,766; other databases take as many or more
IN_LIMIT = 10_000


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Give the items in slices of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def update_many(
    conn: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    *,
    state: str | None = None,
) -> int:
    """Update many rows by id, each with its own values, in one statement.

    Args:
        conn: A connection inside a writing transaction.
        table: A table whose key is ``id``.
        columns: The columns to set.
        rows: ``(id, value, ...)`` with one value for each column; values are integers, strings, booleans or None.
        state: If given, only rows whose ``state`` is still this one are changed.

    Returns:
        How many rows were changed.
    """
    if not rows:
        return 0
    if conn.dialect.name == "sqlite":
        statement = _sqlite_form(table.name, tuple(columns), state is not None)
        parameters = (
            {"rows": json.dumps(rows), "state": state} if state is not None else {"rows": json.dumps(rows)}
        )
        return conn.execute(statement, parameters).rowcount
    plain = update(table).where(table.c.id == bindparam("_id"))
    if state is not None:
        plain = plain.where(table.c.state == state)
    values = [{"_id": row[0], **dict(zip(columns, row[1:], strict=True))} for row in rows]
    return conn.execute(plain.values({name: bindparam(name) for name in columns}), values).rowcount


@lru_cache(maxsize=64)
def _sqlite_form(table: str, columns: tuple[str, ...], guarded: bool) -> TextClause:
    # one JSON parameter keeps the statement's text, and so its prepared form, the same for every batch size
    sets = ", ".join(f"{name} = json_extract(v.value, '$[{place}]')" for place, name in enumerate(columns, 1))
    guard = f" AND {table}.state = :state" if guarded else ""
    return text(
        f"UPDATE {table} SET {sets} FROM json_each(:rows) AS v "  # noqa: S608 - names come from our own code
        f"WHERE {table}.id = json_extract(v.value, '$[0]'){guard}"
    )
