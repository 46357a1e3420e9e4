"""Logs in a log store outlast the machine on which they were written; a store in trouble harms no run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from xwheel_devtools.testing import NodeProcess, NodeSite, XwheelProcess, check_logs_outlast, stored_lines, wait_until

from tests.support.paths import ROOT
from xwheel.executor import JobContext, job

LINES = 500


class Site:
    """A node with a log store and an executor, each in a process of its own."""

    def __init__(self, folder: Path, stack: ExitStack, **settings: str) -> None:
        self.folder = folder
        self.node = stack.enter_context(NodeProcess(folder / "node", PYTHONPATH=str(ROOT), **settings))
        self.node.call("POST", "groups", {"app_name": "demo", "title": ""})
        (group,) = self.node.call("GET", "groups")["items"]
        self.job = self.node.call("POST", "jobs", {"group_id": group["id"], "name": "writes", "handler": "writes"})[
            "id"
        ]
        self.executor = self._executor(stack)

    def _executor(self, stack: ExitStack) -> XwheelProcess:
        process = XwheelProcess(
            self.folder / "executor",
            "executor",
            "tests.support.log_app",
            PYTHONPATH=str(ROOT),
            XWHEEL_EXECUTOR__APP_NAME="demo",
            XWHEEL_EXECUTOR__ADMIN_ADDRESSES=f'["{self.node.executor_url}"]',
            XWHEEL_EXECUTOR__ACCESS_TOKEN=self.node.executor_token,
            XWHEEL_EXECUTOR__PORT="0",
            XWHEEL_EXECUTOR__STOP_TIMEOUT_S="1",
        )
        stack.enter_context(process)
        process.find("the executor is registered()")
        return process

    def run(self, param: str) -> int:
        return self.node.start_run(self.job, param=param)

    def log(self, run_id: int, **query: Any) -> dict[str, Any]:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        found: dict[str, Any] = self.node.call("GET", f"runs/{run_id}/log?{words}")
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack, XWHEEL_RUN_LOGS__STORE="file")


def numbers(lines: Sequence[str]) -> list[int]:
    return [int(line.rpartition(" ")[2]) for line in lines if " number " in line]


def test_what_was_shipped_outlasts_the_machine(tmp_path: Path) -> None:
    check_logs_outlast(tmp_path, XWHEEL_RUN_LOGS__STORE="file")


def test_a_log_is_complete_after_the_run(site: Site) -> None:
    run = site.run(str(LINES))
    site.node.wait_for_run(run)

    def whole() -> bool:
        last = site.log(run, from_line=LINES + 3)
        return bool(last["is_end"] and last["place"] == "store")

    wait_until(whole)
    lines = stored_lines(site.node, run)
    assert numbers(lines) == list(range(1, LINES + 1))
    assert len(lines) == LINES + 2
    assert "succeeded after" in lines[-1]
    assert site.log(run, tail=3)["content"].splitlines() == lines[-3:]
    found = site.node.call("GET", f"runs/{run}/log/search?text=NUMBER%2042&limit=2")
    assert [item["line"] for item in found["items"]] == [43, 421]
    assert (found["is_end"], found["next_line"]) == (False, 422)


def test_a_drain_ships_the_rest(site: Site, tmp_path: Path) -> None:
    run = site.run(f"{LINES} {tmp_path}")
    site.node.wait_for_run(run, "running")
    (tmp_path / "go").touch()
    site.executor.stop()
    assert "went on" in stored_lines(site.node, run)[-2]
    assert site.log(run, from_line=LINES + 4)["is_end"]


def test_large_logs_and_odd_ones_travel(tmp_path: Path) -> None:
    @job("much")
    def much(context: JobContext) -> None:
        for _ in range(30):
            print("\x00" * 100_000)
        for number in range(20_000):
            print(f"number {number} of many lines that make up a log of some megabytes")

    with NodeSite(
        tmp_path,
        handlers=[much],
        settings={
            "run_logs": {"store": "file"},
            "plugins": {"options": {"log_files": {"directory": str(tmp_path / "logs")}}},
            "api": {"max_body_bytes": 500_000},
        },
    ) as node:
        run = node.run("much")
        wait_until(lambda: node.call("GET", f"runs/{run['id']}/log?tail=1")["place"] == "store")
        (file,) = (tmp_path / "logs").rglob("*.log")
        lines = file.read_text().split("\n")[:-1]
        assert len(lines) == 20_032
        assert lines[-2].startswith("number 19999 of")
