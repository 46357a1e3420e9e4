"""Statements over many rows, in the form that each database likes: conditions on keys, updates, inserts.

An ``executemany`` of updates is one round trip a row on MariaDB; these are one statement a batch. What a driver does
for each value of each row is a large part of what a claim costs: PyMySQL takes 14 us to escape a run, where a text in
which numbers stand already takes 3; psycopg sends each row as a message of its own. So MariaDB gets such texts, and
PostgreSQL one array for each column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Executable,
    Select,
    String,
    Table,
    and_,
    bindparam,
    cast,
    func,
    make_url,
    select,
    text,
    tuple_,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import TextClause

S = TypeVar("S", bound=Executable)

POSTGRESQL: Final[Dialect] = make_url("postgresql+psycopg://").get_dialect()()
MARIADB: Final[Dialect] = make_url("mysql+pymysql://").get_dialect()()
# a fraction of the smallest packet that a server takes by default, 16 MiB, even if each character becomes four bytes
MOST_CHARACTERS: Final = 500_000
MOST_ROWS: Final = 1000
"""Rows and characters of their texts in one statement for MariaDB."""


def any_of(conn: Connection, column: Column[Any], ids: Iterable[int]) -> ColumnElement[bool]:
    """Return the condition that a column holds one of these numbers.

    On SQLite they travel as one JSON parameter: to spell out a thousand placeholders costs as much as the query.
    """
    if conn.dialect.name != "sqlite":
        return column.in_(list(ids))
    return column.in_(select(_each_of(ids)))


def tuple_in(
    conn: Connection, columns: Sequence[Column[Any]], rows: Iterable[tuple[Any, ...]]
) -> ColumnElement[bool]:
    """Return the condition that columns, which lead an index, hold one of these tuples.

    SQLite reads the whole table for a list of tuples, but not for a select of them with the columns' types.
    """
    if conn.dialect.name != "sqlite":
        return tuple_(*columns).in_(list(rows))
    each = _each_of(rows)
    values = [
        cast(func.json_extract(each, f"$[{place}]"), column.type) for place, column in enumerate(columns)
    ]
    return tuple_(*columns).in_(select(*values))


def keyed_in(
    conn: Connection, columns: Sequence[Column[Any]], rows: Iterable[tuple[Any, ...]]
) -> ColumnElement[bool]:
    """Return the condition that columns, which are a unique key of a table with an ``id``, hold one of these tuples.

    SQLite would take the first column only for :func:`tuple_in` if it thinks that few rows have the same.
    """
    if conn.dialect.name != "sqlite":
        return tuple_(*columns).in_(list(rows))
    each = _each_of(rows)
    table = columns[0].table
    same = table.alias()
    parts = [
        same.c[column.name] == func.json_extract(each, f"$[{place}]") for place, column in enumerate(columns)
    ]
    found: ColumnElement[bool] = table.c.id.in_(
        select(same.c.id).select_from(each.table).join(same, and_(*parts))
    )
    return found


class ById:
    """A statement over the rows whose key is among some, made once for each kind of database.

    To build a statement out of objects costs more than to run it. Ids travel as one JSON parameter to SQLite, as one
    array to PostgreSQL, so its text is always the same, and one by one to MariaDB.

    ``build`` gives the statement, from the condition on the key.
    """

    def __init__(self, column: Column[Any], build: Callable[[ColumnElement[bool]], S]) -> None:
        self._column = column
        self._build = build
        self._made: dict[str, Any] = {}

    def __call__(self, conn: Connection, ids: Iterable[int]) -> tuple[Any, dict[str, Any]]:
        """Return the statement and its parameter; the statement's own ones may be added to it."""
        kind = conn.dialect.name
        statement = self._made.get(kind)
        if statement is None:
            statement = self._made[kind] = self._build(self._condition(kind))
        values = list(ids)
        if kind == "sqlite":
            return statement, {"ids": msgspec.json.encode(values).decode()}
        return statement, {"ids": array_text(values) if kind == "postgresql" else values}

    def _condition(self, kind: str) -> ColumnElement[bool]:
        if kind == "sqlite":
            each = func.json_each(bindparam("ids", type_=String)).table_valued("value")
            return self._column.in_(select(each.c.value))
        if kind == "postgresql":
            # a parameter without a type of its own is taken for an array, which the planner looks into: one that is
            # converted first would be searched through for every row
            return self._column == func.any(text("CAST(:ids AS bigint[])"))
        return self._column.in_(bindparam("ids", expanding=True))


def fetch_rows(conn: Connection, query: Select[Any], values: dict[str, Any] | None = None) -> Sequence[Any]:
    """Return rows as the driver made them, for records that take them by position: booleans may be 0 and 1.

    To wrap and convert every row costs as much as to read it.
    """
    result = conn.execute(query, values)
    try:
        assert result.cursor is not None  # noqa: S101 - a select has one
        return result.cursor.fetchall()
    finally:
        result.close()


