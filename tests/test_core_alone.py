"""The core is a product by itself: the extra ``core-server`` brings no distribution of ours, and needs none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.support.fresh_env import make_core_alone
from tests.support.paths import ROOT

BROUGHT = {
    "xwheel-accounts",
    "xwheel-alarms",
    "xwheel-commands",
    "xwheel-console",
    "xwheel-devtools",
    "xwheel-job-versions",
    "xwheel-jobs-as-code",
    "xwheel-openapi",
    "xwheel-reports",
    "xwheel-run-logs",
    "xwheel-why",
    "xwheel-xxl-calls",
}
"""What the extra ``server`` brings of ours."""

OURS = sorted(path.stem for path in ROOT.glob("plugins/*/xwheel_*"))
WAIT_S = 60
EXECUTOR = """
import sys
from pathlib import Path
from xwheel.executor import Executor, current_job, job

@job("greet")
def greet() -> str:
    return f"hello {current_job().param}"

Executor(
    handlers=[greet], app_name="shop", admin_addresses=[sys.argv[1]], access_token=sys.argv[2], port=0,
    data_dir=Path("data"),
).run_forever()
"""
pytestmark = pytest.mark.processes


def test_no_other_plugin_is_installed() -> None:
    found = {entry.dist.name for entry in entry_points(group="xwheel") if entry.dist}
    assert found == {"xwheel"} | (set() if "CORE_ALONE" in os.environ else BROUGHT), (
        "plugins are tested in environments of their own: run 'make clean', then 'make test'"
    )


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with what the core needs by itself."""
    return make_core_alone(tmp_path_factory.mktemp("alone") / "env")


def run(python: Path, *words: str, **settings: str) -> str:
    """Run Python, which must succeed, and return what it prints."""
    done = subprocess.run(
        [python, *words], env={**os.environ, **settings}, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_of_ours_can_be_imported_there(python: Path) -> None:
    code = (
        "import sys; from importlib import metadata, util; print(*filter(util.find_spec, sys.argv[1:]), "
        "*sorted({item.name for item in metadata.distributions() if item.name.startswith('xwheel')}))"
    )
    assert len(OURS) > len(BROUGHT)
    assert run(python, "-I", "-c", code, *OURS).split() == ["xwheel"]


def test_a_name_of_a_plugin_is_refused_there_without_a_hint(python: Path) -> None:
    code = "from xwheel.plugin.registries import *; print(repr(where_it_comes_from('router', 'FAILOVER')))"
    assert run(python, "-c", code) == "''\n"


@contextmanager
def running(python: Path, folder: Path, *words: str, **settings: str) -> Iterator[Callable[[str], str]]:
    """Run Python, and end it as an operator does; yield what waits for a line of its output."""
    output = folder / f"output-{Path(words[-1]).name}"
    with output.open("wb") as file:
        child = subprocess.Popen(
            [python, *words],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **settings},
            stdout=file,
            stderr=subprocess.STDOUT,
        )

    def find(pattern: str) -> str:
        end = time.monotonic() + WAIT_S
        while (found := re.search(pattern, output.read_text())) is None:
            assert child.poll() is None, output.read_text()
            assert time.monotonic() < end, output.read_text()
            time.sleep(0.02)
        return found[1]

    try:
        yield find
        child.terminate()
        assert child.wait(WAIT_S) == 0, output.read_text()
    finally:
        child.kill()
        child.wait()


def test_a_node_fires_a_job_to_an_executor_there(python: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(EXECUTOR)
    with ExitStack() as stack:
        find = stack.enter_context(
            running(python, tmp_path, "-m", "xwheel", "server", "--executor-port", "0", "--port", "0")
        )
        url, token = find("management API on (.*)"), find("management token .*: (.*)")
        scheduler, executor_token = find("executor API on (.*)"), find("executor token .*: (.*)")
        assert "xwheel login" not in (tmp_path / "output-0").read_text(), "there is no such command"

        def call(method: str, path: str, body: object = None) -> Any:
            request = Request(
                f"http://{url}/api/v1{path}",
                None if body is None else json.dumps(body).encode(),
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                method=method,
            )
            with urlopen(request, timeout=WAIT_S) as answer:
                return json.load(answer)

        group = call("POST", "/groups", {"app_name": "shop"})["id"]
        wanted = {"name": "greet", "group_id": group, "handler": "greet", "param": "world"}
        job = call("POST", "/jobs", wanted)["id"]
        stack.enter_context(running(python, tmp_path, "shop.py", f"http://{scheduler}", executor_token))
        end = time.monotonic() + WAIT_S
        while not call("GET", f"/executors?group_id={group}")["items"]:
            assert time.monotonic() < end
        fired = call("POST", f"/jobs/{job}/run", {})["id"]
        while (found := call("GET", f"/runs/{fired}"))["state"] != "succeeded":
            assert time.monotonic() < end, found
        assert found["message"] == "hello world"
        listed = run(python, "-m", "xwheel", "plugins", XWHEEL_URL=f"http://{url}", XWHEEL_TOKEN=token)
        assert listed.startswith("KIND")


def test_what_is_missing_there_is_said(python: Path) -> None:
    done = subprocess.run(
        [python, "-m", "xwheel", "job", "list"], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 2
    assert "pip install 'xwheel[cli]' brings those that talk to a node" in done.stderr
    assert "No such command 'job'" in done.stderr
