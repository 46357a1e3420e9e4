"""Rows of plugins, written, read and deleted in transactions of the core."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Select, column, delete, literal_column, select, table
from sqlalchemy.exc import DatabaseError, DataError, IntegrityError, ProgrammingError

from xwheel.errors import PluginError
from xwheel.plugin.observers import Rows
from xwheel.plugin.tables import RowsGoAlong, Tables
from xwheel.plugin.validation import error_words
from xwheel.storage.database.bulk import insert_values
from xwheel.storage.database.rows import IN_LIMIT, chunks, in_parts

_REFUSALS: Final = frozenset({1048, 1054, 1146, 1264, 1364, 1366, 1406, 4025})
"""Errors of MariaDB about a row, a column or a table, which its driver calls operational as it does a deadlock."""

_WORDS: Final = ("no such table", "has no column")
_MARKS: Final = {"sqlite": "?", "mysql": "%s", "postgresql": "%s"}
_QUOTES: Final = {"sqlite": '"', "mysql": "`", "postgresql": '"'}


def insert_rows(conn: Connection, plugin: str, rows: Rows) -> None:
    """Insert checked rows of a plugin, or none of them: what is refused is undone up to the point before.

    Raises PluginError: the database refuses these rows, and the transaction goes on without them. What it cannot do
    just now, such as after a deadlock, is raised as it is.
    """
    point = conn.begin_nested()
    try:
        write_rows(conn, plugin, rows)
    except PluginError:
        point.rollback()
        raise
    point.commit()


def read_rows_of(conn: Connection, name: str, job_ids: Collection[int]) -> tuple[tuple[object, ...], ...]:
    """Return the rows of a plugin's table that have these jobs in their column ``job_id``, all columns of each."""
    mine = table(name, column("job_id"))
    query: Select[Any] = select(literal_column("*")).select_from(mine).order_by(mine.c.job_id)
    found = in_parts(conn, sorted(job_ids), IN_LIMIT, lambda part: query.where(mine.c.job_id.in_(list(part))))
    return tuple(map(tuple, found))


def delete_of_jobs(conn: Connection, plugins: Mapping[str, Tables], job_ids: Collection[int]) -> None:
    """Delete the rows of plugins that go with jobs."""
    for item in plugins.values():
        if isinstance(item, RowsGoAlong):
            _delete(conn, item.of_jobs, job_ids)


def delete_of_group(conn: Connection, plugins: Mapping[str, Tables], group_id: int) -> None:
    """Delete the rows of plugins that go with a group."""
    for item in plugins.values():
        if isinstance(item, RowsGoAlong):
            _delete(conn, item.of_groups, [group_id])


def _delete(conn: Connection, columns: Mapping[str, str], ids: Iterable[int]) -> None:
    for name, key in columns.items():
        mine = table(name, column(key))
        for part in chunks(sorted(ids), IN_LIMIT):
            conn.execute(delete(mine).where(mine.c[key].in_(part)))


def write_rows(conn: Connection, plugin: str, rows: Rows) -> None:
    """Insert checked rows of a plugin in a transaction that is given up if that fails.

    Raises PluginError: the database refuses these rows. What it cannot do just now is raised as it is.
    """
    try:
        for name, items in rows.items():
            if items:
                _write(conn, name, items)
    except DatabaseError as error:
        if not _is_refused(error):
            raise
        raise PluginError(f"rows of {plugin}: {' '.join(str(error.orig).split())[:300]}") from error
    except (ValueError, OverflowError) as error:
        # a number or a text that the driver cannot send, such as half of a surrogate pair
        raise PluginError(f"rows of {plugin}: {error_words(error)}") from error


def _write(conn: Connection, table: str, items: Sequence[Mapping[str, Any]]) -> None:
    columns = tuple(items[0])
    if len(items) == 1:
        # as most are: PostgreSQL takes half as long again for arrays of one
        conn.exec_driver_sql(_insert_one(conn.dialect.name, table, columns), tuple(items[0].values()))
        return
    values = itemgetter(*columns)
    rows = [(values(item),) for item in items] if len(columns) == 1 else [values(item) for item in items]
    insert_values(conn, table, columns, rows)


@lru_cache(maxsize=256)
def _insert_one(dialect: str, table: str, columns: tuple[str, ...]) -> str:
    quote = _QUOTES[dialect]
    names = ", ".join(f"{quote}{name}{quote}" for name in columns)
    marks = ", ".join([_MARKS[dialect]] * len(columns))
    return f"INSERT INTO {quote}{table}{quote} ({names}) VALUES ({marks})"  # noqa: S608 - names were checked


def _is_refused(error: DatabaseError) -> bool:
    """Return whether a database refuses a statement as it is; otherwise it could not do it now."""
    if isinstance(error, IntegrityError | DataError | ProgrammingError):
        return not error.connection_invalidated
    said = str(error.orig)
    number = error.orig.args[0] if error.orig is not None and error.orig.args else None
    return number in _REFUSALS or any(words in said for words in _WORDS)
