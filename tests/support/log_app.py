"""Handlers that write logs, for executors in processes of their own."""

from __future__ import annotations

import time
from pathlib import Path

from xwheel.executor import JobContext, job


@job("writes")
def writes(context: JobContext) -> str:
    """Write this many lines, as the parameter says, and wait for the file ``go`` in between if it names a folder."""
    count, _, folder = context.param.partition(" ")
    for number in range(1, int(count) + 1):
        context.log(f"number {number}")
    while folder and not (Path(folder) / "go").exists():
        time.sleep(0.02)
    if folder:
        context.log("went on")
    return "written"
