"""Servers that refuse, lack something or are not there, as the command line tells of them: one line, no password."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url, text

from tests.support import databases, servers
from tests.support.odd_server import PASSWORD, OddServer
from tests.support.ports import free_port
from tests.support.refusals import COMMANDS, Refusals
from xwheel.cli import main
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import MARIADB_COLLATION

EVERY_COMMAND = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
REFUSED, UNREACHABLE = main.EXIT_REFUSED, main.EXIT_UNREACHABLE


@pytest.fixture(scope="module")
def mariadb() -> Iterator[OddServer]:
    with servers.mariadb(options=("--log-bin=log", "--server-id=1", "--binlog-format=ROW")) as base:
        server = OddServer(base, "mysql")
        server.do("CREATE DATABASE ready", "CREATE DATABASE bare")
        _upgrade(server.at("ready"))
        yield server


@pytest.fixture(scope="module")
def postgresql() -> Iterator[OddServer]:
    with servers.postgresql() as base:
        server = OddServer(base, "postgres")
        server.do("CREATE DATABASE ready", "CREATE DATABASE bare")
        _upgrade(server.at("ready"))
        yield server


def _upgrade(url: str) -> None:
    db = Database(url)
    databases.upgrade(db)
    db.close()


@pytest.fixture(params=["mariadb", "postgresql"])
def server(request: pytest.FixtureRequest) -> OddServer:
    found: OddServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def xwheel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusals:
    return Refusals(monkeypatch, capsys)


@EVERY_COMMAND
def test_a_wrong_password_is_told(xwheel: Refusals, server: OddServer, command: tuple[str, ...]) -> None:
    url = server.at("ready", password="opensesame")
    line = xwheel.line(REFUSED, *command, database=url, secret="opensesame")
    assert f"127.0.0.1:{server.url.port} does not know this user or password" in line
    assert "xwheel" in line


@EVERY_COMMAND
def test_an_unknown_database_comes_with_its_statement(
    xwheel: Refusals, server: OddServer, command: tuple[str, ...]
) -> None:
    line = xwheel.line(REFUSED, *command, database=server.at("my shop"), secret=servers.PASSWORD)
    found = re.search(r"does not exist at 127\.0\.0\.1:\d+: (CREATE DATABASE .*)", line)
    assert found is not None, line
    assert ("utf8mb4" in found[1]) or ("UTF8" in found[1])
    if command == ("db", "upgrade"):  # the statement is good as it stands
        server.do(found[1])
        xwheel.passes("db", "upgrade", database=server.at("my shop"))
        mark = '"' if server.url.get_backend_name() == "postgresql" else "`"
        server.do(f"DROP DATABASE {mark}my shop{mark}")


@EVERY_COMMAND
def test_a_closed_port_may_become_better(xwheel: Refusals, server: OddServer, command: tuple[str, ...]) -> None:
    port = free_port()
    url = make_url(server.at("ready")).set(port=port).render_as_string(hide_password=False)
    line = xwheel.line(UNREACHABLE, *command, database=url, secret=servers.PASSWORD)
    assert f"nothing listens at 127.0.0.1:{port}: start the database server" in line


def test_a_name_that_does_not_resolve_may_become_better(xwheel: Refusals, server: OddServer) -> None:
    url = make_url(server.at("ready")).set(host="nowhere.invalid").render_as_string(hide_password=False)
    line = xwheel.line(UNREACHABLE, "server", database=url, secret=servers.PASSWORD)
    assert "the name nowhere.invalid does not resolve" in line


def test_an_unknown_user_is_told(xwheel: Refusals, server: OddServer) -> None:
    line = xwheel.line(REFUSED, "server", database=server.at("ready", user="nobody"), secret=PASSWORD)
    assert "does not know this user or password" in line
    assert "nobody" in line


def test_another_kind_of_server_is_told(xwheel: Refusals, mariadb: OddServer) -> None:
    url = mariadb.at("ready").replace("mysql+pymysql", "postgresql+psycopg")
    assert "does not let us in" in xwheel.line(REFUSED, "server", database=url, secret=servers.PASSWORD)


def test_an_empty_database_asks_for_an_upgrade(xwheel: Refusals, server: OddServer) -> None:
    for command in (("server",), ("db", "check"), ("token", "list")):
        assert "run 'xwheel db upgrade'" in xwheel.line(main.EXIT_SCHEMA, *command, database=server.at("bare"))


# rights


def _mariadb_user(server: OddServer, name: str, *grants: str) -> None:
    server.do(
        f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
        *[f"GRANT {grant} TO {name}@'127.0.0.1'" for grant in grants],
    )


def test_rights_that_a_node_lacks_on_mariadb_are_named_and_the_grant_is_good(
    xwheel: Refusals, mariadb: OddServer
) -> None:
    _mariadb_user(mariadb, "reader", "SELECT ON ready.*")
    url = mariadb.at("ready", user="reader")
    for command in (("server",), ("db", "check"), ("token", "create", "ops")):
        line = xwheel.line(REFUSED, *command, database=url, secret=PASSWORD)
        assert "user reader@127.0.0.1 at" in line
        assert re.search(r"lacks INSERT, UPDATE, DELETE on \w+, \w+, \w+ and \d+ more: GRANT", line), line
    mariadb.do(line.rpartition(": ")[2])
    assert "as needed" in xwheel.passes("db", "check", database=url)


def test_a_user_without_any_right_is_told(xwheel: Refusals, mariadb: OddServer) -> None:
    _mariadb_user(mariadb, "guest")
    line = xwheel.line(REFUSED, "server", database=mariadb.at("ready", user="guest"), secret=PASSWORD)
    assert "Access denied for user 'guest'@'127.0.0.1' to database 'ready'" in line
    assert "GRANT SELECT, INSERT, UPDATE, DELETE ON ready.*" in line


def test_an_upgrade_without_all_rights_changes_nothing_on_mariadb(xwheel: Refusals, mariadb: OddServer) -> None:
    _mariadb_user(mariadb, "writer", "SELECT, INSERT, UPDATE, DELETE ON bare.*")
    _mariadb_user(mariadb, "maker", "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP ON bare.*")
    url = mariadb.at("bare", user="writer")
    assert "lacks CREATE on bare: GRANT ALL" in xwheel.line(REFUSED, "db", "upgrade", database=url, secret=PASSWORD)
    url = mariadb.at("bare", user="maker")
    line = xwheel.line(REFUSED, "db", "upgrade", database=url, secret=PASSWORD)
    assert "lacks INDEX, ALTER on bare: GRANT ALL PRIVILEGES ON `bare`.* TO 'maker'@'127.0.0.1'" in line
    db = Database(mariadb.at("bare"))
    with db.read() as conn:
        assert conn.execute(text("SHOW TABLES")).all() == []
    db.close()


def test_an_upgrade_is_not_stopped_by_the_look_of_another_one(xwheel: Refusals, mariadb: OddServer) -> None:
    mariadb.do("CREATE DATABASE shared", "CREATE TABLE shared.xwheel_probe_0123456789ab (id INTEGER)")
    assert xwheel.passes("db", "upgrade", database=mariadb.at("shared")).startswith("schema: empty -> ")


def test_rights_that_a_node_lacks_on_postgresql_are_named_and_the_grants_are_good(
    xwheel: Refusals, postgresql: OddServer
) -> None:
    postgresql.do(f"CREATE ROLE \"the node\" LOGIN PASSWORD '{PASSWORD}'")
    postgresql.do('GRANT SELECT ON ALL TABLES IN SCHEMA public TO "the node"', database="ready")
    url = postgresql.at("ready", user="the node")
    for command in (("server",), ("db", "check"), ("token", "create", "ops")):
        line = xwheel.line(REFUSED, *command, database=url, secret=PASSWORD)
        assert 'user "the node" at' in line
        assert "lacks INSERT, UPDATE, DELETE, USAGE on " in line
    postgresql.do(*line.rpartition(": ")[2].split("; "), database="ready")
    assert "as needed" in xwheel.passes("db", "check", database=url)
    assert "ops" in xwheel.passes("token", "create", "ops", database=url)


def test_an_upgrade_without_rights_changes_nothing_on_postgresql(xwheel: Refusals, postgresql: OddServer) -> None:
    postgresql.do(f"CREATE ROLE writer LOGIN PASSWORD '{PASSWORD}'")
    url = postgresql.at("bare", user="writer")
    line = xwheel.line(REFUSED, "db", "upgrade", database=url, secret=PASSWORD)
    assert "permission denied for schema public" in line
    assert "must own the database" in line
    with postgresql.changed("REVOKE CONNECT ON DATABASE bare FROM PUBLIC", "GRANT CONNECT ON DATABASE bare TO PUBLIC"):
        line = xwheel.line(REFUSED, "server", database=url, secret=PASSWORD)
        assert 'permission denied for database "bare"' in line


def test_a_schema_that_may_not_be_used_is_told(xwheel: Refusals, postgresql: OddServer) -> None:
    postgresql.do(f"CREATE ROLE stranger LOGIN PASSWORD '{PASSWORD}'", "CREATE DATABASE closed")
    postgresql.do("REVOKE USAGE ON SCHEMA public FROM PUBLIC", database="closed")
    line = xwheel.line(REFUSED, "server", database=postgresql.at("closed", user="stranger"), secret=PASSWORD)
    assert "GRANT USAGE ON SCHEMA public TO stranger" in line


# settings


@pytest.mark.parametrize(
    ("change", "back", "words"),
    [
        ("read_only = ON", "read_only = OFF", "read-only (read_only is on), as a replica is: name the primary"),
        ("tx_read_only = ON", "tx_read_only = OFF", "read-only (tx_read_only is on)"),
        ("binlog_format = STATEMENT", "binlog_format = ROW", "set binlog_format to MIXED or ROW"),
        (
            "max_allowed_packet = 1048576",
            "max_allowed_packet = 16777216",
            "max_allowed_packet is 1048576: set it to 16777216 (16M) or more",
        ),
        ("max_connections = 12", "max_connections = 151", "max_connections is 12, a node opens up to 17"),
    ],
    ids=lambda value: value.partition(" ")[0],
)
def test_settings_of_mariadb_that_cannot_be_are_named(
    xwheel: Refusals, mariadb: OddServer, change: str, back: str, words: str
) -> None:
    with mariadb.changed(f"SET GLOBAL {change}", f"SET GLOBAL {back}"):
        for command in (("server",), ("db", "upgrade"), ("db", "check"), ("token", "list")):
            assert words in xwheel.line(REFUSED, *command, database=mariadb.at("ready"))
    xwheel.passes("db", "check", database=mariadb.at("ready"))


@pytest.mark.parametrize(
    ("change", "back", "words"),
    [
        (
            "SET default_transaction_read_only = on",
            "RESET default_transaction_read_only",
            "set default_transaction_read_only to off",
        ),
        ("CONNECTION LIMIT 3", "CONNECTION LIMIT -1", "database_connections is 3, a node opens up to 17"),
    ],
    ids=["read_only", "connections"],
)
def test_settings_of_postgresql_that_cannot_be_are_named(
    xwheel: Refusals, postgresql: OddServer, change: str, back: str, words: str
) -> None:
    with postgresql.changed(f"ALTER DATABASE ready {change}", f"ALTER DATABASE ready {back}"):
        for command in (("server",), ("db", "upgrade"), ("db", "check"), ("token", "list")):
            assert words in xwheel.line(REFUSED, *command, database=postgresql.at("ready"))
    xwheel.passes("db", "check", database=postgresql.at("ready"))


def test_a_standby_is_told(xwheel: Refusals) -> None:
    with servers.postgresql(standby=True) as base:
        line = xwheel.line(REFUSED, "server", database=f"{base}postgres", secret=servers.PASSWORD)
    assert "it is a standby, which is read-only: name the primary, or promote it" in line


def test_another_encoding_is_told(xwheel: Refusals, postgresql: OddServer) -> None:
    postgresql.do("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    line = xwheel.line(REFUSED, "db", "upgrade", database=postgresql.at("ascii"))
    assert "its encoding is SQL_ASCII" in line


def test_too_many_connections_may_become_better(xwheel: Refusals, mariadb: OddServer, postgresql: OddServer) -> None:
    _mariadb_user(mariadb, "single", "ALL ON ready.*")
    mariadb.do("ALTER USER single@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1")
    postgresql.do(f"CREATE ROLE single LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 1")
    for server in (mariadb, postgresql):
        url = server.at("ready", user="single")
        other = Database(url, pool_size=1)
        with other.read() as conn:
            conn.execute(text("SELECT 1"))
            line = xwheel.line(UNREACHABLE, "server", database=url, secret=PASSWORD)
        other.close()
        assert "has no connection left" in line
        assert "database.pool_size" in line


# strange servers that will do


def test_mariadb_may_have_strange_defaults(xwheel: Refusals, mariadb: OddServer) -> None:
    mariadb.do("CREATE DATABASE strange CHARACTER SET latin1 COLLATE latin1_swedish_ci")
    changes = {
        "tx_isolation": ("'SERIALIZABLE'", "'REPEATABLE-READ'"),
        "sql_mode": ("'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'", "DEFAULT"),
        "default_storage_engine": ("MyISAM", "InnoDB"),
        "character_set_server": ("latin1", "utf8mb4"),
    }
    with mariadb.changed(
        "; ".join(f"SET GLOBAL {name} = {new}" for name, (new, _) in changes.items()),
        "; ".join(f"SET GLOBAL {name} = {old}" for name, (_, old) in changes.items()),
    ):
        url = mariadb.at("strange")
        assert xwheel.passes("db", "upgrade", database=url).startswith("schema: empty -> ")
        assert "as needed" in xwheel.passes("db", "check", database=url)
        _check_names(url)
        db = Database(url)
        with db.read() as conn:
            found = conn.execute(text("SELECT @@tx_isolation, @@sql_mode LIKE 'STRICT%'")).one()
            assert tuple(found) == ("READ-COMMITTED", 1)
        db.close()


def test_ids_have_no_gaps_on_a_mariadb_that_would_leave_some(mariadb: OddServer) -> None:
    """R23: of a Galera cluster of four, ids rise by four, and three quarters of the partitions would stay empty."""
    _mariadb_user(mariadb, "counting", "ALL ON bare.*")
    change = "SET GLOBAL auto_increment_increment = {}; SET GLOBAL auto_increment_offset = {}"
    with mariadb.changed(change.format(4, 3), change.format(1, 1)):
        db = Database(mariadb.at("bare", user="counting"))
        with db.write() as conn:
            conn.execute(text("CREATE TEMPORARY TABLE counted (id INTEGER AUTO_INCREMENT PRIMARY KEY)"))
            ids = [conn.execute(text("INSERT INTO counted VALUES ()")).lastrowid for _ in range(3)]
        db.close()
    assert ids == [1, 2, 3]


def test_postgresql_may_have_a_strange_locale_and_isolation(xwheel: Refusals, postgresql: OddServer) -> None:
    postgresql.do(
        "CREATE DATABASE strange LOCALE_PROVIDER icu ICU_LOCALE 'de-DE' ENCODING 'UTF8' TEMPLATE template0",
        "ALTER DATABASE strange SET default_transaction_isolation = 'serializable'",
    )
    url = postgresql.at("strange")
    assert xwheel.passes("db", "upgrade", database=url).startswith("schema: empty -> ")
    assert "as needed" in xwheel.passes("db", "check", database=url)
    _check_names(url)
    db = Database(url)
    with db.write() as conn:
        assert conn.execute(text("SHOW transaction_isolation")).scalar() == "read committed"
    db.close()


def _check_names(url: str) -> None:
    """Show that names are compared by their characters, in whatever database."""
    names = ["B", "a", "b", "b ", "ä", "😀"]
    db = Database(url)
    with db.write() as conn:
        for name in names:
            conn.execute(
                text("INSERT INTO calendar (name, definition, updated_ms) VALUES (:name, '😀\\\\', 1)"), {"name": name}
            )
        found = conn.execute(text("SELECT name FROM calendar ORDER BY name")).scalars().all()
    db.close()
    assert found == names


def test_tables_that_were_made_over_are_refused_with_what_mends_them(xwheel: Refusals, mariadb: OddServer) -> None:
    url = mariadb.at("ready")
    for change, words in (
        ("ENGINE = MyISAM", "the table calendar at"),
        ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "has the collation utf8mb4_general_ci"),
    ):
        mariadb.do(f"ALTER TABLE calendar {change}", database="ready")
        line = xwheel.line(REFUSED, "server", database=url)
        assert words in line
        mariadb.do("ALTER" + line.partition("ALTER")[2], database="ready")
        xwheel.passes("db", "check", database=url)
    assert MARIADB_COLLATION in line
