"""What the executors of ``xwheel verify`` run. A handler's first act is a line in a file, and so is its last one.

The file belongs to this executor's process alone; what is written there stays when the process is killed.
"""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Final

import msgspec
from xwheel.clock import wall_ms
from xwheel.executor import JobContext, job

from xwheel_devtools.verify.handlers_env import FILE_VARIABLE, NAME_VARIABLE
from xwheel_devtools.verify.site import BEGIN, END, HandlerNote

WAIT_S: Final = 0.05


@cache
def _file() -> int:
    return os.open(os.environ[FILE_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(ctx: JobContext, what: str) -> None:
    """Write down that this run is being executed, or has been: one line in one write, which is on disk then."""
    line = HandlerNote(
        what=what,
        run_id=ctx.run_id,
        job_id=ctx.job_id,
        planned_ms=ctx.planned_ms,
        at_ms=wall_ms(),
        executor=os.environ[NAME_VARIABLE],
        param=ctx.param or "",
    )
    os.write(_file(), msgspec.json.encode(line) + b"\n")
    if what == BEGIN:
        os.fdatasync(_file())


@job("verify_notes", parallel=8)
def notes(ctx: JobContext) -> str:
    """Succeed at once."""
    note(ctx, BEGIN)
    note(ctx, END)
    return "ok"


@job("verify_holds", parallel=8)
def holds(ctx: JobContext) -> str:
    """Take as many milliseconds as the parameter says."""
    note(ctx, BEGIN)
    time.sleep(int(ctx.param or "0") / 1000)
    note(ctx, END)
    return "ok"


@job("verify_waits", parallel=8)
def waits(ctx: JobContext) -> str:
    """Wait to be told to end, but no longer than as many milliseconds as the parameter says."""
    note(ctx, BEGIN)
    end_s = time.monotonic() + int(ctx.param or "0") / 1000
    while not ctx.cancelled and time.monotonic() < end_s:
        time.sleep(WAIT_S)
    note(ctx, END)
    return "ok"


@job("verify_fails_first", parallel=8)
def fails_first(ctx: JobContext) -> str:
    """Fail on the first attempt."""
    note(ctx, BEGIN)
    if ctx.attempt == 1:
        raise ConnectionError("the first attempt fails on purpose")
    note(ctx, END)
    return "ok"
