"""A process or a server lives by the wall clock that it is given, and nothing of it hangs when that steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from tests.faults.injectors import database
from tests.faults.injectors.clocks import WallClock
from tests.support.databases import ADMIN, BACKENDS
from tests.support.paths import ROOT
from xwheel.storage.database.engine import Database

TEN_MINUTES_MS = 600_000
PATIENCE_S = 60
ROUNDING_NS = 1_020_000_000
"""Some of them count whole seconds, by a clock that the kernel sets at its timer interrupts: up to 10 ms late."""


class Child:
    """A process of :mod:`tests.support.clock_child`."""

    def __init__(self, clock: WallClock) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.clock_child"],
            cwd=ROOT,
            env={**os.environ, **clock.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        killer = threading.Timer(PATIENCE_S, self.process.kill)
        killer.start()
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        killer.cancel()
        assert said, f"it hangs: {what}"
        found: dict[str, Any] = json.loads(said)
        return found

    def check_clocks(self, offset_ms: int) -> None:
        began_ns, began_mono_ns = time.time_ns(), time.monotonic_ns()
        found = self.ask("clocks")
        ended_ns, ended_mono_ns = time.time_ns(), time.monotonic_ns()
        assert began_mono_ns <= found.pop("monotonic") <= ended_mono_ns
        for name, value in found.items():
            real_ns = value - offset_ms * 1_000_000
            assert began_ns - ROUNDING_NS <= real_ns <= ended_ns, name


@pytest.fixture
def clock() -> Iterator[WallClock]:
    with WallClock() as made:
        yield made


@pytest.fixture
def child(clock: WallClock) -> Iterator[Child]:
    made = Child(clock)
    yield made
    made.process.kill()
    made.process.communicate()


def test_a_process_starts_and_steps_by_its_own_clock_alone(clock: WallClock, child: Child) -> None:
    child.check_clocks(0)
    forward, back = clock.stepping(TEN_MINUTES_MS), clock.stepping(-2 * TEN_MINUTES_MS)
    forward.begin()
    forward.begin()
    child.check_clocks(TEN_MINUTES_MS)
    back.begin()
    child.check_clocks(-TEN_MINUTES_MS)
    forward.end()
    forward.end()
    back.end()
    child.check_clocks(0)
    clock.set(1)
    assert clock.offset_ms == 1


def test_a_clock_may_be_wrong_from_the_start() -> None:
    with WallClock(-TEN_MINUTES_MS) as clock:
        child = Child(clock)
        child.check_clocks(-TEN_MINUTES_MS)
        child.process.kill()
        child.process.communicate()
        files = [Path(word) for word in clock.environment.values()]
    assert not any(file.exists() for file in files)


@pytest.mark.parametrize("offset_ms", [-TEN_MINUTES_MS, TEN_MINUTES_MS])
def test_every_wait_ends_when_it_should(clock: WallClock, child: Child, offset_ms: int) -> None:
    """One by a deadline on the wall clock too, which the kernel keeps by its own."""
    child.ask("waits")
    with clock.stepping(offset_ms):
        waits = child.ask("waits")
    early = {name: waited_s for name, waited_s in waits.items() if waited_s < 0.049}
    assert early == {}


def test_xwheel_lives_by_it_too(clock: WallClock, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/xwheel.db"
    command = [sys.executable, "-m", "xwheel", "db", "upgrade", "--database", database]
    subprocess.run(command, env={**os.environ, **clock.environment}, cwd=ROOT, timeout=PATIENCE_S, check=True)


# servers


@pytest.fixture(params=sorted(BACKENDS))
def server(request: pytest.FixtureRequest, clock: WallClock) -> Iterator[str]:
    backend = request.param
    with BACKENDS[backend](environment=clock.environment) as base:
        yield base + ADMIN[backend]


def ahead_ms(db: Database) -> float:
    """Return how far the server's clock is ahead of ours."""
    question = {
        "mysql": "SELECT UNIX_TIMESTAMP(SYSDATE(6))",
        "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    }[db.backend]
    with db.read() as conn:
        return float(conn.execute(text(question)).scalar_one()) * 1000 - time.time() * 1000


def check_waits(db: Database, url: str) -> None:
    """A pause and a wait for a lock end by themselves."""
    pause, limit = {
        "mysql": ("SELECT SLEEP(0.1)", "SET innodb_lock_wait_timeout = 1"),
        "postgresql": ("SELECT pg_sleep(0.1)", "SET lock_timeout = '100ms'"),
    }[db.backend]
    other = Database(url, pool_size=1)
    try:
        with db.write() as conn:
            conn.execute(text(pause))
            conn.execute(text("UPDATE held SET id = id"))
            with other.engine.connect() as second:
                second.execute(text(limit))
                with pytest.raises(OperationalError, match="(?i)lock"):
                    second.execute(text("UPDATE held SET id = id"))
    finally:
        other.close()


def test_a_server_steps_while_it_runs_and_nothing_hangs(server: str, clock: WallClock) -> None:
    db = Database(server, statement_s=PATIENCE_S)
    with db.write() as conn:
        conn.execute(text("CREATE TABLE held (id INT)"))
        conn.execute(text("INSERT INTO held VALUES (1)"))
    assert abs(ahead_ms(db)) < TEN_MINUTES_MS / 10
    for offset_ms in (TEN_MINUTES_MS, -TEN_MINUTES_MS):
        with clock.stepping(offset_ms):
            assert abs(ahead_ms(db) - offset_ms) < TEN_MINUTES_MS / 10
            check_waits(db, server)
    with clock.stepping(-TEN_MINUTES_MS):
        with database.killing(server):
            pass
        assert abs(ahead_ms(db) + TEN_MINUTES_MS) < TEN_MINUTES_MS / 10
    check_waits(db, server)
    db.close()
