"""A node, two executors and a dead address: who gets a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from xwheel.executor import Executor, JobContext, job

T = TypeVar("T")
SETTINGS = {
    "PYTHONUNBUFFERED": "1",
    # a busy machine may keep an executor from answering for seconds
    "XWHEEL_TRIGGER__SEND_TIMEOUT_MS": "10000",
    "XWHEEL_SCHEDULE__LEASE_S": "60",
}
DEADLINE_S = 120.0
DEAD = "http://127.0.0.1:1"
"""Nobody without rights can listen there, and it comes first by address."""


def wait_until(done: Callable[[], T]) -> T:
    end = time.monotonic() + DEADLINE_S
    while not (found := done()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


class Holds:
    """A handler that ends when it is told to."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

        @job("hold")
        def hold(ctx: JobContext) -> str:
            self.go_on.wait(DEADLINE_S)
            return "held"

        @job("demo")
        def demo(ctx: JobContext) -> str:
            return "done"

        self.handlers = [hold, demo]


class Node:
    """A server process and short ways to use it."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "output"
        with self.output.open("wb") as file:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "xwheel", "server", "--port", "0", "--executor-port", "0"],
                cwd=folder,
                env={**os.environ, **SETTINGS},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def find(self, pattern: str) -> str:
        def look() -> re.Match[str] | None:
            assert self._child.poll() is None, self.output.read_text()
            return re.search(pattern, self.output.read_text())

        return wait_until(look)[1]

    def begin(self) -> None:
        self.url = f"http://{self.find('management API on (.*)')}/api/v1"
        self.token = self.find("management token .*: (.*)")
        self.admin = f"http://{self.find('executor API on (.*)')}"
        self.executor_token = self.find("executor token .*: (.*)")
        self.group_id = self.call("POST", "groups", {"app_name": "demo"})["id"]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        return send(f"{self.url}/{path}", method, body, headers)

    def register_dead(self) -> None:
        body = {"registryGroup": "EXECUTOR", "registryKey": "demo", "registryValue": DEAD}
        headers = {"XXL-JOB-ACCESS-TOKEN": self.executor_token}
        assert send(f"{self.admin}/api/registry", "POST", body, headers)["code"] == 200

    def job(self, route: str, options: str = "", handler: str = "demo") -> int:
        body = {"group_id": self.group_id, "name": route, "handler": handler}
        return int(
            self.call("POST", "jobs", {**body, "route_strategy": route, "route_options": options})["id"]
        )

    def start(self, job_id: int) -> Callable[[str], dict[str, Any]]:
        """Run a job; return what waits until the run is in one of some states and gives it."""
        run_id = self.call("POST", f"jobs/{job_id}/run", {})["id"]

        def until(states: str) -> dict[str, Any]:
            def look() -> Any:
                run = self.call("GET", f"runs/{run_id}")
                return run if run["state"] in states.split() else None

            found: dict[str, Any] = wait_until(look)
            return found

        return until

    def stop(self) -> None:
        self._child.terminate()
        try:
            self._child.wait(60)
        finally:
            self._child.kill()
            self._child.wait()


def send(url: str, method: str, body: Any, headers: dict[str, str]) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(
        urllib.request.Request(url, data, headers, method=method), timeout=60
    ) as reply:
        return json.loads(reply.read() or b"null")


@pytest.fixture(scope="module")
def holds() -> Iterator[Holds]:
    made = Holds()
    yield made
    made.go_on.set()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, holds: Holds) -> Iterator[tuple[Node, list[str]]]:
    folder = tmp_path_factory.mktemp("site")
    node = Node(folder)
    executors: list[Executor] = []
    try:
        node.begin()
        for zone in ("a", "b"):
            executor = Executor(
                handlers=holds.handlers,
                app_name="demo",
                admin_addresses=[node.admin],
                access_token=node.executor_token,
                port=0,
                data_dir=folder / zone,
                labels={"zone": zone},
                stop_timeout_s=10,
            )
            executor.start()
            executors.append(executor)
        node.register_dead()
        wait_until(lambda: len(node.call("GET", "executors")["items"]) == 3)
        yield node, [item.address.rstrip("/") for item in executors]
    finally:
        holds.go_on.set()
        for executor in executors:
            executor.stop()
        node.stop()


def test_failover_passes_the_dead_one_by(site: tuple[Node, list[str]]) -> None:
    node, addresses = site
    node.register_dead()
    run = node.start(node.job("FAILOVER"))("succeeded failed refused lost")
    assert run["state"] == "succeeded"
    assert run["address"] in addresses


def test_labels_choose_by_what_executors_say(site: tuple[Node, list[str]]) -> None:
    node, addresses = site
    for options in ("zone=b", "zone=b | FAILOVER"):
        route = "LABELS_ASKING" if "FAILOVER" in options else "LABELS"
        run = node.start(node.job(route, options))("succeeded failed refused lost")
        assert (run["state"], run["address"]) == ("succeeded", addresses[1])
    run = node.start(node.job("LABELS", "zone=c"))("succeeded failed refused lost")
    assert (run["state"], run["reason"]) == ("refused", "no_route")
    assert re.search(r"none of \d executors has the labels zone=c", run["message"])


def test_labels_are_shown(site: tuple[Node, list[str]], tmp_path: Path) -> None:
    node, addresses = site
    token = tmp_path / "token"
    token.write_text(node.token)
    token.chmod(0o600)
    command = [sys.executable, "-m", "xwheel", "group", "show", "demo", "--token-file", str(token)]
    command += ["--url", node.url.removesuffix("/api/v1")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    for address, zone in zip(addresses, ("a", "b"), strict=True):
        assert re.search(rf"^{re.escape(address)} .* zone={zone}$", shown, re.MULTILINE), shown


@pytest.mark.parametrize(
    ("route", "options", "words"),
    [
        ("LABELS", "", "needs a selector"),
        ("LABELS", "zone=a | FAILOVER", "use it with LABELS_ASKING"),
        ("FAILOVER", "zone=a", "must be empty: the router FAILOVER takes none"),
    ],
)
def test_options_that_cannot_work_are_refused_when_the_job_is_saved(
    site: tuple[Node, list[str]], route: str, options: str, words: str
) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        site[0].job(route, options)
    with caught.value as answer:
        text = answer.read().decode()
    assert answer.code == 422
    assert "route_options" in text
    assert words in text


def test_busyover_goes_on_until_all_are_busy(site: tuple[Node, list[str]], holds: Holds) -> None:
    node, addresses = site
    job_id = node.job("BUSYOVER", handler="hold")
    held, seen = [], []
    for _ in addresses:
        node.register_dead()
        until = node.start(job_id)
        run = until("running succeeded failed refused lost")
        assert run["state"] == "running"
        seen.append(run["address"])
        held.append(until)
    assert sorted(seen) == sorted(addresses)
    run = node.start(job_id)("running succeeded failed refused lost")
    assert (run["state"], run["reason"]) == ("refused", "no_route")
    assert "executors are busy with this job or do not answer" in run["message"]
    holds.go_on.set()
    assert {until("succeeded failed lost")["state"] for until in held} == {"succeeded"}
