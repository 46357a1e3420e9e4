"""Rows of plugins, written, read and deleted in transactions of the core."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any, Final

from sqlalchemy import Connection, Select, column, delete, literal_column, select, table
from sqlalchemy.exc import DatabaseError, DataError, IntegrityError, ProgrammingError

from xwheel.errors import PluginError
from xwheel.plugin.observers import Rows
from xwheel.plugin.tables import RowsGoAlong, Tables
from xwheel.plugin.validation import error_words
from xwheel.storage.database.bulk import insert_values
from xwheel.storage.database.errors import number_of
from xwheel.storage.database.rows import IN_LIMIT, chunks, in_parts

_REFUSALS: Final = frozenset({1048, 1054, 1146, 1264, 1364, 1366, 1406, 4025})
"""Errors of MariaDB about a row, a column or a table, which its driver calls operational as it does a deadlock."""

_WORDS: Final = ("no such table", "has no column")


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
    _delete(conn, [item.of_jobs for item in plugins.values() if isinstance(item, RowsGoAlong)], job_ids)


def delete_of_group(conn: Connection, plugins: Mapping[str, Tables], group_id: int) -> None:
    """Delete the rows of plugins that go with a group."""
    _delete(conn, [item.of_groups for item in plugins.values() if isinstance(item, RowsGoAlong)], [group_id])


def _delete(conn: Connection, tables: Iterable[Mapping[str, str]], ids: Iterable[int]) -> None:
    for name, key in chain.from_iterable(columns.items() for columns in tables):
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
                columns = tuple(items[0])
                insert_values(conn, name, columns, [tuple(map(item.__getitem__, columns)) for item in items])
    except DatabaseError as error:
        if not _is_refused(error):
            raise
        raise PluginError(f"rows of {plugin}: {' '.join(str(error.orig).split())[:300]}") from error
    except (ValueError, OverflowError) as error:
        # a number or a text that the driver cannot send, such as half of a surrogate pair
        raise PluginError(f"rows of {plugin}: {error_words(error)}") from error


def _is_refused(error: DatabaseError) -> bool:
    """Return whether a database refuses a statement as it is; otherwise it could not do it now."""
    if isinstance(error, IntegrityError | DataError | ProgrammingError):
        return not error.connection_invalidated
    return number_of(error.orig) in _REFUSALS or any(words in str(error.orig) for words in _WORDS)
