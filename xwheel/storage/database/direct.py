"""Statements that are asked at every fire: built by SQLAlchemy once, and executed by the driver.

SQLAlchemy's execution of a statement costs two or three times what the driver's does. Here the text goes to the driver
as it is. What fails becomes the same errors as elsewhere, and a broken connection leaves the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

MARK: Final = "__ids__"
"""Stands in a statement for the numbers ``ids`` among its values, which become a part of its text."""


def in_text(column: sa.Column[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a column is among the ``ids`` that a :class:`Prepared` gets, as a part of its text."""
    return column.bool_op("IN")(sa.literal_column(f"({MARK})"))


Values = Mapping[str, Any] | Sequence[Any]


class Form(NamedTuple):
    """What a statement is for one kind of database: its text, its own values, and in which order they are sent."""

    text: str
    own: dict[str, Any]
    order: list[str] | None
    is_marked: bool


class Prepared:
    """A statement that is compiled once for each engine.

    Its values are numbers, strings, booleans or None by the names of its parameters, which may be no lists.
    """

    def __init__(self, statement: sa.Executable) -> None:
        self._statement = statement
        self._forms: WeakKeyDictionary[Dialect, Form] = WeakKeyDictionary()

    def fetch(self, conn: sa.Connection, values: Mapping[str, Any]) -> Sequence[Any]:
        """Return the rows as the driver makes them: booleans may be 0 and 1."""
        return fetch(conn, *self._sent(conn.dialect, values))

    def change(self, conn: sa.Connection, values: Mapping[str, Any]) -> int:
        """Execute it; return how many rows were changed."""
        return change(conn, *self._sent(conn.dialect, values))

    def _sent(self, dialect: Dialect, values: Mapping[str, Any]) -> tuple[str, Values]:
        form = self._forms.get(dialect)
        if form is None:
            form = self._forms[dialect] = self._compile(dialect)
        text, given = form.text, {**form.own, **values}
        if form.is_marked:
            # a comparison with NULL is true for no row
            text = text.replace(MARK, ",".join(map(str, map(int, given.pop("ids")))) or "NULL")
        return text, given if form.order is None else [given[name] for name in form.order]

    def _compile(self, dialect: Dialect) -> Form:
        compiled: Any = self._statement.compile(dialect=dialect)  # type: ignore[attr-defined] # ours are clauses
        # drivers would look for a way to send members of enums
        own = {name: one.value if isinstance(one, Enum) else one for name, one in compiled.params.items()}
        return Form(compiled.string, own, compiled.positiontup, MARK in compiled.string)


def fetch(conn: sa.Connection, text: str, values: Values) -> Sequence[Any]:
    """Return the rows of a query in the driver's own form, as the driver makes them."""
    if conn.dispatch.before_cursor_execute:
        result = conn.exec_driver_sql(text, values if isinstance(values, dict) else tuple(values))
        assert result.cursor is not None  # noqa: S101 - a query has one
        try:
            return result.cursor.fetchall()
        finally:
            result.close()
    cursor = _execute(conn, text, values)
    rows: Sequence[Any] = cursor.fetchall()
    cursor.close()
    return rows


def ask(conn: sa.Connection, text: str) -> Sequence[Any]:
    """Return the only row, of numbers and nulls, of a query without values in the driver's own form.

    On PostgreSQL libpq executes it: what comes a few times a second finds none of the driver's code in the processor's
    caches.
    """
    if conn.dialect.name != "postgresql" or conn.dispatch.before_cursor_execute:
        (row,) = fetch(conn, text, ())
        return tuple(row)
    driver: Any = conn.connection.dbapi_connection
    try:
        return tuple(driver.ask(text))
    except BaseException as error:
        _fail(conn, error, text)


def change(conn: sa.Connection, text: str, values: Values) -> int:
    """Execute a statement in the driver's own form; return how many rows were changed."""
    if conn.dispatch.before_cursor_execute:
        return conn.exec_driver_sql(text, values if isinstance(values, dict) else tuple(values)).rowcount
    cursor = _execute(conn, text, values)
    count: int = cursor.rowcount
    cursor.close()
    return count


def _execute(conn: sa.Connection, text: str, values: Values) -> Any:
    """Return a cursor that has executed a statement, in the transaction that is open or begins with it."""
    driver: Any = conn.connection.dbapi_connection
    if not conn.in_transaction():
        conn.begin()
    cursor = driver.cursor(binary=True) if conn.dialect.name == "postgresql" else driver.cursor()
    try:
        cursor.execute(text, values)
    except BaseException as error:
        _fail(conn, error, text, values, cursor)
    return cursor


def _fail(conn: sa.Connection, error: BaseException, text: str, values: Values = (), cursor: Any = None) -> NoReturn:
    is_drivers = isinstance(error, conn.dialect.loaded_dbapi.Error)
    # without a statement it raises what is not the driver's as it is
    conn._handle_dbapi_exception(error, text if is_drivers else None, values, cursor, None)
