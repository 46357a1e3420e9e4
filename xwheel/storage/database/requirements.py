"""What a node needs of a database server, asked once at start.

Its version and settings, and whether our user may do what a node, or an upgrade, does: asked by doing it to no row and
to a table of our own.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.exc import DBAPIError

from xwheel.errors import DatabaseReadOnlyError, DatabaseRefusedError
from xwheel.storage.database.address import place_of
from xwheel.storage.database.engine import Database
from xwheel.storage.database.errors import RIGHTS, Fault, fault_of
from xwheel.storage.schema.tables import metadata, server_collation

logger = logging.getLogger(__name__)

# JSON_TABLE and SKIP LOCKED; MySQL's first collation by bytes that keeps trailing blanks
LEAST_MARIADB: Final = (10, 6)
LEAST_MYSQL: Final = (8, 0, 17)
LEAST_POSTGRESQL: Final = 140_000
LEAST_SQLITE: Final = (3, 35)
LEAST_PACKET: Final = 16 * 1024 * 1024  # full batches of long messages, as JSON with escapes
TOO_FEW: Final = "{} is {}, a node opens up to {} (twice database.pool_size): raise or lower one"

SHARED: Final = (
    "PgBouncer or another pooler gives the server's connections to other clients between transactions, so that "
    "settings and prepared statements get lost: set pool_mode to session"
)
SHARED_TRIES: Final = 3  # next to four busy clients of the same pooler one does not see it in a fifth of the cases
OVERRIDDEN: Final = "READ COMMITTED was asked for: correct what overrides it"
MAKE_WRITABLE: Final = "set default_transaction_read_only to off (ALTER SYSTEM, DATABASE, ROLE)"
PROBE: Final = "xwheel_probe_"  # begins the name of the table that an upgrade makes to test its rights
NAMED: Final = 3  # tables that a message names
READ_ONLY: Final = (
    "read_only", "super_read_only", "innodb_read_only", "tx_read_only", "transaction_read_only",
)  # fmt: skip
_VARIABLES: Final = (
    *READ_ONLY, "tx_isolation", "transaction_isolation", "log_bin", "sql_log_bin", "binlog_format", "max_connections",
    "max_user_connections", "max_allowed_packet", "character_set_client", "character_set_connection",
)  # fmt: skip
_POSTGRESQL: Final = text(
    "SELECT CAST(current_setting('server_version_num') AS integer) AS version,"
    " current_setting('server_version') AS version_name,"
    " current_setting('transaction_isolation') AS isolation, pg_is_in_recovery() AS in_recovery,"
    " current_setting('transaction_read_only') AS read_only, current_setting('server_encoding') AS encoding,"
    " CAST(current_setting('max_connections') AS integer)"
    " - CAST(current_setting('superuser_reserved_connections') AS integer) AS max_connections,"
    " (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS user_connections,"
    " (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database_connections,"
    " current_schema() AS schema, current_user AS user_name"
)
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


def check_server(db: Database) -> None:
    """Make sure that the server is one that xwheel can work with, with what the session really has.

    Raises DatabaseReadOnlyError: it is one, and only reads, which may pass; DatabaseRefusedError: it is not; the
    message says what to change.
    """
    closed: str | None = None
    with db.read() as conn:
        match db.backend:
            case "sqlite":
                problem = judge_sqlite(str(conn.execute(text("SELECT sqlite_version()")).scalar_one()))
            case "postgresql":
                answers = conn.execute(_POSTGRESQL).one()._asdict()
                closed, problem = closed_postgresql(answers), judge_postgresql(answers, db.most_connections)
            case _:
                facts = _ask_mariadb(conn)
                closed, problem = closed_mariadb(facts), judge_mariadb(facts, db.most_connections)
    if problem is None and db.backend == "postgresql" and is_shared(db):
        problem = SHARED
    if problem is not None:
        kind = DatabaseReadOnlyError if problem == closed else DatabaseRefusedError
        raise kind(f"the database at {place_of(db.engine.url)} cannot be used: {problem}")


def is_shared(db: Database) -> bool:
    """Return whether the server's ends of our connections go from one to the other between transactions."""
    number = text("SELECT pg_backend_pid()")
    with db.read() as conn:
        first = conn.execute(number).scalar_one()
        for _ in range(SHARED_TRIES):
            with db.write() as other:
                # it is the end that was given back last, unless another client was faster
                if first == other.execute(number).scalar_one() or first != conn.execute(number).scalar_one():
                    return True
    return False


