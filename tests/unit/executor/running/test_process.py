"""The end of a process reaches what it started, whether or not a supervisor helps."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.executors import is_alive, wait_until
from xwheel.executor.running import process, supervisor
from xwheel.executor.running.execution import KILLED, Execution
from xwheel.wire.messages import RunKey, TriggerRequest

Tree = Callable[[str], AbstractContextManager[tuple[subprocess.Popen[bytes], int]]]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Start a shell in a group of its own that starts a child; give both, the child by its id."""

    @contextmanager
    def start(script: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        path = tmp_path / "pid"
        shell = subprocess.Popen(["/bin/sh", "-c", script, str(path)], stdin=subprocess.PIPE, start_new_session=True)
        with shell:
            try:
                yield shell, int(wait_until(lambda: path.exists() and path.read_text().strip()))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)

    return start


@pytest.mark.parametrize(
    ("before", "round_number"), [("", 0), ("trap '' TERM;", process.LAST_ROUND)], ids=["TERM", "KILL"]
)
@pytest.mark.processes
def test_n21_a_kill_ends_the_child_of_the_child(tree: Tree, before: str, round_number: int) -> None:
    """N21: signals go to the group, not to its first process alone."""
    with tree(f'{before} sleep 300 & echo $! > "$0"; wait') as (shell, child):
        process._push(shell, round_number)
        wait_until(lambda: not is_alive(child), 30)
        assert shell.wait(60) < 0


@pytest.mark.processes
def test_n21_what_a_dead_supervisor_leaves_is_killed(tree: Tree) -> None:
    """N21: the supervisor would have ended it; the end of the group is what remains if that was killed."""
    execution = Execution(TriggerRequest(job_id=1, run_id=1, created_ms=1), cast("Any", None), RunKey(1, 1, 1))
    with tree('sleep 300 & echo $! > "$0"; kill -KILL $$') as (shell, child):
        assert process._wait(execution, shell, cast("Any", None), 0) == (-signal.SIGKILL, "")
        wait_until(lambda: not is_alive(child), 30)
        assert execution.force is None


@pytest.mark.processes
def test_a_kill_that_came_before_the_process_ends_it_at_once(tree: Tree) -> None:
    execution = Execution(TriggerRequest(job_id=1, run_id=1, created_ms=1), cast("Any", None), RunKey(1, 1, 1))
    execution.ending = KILLED
    with tree('sleep 300 & echo $! > "$0"; wait') as (shell, _):
        waiting = threading.Thread(target=process._wait, args=(execution, shell, cast("Any", None), 0), daemon=True)
        waiting.start()
        waiting.join(30)
        assert not waiting.is_alive()
        assert shell.returncode == -signal.SIGTERM


def test_a_program_that_a_signal_ended_counts_from_128_as_in_a_shell() -> None:
    assert process._judge_exit(-9, "") == (500, "script exit value(137) is failed (SIGKILL)")
    assert process._judge_exit(3, "")[1] == "script exit value(3) is failed"


def test_no_pattern_gives_programs_the_settings_of_xwheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XWHEEL_EXECUTOR__ACCESS_TOKEN", "secret")
    monkeypatch.setenv("XDG_HOME", "kept")
    given = process.plain_environment(("X*", "XWHEEL_EXECUTOR__ACCESS_TOKEN"))
    assert given["XDG_HOME"] == "kept"
    assert not any(name.startswith("XWHEEL_") for name in given)


def test_only_the_end_of_the_handler_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [(11, 0), (10, 9), (12, 256), (0, 0)]
    monkeypatch.setattr(supervisor.os, "waitpid", lambda *_: ends.pop(0))
    assert supervisor._reap(10) == 9
    ends = [(11, 0), (0, 0)]
    assert supervisor._reap(10) is None


def test_what_a_handler_leaves_is_swept_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[int] = []
    control, wakeup = os.pipe(), os.pipe()
    try:
        os.write(wakeup[1], b"x")
        monkeypatch.setattr(supervisor, "_reap", lambda _: 7)
        monkeypatch.setattr(supervisor, "_sweep", swept.append)
        assert supervisor._watch(10, control[0], wakeup[0]) == 7
    finally:
        for number in (*control, *wakeup):
            os.close(number)
    assert swept == [10]
