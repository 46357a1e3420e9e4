"""The unmodified pyxxl as an executor of a real xwheel node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.admins import APP_NAME, TOKEN
from tests.support.executors import ROOT, wait_until
from tests.support.ports import free_port


class Node:
    """A scheduler process and its management API."""

    def __init__(self, folder: Path) -> None:
        self.port, self.executor_port = free_port(), free_port()
        self._log = (folder / "node.log").open("wb")
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "XWHEEL_API__PORT": str(self.port),
            "XWHEEL_API__EXECUTOR_PORT": str(self.executor_port),
            "XWHEEL_API__EXECUTOR_TOKEN": TOKEN,
        }
        command = [str(Path(sys.executable).parent / "xwheel"), "server"]
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=self._log, stderr=self._log)
        line = wait_until(
            lambda: [text for text in (folder / "node.log").read_text().splitlines() if "management token" in text]
        )[0]
        self._token = line.split()[-1]
        wait_until(self._answers)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1{path}",
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self._token}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.loads(answer.read() or b"{}"))

    def run(self, handler: str, param: str = "", **fields: Any) -> int:
        """Create a job, run it once and return the run's id."""
        name = f"{handler} {uuid4().hex[:8]}"
        job = self.call("POST", "/jobs", {"group_id": 1, "name": name, "handler": handler, "param": param, **fields})
        return int(self.call("POST", f"/jobs/{job['id']}/run", {})["id"])

    def finished(self, run_id: int) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            run = self.call("GET", f"/runs/{run_id}")
            return run if run["finished_ms"] else None

        found: dict[str, Any] = wait_until(look)
        return found

    def stop(self) -> int:
        self.process.terminate()
        status = self.process.wait(60)
        self._log.close()
        return status

    def _answers(self) -> bool:
        try:
            self.call("GET", "/groups")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    assert node.stop() == 0


@pytest.fixture
def pyxxl(node: Node, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    node.call("POST", "/groups", {"app_name": APP_NAME, "title": "pyxxl"})
    url = f"http://127.0.0.1:{node.executor_port}/xxl-job-admin/api/"
    with (tmp_path / "pyxxl.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.pyxxl_app", url, str(free_port()), TOKEN],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
        )
        yield process
        process.kill()
        process.wait(10)


def test_pyxxl_runs_for_us(node: Node, pyxxl: subprocess.Popen[bytes]) -> None:
    (executor,) = wait_until(lambda: node.call("GET", "/groups/1/executors")["items"])
    assert (executor["kind"], executor["instance"]) == ("foreign", "")

    run = node.finished(run_id := node.run("hello", "wörld"))
    assert (run["state"], run["message"]) == ("succeeded", "hello wörld")
    assert "pyxxl says hello to wörld" in node.call("GET", f"/runs/{run_id}/log")["content"]

    run = node.finished(node.run("facts"))
    assert (run["state"], json.loads(run["message"])) == ("succeeded", {"rows": 3})

    run = node.finished(node.run("fails"))
    assert (run["state"], "no luck" in run["message"]) == ("failed", True)

    run = node.finished(node.run("unknown"))
    assert run["state"] == "refused"

    run = node.finished(node.run("sleeps", timeout_s=1))
    assert run["state"] in ("failed", "timed_out")

    pyxxl.terminate()
    pyxxl.wait(60)
    wait_until(lambda: not node.call("GET", "/groups/1/executors")["items"])
