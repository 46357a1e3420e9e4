"""A node that is started before its database waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.faults.injectors.database import stopping
from tests.support.databases import server_database
from xwheel.storage.database import startup

WAIT_S = 100


def until(is_so: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        threading.Event().wait(0.05)


@pytest.mark.parametrize("backend", ["mariadb", "postgresql"])
def test_a_node_waits_for_a_server_that_comes_up_late(backend: str, tmp_path: Path) -> None:
    ports, log = tmp_path / "ports.json", tmp_path / "node.log"
    environment = {
        **os.environ,
        "XWHEEL_DATABASE__WAIT_S": str(WAIT_S),
        "XWHEEL_API__PORT": "0",
        "XWHEEL_API__EXECUTOR_PORT": "0",
        "XWHEEL_API__PORT_FILE": str(ports),
    }
    with server_database(backend) as url:
        startup.upgrade(url)
        late = stopping(url)
        late.begin()
        with log.open("wb") as sink:
            command = [sys.executable, "-m", "xwheel", "server", "--database", url]
            process = subprocess.Popen(command, stdout=sink, stderr=sink, env=environment)
        try:
            until(lambda: "; another try in 1.0 s" in log.read_text(), process, log)
            assert not ports.exists()
            late.end()
            until(ports.exists, process, log)
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
    said = log.read_text()
    assert (
        f"WARNING MainThread xwheel.storage.database.startup: nothing listens at 127.0.0.1:{make_url(url).port}: start"
        in said
    )
    assert "Traceback" not in said
    assert str(make_url(url).password) not in said
