"""The tutorial on packages, run as it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import needed
from tests.support.ports import free_port
from tests.support.tutorials import Tutorial
from xwheel_devtools.testing import wait_until

AWAY_S = 10.0


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    needed()
    words = {port: str(free_port()) for port in ("2181", "8080", "8081", "9991", "9992")}
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words_of_it in {"xwheel": f"{sys.executable} -m xwheel", "python": sys.executable}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {words_of_it} "$@"\n')
        (programs / name).chmod(0o755)
    variables = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "TZ": "UTC",
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "ZOO_LOG_DIR": str(tmp_path),
        "XWHEEL_API__PORT": words["8080"],
        "XWHEEL_API__EXECUTOR_PORT": words["8081"],
    }
    folder = tmp_path / "work"
    folder.mkdir()
    made = Tutorial("tutorial/packages.md", folder, variables, words)
    yield made
    made.close()


def well(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.nightly
def test_the_tutorial_on_packages(tutorial: Tutorial) -> None:
    """The walk: upload, start, a node is killed, pause, a new version, roll back."""
    zookeeper, serve, prepare, anna, alone, build, begin, bert, kill, look, pause, newer, back = tutorial.shells
    (found,) = tutorial.outputs
    tutorial.save_files()
    server = tutorial.start(zookeeper, "zookeeper.log")
    tutorial.start(serve, "server.log")
    tutorial.said("server.log", "(executor API on)")
    well(tutorial.type(prepare))
    first = tutorial.start(anna, "anna.log")
    tutorial.said("anna.log", "(this node is master)")
    well(tutorial.type(alone))
    assert found in well(tutorial.type(build))
    assert "Start of hello.tick: Success" in well(tutorial.type(begin.splitlines()[0]))
    assert wait_until(lambda: "hello from version 1.0" in well(tutorial.type(begin.splitlines()[1])))

    def runs() -> list[dict[str, object]]:
        shown: list[dict[str, object]] = json.loads(well(tutorial.type(look)))
        return shown

    def succeeded() -> set[object]:
        return {run["id"] for run in runs() if run["state"] == "succeeded"}

    # R25, Done when 4 of issue 26: ZooKeeper is away for ten seconds at least, and no fire is refused for good
    tutorial._processes.remove(server)
    server.kill()
    server.wait(30)
    until_s = time.monotonic() + AWAY_S
    assert wait_until(lambda: time.monotonic() > until_s)
    every = "xwheel run list --job hello.tick --state refused --limit 200 --json"
    assert wait_until(lambda: json.loads(well(tutorial.type(every))))
    before = succeeded()
    tutorial.start(zookeeper, "zookeeper.log")
    assert wait_until(lambda: succeeded() - before)
    refused = json.loads(well(tutorial.type(every)))
    assert refused
    assert {run["reason"] for run in refused} == {"failed_over"}
    change, start = bert.splitlines()
    well(tutorial.type(change))
    tutorial.start(start, "bert.log")
    tutorial.said("bert.log", "(joined as)")
    tutorial._processes.remove(first)
    tutorial.type(kill)
    assert first.wait(30) == -9

    port = tutorial.words["9992"]
    assert wait_until(
        lambda: [run for run in runs() if run["state"] == "succeeded" and str(run["address"]).endswith(port)]
    )
    assert "hello.tick  Pause" in well(tutorial.type(pause))
    assert "Restart of hello.tick: Success" in well(tutorial.type(newer))
    assert wait_until(lambda: [run for run in runs() if "version 1.1" in str(run["message"])])
    well(tutorial.type(back))
    assert wait_until(lambda: all("version 1.0" in str(run["message"]) for run in runs() if run["message"]))
