"""A database that is away, silent, cut off, locked or full: an error in bounded time, and no lost line."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

import pytest
from conftest import BACKENDS, Make, Server, read_log
from proxy import Proxy
from sqlalchemy import create_engine, event, make_url, text
from tests.support import servers
from tests.support.small_disk import fill
from xwheel_devtools.testing import sample_log_chunk, sample_log_key, wait_until
from xwheel_run_logs import LogKey

from xwheel_log_sql.connections import LogSqlError
from xwheel_log_sql.store import SqlLogs

DISK_MB = {"mariadb": 160, "postgresql": 100}
BATCHES = 4000
"""Of 50 kB each: more than the disk has."""

PATIENCE_S = 60
"""Ends a test whose call never comes back; the calls' own limits are a few seconds."""


def failure_of(call: Callable[[], object]) -> str:
    """Return how a call fails; it must come back, and say no secret."""
    found: list[object] = []

    def go() -> None:
        try:
            found.append(call())
        except LogSqlError as error:
            found.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the call waits for ever"
    (failure,) = found
    assert isinstance(failure, LogSqlError), failure
    assert servers.PASSWORD not in str(failure)
    return str(failure)


def through(proxy: Proxy, url: str) -> str:
    return make_url(url).set(port=proxy.port).render_as_string(hide_password=False)


def test_nothing_listens(server: Server, make: Make, unused_port: int) -> None:
    url = make_url(server.new_url()).set(port=unused_port)
    store = make(url.render_as_string(hide_password=False))
    said = failure_of(lambda: store.append([sample_log_chunk(sample_log_key(), 1, ["the secret of a line"])]))
    assert f"at 127.0.0.1:{unused_port}/" in said
    assert "refused" in said
    assert "the secret of a line" not in said


def test_a_wrong_password_is_told_and_not_shown(server: Server, make: Make) -> None:
    url = make_url(server.new_url()).set(password="wr0ng-canary")
    with pytest.raises(LogSqlError, match=r"(?i)access denied|authentication failed") as caught:
        make(url.render_as_string(hide_password=False)).find(sample_log_key())
    assert "canary" not in str(caught.value)


def test_a_server_that_never_greets(server: Server, make: Make) -> None:
    with Proxy(server.port) as proxy:
        proxy.is_frozen = True
        store = make(through(proxy, server.new_url()), connect_timeout_s=2, timeout_s=3)
        assert re.search("time.?out|timed out|no answer within 3 s", failure_of(lambda: store.find(sample_log_key())))


def test_a_server_that_hangs_later(server: Server, make: Make) -> None:
    """The call ends when its time is over; what it may have kept is found out by the next one."""
    key = sample_log_key()
    with Proxy(server.port) as proxy:
        store = make(through(proxy, server.new_url()), connect_timeout_s=10, timeout_s=4)
        assert store.append([sample_log_chunk(key, 1, ["first"])]) == [2]
        proxy.is_frozen = True
        for call in (
            lambda: store.append([sample_log_chunk(key, 2, ["second"])]),
            lambda: store.read(key, 1, 100),
            lambda: store.find(key),
            lambda: store.delete([key]),
        ):
            assert "no answer within 4 s" in failure_of(call)
        proxy.is_frozen = False
        proxy.cut()
        assert store.append([sample_log_chunk(key, 2, ["second"])]) == [3]
        assert read_log(store, key) == "first\nsecond\n"


def test_connections_that_were_cut_are_replaced(server: Server, make: Make) -> None:
    key = sample_log_key()
    with Proxy(server.port) as proxy:
        store = make(through(proxy, server.new_url()))
        for line in range(1, 6):
            assert store.append([sample_log_chunk(key, line, ["x"])]) == [line + 1]
            proxy.cut()
        assert read_log(store, key) == "x\n" * 5


