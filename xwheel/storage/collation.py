"""How tables compare text: by bytes, with trailing blanks counting, on every server and whatever its defaults are.

Names that differ only in case or blanks are different names, and a newer collation of the operating system breaks no
index.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from sqlalchemy import Connection, String, Table

MARIADB_COLLATION: Final = "utf8mb4_nopad_bin"
MYSQL_COLLATION: Final = "utf8mb4_0900_bin"

T = TypeVar("T", bound=String)


def server_collation(conn: Connection) -> str:
    """Return the collation of our tables on a MariaDB or MySQL server."""
    return MARIADB_COLLATION if getattr(conn.dialect, "is_mariadb", False) else MYSQL_COLLATION


def spell_out(table: Table, conn: Connection, **_: Any) -> None:
    """Spell storage engine and collation out for a table that is about to be made."""
    match conn.dialect.name:
        case "postgresql":
            for column in table.columns:
                if isinstance(column.type, String):
                    column.type = spelled_out(conn, column.type)
        case "mysql":
            table.dialect_kwargs.update(
                mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate=server_collation(conn)
            )


def spelled_out(conn: Connection, kind: T) -> T:
    """Return a type of text for a column that is added to a table that is there; elsewhere the table's rule holds."""
    if conn.dialect.name == "postgresql":
        kind = kind.copy()
        kind.collation = "C"
    return kind