def check_rights(db: Database) -> None:
    """Make sure that a node may read and write all tables, and that they are as an upgrade made them.

    Raises DatabaseRefusedError: it may not; the message names the GRANT.
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


def check_may_upgrade(db: Database) -> None:
    """Make sure that our user may change the schema, before an upgrade stops half-way.

    MariaDB commits each change of the schema by itself; there, a small table is made, used and dropped. PostgreSQL and
    SQLite take back the whole of an upgrade that fails. Raises DatabaseRefusedError: it may not; the message names the
    GRANT.
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
            steps = {
                "INDEX": f"CREATE INDEX probe ON {name} (id)",
                "INSERT": f"INSERT INTO {name} (id) VALUES (1)",  # noqa: S608 - our own name
                "SELECT": f"SELECT id FROM {name}",  # noqa: S608
                "UPDATE": f"UPDATE {name} SET id = 2",  # noqa: S608
                "DELETE": f"DELETE FROM {name}",  # noqa: S608
                "ALTER": f"ALTER TABLE {name} ADD COLUMN more INTEGER",
                "DROP": f"DROP TABLE {name}",
            }
            lacking = [(right, schema) for right, statement in steps.items() if not _may(conn, statement)]
            conn.commit()
    if ("DROP", schema) in lacking:
        logger.warning("the table %s in %s is left over from this check: drop it by hand", name, schema)
    if lacking:
        raise _lacks(db, user, lacking, f"GRANT ALL PRIVILEGES ON `{schema}`.* TO {_account(user)}")


def judge_sqlite(version: str) -> str | None:
    """Return what is wrong with this SQLite, None if nothing is."""
    return _first(_too_old("SQLite", version, LEAST_SQLITE))


def closed_mariadb(facts: Mapping[str, str]) -> str | None:
    """Return why a MariaDB or MySQL server does not let us write, None if it does."""
    closed = next((one for one in READ_ONLY if facts.get(one, "OFF") not in ("OFF", "0")), None)
    if closed is None:
        return None
    return f"it is read-only ({closed} is on), as a replica is: name the primary, or turn that off"


def closed_postgresql(facts: Mapping[str, Any]) -> str | None:
    """Return why a PostgreSQL server does not let us write, None if it does."""
    if facts["in_recovery"]:
        return "it is a standby, which is read-only: name the primary, or promote it"
    return None if facts["read_only"] == "off" else f"its transactions are read-only: {MAKE_WRITABLE}"


def judge_mariadb(facts: Mapping[str, str], connections: int) -> str | None:
    """Return what is wrong with a MariaDB or MySQL server for a node with this many connections, None if nothing is.

    The facts are variables of the session; those that the server does not know are missing.
    """
    version = facts["version"].removeprefix("5.5.5-")
    name, least = ("MariaDB", LEAST_MARIADB) if "mariadb" in version.lower() else ("MySQL", LEAST_MYSQL)
    closed = closed_mariadb(facts)
    isolation = facts.get("transaction_isolation") or facts.get("tx_isolation", "unknown")
    is_logging = {facts.get(one, "OFF") for one in ("log_bin", "sql_log_bin")} <= {"ON", "1"}
    logs_statements = is_logging and facts.get("binlog_format") == "STATEMENT"
    packet = int(facts.get("max_allowed_packet", LEAST_PACKET))
    charsets = {facts.get(one, "utf8mb4") for one in ("character_set_client", "character_set_connection")}
    spoken = ", ".join(sorted(charsets))
    found = {
        **_too_old(name, version, least),
        closed or "": closed is not None,
        f"the session has {isolation} though {OVERRIDDEN}": isolation != "READ-COMMITTED",
        "it logs statements, which READ COMMITTED forbids: set binlog_format to MIXED or ROW": logs_statements,
        f"the session speaks {spoken} and not utf8mb4: correct what overrides it": charsets != {"utf8mb4"},
        f"max_allowed_packet is {packet}: set it to {LEAST_PACKET} (16M) or more": packet < LEAST_PACKET,
    }
    limits = ("max_connections", "max_user_connections")
    return _first(found) or _too_few({one: int(facts.get(one, 0)) for one in limits}, connections)


