"""Statements over many rows, in the form that each database likes: conditions on keys, updates, inserts.

An ``executemany`` of updates is one round trip a row on MariaDB; these are one statement a batch. What a driver does
for each value of each row is a large part of what a claim costs: PyMySQL takes 14 us to escape a run, where a text in
which numbers stand already takes 3; psycopg sends each row as a message of its own. So MariaDB gets such texts, and
PostgreSQL one array for each column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError

from xwheel.storage.database.direct import Prepared, change, in_text

POSTGRESQL: Final = "postgresql+psycopg"
MARIADB: Final = "mysql+pymysql"
# a fraction of the smallest packet that a server takes by default, 16 MiB, even if each character becomes four bytes
MOST_CHARACTERS: Final = 500_000
MOST_ROWS: Final = 1000
"""Rows and characters of their texts in one statement for MariaDB."""

Names = tuple[tuple[str, ...], tuple[str, ...]]
"""Columns of which each row has a value of its own, and those that have one value in all rows."""

MANY: Final = 32
"""Rows in which a column is worth a look whether it has one value only."""

BY_KEY: Final = "FORCE INDEX (PRIMARY)"
"""A hint for MariaDB, which else reads and locks all rows of a small table, and so waits for those of others."""


@cache  # a node loads the modules of its own database only
def _dialect(name: str) -> Dialect:
    return sa.make_url(f"{name}://").get_dialect()()


def any_of(conn: sa.Connection, column: sa.Column[Any], ids: Iterable[int]) -> sa.ColumnElement[bool]:
    """Return the condition that a column holds one of these numbers.

    On SQLite they travel as one JSON parameter: to spell out a thousand placeholders costs as much as the query.
    """
    return column.in_(sa.select(_each_of(ids)) if conn.dialect.name == "sqlite" else list(ids))


def tuple_in(
    conn: sa.Connection, columns: Sequence[sa.Column[Any]], rows: Iterable[tuple[Any, ...]], *, is_unique: bool = False
) -> sa.ColumnElement[bool]:
    """Return the condition that columns, which lead an index, hold one of these tuples.

    SQLite reads the whole table for a list of tuples, but not for a select of them with the columns' types. Of what
    ``is_unique`` in a table with an ``id`` it would take the first column only, if it thinks that few rows have the
    same; so it gets a join.
    """
    if conn.dialect.name != "sqlite":
        return sa.tuple_(*columns).in_(list(rows))
    each = _each_of(rows)
    held = {column: sa.func.json_extract(each, f"$[{place}]") for place, column in enumerate(columns)}
    if not is_unique:
        return sa.tuple_(*columns).in_(sa.select(*(sa.cast(value, column.type) for column, value in held.items())))
    table = columns[0].table
    same = table.alias()
    on = sa.and_(*(same.c[column.name] == value for column, value in held.items()))
    found: sa.ColumnElement[bool] = table.c.id.in_(sa.select(same.c.id).select_from(each.table).join(same, on))
    return found


class ById:
    """A statement over the rows whose key is among some, made once for each kind of database.

    To build a statement out of objects costs more than to run it. Ids travel as one JSON parameter to SQLite, as one
    array to PostgreSQL, so its text is always the same, and as a part of the text to MariaDB. ``build`` gives the
    statement, from the condition on the key. With ``locks`` it is a selection that locks what it finds, and no other
    row: of a list of keys MariaDB would read, and lock, all rows of a short table.
    """

    def __init__(
        self, column: sa.Column[Any], build: Callable[[sa.ColumnElement[bool]], Any], *, locks: bool = False
    ) -> None:
        self._column, self._build, self._locks = column, build, locks
        self._made: dict[str, Prepared] = {}

    def __call__(self, conn: sa.Connection, ids: Iterable[int]) -> tuple[Prepared, dict[str, Any]]:
        """Return the statement and its parameter; the statement's own ones may be added to it."""
        kind = conn.dialect.name
        made = self._made.get(kind)
        if made is None:
            made = self._made[kind] = Prepared(self._statement(kind))
        values = list(ids)
        if kind == "sqlite" or (self._locks and kind == "mysql"):
            return made, {"ids": msgspec.json.encode(values).decode()}
        return made, {"ids": array_text(values) if kind == "postgresql" else values}

    def _statement(self, kind: str) -> Any:
        if self._locks and kind == "mysql":
            keys = sa.text("JSON_TABLE(:ids, '$[*]' COLUMNS (c0 BIGINT PATH '$')) AS v")
            found = self._build(self._column == sa.literal_column("v.c0"))
            table = self._column.table
            return found.select_from(keys, table).prefix_with("STRAIGHT_JOIN").with_hint(table, BY_KEY)
        return self._build(self._condition(kind))

    def _condition(self, kind: str) -> sa.ColumnElement[bool]:
        if kind == "sqlite":
            each = sa.func.json_each(sa.bindparam("ids", type_=sa.String)).table_valued("value")
            return self._column.in_(sa.select(each.c.value))
        if kind == "postgresql":
            # a parameter without a type of its own is taken for an array, which the planner looks into: one that is
            # converted first would be searched through for every row
            return self._column == sa.func.any(sa.text("CAST(:ids AS bigint[])"))
        return in_text(self._column)


