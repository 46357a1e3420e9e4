"""What the executors of the checker run. A handler's first act is one line in a file, in one write.

The file belongs to this executor's process alone; what is written there stays when the process is killed.
"""

from __future__ import annotations

import json
import os
import time

from tests.faults.checker.names import FILE_VARIABLE, NAME_VARIABLE
from xwheel.executor import JobContext, job

_handle = os.open(os.environ[FILE_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(ctx: JobContext) -> None:
    """Write down that this run is being executed."""
    facts = {
        "run_id": ctx.run_id,
        "job_id": ctx.job_id,
        "planned_ms": ctx.planned_ms,
        "at_ms": time.time_ns() // 1_000_000,
        "executor": os.environ[NAME_VARIABLE],
    }
    os.write(_handle, json.dumps(facts).encode() + b"\n")


@job("notes")
def notes(ctx: JobContext) -> str:
    """Succeed."""
    note(ctx)
    return "ok"


@job("fails_first")
def fails_first(ctx: JobContext) -> str:
    """Fail on the first attempt."""
    note(ctx)
    if ctx.attempt == 1:
        raise ConnectionError("the first attempt fails on purpose")
    return "ok"