def update_many(
    conn: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    *,
    seen: Sequence[str] = (),
    by_key: bool = False,
) -> int:
    """Update many rows by id, each with its own values, in one statement; return how many were changed.

    It has no other condition, which would lead PostgreSQL to begin with the few rows that it thinks fulfil it, and so
    to compare each of them with each of these. Lock the rows first and leave out those that must stay.

    Args:
        conn: A connection inside a writing transaction.
        table: A table whose key is ``id``.
        columns: The columns to set.
        rows: ``(id, value, ...)`` with one value for each column; values are integers, strings, booleans or None.
        seen: Further columns, on SQLite only, whose values follow in each row: one that holds others stays as it is.
        by_key: Lock no other row. MariaDB reads and locks all rows of a small table unless it is told not to, and so
            waits for those that others have just written.
    """
    if not rows:
        return 0
    names, kind = tuple(columns), conn.dialect.name
    assert not seen or kind == "sqlite"  # noqa: S101 - elsewhere rows are locked first
    if kind == "postgresql":
        arrays = {f"c{place}": array_text(values) for place, values in enumerate(zip(*rows, strict=True))}
        return conn.execute(_postgresql_form(table, names), arrays).rowcount
    # on MariaDB rows that hold these values already count too: the driver asks for found rows
    form = (
        _sqlite_form(table.name, names, tuple(seen))
        if kind == "sqlite"
        else _mariadb_form(table, names, by_key)
    )
    return conn.execute(form, {"rows": _json_of(rows)}).rowcount


def insert_many(
    conn: Connection,
    table: Table,
    columns: tuple[str, ...],
    rows: Sequence[tuple[Any, ...]],
    *,
    keep: str = "",
) -> None:
    """Insert rows in few statements.

    Args:
        conn: A connection inside a writing transaction.
        table: Where they go.
        columns: Names of columns.
        rows: One value for each column: whole numbers, plain strings, booleans or None.
        keep: A column of the table, if rows are to stay that exist already under a unique key; they are left out then.

    Raises:
        IntegrityError: One of them exists already and ``keep`` is empty, or lacks a value.
    """
    if rows:
        kinds = tuple(_postgresql_kind(table, name) for name in columns)
        _insert(conn, table.name, columns, kinds, rows, keep)