def fetch_rows(
    conn: sa.Connection, query: Prepared | sa.Select[Any], values: Mapping[str, Any] | None = None
) -> Sequence[Any]:
    """Return rows as the driver made them, for records that take them by position: booleans may be 0 and 1.

    To wrap and convert every row costs as much as to read it.
    """
    if isinstance(query, Prepared):
        return query.fetch(conn, values or {})
    result = conn.execute(query, values)
    try:
        assert result.cursor is not None  # noqa: S101 - a select has one
        return result.cursor.fetchall()
    finally:
        result.close()


def update_many(
    conn: sa.Connection,
    table: sa.Table,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    *,
    seen: Sequence[str] = (),
) -> int:
    """Update many rows by id, each with its own values, in one statement; return how many were changed.

    It has no other condition, which would lead PostgreSQL to begin with the few rows that it thinks fulfil it, and so
    to compare each of them with each of these. Lock the rows first and leave out those that must stay.

    Each of ``rows`` is the ``id`` and one integer, string, boolean or None for each column. On SQLite only, values of
    the columns ``seen`` follow: a row that holds others stays as it is.
    """
    if not rows:
        return 0
    kind = conn.dialect.name
    assert not seen or kind == "sqlite"  # noqa: S101 - elsewhere rows are locked first
    names, sent = _sent_once(kind, columns, rows)
    if kind == "postgresql":
        return _postgresql_form(table, names).change(conn, sent)
    # on MariaDB rows that hold these values already count too: the driver asks for found rows
    form = _mariadb_form(table, names) if kind == "mysql" else _sqlite_form(table, names, tuple(seen))
    return form.change(conn, sent)


def move_many(
    conn: sa.Connection,
    source: sa.Table,
    target: sa.Table,
    columns: tuple[str, ...],
    given: tuple[str, ...],
    rows: Sequence[tuple[Any, ...]],
) -> int:
    """Move rows by id from a table into another one; return how many were moved.

    Each of ``rows`` is the ``id`` and a value for each column that is ``given``; the others of the target's ``columns``
    come as they are. Lock the rows first.
    """
    if not rows:
        return 0
    names, sent = _sent_once(conn.dialect.name, given, rows)
    if conn.dialect.name == "postgresql":
        return _postgresql_move(source, target, columns, names).change(conn, sent)
    is_mariadb = conn.dialect.name == "mysql"
    _inserts(source, target, columns, names, is_mariadb).change(conn, sent)
    if is_mariadb:
        return _mariadb_delete(source).change(conn, {"rows": _json_text([row[:1] for row in rows])})
    delete, values = _deletes(source)(conn, [row[0] for row in rows])
    return delete.change(conn, values)


