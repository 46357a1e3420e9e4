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
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.executors import is_alive, wait_until
from xwheel.executor.running import process
from xwheel.executor.running.execution import Execution

Tree = Callable[[str], AbstractContextManager[tuple[subprocess.Popen[bytes], int]]]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Start a shell in a group of its own that starts a child; give both, the child by its id."""

    @contextmanager
    def start(script: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        path = tmp_path / "pid"
        shell = subprocess.Popen(
            ["/bin/sh", "-c", script, str(path)], stdin=subprocess.PIPE, start_new_session=True
        )
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
        process._pusher(shell)(round_number)
        wait_until(lambda: not is_alive(child), 30)
        assert shell.wait(60) < 0


@pytest.mark.processes
def test_n21_what_a_dead_supervisor_leaves_is_killed(tree: Tree) -> None:
    """N21: the supervisor would have ended it; the end of the group is what remains if that was killed."""
    execution: Any = SimpleNamespace(lock=threading.Lock(), force=None, ending=None)
    with tree('sleep 300 & echo $! > "$0"; kill -KILL $$') as (shell, child):
        assert process._wait(cast("Execution", execution), shell, cast("Any", None), 0) == (
            -signal.SIGKILL,
            "",
        )
        wait_until(lambda: not is_alive(child), 30)
        assert execution.force is None
