"""A stranger's plugins: the page "Write a plugin in ten minutes", run as it stands, with nothing of this checkout."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.executors import wait_until
from tests.support.fresh_env import FreshEnvironment
from tests.support.ports import free_port
from tests.support.tutorials import Tutorial

PAGE = "tutorial/first-plugin.md"
WAIT_S = 120


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    environment = FreshEnvironment(tmp_path / "env", "server")
    environment.install_core(tmp_path / "build")
    folder = tmp_path / "work"
    folder.mkdir()
    # the page's router must not choose what FIRST would
    ports = dict(zip(("8080", "8081", "9998", "9999"), sorted(free_port() for _ in range(4)), strict=True))
    words = {name: str(port) for name, port in ports.items()}
    variables = {
        **environment.variables,
        "PYTHONUNBUFFERED": "1",
        "XWHEEL_API__PORT": words["8080"],
        "XWHEEL_API__EXECUTOR_PORT": words["8081"],
    }
    made = Tutorial(PAGE, folder, variables, words)
    yield made
    made.close()


@pytest.mark.long
@pytest.mark.timeout(900)  # it builds and installs five wheels, and starts a node three times
def test_a_strangers_plugins(tutorial: Tutorial) -> None:
    folders, install, check, listing, serve, prepare, first, second, *use, wrong, remove, save, new = (
        tutorial.shells
    )
    create, look, fail, tell = use
    mistake, missing = (text.strip() for text in tutorial.outputs)
    done_well(tutorial.type(folders))
    tutorial.save_files()
    done_well(tutorial.type(install))
    assert done_well(tutorial.type(check)) == "all three hold\n"
    listed = done_well(tutorial.type(listing))
    for word in ("NEARBY", "acme-nearby", "acme-file-alarm", "GLUE_SQL", "acme-sql-glue"):
        assert word in listed

    server = tutorial.start(serve, "server.log")
    take_tokens(tutorial, prepare)
    wait_for_node(tutorial)
    done_well(tutorial.type(commands_of(prepare)))
    tutorial.start(second, "second.log")
    tutorial.start(first, "first.log")
    for log in ("first.log", "second.log"):
        tutorial.said(log, "(is registered)")

    assert tutorial.ask(create)["id"] == 1
    runs = wait_until(lambda: len(found := tutorial.ask(look).get("items", [])) > 2 and found, WAIT_S)
    near = tutorial.adapt("http://127.0.0.1:9999")
    assert {(run["message"], run["address"]) for run in runs} == {("1 rows changed", near)}
    done_well(tutorial.type(fail))
    told = wait_until(lambda: tutorial.type(tell).stdout, WAIT_S)
    assert "Job 2 (tidy up) failed" in told
    assert "no such table: nowhere" in told

    assert mistake in done_well(tutorial.type(wrong)).splitlines()

    tutorial.stop(server)
    done_well(tutorial.type(remove))
    server = tutorial.start(serve, "server.log")
    refused = wait_until(lambda: tutorial.ask(look.replace("succeeded", "refused")).get("items"), WAIT_S)
    assert {(run["reason"], run["message"]) for run in refused} == {("no_route", missing)}
    wait_until(lambda: missing in tutorial.type(tell).stdout, WAIT_S)
    answer = json.loads(done_well(tutorial.type(save)))
    assert (answer["status"], answer["field"]) == (422, "route_strategy")
    assert "'NEARBY' is not installed; known: FIRST, LAST, " in answer["detail"]

    tutorial.stop(server)
    done_well(tutorial.type("pip uninstall --yes acme-file-alarm"))
    tutorial.start(serve, "server.log")
    wait_for_node(tutorial)
    done_well(tutorial.type(new))
    assert (tutorial.folder / "my_router" / "pyproject.toml").exists()
    (rule, *_) = fail.split("\ncurl")
    answer = json.loads(done_well(tutorial.type(rule.replace("-sf", "-s"))))
    assert answer["status"] == 422
    assert "'file' is not installed" in answer["detail"]


def wait_for_node(tutorial: Tutorial) -> None:
    wait_until(lambda: tutorial.type("curl -sf http://127.0.0.1:8080/readyz").returncode == 0, WAIT_S)


def done_well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def take_tokens(tutorial: Tutorial, exports: str) -> None:
    """Export the tokens that the node prints, as the page says."""
    names = re.findall(r"export (\w+)=<the (management|executor) token>", exports)
    assert len(names) == 2
    for name, kind in names:
        tutorial.variables[name] = tutorial.said("server.log", rf"{kind} token \(shown once\): (\S+)")


def commands_of(block: str) -> str:
    """Return a block without what :func:`take_tokens` did."""
    return re.sub(r"^export .*\n", "", block, flags=re.MULTILINE)