def _sent_once(kind: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> tuple[Names, dict[str, Any]]:
    """Return the columns behind the key and the parameters; what is the same in all of many rows travels once.

    Few rows keep one text of the statement.
    """
    values = list(zip(*rows, strict=True))
    named = dict(zip(columns, values[1:], strict=False))
    once = {name: column[0] for name, column in named.items() if _is_same(column)}
    names = tuple(name for name in columns if name not in once)
    if once:
        values = [values[0], *(named[name] for name in names), *values[1 + len(columns) :]]
        rows = list(zip(*values, strict=True))
    if kind != "postgresql":
        return (names, tuple(once)), {"rows": _json_text(rows), **once}
    arrays = {f"c{place}": array_text(column) for place, column in enumerate(values)}
    return (names, tuple(once)), {**arrays, **once}


def _is_same(column: tuple[Any, ...]) -> bool:
    if len(column) < MANY or column.count(column[0]) < len(column):
        return False
    return not isinstance(column[0], str) or column[0].isascii()  # else it might be no parameter, see _json_text


class AnyOf:
    """A question whether a table has a row with one of many keys, made once for each kind of database.

    Args:
        table: The table.
        columns: Columns of whole numbers, of which each key has the values.
        fixed: A further column, which is the same for all keys.
        index: The name of the index on all of them.
        ids: On servers, where the table has partitions: a condition on its ids that leaves most of them out.
    """

    def __init__(self, table: sa.Table, columns: Sequence[str], fixed: str, index: str, ids: str) -> None:
        same = " AND ".join(f"t.{name} = v.c{place}" for place, name in enumerate(columns))
        same = f"{same} AND t.{fixed} = :{fixed}"
        labels = ", ".join(f"c{place}" for place in range(len(columns)))
        arrays = ", ".join(f"CAST(:c{place} AS bigint[])" for place in range(len(columns)))
        parts = ", ".join(f"c{place} BIGINT PATH '$[{place}]'" for place in range(len(columns)))
        items = ", ".join(f"json_extract(value, '$[{place}]') AS c{place}" for place in range(len(columns)))
        # each of the keys is looked up in the index: planners think that a scan would do, where a table has few rows
        self._forms = {
            "postgresql": _prepared(
                f"SELECT 1 FROM unnest({arrays}) AS v({labels}) CROSS JOIN LATERAL "  # noqa: S608 - our own names
                f"(SELECT 1 FROM {table.name} AS t WHERE {same} AND {ids} LIMIT 1) AS found LIMIT 1"
            ),
            "mysql": _prepared(
                f"SELECT 1 FROM JSON_TABLE(:rows, '$[*]' COLUMNS ({parts})) AS v "  # noqa: S608 - our own names
                f"STRAIGHT_JOIN {table.name} AS t FORCE INDEX ({index}) ON {same} AND {ids} LIMIT 1"
            ),
            "sqlite": _prepared(
                f"SELECT 1 FROM (SELECT {items} FROM json_each(:rows)) AS v "  # noqa: S608 - our own names
                f"CROSS JOIN {table.name} AS t ON {same} LIMIT 1"
            ),
        }

    def is_any(self, conn: sa.Connection, keys: Sequence[tuple[int, ...]], more: Mapping[str, Any]) -> bool:
        """Return whether it has one; ``more`` is the further column and what the condition on ids needs."""
        kind = conn.dialect.name
        if kind == "postgresql":
            values = {f"c{place}": array_text(each) for place, each in enumerate(zip(*keys, strict=True))}
        else:
            values = {"rows": msgspec.json.encode(keys).decode()}
        return bool(self._forms[kind].fetch(conn, {**values, **more}))


def insert_many(
    conn: sa.Connection, table: sa.Table, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], *, keep: str = ""
) -> None:
    """Insert rows, each of whole numbers, plain strings, booleans or None for these columns, in few statements.

    With ``keep``, a column of the table, rows are left out that exist already under a unique key. Raises
    IntegrityError: one of them exists already and ``keep`` is empty, or lacks a value.
    """
    if rows:
        _insert(conn, table.name, columns, _sent_kinds(table, columns), rows, keep)


