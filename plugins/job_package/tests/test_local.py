"""A local node: marked functions of a package that can be imported, in one process."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from xwheel.plugin import ConfigError
from xwheel_devtools.testing import XwheelProcess

from xwheel_job_package.local import LocalNode, find_jobs

START_MS = 1_700_000_000_000
JOBS = """
from xwheel_package import JobParameter, disabled, schedule
CALLS = []

@schedule(cron="* * * * * ?")
def tick():
    CALLS.append("tick")

@schedule(cron="0/5 * * * * ?")
def bad():
    raise ValueError("no such day")

@schedule()
def by_hand(parameter: JobParameter):
    CALLS.append(f"by hand with {len(parameter)}")
    return "done"

@disabled
@schedule(cron="* * * * * ?")
def off(): ...

@schedule()
async def later():
    CALLS.append("later")

class Shop:
    def __init__(self):
        CALLS.append("made")
    @schedule()
    def opens(self):
        CALLS.append("opens")
    @staticmethod
    @schedule()
    def closes():
        CALLS.append("closes")

@disabled
class Closed:
    @schedule()
    def never(self): ...
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a package that can be imported, and no other test's."""
    name = f"local_{tmp_path.name.replace('-', '_')}"[:60]
    (tmp_path / name / "jobs").mkdir(parents=True)
    (tmp_path / name / "__init__.py").touch()
    (tmp_path / name / "jobs" / "__init__.py").write_text(JOBS)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def calls(package: str) -> list[str]:
    found: list[str] = sys.modules[f"{package}.jobs"].CALLS
    return found


def test_marked_functions_are_found_and_fired_by_their_crons(package: str) -> None:
    """LOC-1: without database, network or console."""
    node = LocalNode(package)
    node.open(START_MS)
    now_ms = START_MS
    for _ in range(30):
        now_ms += node.step(now_ms)
        node.drain()
    ticks = calls(package).count("tick")
    assert ticks == (now_ms - START_MS) // 1000 or ticks == (now_ms - START_MS) // 1000 - 1
    assert ticks > 10


def test_disabled_ones_are_left_out_and_those_without_a_cron_are_only_listed(package: str) -> None:
    """LOC-2."""
    names = [job.name.removeprefix(f"{package}.jobs.") for job in find_jobs([package])]
    assert names == ["Shop.closes", "Shop.opens", "bad", "by_hand", "later", "tick"]
    node = LocalNode(package)
    node.open(START_MS)
    for second in range(20):
        node.step(START_MS + 1000 * second)
    node.drain()
    assert set(calls(package)) == {"tick"}


def test_one_job_is_run_once(package: str, caplog: pytest.LogCaptureFixture) -> None:
    """LOC-2: with the job's status."""
    node = LocalNode(package)
    for name in ("by_hand", "later", "Shop.opens", "Shop.opens", "Shop.closes"):
        assert node.run_once(f"{package}.jobs.{name}") == 0
    assert calls(package) == ["by hand with 0", "later", "made", "opens", "made", "opens", "closes"]
    assert node.run_once(f"{package}.jobs.bad") == 1
    assert "ValueError: no such day" in caplog.text
    with pytest.raises(ConfigError, match=r"there is no job nothing; there are: .*\.jobs\.bad"):
        node.run_once("nothing")


def test_a_job_that_raises_keeps_its_schedule(package: str, caplog: pytest.LogCaptureFixture) -> None:
    """LOC-4: it is logged with its traceback."""
    node = LocalNode(package)
    node.open(START_MS)
    for second in range(21):
        node.step(START_MS + 1000 * second)
        node.drain()
    assert caplog.text.count("ValueError: no such day") == 4
    assert "Traceback" in caplog.text


def test_a_job_that_still_runs_is_not_begun_again(package: str, caplog: pytest.LogCaptureFixture) -> None:
    node = LocalNode(package, drain_s=0.05)
    node.open(START_MS)
    gate = threading.Event()
    sys.modules[f"{package}.jobs"].CALLS = Waiting(gate)
    with caplog.at_level(logging.WARNING):
        for second in range(1, 4):
            node.step(START_MS + 1000 * second)
        node.drain()
    gate.set()
    assert caplog.text.count("tick still runs: this fire is skipped") == 2
    assert "tick did not end within 0.05 s" in caplog.text


class Waiting(list[str]):
    """Holds a job up where it adds to the list."""

    def __init__(self, gate: threading.Event) -> None:
        self._gate = gate

    def append(self, item: str) -> None:
        self._gate.wait(30)


@pytest.mark.parametrize(
    ("text", "words"),
    [("import nothing_like_it", "cannot be imported: ModuleNotFoundError"), ("1 / 0", "ZeroDivisionError")],
)
def test_what_cannot_be_imported_is_named(tmp_path: Path, package: str, text: str, words: str) -> None:
    (tmp_path / package / "broken.py").write_text(text)
    with pytest.raises(ConfigError, match=words):
        find_jobs([package])


def test_a_cron_that_is_none_is_named(tmp_path: Path, package: str) -> None:
    (tmp_path / package / "bad_cron.py").write_text(
        "from xwheel_package import schedule\n@schedule(cron='61 * * * * ?')\ndef never(): ...\n"
    )
    with pytest.raises(ConfigError, match=r"bad_cron\.never: .*61"):
        find_jobs([package])


SLOW = """
import time
from xwheel_package import schedule

@schedule(cron="* * * * * ?")
def slow():
    print("begun", flush=True)
    time.sleep(SECONDS)
    print("ended", flush=True)
"""


def local(folder: Path, seconds: float) -> XwheelProcess:
    """Start ``xwheel local`` with a job that takes this long, and wait until it runs."""
    (folder / "slow_jobs.py").write_text(SLOW.replace("SECONDS", str(seconds)))
    found = XwheelProcess(folder, "local", "slow_jobs", "--drain", "20")
    found.find("(begun)")
    return found


def test_a_signal_lets_runs_end_and_a_second_one_does_not(tmp_path: Path) -> None:
    """LOC-3."""
    with local(tmp_path, 2) as node:
        os.kill(node.pid, signal.SIGTERM)
        assert node._child.wait(30) == 0
        assert node.output.read_text().rstrip().endswith("succeeded")
    with local(tmp_path, 60) as node:
        os.kill(node.pid, signal.SIGINT)
        node.find("(runs under way get 20 s)")
        os.kill(node.pid, signal.SIGTERM)
        assert node._child.wait(30) == 130


def test_a_package_that_starts_a_local_node_starts_none_on_a_package_node(package: str) -> None:
    """LOC-5."""
    code = f"from xwheel_job_package.local import LocalNode; raise SystemExit(LocalNode({package!r}).run())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XWHEEL_PACKAGE_NODE": "1", "PYTHONPATH": sys.path[0]},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
    assert "no local node is started" in done.stderr
