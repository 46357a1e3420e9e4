"""URLs that cannot be used, drivers' errors in one line, and waiting for a server that starts up."""

from __future__ import annotations

import logging
import socket
import sqlite3
from collections.abc import Sequence

import psycopg
import pymysql
import pytest
from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from xwheel.errors import (
    ConfigError,
    DatabaseReadOnlyError,
    DatabaseRefusedError,
    DatabaseUnreachableError,
    StartEndedError,
    XwheelError,
)
from xwheel.storage.database import address, outage
from xwheel.storage.database.engine import Database, RaceLostError
from xwheel.storage.database.errors import explain
from xwheel.storage.database.startup import LAST_PAUSE_S, DatabaseStart, reach

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
        *((f"sqlite:////tmp/a?{rest}", "may hold no ?") for rest in ("b.db", "", "b=1", "timeout=5&b.db", "?x", "=")),
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
        (_mariadb(2003, "x", TimeoutError()), MARIADB, DatabaseUnreachableError, "no answer from db.example:3306"),
        (_mariadb(1665, "BINLOG_FORMAT"), MARIADB, DatabaseRefusedError, "set binlog_format to MIXED"),
        (
            _mariadb(1030, 'Got error 28 "No space left on device" from storage engine InnoDB'),
            MARIADB,
            DatabaseRefusedError,
            "disk of the database at db.example:3306 is full",
        ),
        (_mariadb(1049, "Unknown"), MARIADB, DatabaseRefusedError, "CREATE DATABASE `shop-2` CHARACTER SET utf8mb4"),
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
        (_postgresql("denied for table job", "42501"), POSTGRESQL, DatabaseRefusedError, "must own the database"),
        (_postgresql("terminating connection", "57P01"), POSTGRESQL, DatabaseUnreachableError, "terminating"),
        (
            _postgresql("transaction blocks not allowed in statement pooling mode", "08P01"),
            POSTGRESQL,
            DatabaseRefusedError,
            "let us in: transaction",
        ),
        (_postgresql("cannot execute UPDATE", "25006"), POSTGRESQL, DatabaseReadOnlyError, "is read-only"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_becomes_one_line_that_helps(error: DBAPIError, url: URL, kind: type[XwheelError], words: str) -> None:
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


@pytest.mark.parametrize(
    ("error", "phase", "kind"),
    [
        (_mariadb(2013, "Lost connection"), outage.Phase.WORK, outage.ConnectionLostError),
        (_mariadb(2013, "Lost connection"), outage.Phase.COMMIT, outage.CommitUnknownError),
        (_postgresql("terminating connection", "57P01"), outage.Phase.COMMIT, outage.CommitUnknownError),
        # it was refused, and so not done
        (_mariadb(1290, "--read-only"), outage.Phase.COMMIT, DatabaseReadOnlyError),
        (_postgresql("cannot execute UPDATE", "25006"), outage.Phase.COMMIT, DatabaseReadOnlyError),
    ],
    ids=lambda value: value.name if isinstance(value, outage.Phase) else "",
)
def test_only_a_connection_that_breaks_at_commit_leaves_it_unknown(
    error: DBAPIError, phase: outage.Phase, kind: type[XwheelError]
) -> None:
    error.connection_invalidated = True
    assert type(outage.translate(error, phase, MARIADB, write=True)) is kind


def test_a_lost_race_for_a_lock_is_worth_another_try() -> None:
    for error in (
        _mariadb(1205, "Lock wait timeout exceeded"),
        _mariadb(1213, "Deadlock found"),
        *(_postgresql("x", state) for state in ("40001", "40P01", "55P03")),
    ):
        assert outage.is_retryable(error)
        assert outage.translate(error, outage.Phase.WORK, MARIADB, write=True) is None
        # a reader waits for no row, so it waited for its server: an outage like others
        told = outage.translate(error, outage.Phase.WORK, MARIADB, write=False)
        assert type(told) is DatabaseUnreachableError
    assert not outage.is_retryable(_mariadb(1062, "Duplicate entry"))


def test_missing_packages_and_unknown_options_are_named() -> None:
    error = RuntimeError("'cryptography' package is required for sha256_password or caching_sha2_password")
    assert "install it" in str(explain(error, MARIADB))
    odd = Database("mysql+pymysql://ada@h/x?colour=red")
    with pytest.raises(ConfigError, match="no option 'colour'"):
        reach(odd)


@pytest.mark.parametrize("form", ["mysql+pymysql://ada@127.0.0.1:{}/x", "postgresql+psycopg://ada@127.0.0.1:{}/x"])
def test_a_server_that_takes_connections_and_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(address, "CONNECT_TIMEOUT_S", 2)  # the least that libpq takes
    with socket.create_server(("127.0.0.1", 0)) as silent:
        db = Database(form.format(silent.getsockname()[1]))
        with pytest.raises(DatabaseUnreachableError, match="no answer from"):
            reach(db)


class _Server:
    """A server that is away for some tries; pauses pass on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failures: Sequence[DBAPIError]) -> None:
        self.db = Database("mysql+pymysql://ada@db.example/x")
        self.now_s = 0.0
        self.pauses: list[float] = []
        self._failures = list(failures)
        monkeypatch.setattr(self.db.engine, "connect", self._connect)
        # what it asks a server that is there
        monkeypatch.setattr(DatabaseStart, "_check", lambda start: reach(start.db))

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

    def start(self, wait_s: float) -> DatabaseStart:
        return DatabaseStart(self.db, wait_s=wait_s, pause=self.pause, elapsed_s=lambda: self.now_s)


AWAY = _mariadb(2003, "away", ConnectionRefusedError())


def test_a_node_waits_with_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = _Server(monkeypatch, [AWAY] * 7)
    with caplog.at_level(logging.WARNING):
        server.start(60)
    assert server.pauses == [0.5, 1, 2, 4, 8, LAST_PAUSE_S, LAST_PAUSE_S]
    assert len(caplog.records) == 7
    assert all("nothing listens at db.example:3306" in record.message for record in caplog.records)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, [AWAY] * 100)
    with pytest.raises(
        DatabaseUnreachableError, match=r"start the database server.*waited 5 s for it \(database\.wait_s\)"
    ):
        server.start(5)
    assert sum(server.pauses) == 5
    with pytest.raises(DatabaseUnreachableError):
        server.start(0)
    assert sum(server.pauses) == 5


def test_an_error_that_waiting_cannot_end_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, [AWAY, _mariadb(1045, "Access denied for user 'ada'"), AWAY])
    with pytest.raises(DatabaseRefusedError, match="does not know this user or password"):
        server.start(60)
    assert len(server.pauses) == 1


def test_a_part_is_done_again_after_another_look_at_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, [])
    start = server.start(60)
    looks: list[object] = []
    monkeypatch.setattr(DatabaseStart, "_check", lambda start: looks.append(start))  # noqa: PLW0108 - becomes a method
    failures: list[Exception] = [
        DatabaseUnreachableError("gone"),
        DatabaseReadOnlyError("a standby"),
        RaceLostError("locked"),
        AWAY,
    ]

    def part() -> str:
        if failures:
            raise failures.pop(0)
        return "done"

    assert start.run(part) == "done"
    assert server.pauses == [0.5, 1, 2, 4]
    assert looks == [start] * 4


def test_the_time_to_wait_begins_with_each_failure_and_not_with_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that takes long while its database is there is not given up; each outage has the whole time."""
    server = _Server(monkeypatch, [])
    start = server.start(10)

    def part(failures: list[Exception]) -> None:
        server.now_s += 1000
        if failures:
            server.now_s -= 1000
            raise failures.pop()

    for _ in range(3):
        start.run(lambda: part([]))
        failures: list[Exception] = [DatabaseUnreachableError("gone")] * 4
        start.run(lambda failures=failures: part(failures))  # type: ignore[misc]
    assert server.pauses == [0.5, 1, 2, 4] * 3


@pytest.mark.parametrize("error", [DatabaseRefusedError("no right"), ConfigError("a port"), KeyError("x")])
def test_what_waiting_does_not_help_ends_a_part_at_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    server = _Server(monkeypatch, [])
    start = server.start(60)

    def part() -> None:
        raise error

    with pytest.raises(type(error)):
        start.run(part)
    assert server.pauses == []


def test_a_start_whose_process_is_to_end_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Server(monkeypatch, [AWAY] * 2)
    with pytest.raises(StartEndedError):
        DatabaseStart(server.db, wait_s=60, pause=lambda _: True)