def test_a_log_that_somebody_locks(server: Server, make: Make) -> None:
    url, key = server.new_url(), sample_log_key()
    store = make(url, timeout_s=4)
    store.append([sample_log_chunk(key, 1, ["first"])])
    engine = create_engine(url)
    with engine.connect() as conn, conn.begin():
        conn.execute(text("SELECT next_line FROM xwheel_log FOR UPDATE"))
        assert "no answer within 4 s" in failure_of(lambda: store.append([sample_log_chunk(key, 2, ["second"])]))
        assert store.read(key, 1, 100) == "first\n"  # reading waits for no writer
    engine.dispose()
    assert store.append([sample_log_chunk(key, 2, ["second"])]) == [3]


def test_a_deadlock_is_repeated(server: Server, make: Make) -> None:
    url = server.new_url()
    # PostgreSQL gives up the transaction that looks for a deadlock first: it is to be the store's, once there is one
    is_by_time = make_url(url).get_backend_name() == "postgresql"
    if is_by_time:
        server.administer(f"ALTER DATABASE {make_url(url).database} SET deadlock_timeout = '3s'")
    store = make(url, timeout_s=30)
    first, second = sample_log_key(1), sample_log_key(2)
    store.append([sample_log_chunk(key, 1, ["first"]) for key in (first, second)])
    answers: list[int] = []
    chunks = [sample_log_chunk(key, 2, ["second"]) for key in (first, second)]
    engine = create_engine(url)
    lock = text("SELECT next_line FROM xwheel_log WHERE run_id = :id FOR UPDATE")
    with engine.connect() as conn:
        if is_by_time:
            conn.execute(text("SET deadlock_timeout = '1min'"))
        # MariaDB gives up the one with less work
        conn.execute(text("CREATE TABLE work (id INTEGER)"))
        conn.commit()
        conn.execute(text("INSERT INTO work VALUES (:id)"), [{"id": number} for number in range(1000)])
        conn.execute(lock, {"id": second.run_id})
        thread = threading.Thread(target=lambda: answers.extend(store.append(chunks)))
        thread.start()
        wait_until(server.waits_for_a_lock)  # it has the first log now and waits for the second one
        conn.execute(lock, {"id": first.run_id})
        conn.commit()
    thread.join(60)
    engine.dispose()
    assert answers == [3, 3]
    assert [read_log(store, key) for key in (first, second)] == ["first\nsecond\n"] * 2


def _append_more_than_fits(store: SqlLogs, kept: list[LogKey]) -> None:
    for _ in range(BATCHES):
        # short ones: MariaDB itself aborts when it takes back a long text without room
        keys = [sample_log_key(number) for number in range(1, 101)]
        store.append([sample_log_chunk(key, 1, [os.urandom(250).hex()]) for key in keys])
        kept += keys


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_a_full_disk(backend: str, make: Make) -> None:
    if not servers.is_installed(backend) and not os.environ.get("REQUIRE_SERVERS"):
        pytest.skip(f"no {backend} here")
    run, admin = BACKENDS[backend]
    with run(disk_mb=DISK_MB[backend]) as base:
        server = Server(base, admin)
        store, key = make(server.new_url()), sample_log_key()
        assert store.append([sample_log_chunk(key, 1, ["first"])]) == [2]
        filler = servers.disk(server.port) / "filler"
        fill(filler)
        kept: list[LogKey] = []
        said = failure_of(lambda: _append_more_than_fits(store, kept))
        assert re.search("no space left|disk.*full|is full", said, re.IGNORECASE)
        assert "INSERT" not in said
        filler.unlink()
        # what was answered is there, and logs go on
        assert store.append([sample_log_chunk(each, 2, ["second"]) for each in [key, *kept][-500:]])[-1] == 3
        assert all(store.find(each) is not None for each in kept[-50:])
        assert store.append([sample_log_chunk(key, 2, ["second"])]) == [3]
        assert read_log(store, key) == "first\nsecond\n"
        store.close()
        server.close()


