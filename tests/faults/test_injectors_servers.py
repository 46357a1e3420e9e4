"""Processes and database servers stand still, die and come back as the injectors say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url, text, update
from sqlalchemy.exc import DBAPIError

from tests.faults.injectors import database, processes
from tests.faults.injectors.fault import Fault
from tests.support import servers
from tests.support.executors import is_alive, wait_until
from tests.support.rows import make_run
from xwheel.errors import DatabaseUnreachableError, StorageError
from xwheel.executor.running.supervisor import descendants
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import open_run

FAMILY = """\
import subprocess, sys, threading, time
depth = int(sys.argv[1])
def start():  # the child of a thread, in a session of its own
    subprocess.Popen([sys.executable, __file__, str(depth - 1), sys.argv[2]], start_new_session=True)
if depth:
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
while True:
    with open(f"{sys.argv[2]}/{depth}", "a") as beats:
        beats.write(".")
    time.sleep(0.01)
"""
GENERATIONS = 3
QUIET_S = 0.2


class Family:
    """A process with a child and a grandchild, each of which writes a beat every ten milliseconds."""

    def __init__(self, folder: Path) -> None:
        script = folder / "family.py"
        script.write_text(FAMILY)
        self._folder = folder
        command = [sys.executable, str(script), str(GENERATIONS - 1), str(folder)]
        self.process = subprocess.Popen(command)
        wait_until(lambda: all(self.beats()))
        self.pids = [self.process.pid, *descendants(self.process.pid)]

    def beats(self) -> list[int]:
        files = [self._folder / str(number) for number in reversed(range(GENERATIONS))]
        return [path.stat().st_size if path.exists() else 0 for path in files]

    def moving(self) -> list[bool]:
        """Return which of them, the eldest first, write on."""
        seen = self.beats()
        threading.Event().wait(QUIET_S)
        return [now > before for before, now in zip(seen, self.beats(), strict=True)]

    def until_moving(self, *wanted: bool) -> None:
        wait_until(lambda: self.moving() == list(wanted))


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    made = Family(tmp_path)
    yield made
    for pid in made.pids:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    made.process.wait()


def test_a_frozen_process_and_all_below_it_stand_still(family: Family) -> None:
    fault = processes.freezing(family.process.pid)
    for _ in range(2):
        fault.begin()
        fault.begin()
        assert family.moving() == [False] * GENERATIONS
        fault.end()
        fault.end()
        family.until_moving(*[True] * GENERATIONS)


def test_one_process_alone_is_frozen(family: Family) -> None:
    with processes.freezing(lambda: family.process.pid, alone=True):
        family.until_moving(False, True, True)
    family.until_moving(*[True] * GENERATIONS)


def test_a_process_that_was_killed_while_frozen_is_no_trouble(family: Family) -> None:
    with processes.freezing(family.process.pid):
        family.process.kill()
        family.process.wait()
    assert not is_alive(family.process.pid)
    family.until_moving(False, True, True)
    with processes.freezing(family.process.pid):
        pass


def test_a_killed_process_takes_all_below_it_along(family: Family) -> None:
    processes.kill(family.process.pid)
    assert not any(map(is_alive, family.pids))
    processes.kill(family.process.pid)


def test_one_process_alone_is_killed(family: Family) -> None:
    processes.kill(family.process.pid, alone=True)
    assert [is_alive(pid) for pid in family.pids] == [False, True, True]


def test_no_handle_stays_open(family: Family) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with processes.freezing(family.process.pid):
        pass
    processes.kill(family.process.pid)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_end_that_fails_can_be_tried_again() -> None:
    said: list[str] = []

    def end() -> None:
        said.append("end")
        if len(said) == 2:
            raise RuntimeError("not yet")

    fault = Fault("test", lambda: said.append("begin"), end)
    fault.end()
    fault.begin()
    with pytest.raises(RuntimeError):
        fault.end()
    fault.end()
    fault.end()
    assert said == ["begin", "end", "end"]


def test_a_begin_that_fails_half_way_is_taken_back() -> None:
    said: list[str] = []

    def begin() -> None:
        said.append("half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError), Fault("test", begin, lambda: said.append("end")):
        raise AssertionError("it has not begun")
    assert said == ["half", "end"]


# database servers


@pytest.fixture
def db(server_url: str) -> Iterator[Database]:
    made = Database(server_url, statement_s=2)
    made.transaction(lambda conn: runs.insert_runs(conn, [make_run(1)]))
    yield made
    made.close()


def count(db: Database) -> int:
    with db.read() as conn:
        return len(runs.list_runs(conn, limit=10))


@pytest.mark.parametrize("fault", [database.stopping, database.killing], ids=["stopped", "killed"])
def test_a_server_that_was_away_has_what_was_committed(db: Database, server_url: str, fault: database.Injector) -> None:
    process = servers.RUNNING[make_url(server_url).port or 0]
    below = descendants(process.pid)
    outage = fault(server_url)
    db.transaction(lambda conn: runs.insert_runs(conn, [make_run(2)]))
    outage.begin()
    outage.begin()
    assert not any(map(is_alive, [process.pid, *below]))
    with pytest.raises(DatabaseUnreachableError, match="nothing listens"):
        count(db)
    outage.end()
    outage.end()
    assert count(db) == 2
    assert servers.RUNNING[make_url(server_url).port or 0].pid != process.pid


def test_a_server_is_killed_in_the_middle_of_a_statement(db: Database, server_url: str) -> None:
    def work(conn: Connection) -> None:
        conn.execute(update(open_run).values(check_ms=7))
        with database.killing(server_url):
            pass
        conn.execute(text("SELECT 1"))

    with pytest.raises(DatabaseUnreachableError), db.write() as conn:
        work(conn)
    with db.read() as conn:
        assert conn.execute(text("SELECT check_ms FROM open_run")).scalar() != 7


def test_a_frozen_server_takes_connections_and_answers_nothing(db: Database, server_url: str) -> None:
    assert count(db) == 1
    with database.freezing(server_url), pytest.raises(DatabaseUnreachableError, match="no answer"):
        count(db)
    assert count(db) == 1


def is_refused(user: Database) -> bool:
    """Return whether a write is refused; PostgreSQL's sessions hear of a new setting a moment later."""
    try:
        user.transaction(lambda conn: conn.execute(update(open_run).values(check_ms=7)))
    except StorageError as error:
        return "read-only" in str(error)
    return False


def test_a_read_only_server_refuses_users_and_reads_on(db: Database, server_url: str) -> None:
    user = Database(database.plain_user(server_url))
    fault = database.refusing_writes(server_url)
    try:
        for _ in range(2):
            fault.begin()
            fault.begin()
            assert count(user) == 1
            wait_until(lambda: is_refused(user))
            fault.end()
            fault.end()
            wait_until(lambda: not is_refused(user))
            user.transaction(lambda conn: conn.execute(update(open_run).values(check_ms=8)))
    finally:
        fault.end()
        user.close()


def test_what_a_read_only_server_does_with_open_transactions(db: Database, server_url: str) -> None:
    """MariaDB refuses the COMMIT; PostgreSQL, which is no real standby here, takes it."""
    user = Database(database.plain_user(server_url))
    try:
        with user.engine.connect() as conn:
            conn.execute(update(open_run).values(check_ms=7))
            with database.refusing_writes(server_url):
                if db.backend == "postgresql":
                    conn.commit()
                else:
                    with pytest.raises(DBAPIError, match="read-only"):
                        conn.commit()
    finally:
        user.close()
