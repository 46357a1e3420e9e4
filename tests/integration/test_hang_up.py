"""A node and an executor whose terminal was closed drain, as after SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.admins import TOKEN, FakeAdmin
from tests.support.executors import wait_until


@pytest.mark.parametrize("command", ["server", "executor"])
def test_r14_a_closed_terminal_drains(command: str, tmp_path: Path) -> None:
    """R14: SIGHUP ended the process at once, without a word."""
    log, ports = tmp_path / "log", tmp_path / "ports.json"
    with FakeAdmin() as admin, log.open("wb") as sink:
        settings = {
            "XWHEEL_DATABASE__URL": f"sqlite:///{tmp_path}/xwheel.db",
            "XWHEEL_API__PORT": "0",
            "XWHEEL_API__EXECUTOR_PORT": "0",
            "XWHEEL_API__PORT_FILE": str(ports),
            "XWHEEL_EXECUTOR__APP_NAME": "demo-app",
            "XWHEEL_EXECUTOR__ADMIN_ADDRESSES": f'["{admin.url}"]',
            "XWHEEL_EXECUTOR__ACCESS_TOKEN": TOKEN,
            "XWHEEL_EXECUTOR__PORT": "0",
            "XWHEEL_EXECUTOR__DATA_DIR": str(tmp_path / "data"),
            "XWHEEL_EXECUTOR__ALLOWED_GLUE_TYPES": '["BEAN"]',
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "xwheel", command],
            cwd=tmp_path,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
        try:
            wait_until(lambda: process.poll() is not None or ports.exists() or admin.registered)
            process.send_signal(signal.SIGHUP)
            assert process.wait(60) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
    assert "SIGHUP: draining, then ending" in log.read_text()
