"""Open a database for work, or say in one line why that cannot be."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.exc import DBAPIError

from xwheel.errors import DatabaseRefusedError, DatabaseUnreachableError
from xwheel.runtime.private_files import warn_if_open
from xwheel.storage.database.address import place_of
from xwheel.storage.database.engine import STATEMENT_S, Database
from xwheel.storage.database.errors import RIGHTS, Kind, explain, explained, kind_of
from xwheel.storage.database.outage import IDLE_S
from xwheel.storage.schema import migrate
from xwheel.storage.schema.tables import metadata, server_collation

__all__ = ["explain", "open_ready", "reach", "upgrade"]

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.5
LAST_PAUSE_S: Final = 10.0


def open_ready(
    url: str,
    *,
    pool_size: int = 8,
    statement_s: float = STATEMENT_S,
    idle_s: int = IDLE_S,
    create: bool = False,
    wait_s: float = 0,
) -> Database:
    """Open a database that a node can work with: reachable, fit, with this version's schema, writable.

    Args:
        url: SQLAlchemy URL.
        pool_size: Connections kept open.
        statement_s: How long a server's answer may take.
        idle_s: After how long a server ends a transaction whose client is silent.
        create: Create the tables of an empty SQLite database.
        wait_s: How long to wait for a database that takes no connection yet.

    Raises:
        ConfigError: The URL cannot be used.
        DatabaseUnreachableError: No connection in that time.
        DatabaseRefusedError: A person must act: login, database, rights or settings of the server.
        SchemaError: The schema is older, newer or foreign.
    """
    db = Database(url, pool_size=pool_size, statement_s=statement_s, idle_s=idle_s)
    try:
        reach(db, wait_s)
        with explained(db.engine.url):
            check_server(db)
            if create and db.backend == "sqlite" and migrate.current_revision(db) is None:
                migrate.upgrade(db)
            migrate.check_schema(db)
            check_rights(db)
        if db.backend == "sqlite":
            warn_if_open("the database", place_of(db.engine.url))
    except BaseException:
        db.close()
        raise
    return db


def upgrade(url: str) -> tuple[str | None, str]:
    """Bring the schema to the one this version needs.

    Args:
        url: SQLAlchemy URL.

    Returns:
        The revision before (None for an empty database) and now.

    Raises:
        ConfigError: The URL cannot be used.
        DatabaseUnreachableError: No connection.
        DatabaseRefusedError: A person must act: login, database, rights or settings of the server.
        SchemaError: The schema is a newer version's, or the tables are somebody else's.
    """
    db = Database(url)
    try:
        reach(db)
        with explained(db.engine.url):
            check_server(db)
            before, head = migrate.current_revision(db), migrate.head_revision()
            if before != head:
                check_may_upgrade(db)
            migrate.upgrade(db)
    finally:
        db.close()
    return before, head


def reach(
    db: Database,
    wait_s: float = 0,
    *,
    pause: Callable[[float], object] = time.sleep,
    elapsed_s: Callable[[], float] = time.monotonic,
) -> None:
    """Make a first connection, waiting for a server that starts up.

    Args:
        db: The database.
        wait_s: For how long; each try is told in one line of the log.
        pause: Sleeps for so many seconds.
        elapsed_s: Gives seconds that only rise.

    Raises:
        DatabaseUnreachableError: No connection in that time.
        DatabaseRefusedError: Waiting would not help.
    """
    end_s = elapsed_s() + wait_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            with explained(db.engine.url, connecting=True), db.engine.connect() as conn:
                conn.execute(text("SELECT 1"))
                return
        except DatabaseUnreachableError as error:
            left_s = end_s - elapsed_s()
            if left_s <= 0:
                raise
            pause_s = min(pause_s, left_s)
            logger.warning("%s; another try in %.1f s, for %.0f s more", error, pause_s, left_s)
            pause(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)


# JSON_TABLE and SKIP LOCKED; MySQL's first collation by bytes that keeps trailing blanks
LEAST_MARIADB: Final = (10, 6)
LEAST_MYSQL: Final = (8, 0, 17)
LEAST_POSTGRESQL: Final = 140_000
LEAST_SQLITE: Final = (3, 35)
# full batches of long messages, as JSON with escapes
LEAST_PACKET: Final = 16 * 1024 * 1024

READ_ONLY: Final = (
    "read_only",
    "super_read_only",
    "innodb_read_only",
    "tx_read_only",
    "transaction_read_only",
)
_VARIABLES: Final = (
    *READ_ONLY,
    "tx_isolation",
    "transaction_isolation",
    "log_bin",
    "sql_log_bin",
    "binlog_format",
    "max_connections",
    "max_user_connections",
    "max_allowed_packet",
    "character_set_client",
    "character_set_connection",
)
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


def check_server(db: Database) -> None:
    """Make sure that the server is one that xwheel can work with, with what the session really has.

    Raises:
        DatabaseRefusedError: It is not; the message names what mends it.
    """
    with db.read() as conn:
        match db.backend:
            case "sqlite":
                problem = judge_sqlite(str(conn.execute(text("SELECT sqlite_version()")).scalar_one()))
            case "postgresql":
                facts = conn.execute(_POSTGRESQL).one()._asdict()
                problem = judge_postgresql(facts, db.most_connections)
            case _:
                problem = judge_mariadb(_ask_mariadb(conn), db.most_connections)
    if problem is not None:
        raise DatabaseRefusedError(f"the database at {place_of(db.engine.url)} cannot be used: {problem}")


def _ask_mariadb(conn: Connection) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = conn.execute(text(f"SHOW VARIABLES WHERE Variable_name IN ({names})"))
    facts = {str(name): str(value) for name, value in rows}
    facts["version"] = str(conn.execute(text("SELECT VERSION()")).scalar_one())
    if not is_mariadb(facts["version"]):
        logger.warning(
            "MySQL %s is not among the servers that xwheel is tested with; MariaDB is", facts["version"]
        )
    return facts


def judge_sqlite(version: str) -> str | None:
    """Return what is wrong with this SQLite, None if nothing is."""
    if _numbers(version) < LEAST_SQLITE:
        return f"SQLite {version} is too old: {_dotted(LEAST_SQLITE)} or newer is needed"
    return None


def judge_mariadb(facts: Mapping[str, str], connections: int) -> str | None:
    """Return what is wrong with a MariaDB or MySQL server, None if nothing is.

    Args:
        facts: Variables of the session; those that the server does not know are missing.
        connections: How many connections a node opens at most.
    """
    version = facts["version"].removeprefix("5.5.5-")
    name, least = ("MariaDB", LEAST_MARIADB) if is_mariadb(version) else ("MySQL", LEAST_MYSQL)
    closed = next((one for one in READ_ONLY if facts.get(one, "OFF") not in ("OFF", "0")), None)
    isolation = facts.get("transaction_isolation") or facts.get("tx_isolation", "unknown")
    logs = {facts.get(one, "OFF") for one in ("log_bin", "sql_log_bin")} <= {"ON", "1"}
    packet = int(facts.get("max_allowed_packet", LEAST_PACKET))
    charsets = {facts.get(one, "utf8mb4") for one in ("character_set_client", "character_set_connection")}
    found = (
        (
            _numbers(version) < least,
            f"{name} {version} is too old: {_dotted(least)} or newer is needed",
        ),
        (
            closed is not None,
            f"it is read-only ({closed} is on), as a replica is: name the primary, or turn that off",
        ),
        (
            isolation != "READ-COMMITTED",
            f"the session has {isolation} though READ COMMITTED was asked for: mend what overrides it",
        ),
        (
            logs and facts.get("binlog_format") == "STATEMENT",
            "it logs statements, which READ COMMITTED forbids: set binlog_format to MIXED or ROW",
        ),
        (
            charsets != {"utf8mb4"},
            f"the session speaks {', '.join(sorted(charsets))} and not utf8mb4: mend what overrides it",
        ),
        (
            packet < LEAST_PACKET,
            f"max_allowed_packet is {packet}: set it to {LEAST_PACKET} (16M) or more",
        ),
    )
    limits = ("max_connections", "max_user_connections")
    return _first(found) or _too_few({one: int(facts.get(one, 0)) for one in limits}, connections)


def is_mariadb(version: str) -> bool:
    """Tell MariaDB from MySQL."""
    return "mariadb" in version.lower()


def judge_postgresql(facts: Mapping[str, Any], connections: int) -> str | None:
    """Return what is wrong with a PostgreSQL server, None if nothing is.

    Args:
        facts: The columns of the question above.
        connections: How many connections a node opens at most.
    """
    user = facts["user_name"]
    found = (
        (
            facts["version"] < LEAST_POSTGRESQL,
            f"PostgreSQL {facts['version_name']} is too old: {LEAST_POSTGRESQL // 10_000} or newer is needed",
        ),
        (facts["in_recovery"], "it is a standby, which is read-only: name the primary, or promote it"),
        (
            facts["read_only"] != "off",
            "its transactions are read-only: set default_transaction_read_only to off (ALTER SYSTEM, DATABASE, ROLE)",
        ),
        (
            facts["isolation"] != "read committed",
            f"the session has {facts['isolation']} though READ COMMITTED was asked for: mend what overrides it",
        ),
        (
            facts["encoding"] != "UTF8",
            f"its encoding is {facts['encoding']}: CREATE DATABASE another ENCODING 'UTF8' TEMPLATE template0",
        ),
        (
            facts["schema"] is None,
            f"user {user} may use no schema of its search_path: GRANT USAGE ON SCHEMA public TO {user}",
        ),
    )
    limits = ("max_connections", "user_connections", "database_connections")
    return _first(found) or _too_few({one: facts[one] or 0 for one in limits}, connections)


def _first(found: Iterable[tuple[bool, str]]) -> str | None:
    return next((problem for is_so, problem in found if is_so), None)


def _too_few(limits: Mapping[str, int], connections: int) -> str | None:
    # where there is no limit, MariaDB says 0 and PostgreSQL -1
    return _first(
        (
            0 < limit < connections,
            f"{name} is {limit}, a node opens up to {connections} (twice database.pool_size): raise or lower one",
        )
        for name, limit in limits.items()
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


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
