"""Many new rows in the form each database likes.

What a driver does for each value of each row is a large part of what a claim costs. PyMySQL takes 14 us to escape a
run, where a text in which numbers stand already takes 3; psycopg sends each row as a message of its own. So MariaDB
gets such texts, and PostgreSQL one array for each column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, String, Table
from sqlalchemy.exc import DBAPIError

from xwheel.storage.bulk import POSTGRESQL, array_text, type_name

# a fraction of the smallest packet that a server takes by default, 16 MiB, even if each character becomes four bytes
MOST_CHARACTERS: Final = 500_000
MOST_ROWS: Final = 1000


def insert_many(
    conn: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows in few statements.

    Args:
        conn: A connection inside a writing transaction.
        table: Where they go.
        columns: Names of columns.
        rows: One value for each column: whole numbers, plain strings, booleans or None.

    Raises:
        IntegrityError: One of them exists already, or lacks a value.
    """
    if not rows:
        return
    match conn.dialect.name:
        case "sqlite":
            conn.exec_driver_sql(_sqlite_form(table, columns), list(rows))
        case "postgresql":
            conn.exec_driver_sql(
                _postgresql_form(table, columns), tuple(map(array_text, zip(*rows, strict=True)))
            )
        case _:
            head = _head(table, columns, "`")
            for values, texts in _mariadb_parts(rows):
                try:
                    conn.exec_driver_sql(f"{head} VALUES {values}", tuple(texts))
                except DBAPIError as error:
                    error.statement = f"{head} VALUES …"  # errors are logged, a thousand rows are not
                    raise


def _mariadb_parts(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, list[str]]]:
    """Yield rows as SQL, with a placeholder for each text that is not empty, and these texts."""
    parts: list[str] = []
    texts: list[str] = []
    length = 0
    for row in rows:
        words = []
        for value in row:
            if type(value) is int:
                words.append(str(value))
            elif value is None:
                words.append("NULL")
            elif value is True or value is False:
                words.append("1" if value else "0")
            elif value == "":
                words.append("''")
            else:
                words.append("%s")
                texts.append(value)
                length += len(value)
        parts.append(f"({','.join(words)})")
        if len(parts) == MOST_ROWS or length > MOST_CHARACTERS:
            yield ",".join(parts), texts
            parts, texts, length = [], [], 0
    if parts:
        yield ",".join(parts), texts


def _head(table: Table, columns: tuple[str, ...], quote: str) -> str:
    names = ", ".join(f"{quote}{name}{quote}" for name in columns)
    return f"INSERT INTO {table.name} ({names})"


@lru_cache(maxsize=16)
def _sqlite_form(table: Table, columns: tuple[str, ...]) -> str:
    return f"{_head(table, columns, chr(34))} VALUES ({', '.join('?' * len(columns))})"


@lru_cache(maxsize=16)
def _postgresql_form(table: Table, columns: tuple[str, ...]) -> str:
    arrays = ", ".join(f"%s::{_postgresql_kind(table, name)}[]" for name in columns)
    return f"{_head(table, columns, chr(34))} SELECT * FROM unnest({arrays})"  # noqa: S608 - our own names


def _postgresql_kind(table: Table, column: str) -> str:
    # a text that is too long must be refused, and a cast to its column's type would cut it
    return "text" if isinstance(table.c[column].type, String) else type_name(table, column, POSTGRESQL)
