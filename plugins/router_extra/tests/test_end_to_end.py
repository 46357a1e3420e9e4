"""A node, two executors and a dead address: which one gets a run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from xwheel import XwheelError
from xwheel.executor import Executor, JobContext, job
from xwheel_devtools.testing import NodeProcess, wait_until

SETTINGS = {
    # a busy machine may keep an executor from answering for seconds
    "XWHEEL_TRIGGER__SEND_TIMEOUT_MS": "10000",
    "XWHEEL_SCHEDULE__LEASE_S": "60",
}
LONG_S = 120.0
DEAD = "http://127.0.0.1:1"
"""Nothing listens there without rights, and it comes first by address."""
ENDED = ("succeeded", "failed", "refused", "lost")


class Holds:
    """A handler that ends when it is told to."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

        @job("hold")
        def hold(ctx: JobContext) -> str:
            self.go_on.wait(LONG_S)
            return "held"

        @job("demo")
        def demo(ctx: JobContext) -> str:
            return "done"

        self.handlers = [hold, demo]


class Node(NodeProcess):
    """A node with a group."""

    group_id: int

    def register_dead(self) -> None:
        body = {"registryGroup": "EXECUTOR", "registryKey": "demo", "registryValue": DEAD}
        request = urllib.request.Request(
            f"{self.executor_url}/api/registry",
            json.dumps(body).encode(),
            {"XXL-JOB-ACCESS-TOKEN": self.executor_token},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert json.loads(reply.read())["code"] == 200

    def job(self, route: str, options: str = "", handler: str = "demo") -> int:
        body = {"group_id": self.group_id, "name": f"{route} {uuid4().hex[:8]}", "handler": handler}
        return int(self.call("POST", "jobs", {**body, "route_strategy": route, "route_options": options})["id"])

    def run(self, job_id: int) -> dict[str, Any]:
        """Run a job by hand and wait for the end."""
        return self.wait_for_run(self.start_run(job_id), *ENDED)


@pytest.fixture(scope="module")
def holds() -> Iterator[Holds]:
    made = Holds()
    yield made
    made.go_on.set()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, holds: Holds) -> Iterator[tuple[Node, list[str]]]:
    folder = tmp_path_factory.mktemp("site")
    executors: list[Executor] = []
    with Node(folder / "node", **SETTINGS) as node:
        node.group_id = node.call("POST", "groups", {"app_name": "demo"})["id"]
        try:
            for zone in ("a", "b"):
                executor = Executor(
                    handlers=holds.handlers,
                    app_name="demo",
                    admin_addresses=[node.executor_url],
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


def test_failover_skips_the_dead_one(site: tuple[Node, list[str]]) -> None:
    node, addresses = site
    node.register_dead()
    run = node.run(node.job("FAILOVER"))
    assert run["state"] == "succeeded"
    assert run["address"] in addresses


def test_labels_choose_by_what_executors_say(site: tuple[Node, list[str]]) -> None:
    node, addresses = site
    for options in ("zone=b", "zone=b | FAILOVER"):
        route = "LABELS_ASKING" if "FAILOVER" in options else "LABELS"
        run = node.run(node.job(route, options))
        assert (run["state"], run["address"]) == ("succeeded", addresses[1])
    run = node.run(node.job("LABELS", "zone=c"))
    assert (run["state"], run["reason"]) == ("refused", "no_route")
    assert re.search(r"none of \d executors has the labels zone=c", run["message"])


def test_labels_are_shown(site: tuple[Node, list[str]], tmp_path: Path) -> None:
    node, addresses = site
    token = tmp_path / "token"
    token.write_text(node.token)
    token.chmod(0o600)
    command = [sys.executable, "-m", "xwheel", "group", "show", "demo", "--token-file", str(token)]
    command += ["--url", node.url]
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
    with pytest.raises(XwheelError, match=f"^route_options: .*{re.escape(words)}") as caught:
        site[0].job(route, options)
    assert type(caught.value).__name__ == "FieldError"  # what the client makes of status 422


def test_busyover_goes_on_until_all_are_busy(site: tuple[Node, list[str]], holds: Holds) -> None:
    node, addresses = site
    job_id = node.job("BUSYOVER", handler="hold")
    held, seen = [], []
    for _ in addresses:
        node.register_dead()
        run = node.wait_for_run(node.start_run(job_id), "running", *ENDED)
        assert run["state"] == "running"
        seen.append(run["address"])
        held.append(run["id"])
    assert sorted(seen) == sorted(addresses)
    run = node.wait_for_run(node.start_run(job_id), "running", *ENDED)
    assert (run["state"], run["reason"]) == ("refused", "no_route")
    assert "executors are busy with this job or do not answer" in run["message"]
    holds.go_on.set()
    assert {node.wait_for_run(run_id, *ENDED)["state"] for run_id in held} == {"succeeded"}
