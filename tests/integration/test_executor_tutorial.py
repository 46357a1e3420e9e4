"""The tutorial, run as it stands: its files, its settings, its commands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_third_party_plugins import done_well
from tests.support.executors import ROOT, wait_until
from tests.support.ports import free_port
from tests.support.tutorials import Tutorial

PAGES = ("first-executor.md", "first-plugin.md", "one-file-plugin.md", "embedded.md")


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    words = {port: str(free_port()) for port in ("8080", "8081", "9999")}
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "TZ": "UTC",
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "XWHEEL_API__PORT": words["8080"],
        "XWHEEL_API__EXECUTOR_PORT": words["8081"],
    }
    folder = tmp_path / "work"
    folder.mkdir()
    made = Tutorial(f"tutorial/{PAGES[0]}", folder, variables, words)
    yield made
    made.close()


@pytest.mark.long
def test_u8_the_first_executor(tutorial: Tutorial) -> None:
    serve, prepare, execute, create, look, log, retry = tutorial.shells
    (chain,) = tutorial.outputs
    server = tutorial.start(serve, "server.log")
    tutorial.said("server.log", "(executor API on)")
    done_well(tutorial.type(prepare))
    tutorial.save_files()
    executor = tutorial.start(execute, "executor.log")
    tutorial.said("executor.log", "(the executor is registered)")
    done_well(tutorial.type(create))
    assert wait_until(lambda: "greeted world" in done_well(tutorial.type(look)))
    # the latest may be running just now, and its line be still to come
    shown: list[str] = []

    def is_whole() -> bool:
        shown.append(tutorial.type(log).stdout)
        return "this line lands in the run's log too" in shown[-1]

    assert wait_until(is_whole)
    assert re.search(r"run \d+ greets world", shown[-1])
    make, run = retry.splitlines()
    done_well(tutorial.type(make))
    assert shape(done_well(tutorial.type(run))) == shape(chain)
    tutorial.stop(executor)
    tutorial.stop(server)


def shape(text: str) -> list[str]:
    """Return what a chain said, without its ids, times and what an executor says sooner or later than that."""
    plain = re.sub(r"\d\d:\d\d:\d\d", "TIME", re.sub(r"run \d+", "run N", re.sub(r"[\d.]+ s\b", "S s", text)))
    # a state that lasts for less than between two questions is not seen
    begun = re.sub(r"(?m)^(run N of \S+, attempt \d): planned for .*\n|^.*: running on .*\n", "", plain)
    # an outcome may come before the answer to the call that sent the run: how long it took is not known then
    timed = re.sub(r"(: \w+) after S s", r"\1", begun)
    found = re.sub(r" \((tries run .*?)\)(: \w+)", r"\2", timed)
    return [line for line in found.splitlines() if ": tries run " not in line]


@pytest.mark.parametrize("page", PAGES)
def test_u8_no_tutorial_copies_a_token_or_calls_the_api_by_hand(page: str) -> None:
    text = (ROOT / "docs" / "tutorial" / page).read_text("utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        assert not re.search(r"TOKEN|/api/v1|8080", block), block
