"""URLs that cannot be used, drivers' errors in one line, and waiting for a server that starts up."""

from __future__ import annotations

import logging
import socket
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pymysql
import pytest
from sqlalchemy import URL, make_url, select
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from xwheel.errors import ConfigError, DatabaseRefusedError, DatabaseUnreachableError, XwheelError
from xwheel.storage.database import address, startup
from xwheel.storage.database.engine import Database
from xwheel.storage.database.errors import explain
from xwheel.storage.database.startup import LAST_PAUSE_S, reach

SECRET = "opensesame"
MARIADB = make_url(f"mysql+pymysql://ada:{SECRET}@db.example/shop-2")
POSTGRESQL = make_url(f"postgresql+psycopg://ada:{SECRET}@db.example/shop")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "is no URL"),
        ("", "is no URL"),
        (f"mysql+pymysql://ada:{SECRET}@h:port/x", "port must be a number"),
        (f"mysql+pymysql://ada:{SECRET}@h:70000/x", "port must be a number"),
        (f"mysql+pymysql://ada:p@{SECRET}@h/x", "write %40"),
        (f"mysql+pymysql://ada:p@q/{SECRET}@h/x", "write %40"),
        (f"mysql+pymysql://ada:p@{SECRET}..h/x", "can be no name"),
        (f"mysql+pymysql://ada:p@{'h' * 64}/x", "can be no name"),
        (f"mysql+pymysql://ada:{SECRET}@h/", "names no database"),
        (f"postgresql+psycopg://ada:{SECRET}@h", "names no database"),
        (f"mysql+pymysql://ada:{SECRET}@h/x?charset=latin1", "charset must be utf8mb4"),
        (f"oracle://ada:{SECRET}@h/x", "does not speak 'oracle'"),
        (f"mysql+aiomysql://ada:{SECRET}@h/x", "does not speak 'mysql+aiomysql'"),
        (f"postgresql+psycopg2://ada:{SECRET}@h/x", "postgresql+psycopg://USER"),
        ("sqlite://", "SQLite needs a file"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_secrets(url: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Database(url)
    line = str(caught.value)
    assert line.startswith("database.url: ")
    assert words in line
    assert SECRET not in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "drivername"),
    [
        ("mysql://ada@h/x", "mysql+pymysql"),
        ("mariadb://ada@h/x", "mysql+pymysql"),
        ("mariadb+pymysql://ada@h/x", "mysql+pymysql"),
        ("postgresql://ada@h/x", "postgresql+psycopg"),
        ("sqlite:///x.db", "sqlite+pysqlite"),
    ],
)
def test_a_url_without_a_driver_gets_the_one_that_is_tested(text: str, drivername: str) -> None:
    assert address.parse(text).drivername == drivername


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(address.MODULES, "postgresql", "xwheel_no_such_driver")
    with pytest.raises(ConfigError, match="the driver xwheel_no_such_driver cannot be loaded"):
        Database("postgresql+psycopg://ada@h/x")


def _mariadb(number: int, words: str, cause: Exception | None = None) -> DBAPIError:
    origin = pymysql.err.OperationalError(number, words)
    if cause is not None:
        origin.original_exception = cause  # type: ignore[attr-defined]
    return OperationalError(None, None, origin)


def _postgresql(words: str, state: str | None = None) -> DBAPIError:
    if state is None:
        prefix = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '
        return OperationalError(None, None, psycopg.OperationalError(prefix + words))
    return ProgrammingError(None, None, psycopg.errors.lookup(state)(words))