def judge_postgresql(facts: Mapping[str, Any], connections: int) -> str | None:
    """Return what is wrong with a PostgreSQL server for a node with this many connections, None if nothing is.

    The facts are the columns of :data:`_POSTGRESQL`.
    """
    user, isolation, encoding = (facts[name] for name in ("user_name", "isolation", "encoding"))
    old = f"PostgreSQL {facts['version_name']} is too old: {LEAST_POSTGRESQL // 10_000} or newer is needed"
    closed, has_no_schema = closed_postgresql(facts), facts["schema"] is None
    found = {
        old: facts["version"] < LEAST_POSTGRESQL,
        closed or "": closed is not None,
        f"the session has {isolation} though {OVERRIDDEN}": isolation != "read committed",
        f"its encoding is {encoding}: CREATE DATABASE another ENCODING 'UTF8' TEMPLATE template0": encoding != "UTF8",
        f"user {user} may use no schema of its search_path: GRANT USAGE ON SCHEMA public TO {user}": has_no_schema,
    }
    limits = ("max_connections", "user_connections", "database_connections")
    return _first(found) or _too_few({one: facts[one] or 0 for one in limits}, connections)


def _ask_mariadb(conn: Connection) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = conn.execute(text(f"SHOW VARIABLES WHERE Variable_name IN ({names})"))
    facts = {str(name): str(value) for name, value in rows}
    facts["version"] = str(conn.execute(text("SELECT VERSION()")).scalar_one())
    if "mariadb" not in facts["version"].lower():
        logger.warning("MySQL %s is not among the servers that xwheel is tested with; MariaDB is", facts["version"])
    return facts


def _first(found: Mapping[str, bool]) -> str | None:
    return next((problem for problem, is_so in found.items() if is_so), None)


def _too_few(limits: Mapping[str, int], connections: int) -> str | None:
    # where there is no limit, MariaDB says 0 and PostgreSQL -1
    return _first({TOO_FEW.format(*item, connections): 0 < item[1] < connections for item in limits.items()})


def _too_old(name: str, version: str, least: tuple[int, ...]) -> dict[str, bool]:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return {f"{name} {version} is too old: {'.'.join(map(str, least))} or newer is needed": numbers < least}


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
    # a transaction that changes no row: it is refused for every other reason too, such as a read-only server
    with db.write() as conn:
        user, schema = conn.execute(text("SELECT CURRENT_USER(), DATABASE()")).one()
        asked = ((name, *one) for name in sorted(metadata.tables) for one in _row_statements(name).items())
        lacking = [(right, name) for name, right, statement in asked if not _may(conn, statement)]
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
    wanted = server_collation(conn)
    query = text(
        "SELECT table_name AS name, engine AS engine, table_collation AS collation FROM information_schema.tables"
        " WHERE table_schema = DATABASE() AND table_name IN :tables"
    ).bindparams(bindparam("tables", expanding=True))
    for row in conn.execute(query, {"tables": sorted(metadata.tables)}):
        table, alter = f"the table {row.name} at {place_of(db.engine.url)}", f"ALTER TABLE `{row.name}`"
        if str(row.engine).lower() != "innodb":
            raise DatabaseRefusedError(f"{table} has no transactions, being {row.engine}: {alter} ENGINE = InnoDB")
        if row.collation != wanted:
            raise DatabaseRefusedError(
                f"{table} has the collation {row.collation}: stop all nodes, {alter} CONVERT TO CHARACTER SET utf8mb4 "
                f"COLLATE {wanted}"
            )


def _may(conn: Connection, statement: str) -> bool:
    try:
        conn.exec_driver_sql(statement)
    except DBAPIError as error:
        if error.orig is not None and fault_of(error.orig) is Fault.RIGHT:
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
