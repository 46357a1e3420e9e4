"""SIGTERM at the worst moments: before the database is there, while it is away, and again and again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.injectors.database import freezing, stopping
from tests.support.databases import CleanDatabases
from tests.support.executors import ROOT, wait_until
from tests.support.ports import free_port
from xwheel.config import build_config
from xwheel.node.loops import Scheduler
from xwheel.node.node import Node
from xwheel.storage.database.engine import Database

PATIENCE_S = 100


class Server:
    """``xwheel server`` in a process of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.log = folder / "node.log"
        self.ports = folder / "ports.json"
        settings = {
            "XWHEEL_API__PORT": "0",
            "XWHEEL_API__EXECUTOR_PORT": "0",
            "XWHEEL_API__PORT_FILE": str(self.ports),
            "XWHEEL_SCHEDULE__LEASE_S": "4",
            "XWHEEL_SCHEDULE__LEASE_RENEW_S": "0.5",
            "XWHEEL_TRIGGER__SEND_TIMEOUT_MS": "1000",
            "PYTHONPATH": str(ROOT),
        }
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "xwheel", "server", "--database", url],
                cwd=folder,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )

    def until_it_says(self, words: str) -> None:
        def look() -> bool:
            assert self.process.poll() is None, self.said
            return words in self.said

        wait_until(look, PATIENCE_S)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def end(self, *numbers: signal.Signals) -> int:
        for number in numbers:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def serving(url: str, folder: Path) -> Iterator[Server]:
    server = Server(url, folder)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def test_a_node_that_waits_for_its_database_ends_at_once(tmp_path: Path) -> None:
    url = f"mysql+pymysql://xwheel:secret@127.0.0.1:{free_port()}/xwheel"
    with serving(url, tmp_path) as server:
        server.until_it_says("another try in")
        assert server.end(signal.SIGTERM) == 0, server.said
        assert "Traceback" not in server.said


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,) * 3, (signal.SIGINT, signal.SIGTERM)], ids=["thrice", "both"])
def test_a_node_drains_however_often_it_is_told(
    breakable: CleanDatabases, tmp_path: Path, numbers: tuple[signal.Signals, ...]
) -> None:
    with serving(breakable.url(0), tmp_path) as server:
        server.until_it_says("executor API on")
        assert server.end(*numbers) == 0, server.said
        assert "stopped, drained" in server.said
        assert "Traceback" not in server.said


def test_a_node_ends_while_its_database_is_away(breakable: CleanDatabases, tmp_path: Path) -> None:
    url = breakable.url(0)
    with serving(url, tmp_path) as server:
        server.until_it_says("executor API on")
        with stopping(url):
            server.until_it_says("loop lease fails")
            assert server.end(signal.SIGTERM) == 1, server.said  # it could not say goodbye
    assert "the leases are not given back, they end by themselves: nothing listens at" in server.said
    assert "stopped, not everything ended in time" in server.said
    assert "Traceback" not in server.said


@pytest.mark.long
@pytest.mark.nightly_on("mariadb")
def test_a_node_ends_while_its_database_hangs(
    breakable: CleanDatabases, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("xwheel.node.loops.LEAVE_S", 0.5)
    monkeypatch.setattr(Scheduler.stop, "__defaults__", (1,))
    url = breakable.url(0)
    api = {"port": 0, "executor_port": 0}
    node = Node(build_config({"database": {"url": url}, "api": api}), lambda _: None)
    node.start()
    db = node.scheduler.core.db
    monkeypatch.setattr(db, "close", lambda: None)  # what hangs still has connections, which a closed pool forgets
    with freezing(url):
        assert not node.stop()
    # what hung goes on now, and gives its connections back
    # but for the one that lives as long as connections do
    wait_until(
        lambda: (
            not any(item.name.startswith("xwheel-") for item in threading.enumerate() if item.name != "xwheel-database")
        ),
        PATIENCE_S,
    )
    Database.close(db)
    assert "the leases are not given back, they end by themselves: the database does not answer" in caplog.text