def test_an_sqlite_file_that_somebody_locks(tmp_path: Path, make: Make) -> None:
    url, key = f"sqlite:///{tmp_path}/logs.db", sample_log_key()
    store = make(url, timeout_s=4)
    store.append([sample_log_chunk(key, 1, ["first"])])
    with store._connections._get_engine().connect() as conn:
        assert conn.exec_driver_sql("PRAGMA busy_timeout").scalar() == 2000
    with closing(sqlite3.connect(tmp_path / "logs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        said = failure_of(lambda: store.append([sample_log_chunk(key, 2, ["second"])]))
        assert re.search("no answer within 4 s|is locked", said)
        assert store.read(key, 1, 100) == "first\n"
    assert store.append([sample_log_chunk(key, 2, ["second"])]) == [3]


def test_an_sqlite_file_without_room(tmp_path: Path, make: Make) -> None:
    store, key = make(f"sqlite:///{tmp_path}/logs.db"), sample_log_key()
    store.append([sample_log_chunk(key, 1, ["first"])])
    with closing(sqlite3.connect(tmp_path / "logs.db")) as other:
        (pages,) = other.execute("PRAGMA page_count").fetchone()
    event.listen(
        store._connections._get_engine(), "begin", lambda conn: conn.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    )
    with pytest.raises(LogSqlError, match="database or disk is full"):
        store.append([sample_log_chunk(key, 2, [os.urandom(60_000).hex()])])
    assert read_log(store, key) == "first\n"


def test_a_damaged_row_is_told(url: str, make: Make) -> None:
    store, key = make(url), sample_log_key()
    store.append([sample_log_chunk(key, 1, ["first"])])
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text("UPDATE xwheel_log SET tail = :tail"), {"tail": b"no zlib"})
    engine.dispose()
    with pytest.raises(ValueError, match="cannot be decompressed"):
        store.read(key, 1, 100)


def _append_in_child(store: SqlLogs, run_id: int, created_ms: int, said: Queue[object]) -> None:
    key = LogKey(run_id, created_ms)
    said.put((store.append([sample_log_chunk(key, 2, ["child"])]), os.getpid()))


def test_a_forked_process_opens_connections_of_its_own(url: str, make: Make) -> None:
    store, key = make(url), sample_log_key()
    store.append([sample_log_chunk(key, 1, ["parent"])])
    context = get_context("fork")
    said: Queue[object] = context.Queue()
    child = context.Process(target=_append_in_child, args=(store, key.run_id, key.created_ms, said))
    child.start()
    assert said.get(timeout=60) == ([3], child.pid)
    child.join(60)
    assert store.append([sample_log_chunk(key, 3, ["parent again"])]) == [4]
    assert read_log(store, key) == "parent\nchild\nparent again\n"


def test_tables_that_are_taken_away_come_back(url: str, make: Make) -> None:
    store, key = make(url), sample_log_key()
    store.append([sample_log_chunk(key, 1, ["first"])])
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text("DROP TABLE xwheel_log"))
        conn.execute(text("DROP TABLE xwheel_log_piece"))
    engine.dispose()
    with pytest.raises(LogSqlError):
        store.append([sample_log_chunk(key, 2, ["second"])])
    assert store.append([sample_log_chunk(key, 2, ["second"])]) == [1]


def test_a_user_that_may_not_make_tables(server_of: Callable[[str], Server], make: Make) -> None:
    server = server_of("postgresql")
    url = make_url(server.new_url())
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text("DROP ROLE IF EXISTS poor"))
        conn.execute(text("CREATE ROLE poor LOGIN PASSWORD 'poor'"))
    engine.dispose()
    poor = url.set(username="poor", password="poor").render_as_string(hide_password=False)
    with pytest.raises(LogSqlError, match="permission denied.*: let this user make the tables"):
        make(poor).find(sample_log_key())


def test_the_sqlite_file_is_of_this_user_alone(tmp_path: Path, make: Make) -> None:
    store = make(f"sqlite:///{tmp_path}/new/logs.db")
    store.find(sample_log_key())
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()} == {0o600}
