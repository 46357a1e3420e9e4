"""Processes that are frozen for a while or killed, with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.faults.injectors.fault import Fault
from tests.support.executors import is_alive, wait_until
from xwheel.executor.running.supervisor import descendants

PATIENCE_S = 100


def freezing(pid: int | Callable[[], int], *, alone: bool = False) -> Fault:
    """Return a fault that stops a process in its tracks, as a long pause of its machine does, and lets it go on.

    What of it has ended by then is left alone.

    Args:
        pid: Which process; a function is asked at each begin.
        alone: Its descendants go on.
    """
    held: list[int] = []

    def freeze() -> None:
        _freeze(pid if isinstance(pid, int) else pid(), held, alone=alone)

    def thaw() -> None:
        while held:
            number = held.pop()
            _send(number, signal.SIGCONT)
            os.close(number)

    return Fault("freeze", freeze, thaw)


def kill(pid: int, *, alone: bool = False) -> None:
    """Kill a process and its descendants at one instant, as a power cut does; they are gone when this returns.

    Args:
        alone: What it started lives on.
    """
    held: list[int] = []
    try:
        # none of them can start another one meanwhile
        pids = _freeze(pid, held, alone=alone)
        for number in held:
            _send(number, signal.SIGKILL)
    finally:
        for number in held:
            os.close(number)
    wait_until(lambda: not any(map(is_alive, pids)), PATIENCE_S)


def _freeze(root: int, held: list[int], *, alone: bool) -> list[int]:
    """Stop a process, then what it started by then, until there is no more.

    Args:
        held: Gets a handle of each at once, so that no failure leaves one frozen; a number alone might be another's
            by the time it is thawed.
    """
    stopped: list[int] = []
    waiting = [root]
    while waiting:
        for pid in waiting:
            with contextlib.suppress(ProcessLookupError):
                held.append(os.pidfd_open(pid))
                _send(held[-1], signal.SIGSTOP)
        # a stop takes effect a moment after the signal if the process runs on another core
        for pid in waiting:
            wait_until(partial(_stands_still, pid), PATIENCE_S)
        stopped += waiting
        waiting = [] if alone else [pid for pid in descendants(root) if pid not in stopped]
    return stopped


def _stands_still(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "TZX"


def _send(number: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(number, what)