def insert_values(
    conn: Connection, table: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows into a table of which the name alone is known, in few statements.

    Each row, of which there is at least one, has a number, string, bytes, boolean or None for each column.
    """
    kinds: tuple[str, ...] = ()
    if conn.dialect.name == "postgresql":
        kinds = tuple(map(_kind_of, zip(*rows, strict=True)))
    _insert(conn, table, columns, kinds, rows)


def _insert(
    conn: Connection,
    table: str,
    columns: tuple[str, ...],
    kinds: tuple[str, ...],
    rows: Sequence[tuple[Any, ...]],
    keep: str = "",
) -> None:
    match conn.dialect.name:
        case "sqlite":
            tail = " ON CONFLICT DO NOTHING" if keep else ""
            conn.exec_driver_sql(_sqlite_insert(table, columns) + tail, list(rows))
        case "postgresql":
            tail = " ON CONFLICT DO NOTHING" if keep else ""
            arrays = map(array_text, zip(*rows, strict=True))
            sent = tuple(text for text, kind in zip(arrays, kinds, strict=True) if kind)
            conn.exec_driver_sql(_postgresql_insert(table, columns, kinds) + tail, sent)
        case _:
            head = _head(table, columns, "`")
            # IGNORE would let through what else is wrong with a row
            tail = f" ON DUPLICATE KEY UPDATE `{keep}` = `{keep}`" if keep else ""
            for values, texts in _mariadb_parts(rows):
                try:
                    conn.exec_driver_sql(f"{head} VALUES {values}{tail}", tuple(texts))
                except DBAPIError as error:
                    error.statement = f"{head} VALUES …"  # errors are logged, a thousand rows are not
                    raise


def _kind_of(values: Sequence[Any]) -> str:
    """Return what PostgreSQL calls the type of a column's values; an empty text if all of them are None."""
    for value in values:
        if value is not None:
            return next(kind for known, kind in _KINDS.items() if isinstance(value, known))
    return ""


_KINDS: Final[dict[type[Any], str]] = {
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    str: "text",
    bytes: "bytea",
}
"""Type to what PostgreSQL calls it; ``bool`` before ``int``, of which it is one."""


def array_text(values: Sequence[Any]) -> str:
    """Return the text of a PostgreSQL array; psycopg inspects each value of a list many times.

    Values are numbers, strings, bytes, booleans or None.
    """
    if set(map(type, values)) <= {int, bool}:
        return "{" + ",".join(map(str, values)) + "}"
    return "{" + ",".join(map(_array_item, values)) + "}"


def _array_item(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    return str(value)


def _each_of(values: Iterable[object]) -> Any:
    """Return the column of SQLite's table of the items of a list, which travels as one JSON parameter."""
    return func.json_each(msgspec.json.encode(list(values)).decode()).table_valued("value").c.value


def _json_of(rows: Sequence[tuple[Any, ...]]) -> str:
    try:
        return msgspec.json.encode(rows).decode()
    except UnicodeEncodeError:  # half of a pair: only its escaped form can be a parameter at all
        return json.dumps(rows)


@lru_cache(maxsize=64)
def _sqlite_form(table: str, columns: tuple[str, ...], seen: tuple[str, ...]) -> TextClause:
    # one JSON parameter keeps the statement's text, and so its prepared form, the same for every batch size
    sets = ", ".join(f"{name} = json_extract(v.value, '$[{place}]')" for place, name in enumerate(columns, 1))
    same = "".join(
        f" AND {table}.{name} IS json_extract(v.value, '$[{place}]')"
        for place, name in enumerate(seen, 1 + len(columns))
    )
    return text(
        f"UPDATE {table} SET {sets} FROM json_each(:rows) AS v "  # noqa: S608 - names come from our own code
        f"WHERE {table}.id = json_extract(v.value, '$[0]'){same}"
    )


@lru_cache(maxsize=64)
def _postgresql_form(table: Table, columns: tuple[str, ...]) -> TextClause:
    """One array for each column, so that the statement's text is the same for every batch size."""
    kinds = [type_name(table, name, POSTGRESQL) for name in ("id", *columns)]
    arrays = ", ".join(f"CAST(:c{place} AS {kind}[])" for place, kind in enumerate(kinds))
    labels = ", ".join(f"c{place}" for place in range(len(kinds)))
    sets = ", ".join(f"{name} = v.c{place}" for place, name in enumerate(columns, 1))
    return text(
        f"UPDATE {table.name} SET {sets} FROM unnest({arrays}) AS v({labels}) "  # noqa: S608 - our own names
        f"WHERE {table.name}.id = v.c0"
    )


@lru_cache(maxsize=64)
def _mariadb_form(table: Table, columns: tuple[str, ...], by_key: bool) -> TextClause:
    kinds = [_mariadb_kind(table, name) for name in ("id", *columns)]
    parts = ", ".join(f"c{place} {kind} PATH '$[{place}]'" for place, kind in enumerate(kinds))
    sets = ", ".join(f"{table.name}.{name} = v.c{place}" for place, name in enumerate(columns, 1))
    values = f"JSON_TABLE(:rows, '$[*]' COLUMNS ({parts})) AS v"
    joined = (
        f"{values} STRAIGHT_JOIN {table.name} FORCE INDEX (PRIMARY)"
        if by_key
        else f"{table.name} JOIN {values}"
    )
    return text(f"UPDATE {joined} ON {table.name}.id = v.c0 SET {sets}")  # noqa: S608 - our own names


def _mariadb_kind(table: Table, column: str) -> str:
    # without it texts are converted to the database's own character set on their way, which may not know them
    charset = " CHARACTER SET utf8mb4" if isinstance(table.c[column].type, String) else ""
    return type_name(table, column, MARIADB) + charset


def type_name(table: Table, column: str, dialect: Dialect) -> str:
    """Return what a database calls the type of a column."""
    return table.c[column].type.compile(dialect=dialect)


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
                length += len(value) if isinstance(value, str | bytes) else 1
        parts.append(f"({','.join(words)})")
        if len(parts) == MOST_ROWS or length > MOST_CHARACTERS:
            yield ",".join(parts), texts
            parts, texts, length = [], [], 0
    if parts:
        yield ",".join(parts), texts


def _head(table: str, columns: tuple[str, ...], quote: str) -> str:
    names = ", ".join(f"{quote}{name}{quote}" for name in columns)
    return f"INSERT INTO {table} ({names})"


@lru_cache(maxsize=64)
def _sqlite_insert(table: str, columns: tuple[str, ...]) -> str:
    return f"{_head(table, columns, chr(34))} VALUES ({', '.join('?' * len(columns))})"


@lru_cache(maxsize=256)
def _postgresql_insert(table: str, columns: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    """Return a statement that takes one array for each column but those without a kind, which get nulls."""
    arrays = ", ".join(f"%s::{kind}[]" for kind in kinds if kind)
    head = _head(table, columns, chr(34))
    if all(kinds):
        return f"{head} SELECT * FROM unnest({arrays})"  # noqa: S608 - our own names
    labels = [f"c{place}" for place, kind in enumerate(kinds) if kind]
    chosen = ", ".join(f"c{place}" if kind else "NULL" for place, kind in enumerate(kinds))
    return f"{head} SELECT {chosen} FROM unnest({arrays}) AS v({', '.join(labels)})"  # noqa: S608 - our own names


@lru_cache(maxsize=256)
def _postgresql_kind(table: Table, column: str) -> str:
    # a text that is too long must be refused, and a cast to its column's type would cut it
    return "text" if isinstance(table.c[column].type, String) else type_name(table, column, POSTGRESQL)
