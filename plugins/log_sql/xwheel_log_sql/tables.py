"""The two tables, and making them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    TextClause,
    inspect,
    text,
)
from sqlalchemy.dialects.mysql import MEDIUMBLOB
from sqlalchemy.schema import CreateTable

Run: TypeAlias = Callable[[Callable[[Connection], Any]], Any]

_metadata: Final = MetaData()
_BYTES: Final = LargeBinary().with_variant(MEDIUMBLOB(), "mysql", "mariadb")
_OPTIONS: Final[dict[str, Any]] = {"mysql_engine": "InnoDB", "mysql_row_format": "DYNAMIC", "mysql_charset": "utf8mb4"}


def _number(name: str, *, key: bool = False) -> Column[Any]:
    return Column(name, BigInteger, primary_key=key, autoincrement=False, nullable=False)


logs: Final = Table(
    "xwheel_log",
    _metadata,
    _number("run_id", key=True),
    _number("created_ms", key=True),
    _number("next_line"),
    Column("is_complete", Boolean, nullable=False),
    _number("tail_line"),
    Column("tail", _BYTES, nullable=False),
    **_OPTIONS,
)
pieces: Final = Table(
    "xwheel_log_piece",
    _metadata,
    _number("run_id", key=True),
    _number("created_ms", key=True),
    _number("first_line", key=True),
    Column("size", Integer, nullable=False),
    Column("body", _BYTES, nullable=False),
    **_OPTIONS,
)
TABLES: Final = (logs, pieces)

_CHANGED: Final = ("next_line", "is_complete", "tail_line", "tail")


def _insert(table: Table, more: str = "") -> TextClause:
    # as text: the drivers join the rows of such a statement into few, and MariaDB's knows it only in this form
    names = [column.name for column in table.columns]
    values = ", ".join(f":{name}" for name in names)
    return text(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({values}){more}")  # noqa: S608 - our own names


INSERT_LOG: Final = _insert(logs)
INSERT_PIECE: Final = _insert(pieces)
_UPDATE: Final = {
    True: _insert(logs, " ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in _CHANGED)),
    False: _insert(
        logs,
        " ON CONFLICT (run_id, created_ms) DO UPDATE SET "
        + ", ".join(f"{name} = excluded.{name}" for name in _CHANGED),
    ),
}


def update_logs(backend: str) -> TextClause:
    """Return the statement that writes rows of logs which are there."""
    return _UPDATE[backend == "mysql"]


def _execute(statement: CreateTable, conn: Connection) -> None:
    conn.execute(statement)


def missing(conn: Connection) -> list[Table]:
    """Return the tables that are not there."""
    found = inspect(conn)
    return [table for table in TABLES if not found.has_table(table.name)]


def create(read: Run, write: Run) -> None:
    """Make the tables that are missing; several nodes may do so at once.

    Args:
        read: Runs a function in a transaction of its own.
        write: Runs it in one that may write.

    Raises:
        Exception: A table is still missing.
    """
    for table in read(missing):
        statement = CreateTable(table, if_not_exists=True)
        try:
            write(partial(_execute, statement))
        except Exception:
            # PostgreSQL lets one of two fail who say IF NOT EXISTS at once
            if table in read(missing):
                raise
