"""Embedded mode in web applications with their real servers: one process leads, is killed, and another takes over."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.executors import ROOT, wait_until
from tests.support.ports import free_port

APPS = "tests.support.embedded_apps"
GUNICORN = (sys.executable, "-m", "gunicorn", "--workers", "4", "--bind", "127.0.0.1:{port}")
PRELOADED = "tests/support/embedded_apps/django_gunicorn.py"
SERVERS = {
    "flask": (*GUNICORN, f"{APPS}.flask_app:app"),
    "django": (*GUNICORN, "--config", PRELOADED, f"{APPS}.django_app:application"),
    "fastapi": (*GUNICORN, "--worker-class", "uvicorn_worker.UvicornWorker", f"{APPS}.fastapi_app:app"),
}  # fmt: skip
UVICORN = (sys.executable, "-m", "uvicorn", "--port", "{port}", f"{APPS}.fastapi_app:app")
EVERY_MS = 500
WORKERS = 4


class Site:
    """A server with one of the applications."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.server = subprocess.Popen(
                [part.format(port=self.port) for part in command],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "EMBEDDED_FOLDER": str(folder)},
                stdout=log,
                stderr=log,
            )

    def ask(self, path: str, method: str) -> dict[str, int]:
        assert self.server.poll() is None, self.log.read_text()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.load(answer))

    def state(self) -> dict[str, int] | None:
        try:
            return self.ask("/", "GET")
        except OSError:  # it does not listen yet, or its worker was killed
            return None

    def leader(self) -> int:
        file = self.folder / "schedule" / "leader.json"
        return int(json.loads(file.read_text())["pid"]) if file.exists() else 0

    def executed(self, name: str, pid: int | None = None) -> list[list[str]]:
        file = self.folder / "executed"
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if line[0] == name and pid in (None, int(line[3]))]

    def runs(self, name: str) -> list[tuple[int, int, str]]:
        with sqlite3.connect(self.folder / "schedule" / "xwheel.db") as database:
            return database.execute(
                "SELECT run.id, run.planned_ms, run.state FROM (SELECT id, job_id, planned_ms, state FROM open_run"
                " UNION ALL SELECT id, job_id, planned_ms, state FROM run_history) run JOIN job ON job.id = run.job_id"
                " WHERE job.name = ? ORDER BY run.planned_ms",
                (name,),
            ).fetchall()

    def stop(self) -> int:
        self.server.terminate()
        try:
            return self.server.wait(60)
        finally:
            self.server.kill()


def check_fires(site: Site, name: str) -> None:
    """Each due time has one run, and each run was executed once; the kill may have struck one in the middle."""
    runs = site.runs(name)
    planned = [planned_ms for _, planned_ms, _ in runs]
    assert planned == list(range(planned[0], planned[-1] + 1, EVERY_MS))
    counts = Counter(int(line[1]) for line in site.executed(name))
    assert set(counts.values()) == {1}
    missing = {run_id: state for run_id, _, state in runs if state == "succeeded" and run_id not in counts}
    assert not missing
    ended = Counter(state for _, _, state in runs if state not in {"planned", "succeeded"})
    assert sum(ended.values()) <= 1, ended


@pytest.mark.long
@pytest.mark.parametrize(
    "application", [pytest.param(name, marks=[] if name == "flask" else pytest.mark.nightly) for name in SERVERS]
)
def test_four_workers_and_the_leader_is_killed(application: str, tmp_path: Path) -> None:
    site = Site(SERVERS[application], tmp_path)
    try:
        first = wait_until(site.leader)
        wait_until(lambda: len(site.executed("beat", first)) > 2 and site.executed("async_beat", first))
        # a process that stands by triggers a run, and the leader executes it
        wait_until(lambda: (site.state() or {"pid": first})["pid"] != first)
        asked = [site.ask("/trigger", "POST") for _ in range(4)]
        wait_until(lambda: len(site.executed("by_hand", first)) == len(asked))
        os.kill(first, signal.SIGKILL)
        second = wait_until(lambda: (leader := site.leader()) != first and leader)
        wait_until(lambda: len(site.executed("beat", second)) > 2 and site.executed("async_beat", second))
        run_id = site.ask("/trigger", "POST")["run_id"]
        wait_until(lambda: [line for line in site.executed("by_hand", second) if int(line[1]) == run_id])
    finally:
        status = site.stop()
    assert status == 0, site.log.read_text()
    for name in ("beat", "async_beat"):
        check_fires(site, name)
    said = site.log.read_text()
    assert said.count(" leads; ") >= 2
    assert said.count(" stands by in ") >= WORKERS - 1


@pytest.mark.processes
def test_uvicorn_alone(tmp_path: Path) -> None:
    site = Site(UVICORN, tmp_path)
    try:
        leader = wait_until(site.leader)
        assert leader == site.server.pid
        wait_until(lambda: site.executed("beat") and site.executed("async_beat"))
        run_id = wait_until(lambda: site.state() and site.ask("/trigger", "POST"))["run_id"]
        wait_until(lambda: [line for line in site.executed("by_hand") if int(line[1]) == run_id])
    finally:
        site.stop()
    for name in ("beat", "async_beat"):
        check_fires(site, name)
