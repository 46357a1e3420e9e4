"""The judge of ``.ci/run``: which failed tests run again, and what fails whatever passes then."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.processes

WORKERS = ("-p", "xdist.plugin", "-n", "2", "--dist", "worksteal")
SCRIPT = ROOT / "tests" / "support" / "stages.py"
STEADY = "def test_steady(): pass\n"
BROKEN = "def test_broken():\n    assert 'spam' == 'eggs'\n"
# the mark is beside the file: temporary folders differ with and without workers
COMES_AGAIN = """
def comes_again(name):
    mark = pathlib.Path(__file__).with_name(name)
    came, _ = mark.exists(), mark.write_text("")
    return came
"""
UNSTEADY = """
def test_unsteady():
    assert comes_again("unsteady"), "the first time"
"""
BAD_FIXTURE = """
@pytest.fixture
def spoon():
    assert comes_again("spoon"), "there is no spoon"
def test_spoon(spoon): pass
"""
SKIPPED_AGAIN = """
def test_skipped():
    if comes_again("skipped"):
        pytest.skip("no second time")
    assert False
"""
KILLED = "import os, signal\ndef test_killed(): os.kill(os.getpid(), signal.SIGKILL)\n"


class Run:
    """What ``.ci/run`` does, on small files of tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = ""

    def stage(self, stage: str, *command: str, tests: bool = True) -> int:
        return self._call("run", *(["--again", "5"] if tests else []), stage, *command)

    def pytest(self, text: str, *options: str) -> int:
        """Run these tests, of which each call has a folder of its own."""
        folder = self.folder / f"suite{len(list(self.folder.glob('suite*')))}"
        folder.mkdir()
        (folder / "test_it.py").write_text(f"import pathlib\nimport pytest\n{COMES_AGAIN}{text}")
        (folder / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", f"--rootdir={folder}", *options, str(folder)]
        return self.stage(folder.name, *command)

    def judge(self) -> int:
        return self._call("judge")

    def unsteady(self) -> list[str]:
        file = self.folder / "build" / "unsteady.txt"
        return file.read_text().splitlines() if file.exists() else []

    def _call(self, *arguments: str) -> int:
        script = [sys.executable, str(SCRIPT), "--folder", str(self.folder / "build")]
        done = subprocess.run([*script, *arguments], env=_env(), capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        self.output = done.stdout
        return done.returncode


def _env() -> dict[str, str]:
    """Return the environment without what the tests around these ones set; plugins of pytest would cost most time."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return mine | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "BEGUN": "7"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.parametrize("options", [(), WORKERS], ids=["one process", "workers"])
def test_a_test_that_fails_at_its_first_call_only_is_named_and_fails_nothing(run: Run, options: Sequence[str]) -> None:
    assert run.pytest(STEADY + UNSTEADY, *options) == 0
    assert run.judge() == 0
    assert len(run.unsteady()) == 1
    assert "test_it::test_unsteady: " in run.unsteady()[0]
    assert run.output.splitlines()[-1] == f"unsteady: {run.unsteady()[0]}"
    assert "test_steady" not in run.output


def test_the_last_line_of_the_first_failure_is_told(run: Run) -> None:
    run.pytest(UNSTEADY)
    run.judge()
    assert run.unsteady()[0].endswith("test_it.py:10: AssertionError")


@pytest.mark.parametrize("options", [(), WORKERS], ids=["one process", "workers"])
def test_a_test_that_fails_twice_fails_the_run(run: Run, options: Sequence[str]) -> None:
    assert run.pytest(STEADY + BROKEN + UNSTEADY, *options) == 0
    assert run.judge() == 1
    assert "failed twice: suite0: test_it::test_broken: " in run.output
    assert len(run.unsteady()) == 1


def test_what_a_test_needs_may_fail_at_first(run: Run) -> None:
    assert run.pytest(BAD_FIXTURE) == 0
    assert run.judge() == 0
    assert "test_spoon" in run.unsteady()[0]


def test_a_test_that_is_skipped_the_second_time_did_not_pass(run: Run) -> None:
    assert run.pytest(SKIPPED_AGAIN) == 0
    assert run.judge() == 1
    assert run.unsteady() == []


def test_more_than_five_of_one_stage_fail_at_once(run: Run) -> None:
    assert run.pytest("".join(BROKEN.replace("broken", f"broken{n}") for n in range(6))) == 1


def test_more_than_five_of_all_stages_fail_at_once(run: Run) -> None:
    three = "".join(UNSTEADY.replace("unsteady", f"unsteady{n}") for n in range(3))
    assert run.pytest(three) == 0
    assert run.pytest(three) == 1


@pytest.mark.parametrize("options", [(), WORKERS], ids=["one process", "workers"])
def test_a_process_of_tests_that_died_fails_at_once(run: Run, options: Sequence[str]) -> None:
    assert run.pytest(UNSTEADY + KILLED, *options) != 0


@pytest.mark.parametrize("text", ["import missing_module\n", "def test_(:\n", ""], ids=["import", "syntax", "no test"])
def test_tests_that_cannot_be_run_fail_at_once(run: Run, text: str) -> None:
    assert run.pytest(text) not in {0, 1}


def test_what_is_no_test_fails_at_once(run: Run) -> None:
    assert run.stage("lint", sys.executable, "-c", "import sys; sys.exit(1)", tests=False) == 1
    assert run.stage("lint", sys.executable, "-c", "import sys; sys.exit(1)") == 1, "it left no report"
    assert run.stage("lint", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)", tests=False) == 128 + 9


def test_nothing_failed(run: Run) -> None:
    assert run.pytest(STEADY) == 0
    assert run.judge() == 0
    assert run.unsteady() == []


def test_stages_are_listed_with_their_seconds(run: Run) -> None:
    run.stage("lint", sys.executable, "-c", "", tests=False)
    run.stage("types", sys.executable, "-c", "", tests=False)
    run.stage("lint", sys.executable, "-c", "", tests=False)
    assert run._call("table") == 0
    assert [line.split()[0] for line in run.output.splitlines()] == ["stage", "lint", "types", "all"]
