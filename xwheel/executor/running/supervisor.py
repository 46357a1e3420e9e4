"""The first process of a process handler's run: it calls nothing itself and ends whatever the handler started.

Orphans of its descendants become its children, because it is a child subreaper; so a process that left the group and
the session (``setsid``, a double fork) is still found when the run ends, is killed, or when the executor dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import time
from pathlib import Path
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36
# after this long what cannot be killed is left: processes of another user, or ones that hang in the kernel
SWEEP_S: Final = 10.0
PAUSE_S: Final = 0.002


def divide(control: int) -> None:
    """Fork; return in the process that is to call the handler. The other one supervises it and never returns.

    ``control`` is a pipe from the executor. Anything written to it, or its end, means: kill everything.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # TERM goes to the whole group and is meant for the handler; neither of the two may meet it unprepared
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    wakeup, signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    worker = os.fork()
    if worker == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (wakeup, signalled, control):
            os.close(descriptor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        status = _watch(worker, control, wakeup)
    except BaseException:
        os._exit(1)  # the executor kills the group
    _end_like(status)


def _watch(worker: int, control: int, wakeup: int) -> int:
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    status: int | None = None
    while status is None:
        for descriptor, _ in poll.poll():
            if descriptor == wakeup:
                os.read(wakeup, 4096)
            else:
                poll.unregister(control)
                status = _sweep(worker)
        if status is None:
            status = _reap(worker)
    _sweep(worker)
    return status


def _sweep(worker: int) -> int | None:
    """Kill every descendant, also those that are born meanwhile; return the worker's status if it ended here."""
    status: int | None = None
    end = time.monotonic() + SWEEP_S
    while time.monotonic() < end:
        killed = sum(_kill(pid) for pid in descendants(os.getpid()))
        found = _reap(worker)
        status = found if status is None else status
        if not killed:
            break
        time.sleep(PAUSE_S)
    return status


def _kill(pid: int) -> bool:
    # descendants cannot be reaped by anybody else while we look, so the number still means them
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _reap(worker: int) -> int | None:
    status: int | None = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, found = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == worker:
                status = found
    return status


def descendants(root: int) -> list[int]:
    """Return all living descendants of a process."""
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            # the name of the program may hold anything, so count from its closing bracket
            stat = Path(entry.path, "stat").read_text("utf-8", "replace")
            state, parent = stat.rpartition(")")[2].split()[:2]
            children.setdefault(int(parent), []).append(int(entry.name))
            if state in ("Z", "X"):
                dead.add(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return [pid for pid in found if pid not in dead]


def _end_like(status: int) -> None:
    """End as the worker did, so that the executor sees its status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the worker left its own core already
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