def insert_values(conn: sa.Connection, table: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows into a table of which the name alone is known, in few statements.

    Each row, of which there is at least one, has a number, string, bytes, boolean or None for each column.
    """
    kinds: tuple[str, ...] = ()
    table = f"`{table}`" if conn.dialect.name == "mysql" else f'"{table}"'
    if conn.dialect.name == "postgresql":
        if len(rows) == 1:  # as most are: it takes half as long again for arrays of one
            marks = ", ".join(["%s"] * len(columns))
            change(conn, f"{_head(table, columns)} VALUES ({marks})", rows[0])
            return
        known = (next((value for value in values if value is not None), None) for values in zip(*rows, strict=True))
        kinds = tuple(next(kind for base, kind in _KINDS.items() if isinstance(value, base)) for value in known)
    _insert(conn, table, columns, kinds, rows)


_KINDS: Final[dict[type, str]] = {
    bool: "boolean", int: "bigint", float: "double precision", str: "text", bytes: "bytea", type(None): "",
}  # fmt: skip
"""Type to what PostgreSQL calls it; ``bool`` before ``int``, of which it is one. A column of None alone has none."""


def _insert(
    conn: sa.Connection,
    table: str,
    columns: tuple[str, ...],
    kinds: tuple[str, ...],
    rows: Sequence[tuple[Any, ...]],
    keep: str = "",
) -> None:
    tail = " ON CONFLICT DO NOTHING" if keep else ""
    match conn.dialect.name:
        case "sqlite":
            marks = ", ".join("?" * len(columns))
            conn.exec_driver_sql(f"{_head(table, columns)} VALUES ({marks}){tail}", list(rows))
        case "postgresql":
            found = [values for values, kind in zip(zip(*rows, strict=True), kinds, strict=True) if kind]
            once = (False, *map(_is_same, found[1:]))  # it takes an array to say how many rows they are
            arrays = [array_text(values) for values, same in zip(found, once, strict=True) if not same]
            sent = [values[0] for values, same in zip(found, once, strict=True) if same]
            change(conn, _postgresql_insert(table, columns, kinds, once) + tail, (*sent, *arrays))
        case _:
            head = _head(table, columns, "`")
            # IGNORE would let through what else is wrong with a row
            tail = f" ON DUPLICATE KEY UPDATE `{keep}` = `{keep}`" if keep else ""
            for values, texts in _mariadb_parts(rows):
                try:
                    change(conn, f"{head} VALUES {values}{tail}", tuple(texts))
                except DBAPIError as error:
                    error.statement = f"{head} VALUES …"  # errors are logged, a thousand rows are not
                    raise


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
    return sa.func.json_each(msgspec.json.encode(list(values)).decode()).table_valued("value").c.value


def _json_text(rows: Sequence[tuple[Any, ...]]) -> str:
    try:
        return msgspec.json.encode(rows).decode()
    except UnicodeEncodeError:  # half of a pair: only its escaped form can be a parameter at all
        return json.dumps(rows)


def _prepared(words: str) -> Prepared:
    return Prepared(sa.text(words))


@lru_cache(maxsize=64)
def _sqlite_form(table: sa.Table, names: Names, seen: tuple[str, ...]) -> Prepared:
    columns, same = names
    # one JSON parameter keeps the statement's text, and so its prepared form, the same for every batch size
    sets = [f"{name} = json_extract(v.value, '$[{place}]')" for place, name in enumerate(columns, 1)]
    sets += [f"{name} = :{name}" for name in same]
    as_seen = "".join(
        f" AND {table.name}.{name} IS json_extract(v.value, '$[{place}]')"
        for place, name in enumerate(seen, 1 + len(columns))
    )
    return _prepared(
        f"UPDATE {table.name} SET {', '.join(sets)} FROM json_each(:rows) AS v "  # noqa: S608 - our own names
        f"WHERE {table.name}.id = json_extract(v.value, '$[0]'){as_seen}"
    )


@lru_cache(maxsize=64)
def _postgresql_form(table: sa.Table, names: Names) -> Prepared:
    """One array for each column, so that the statement's text is the same for every batch size."""
    columns, same = names
    sets = [f"{name} = v.c{place}" for place, name in enumerate(columns, 1)]
    sets += [f"{name} = {_typed(table, name)}" for name in same]
    return _prepared(
        f"UPDATE {table.name} SET {', '.join(sets)} FROM {_arrays(table, columns)} "  # noqa: S608 - our own names
        f"WHERE {table.name}.id = v.c0"
    )


def _arrays(table: sa.Table, columns: tuple[str, ...]) -> str:
    kinds = [table.c[name].type.compile(dialect=_dialect(POSTGRESQL)) for name in ("id", *columns)]
    arrays = ", ".join(f"CAST(:c{place} AS {kind}[])" for place, kind in enumerate(kinds))
    return f"unnest({arrays}) AS v({', '.join(f'c{place}' for place in range(len(kinds)))})"


def _typed(table: sa.Table, name: str) -> str:
    return f"CAST(:{name} AS {table.c[name].type.compile(dialect=_dialect(POSTGRESQL))})"


@lru_cache(maxsize=64)
def _mariadb_form(table: sa.Table, names: Names) -> Prepared:
    columns, same = names
    parts = [f"{table.name}.{name} = v.c{place}" for place, name in enumerate(columns, 1)]
    sets = ", ".join([*parts, *(f"{table.name}.{name} = :{name}" for name in same)])
    values, name = _json_table(table, ("id", *columns)), table.name
    joined = f"{values} STRAIGHT_JOIN {name} {BY_KEY}"
    return _prepared(f"UPDATE {joined} ON {name}.id = v.c0 SET {sets}")  # noqa: S608 - our own names


def _json_table(table: sa.Table, columns: tuple[str, ...]) -> str:
    types = [table.c[name].type for name in columns]
    # without it texts are converted to the database's own character set on their way, which may not know them
    charsets = [" CHARACTER SET utf8mb4" if isinstance(kind, sa.String) else "" for kind in types]
    parts = ", ".join(
        f"c{place} {kind.compile(dialect=_dialect(MARIADB))}{charset} PATH '$[{place}]'"
        for place, (kind, charset) in enumerate(zip(types, charsets, strict=True))
    )
    return f"JSON_TABLE(:rows, '$[*]' COLUMNS ({parts})) AS v"


@lru_cache(maxsize=16)
def _postgresql_move(source: sa.Table, target: sa.Table, columns: tuple[str, ...], names: Names) -> Prepared:
    given, same = names
    values = {name: f"v.c{place}" for place, name in enumerate(given, 1)}
    taken = _taken(source, columns, values | {name: _typed(target, name) for name in same})
    return _prepared(
        f"WITH gone AS (DELETE FROM {source.name} USING {_arrays(target, given)} "  # noqa: S608 - our own names
        f"WHERE {source.name}.id = v.c0 RETURNING {taken}) {_head(target.name, columns)} SELECT * FROM gone"
    )


@lru_cache(maxsize=16)
def _inserts(source: sa.Table, target: sa.Table, columns: tuple[str, ...], names: Names, is_mariadb: bool) -> Prepared:
    """Return the first half of a move where it takes two statements."""
    given, same = names
    head, start, end = (_head(target.name, columns, "`" if is_mariadb else '"'), "json_extract(v.value, '$[", "]')")
    joined = f"json_each(:rows) AS v CROSS JOIN {source.name}"
    if is_mariadb:
        start, end = "v.c", ""
        joined = f"{_json_table(target, ('id', *given))} STRAIGHT_JOIN {source.name} {BY_KEY}"
    values = {name: f"{start}{place}{end}" for place, name in enumerate(given, 1)}
    key = f"{start}0{end}"
    taken = _taken(source, columns, values | {name: f":{name}" for name in same})
    return _prepared(f"{head} SELECT {taken} FROM {joined} ON {source.name}.id = {key}")  # noqa: S608 - our own names


def _taken(source: sa.Table, columns: Sequence[str], given: Mapping[str, str]) -> str:
    return ", ".join(given.get(name, f"{source.name}.{name}") for name in columns)


@lru_cache(maxsize=16)
def _mariadb_delete(table: sa.Table) -> Prepared:
    # a list of keys would not do: of half of a short table it reads, and locks, all rows
    keys, name = _json_table(table, ("id",)), table.name
    return _prepared(f"DELETE {name} FROM {keys} STRAIGHT_JOIN {name} {BY_KEY} ON {name}.id = v.c0")


@lru_cache(maxsize=16)
def _deletes(table: sa.Table) -> ById:
    return ById(table.c.id, sa.delete(table).where)


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


@lru_cache(maxsize=256)
def _head(table: str, columns: tuple[str, ...], quote: str = '"') -> str:
    names = ", ".join(f"{quote}{name}{quote}" for name in columns)
    return f"INSERT INTO {table} ({names})"


@lru_cache(maxsize=256)
def _postgresql_insert(table: str, columns: tuple[str, ...], kinds: tuple[str, ...], once: tuple[bool, ...]) -> str:
    """Return a statement that takes single values for those of the columns with a kind that are the same in all rows.

    Behind these come arrays for the others. Columns without a kind get nulls.
    """
    is_same = iter(once)
    chosen: list[str] = []
    arrays: list[str] = []
    for kind in kinds:
        if not kind:
            chosen.append("NULL")
        elif next(is_same):
            chosen.append(f"%s::{kind}")
        else:
            chosen.append(f"c{len(arrays)}")
            arrays.append(f"%s::{kind}[]")
    labels = ", ".join(f"c{place}" for place in range(len(arrays)))
    return f"{_head(table, columns)} SELECT {', '.join(chosen)} FROM unnest({', '.join(arrays)}) AS v({labels})"  # noqa: S608 - our own names


@lru_cache(maxsize=64)
def _sent_kinds(table: sa.Table, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return what PostgreSQL calls the types of columns, as they are sent."""
    types = [table.c[name].type for name in columns]
    # a text that is too long must be refused, and a cast to its column's type would cut it
    return tuple(
        "text" if isinstance(kind, sa.String) else kind.compile(dialect=_dialect(POSTGRESQL)) for kind in types
    )
