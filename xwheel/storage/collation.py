"""How tables compare text: by bytes, with trailing blanks counting, on every server and whatever its defaults are.

Names that differ only in case or blanks are different names, and a newer collation of the operating system breaks no
index.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, String, Table

MARIADB_COLLATION: Final = "utf8mb4_nopad_bin"
MYSQL_COLLATION: Final = "utf8mb4_0900_bin"


def server_collation(conn: Connection) -> str:
    """Return the collation of our tables on a MariaDB or MySQL server."""
    return MARIADB_COLLATION if getattr(conn.dialect, "is_mariadb", False) else MYSQL_COLLATION


def spell_out(table: Table, conn: Connection, **_: Any) -> None:
    """Spell storage engine and collation out for a table that is about to be made."""
    match conn.dialect.name:
        case "postgresql":
            for column in table.columns:
                if isinstance(column.type, String):
                    column.type = column.type.copy()
                    column.type.collation = "C"
        case "mysql":
            table.dialect_kwargs.update(
                mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate=server_collation(conn)
            )
