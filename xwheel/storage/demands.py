"""What xwheel needs of a database server, looked at once at start."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, text

from xwheel.errors import DatabaseRefusedError
from xwheel.storage.address import place_of
from xwheel.storage.engine import Database

logger = logging.getLogger(__name__)

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
