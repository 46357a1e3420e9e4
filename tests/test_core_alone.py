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

import pytest

from tests.support.fresh_env import make_core_alone
from tests.support.paths import ROOT

BROUGHT = {
    "xwheel-accounts",
    "xwheel-alarms",
    "xwheel-console",
    "xwheel-devtools",
    "xwheel-job-versions",
    "xwheel-jobs-as-code",
    "xwheel-reports",
    "xwheel-run-logs",
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
        [python, *words],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
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
        settings = {
            "XWHEEL_URL": f"http://{find('management API on (.*)')}",
            "XWHEEL_TOKEN": find("management token .*: (.*)"),
        }
        scheduler = f"http://{find('executor API on (.*)')}"
        token = find("executor token .*: (.*)")

        def xwheel(*words: str) -> str:
            return run(python, "-m", "xwheel", *words, **settings)

        xwheel("group", "create", "shop")
        xwheel("job", "create", "greet", "--group", "shop", "--handler", "greet", "--param", "world")
        stack.enter_context(running(python, tmp_path, "shop.py", scheduler, token))
        end = time.monotonic() + WAIT_S
        while "http" not in xwheel("group", "executors", "shop"):
            assert time.monotonic() < end
        followed = json.loads(xwheel("job", "run", "greet", "--wait", "--json"))
        assert followed["succeeded"]
        assert "hello world" in xwheel("run", "show", str(followed["id"]))
