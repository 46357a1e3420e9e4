"""The standard library's own tests of asyncio, run on event loops that keep their timers on the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.executors import ROOT

# what is left out of each: tests that look into the loop's own heap instead of at what it does
SUITES = {
    "test_waitfor": [],
    "test_timeouts": [],
    "test_tasks": [],
    "test_events.SelectEventLoopTests": [],
    "test_base_events": [
        "BaseEventLoopTests.test_call_later",
        "BaseEventLoopTests.test__run_once_cancelled_event_cleanup",
    ],
}
# these must be among those that passed
NAMED = {
    "test_waitfor": {"test_wait_for", "test_wait_for_blocking", "test_wait_for_timeout_less_then_0_or_0"},
    "test_timeouts": {"test_timeout_basic", "test_nested_timeouts"},
    "test_tasks": {"test_sleep", "test_sleep_cancel", "test_sleep_zero", "test_task_cancel_sleeping_task"},
    "test_events.SelectEventLoopTests": {"test_call_later", "test_run_until_complete"},
    "test_base_events": {"test_time_and_call_at", "test_call_later_negative_delays"},
}


@pytest.mark.processes
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name == "test_tasks" else name for name in SUITES]
)
def test_suite(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.asyncio_suite", name, *SUITES[name]],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    loops = re.search(r"^(\d+) loops had a wheel$", done.stdout, re.MULTILINE)
    assert loops
    assert int(loops[1]) > 10
    assert set(re.findall(r"^(\w+) \(.*ok$", done.stderr, re.MULTILINE)) >= NAMED[name]
