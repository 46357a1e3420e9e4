"""What a server's own words about itself are judged to be."""

from __future__ import annotations

from typing import Any

import pytest

from xwheel.storage.database.requirements import judge_mariadb, judge_postgresql, judge_sqlite

MARIADB = {
    "version": "10.11.6-MariaDB-0+deb12u1",
    "tx_isolation": "READ-COMMITTED",
    "tx_read_only": "OFF",
    "read_only": "OFF",
    "log_bin": "ON",
    "sql_log_bin": "ON",
    "binlog_format": "MIXED",
    "max_connections": "151",
    "max_user_connections": "0",
    "max_allowed_packet": "16777216",
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
}
MYSQL = {
    **{name: value for name, value in MARIADB.items() if not name.startswith("tx_")},
    "version": "8.4.3",
    "transaction_isolation": "READ-COMMITTED",
    "transaction_read_only": "OFF",
    "super_read_only": "OFF",
}
POSTGRESQL = {
    "version": 150_005,
    "version_name": "15.5",
    "isolation": "read committed",
    "in_recovery": False,
    "read_only": "off",
    "encoding": "UTF8",
    "max_connections": 97,
    "user_connections": -1,
    "database_connections": -1,
    "schema": "public",
    "user_name": "ada",
}


def test_usual_servers_will_do() -> None:
    assert judge_mariadb(MARIADB, 16) is None
    assert judge_mariadb(MYSQL, 16) is None
    assert judge_mariadb({**MARIADB, "version": "5.5.5-10.6.12-MariaDB-log"}, 16) is None
    assert judge_postgresql(POSTGRESQL, 16) is None
    assert judge_postgresql({**POSTGRESQL, "user_connections": None}, 16) is None
    assert judge_sqlite("3.40.1") is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"version": "10.5.29-MariaDB"}, "10.5.29-MariaDB is too old: 10.6 or newer"),
        ({"read_only": "ON"}, "read-only (read_only is on)"),
        ({"tx_read_only": "1"}, "read-only (tx_read_only is on)"),
        ({"tx_isolation": "REPEATABLE-READ"}, "has REPEATABLE-READ though READ COMMITTED was asked for"),
        ({"binlog_format": "STATEMENT"}, "set binlog_format to MIXED or ROW"),
        ({"character_set_client": "latin1"}, "speaks latin1, utf8mb4"),
        ({"max_allowed_packet": "1048576"}, "max_allowed_packet is 1048576: set it to 16777216 (16M)"),
        ({"max_connections": "15"}, "max_connections is 15, a node opens up to 16"),
        ({"max_user_connections": "4"}, "max_user_connections is 4"),
    ],
)
def test_what_mariadb_lacks_is_named(facts: dict[str, str], words: str) -> None:
    assert words in str(judge_mariadb({**MARIADB, **facts}, 16))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"version": "5.7.44-log"}, "MySQL 5.7.44-log is too old: 8.0.17 or newer"),
        ({"super_read_only": "ON"}, "super_read_only is on"),
        ({"transaction_isolation": "SERIALIZABLE"}, "has SERIALIZABLE"),
    ],
)
def test_what_mysql_lacks_is_named(facts: dict[str, str], words: str) -> None:
    assert words in str(judge_mariadb({**MYSQL, **facts}, 16))


def test_statements_may_be_logged_where_nothing_is_logged() -> None:
    for off in ("log_bin", "sql_log_bin"):
        assert judge_mariadb({**MARIADB, "binlog_format": "STATEMENT", off: "OFF"}, 16) is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"version": 130_014, "version_name": "13.14"}, "PostgreSQL 13.14 is too old: 14 or newer"),
        ({"in_recovery": True, "read_only": "on"}, "it is a standby"),
        ({"read_only": "on"}, "set default_transaction_read_only to off"),
        ({"isolation": "serializable"}, "has serializable though READ COMMITTED was asked for"),
        ({"encoding": "SQL_ASCII"}, "its encoding is SQL_ASCII"),
        ({"schema": None}, "GRANT USAGE ON SCHEMA public TO ada"),
        ({"max_connections": 15}, "max_connections is 15"),
        ({"user_connections": 3}, "user_connections is 3"),
        ({"database_connections": 3}, "database_connections is 3"),
    ],
)
def test_what_postgresql_lacks_is_named(facts: dict[str, Any], words: str) -> None:
    assert words in str(judge_postgresql({**POSTGRESQL, **facts}, 16))


def test_an_old_sqlite_is_refused() -> None:
    assert "SQLite 3.34.1 is too old: 3.35 or newer" in str(judge_sqlite("3.34.1"))
