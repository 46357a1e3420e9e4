"""Whether our user may do what a node, or an upgrade, does: asked by doing it to no row and to a table of our own."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.exc import DBAPIError

from xwheel.errors import DatabaseRefusedError
from xwheel.storage.address import place_of
from xwheel.storage.alarm_tables import metadata
from xwheel.storage.collation import server_collation
from xwheel.storage.diagnosis import RIGHTS, Kind, kind_of
from xwheel.storage.engine import Database

logger = logging.getLogger(__name__)

PROBE: Final = "xwheel_probe_"
NAMED: Final = 3
_TABLE_RIGHTS: Final = text(
    "SELECT c.relname AS name, r.name AS missing FROM pg_class c,"
    " unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r(name)"
    " WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relname IN :tables"
    " AND NOT has_table_privilege(c.oid, r.name)"
    " UNION ALL SELECT t.relname, 'USAGE' FROM pg_depend d JOIN pg_class t ON t.oid = d.refobjid"
    " JOIN pg_class c ON c.oid = d.objid"
    " WHERE t.relnamespace = CAST(current_schema() AS regnamespace) AND t.relname IN :tables"
    # conditions are asked in any order, and no other kind may be asked
    " AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') ELSE false END"
).bindparams(bindparam("tables", expanding=True))


def check_rights(db: Database) -> None:
    """Make sure that a node may read and write all tables, and that they are as an upgrade made them.

    Raises:
        DatabaseRefusedError: It may not; the message names the GRANT.
    """
    match db.backend:
        case "sqlite":
            # a file that can only be read fails here
            with db.write() as conn:
                conn.execute(text("UPDATE setting SET value = value WHERE name = ''"))
        case "postgresql":
            _check_postgresql(db)
        case _:
            _check_mariadb(db)


def _check_postgresql(db: Database) -> None:
    with db.read() as conn:
        rows = conn.execute(_TABLE_RIGHTS, {"tables": sorted(metadata.tables)}).all()
        user = str(conn.execute(text("SELECT quote_ident(current_user)")).scalar_one())
        schema = str(conn.execute(text("SELECT quote_ident(current_schema())")).scalar_one())
    lacking = [(str(row.missing), str(row.name)) for row in rows]
    if lacking:
        grants = f"GRANT {RIGHTS} ON ALL TABLES IN SCHEMA {schema} TO {user}"
        if any(right == "USAGE" for right, _ in lacking):
            grants += f"; GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {user}"
        raise _lacks(db, user, lacking, grants)


def _check_mariadb(db: Database) -> None:
    lacking: list[tuple[str, str]] = []
    # a transaction that changes no row: it is refused for every other reason too, such as a read-only server
    with db.write() as conn:
        user, schema = conn.execute(text("SELECT CURRENT_USER(), DATABASE()")).one()
        for name in sorted(metadata.tables):
            for right, statement in _row_statements(name).items():
                if not _may(conn, statement):
                    lacking.append((right, name))
        if not lacking:
            _check_tables(db, conn)
    if lacking:
        raise _lacks(db, user, lacking, f"GRANT {RIGHTS} ON `{schema}`.* TO {_account(user)}")


def _row_statements(name: str) -> dict[str, str]:
    columns = [f"`{column.name}`" for column in metadata.tables[name].columns]
    ones, nowhere = ", ".join("1" for _ in columns), "WHERE 1 = 0"
    return {
        "SELECT": f"SELECT {columns[0]} FROM `{name}` {nowhere}",  # noqa: S608 - our own names
        "INSERT": f"INSERT INTO `{name}` ({', '.join(columns)}) SELECT {ones} FROM DUAL {nowhere}",  # noqa: S608
        "UPDATE": f"UPDATE `{name}` SET {columns[0]} = 1 {nowhere}",  # noqa: S608
        "DELETE": f"DELETE FROM `{name}` {nowhere}",  # noqa: S608
    }


def _check_tables(db: Database, conn: Connection) -> None:
    """Refuse tables that another engine or collation was given, by a dump or by hand."""
    wanted = server_collation(conn)
    query = text(
        "SELECT table_name AS name, engine AS engine, table_collation AS collation FROM information_schema.tables"
        " WHERE table_schema = DATABASE() AND table_name IN :tables"
    ).bindparams(bindparam("tables", expanding=True))
    for row in conn.execute(query, {"tables": sorted(metadata.tables)}):
        if str(row.engine).lower() != "innodb":
            raise DatabaseRefusedError(
                f"the table {row.name} at {place_of(db.engine.url)} has no transactions, being {row.engine}: "
                f"ALTER TABLE `{row.name}` ENGINE = InnoDB"
            )
        if row.collation != wanted:
            raise DatabaseRefusedError(
                f"the table {row.name} at {place_of(db.engine.url)} has the collation {row.collation}: stop all nodes, "
                f"ALTER TABLE `{row.name}` CONVERT TO CHARACTER SET utf8mb4 COLLATE {wanted}"
            )


def check_may_upgrade(db: Database) -> None:
    """Make sure that our user may change the schema, before an upgrade stops half-way.

    MariaDB commits each change of the schema by itself; there, a small table is made, used and dropped. PostgreSQL and
    SQLite take back the whole of an upgrade that fails.

    Raises:
        DatabaseRefusedError: It may not; the message names the GRANT.
    """
    if db.backend != "mysql":
        return
    name = f"`{PROBE}{secrets.token_hex(6)}`"
    with db.engine.connect() as conn:
        user, schema = conn.execute(text("SELECT CURRENT_USER(), DATABASE()")).one()
        create = (
            f"CREATE TABLE {name} (id INTEGER PRIMARY KEY) ENGINE = InnoDB "
            f"CHARACTER SET utf8mb4 COLLATE {server_collation(conn)}"
        )
        if not _may(conn, create):
            lacking = [("CREATE", schema)]
        else:
            steps = _schema_statements(name).items()
            lacking = [(right, schema) for right, statement in steps if not _may(conn, statement)]
            conn.commit()
    if ("DROP", schema) in lacking:
        logger.warning("the table %s in %s is left over from this look: drop it by hand", name, schema)
    if lacking:
        raise _lacks(db, user, lacking, f"GRANT ALL PRIVILEGES ON `{schema}`.* TO {_account(user)}")


def _schema_statements(name: str) -> Mapping[str, str]:
    return {
        "INDEX": f"CREATE INDEX probe ON {name} (id)",
        "INSERT": f"INSERT INTO {name} (id) VALUES (1)",  # noqa: S608 - our own name
        "SELECT": f"SELECT id FROM {name}",  # noqa: S608
        "UPDATE": f"UPDATE {name} SET id = 2",  # noqa: S608
        "DELETE": f"DELETE FROM {name}",  # noqa: S608
        "ALTER": f"ALTER TABLE {name} ADD COLUMN more INTEGER",
        "DROP": f"DROP TABLE {name}",
    }


def _may(conn: Connection, statement: str) -> bool:
    try:
        conn.exec_driver_sql(statement)
    except DBAPIError as error:
        if error.orig is not None and kind_of(error.orig) is Kind.RIGHT:
            return False
        raise
    return True


def _account(user: str) -> str:
    name, _, host = user.rpartition("@")
    return f"'{name}'@'{host}'"


def _lacks(db: Database, user: str, lacking: Sequence[tuple[str, str]], grants: str) -> DatabaseRefusedError:
    rights = ", ".join(dict.fromkeys(right for right, _ in lacking))
    names = list(dict.fromkeys(name for _, name in lacking))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return DatabaseRefusedError(
        f"user {user} at {place_of(db.engine.url)} lacks {rights} on {', '.join(names[:NAMED])}{more}: {grants}"
    )
