"""Handlers that write lines: as many as they can, or this many a second."""

from __future__ import annotations

import time

from xwheel.executor import JobContext, job

LINE = "a line of a log as handlers write them: order %d was shipped to warehouse 17 in 3.2 ms"


@job("writes")
def writes(context: JobContext) -> float:
    """Write this many lines, with this much work before each; return for how long, in seconds."""
    count, work = map(int, context.param.split())
    began = time.perf_counter()
    for number in range(count):
        sum(range(work))
        context.log(LINE % number)
    return round(time.perf_counter() - began, 4)


@job("paced", parallel=500)
def paced(context: JobContext) -> None:
    """Write this many lines a second for this many seconds."""
    seconds, per_second = map(int, context.param.split())
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for number in range(per_second // 5):
            context.log(LINE % number)
        time.sleep(0.2)