# what real servers answer in the tests of real servers is not repeated here
@pytest.mark.parametrize(
    ("error", "url", "kind", "words"),
    [
        (_mariadb(1820, "You must SET PASSWORD"), MARIADB, DatabaseRefusedError, "let us in: You must"),
        (_mariadb(1040, "Too many connections"), MARIADB, DatabaseUnreachableError, "no connection left"),
        (_mariadb(1053, "Server shutdown"), MARIADB, DatabaseUnreachableError, "not reachable now"),
        (
            _mariadb(2003, "x", TimeoutError()),
            MARIADB,
            DatabaseUnreachableError,
            "no answer from db.example:3306",
        ),
        (_mariadb(1665, "BINLOG_FORMAT"), MARIADB, DatabaseRefusedError, "set binlog_format to MIXED"),
        (
            _mariadb(1030, 'Got error 28 "No space left on device" from storage engine InnoDB'),
            MARIADB,
            DatabaseRefusedError,
            "disk of the database at db.example:3306 is full",
        ),
        (
            _mariadb(1049, "Unknown"),
            MARIADB,
            DatabaseRefusedError,
            "CREATE DATABASE `shop-2` CHARACTER SET utf8mb4",
        ),
        (_mariadb(1142, "INSERT denied"), MARIADB, DatabaseRefusedError, "UPDATE, DELETE ON `shop-2`.*"),
        (_mariadb(2013, f"odd {SECRET}\nthing"), MARIADB, DatabaseUnreachableError, "odd *** thing"),
        (
            _postgresql("FATAL:  the database system is starting up"),
            POSTGRESQL,
            DatabaseUnreachableError,
            "the database system is starting up",
        ),
        (
            _postgresql("FATAL:  sorry, too many clients already"),
            POSTGRESQL,
            DatabaseUnreachableError,
            "lower database.pool_size",
        ),
        (
            _postgresql('FATAL:  no pg_hba.conf entry for host "10.0.0.1"'),
            POSTGRESQL,
            DatabaseRefusedError,
            "does not let us in: no pg_hba.conf",
        ),
        (_postgresql("connection timeout expired"), POSTGRESQL, DatabaseUnreachableError, "no answer"),
        (_postgresql("FATAL:  das System hebt an"), POSTGRESQL, DatabaseUnreachableError, "hebt an"),
        (_postgresql("could not extend file", "53100"), POSTGRESQL, DatabaseRefusedError, "make room"),
        (
            _postgresql("denied for table job", "42501"),
            POSTGRESQL,
            DatabaseRefusedError,
            "must own the database",
        ),
        (_postgresql("terminating connection", "57P01"), POSTGRESQL, DatabaseUnreachableError, "terminating"),
        (_postgresql("cannot execute UPDATE", "25006"), POSTGRESQL, DatabaseRefusedError, "is read-only"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_becomes_one_line_that_helps(
    error: DBAPIError, url: URL, kind: type[XwheelError], words: str
) -> None:
    told = explain(error, url)
    assert type(told) is kind
    assert words in str(told)
    assert "\n" not in str(told)
    assert SECRET not in str(told)
    assert explain(error) is not None  # also where the URL is not at hand


def test_a_mistake_of_ours_is_not_explained_away() -> None:
    for origin in (
        psycopg.errors.SyntaxError("syntax error"),
        psycopg.errors.UndefinedTable("no such table"),
        pymysql.err.ProgrammingError(1064, "You have an error in your SQL syntax"),
        pymysql.err.OperationalError(1364, "Field 'x' doesn't have a default value"),
        sqlite3.OperationalError("no such table: x"),
    ):
        assert explain(ProgrammingError(None, None, origin), MARIADB) is None
        # unless nothing of ours was asked yet
        told = explain(ProgrammingError(None, None, origin), MARIADB, connecting=True)
        assert isinstance(told, DatabaseUnreachableError)
    assert explain(KeyError("x"), MARIADB) is None


def test_missing_packages_and_unknown_options_are_named() -> None:
    error = RuntimeError("'cryptography' package is required for sha256_password or caching_sha2_password")
    assert "install it" in str(explain(error, MARIADB))
    odd = Database("mysql+pymysql://ada@h/x?colour=red")
    with pytest.raises(ConfigError, match="no option 'colour'"):
        reach(odd)


@pytest.mark.parametrize(
    "form", ["mysql+pymysql://ada@127.0.0.1:{}/x", "postgresql+psycopg://ada@127.0.0.1:{}/x"]
)
def test_a_server_that_takes_connections_and_is_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(address, "CONNECT_TIMEOUT_S", 2)  # the least that libpq takes
    with socket.create_server(("127.0.0.1", 0)) as silent:
        db = Database(form.format(silent.getsockname()[1]))
        with pytest.raises(DatabaseUnreachableError, match="no answer from"):
            reach(db)


def test_only_the_greeting_has_a_time_limit(db: Database) -> None:
    with db.read() as conn:
        if db.backend == "mysql":
            driver = conn.connection.driver_connection
            assert driver is not None
            assert driver._read_timeout is None
        assert conn.execute(select(1)).scalar() == 1


class _Server:
    """A server that is away for some tries; pauses pass on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failures: Sequence[DBAPIError]) -> None:
        self.db = Database("mysql+pymysql://ada@db.example/x")
        self.now_s = 0.0
        self.pauses: list[float] = []
        self._failures = list(failures)
        monkeypatch.setattr(self.db.engine, "connect", self._connect)

    def _connect(self) -> _Server:
        if self._failures:
            raise self._failures.pop(0)
        return self

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, _: object) -> None:
        """Answer."""

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds

    def reach(self, wait_s: float) -> None:
        reach(self.db, wait_s, pause=self.pause, elapsed_s=lambda: self.now_s)


AWAY = _mariadb(2003, "away", ConnectionRefusedError())


def test_a_node_waits_with_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = _Server(monkeypatch, [AWAY] * 7)
    with caplog.at_level(logging.WARNING):
        server.reach(60)
    assert server.pauses == [0.5, 1, 2, 4, 8, LAST_PAUSE_S, LAST_PAUSE_S]
    assert len(caplog.records) == 7
    assert all("nothing listens at db.example:3306" in record.message for record in caplog.records)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, [AWAY] * 100)
    with pytest.raises(DatabaseUnreachableError, match="start the database server"):
        server.reach(5)
    assert sum(server.pauses) == 5
    with pytest.raises(DatabaseUnreachableError):
        server.reach(0)
    assert sum(server.pauses) == 5


def test_an_error_that_waiting_cannot_end_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, [AWAY, _mariadb(1045, "Access denied for user 'ada'"), AWAY])
    with pytest.raises(DatabaseRefusedError, match="does not know this user or password"):
        server.reach(60)
    assert len(server.pauses) == 1


@pytest.mark.parametrize("wait_s", [60, 0])
def test_a_server_that_goes_away_in_the_middle_of_a_start_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait_s: float
) -> None:
    failures = [DatabaseUnreachableError("server closed the connection unexpectedly")] * 3
    pauses: list[float] = []
    real = startup.check_server

    def check(db: Database) -> None:
        if failures:
            raise failures.pop()
        real(db)

    monkeypatch.setattr(startup, "check_server", check)
    monkeypatch.setattr(startup.time, "sleep", pauses.append)
    url = f"sqlite:///{tmp_path / 'xwheel.db'}"
    if not wait_s:
        with pytest.raises(DatabaseUnreachableError, match="closed the connection"):
            startup.open_ready(url, create=True)
        assert len(failures) == 2
        return
    startup.open_ready(url, create=True, wait_s=wait_s).close()
    assert pauses == [startup.FIRST_PAUSE_S] * 3
