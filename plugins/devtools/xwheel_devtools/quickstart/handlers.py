"""What the demonstration runs: small real work, each execution counted in a file of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
from xwheel.clock import wall_ms
from xwheel.executor import JobContext, job

from xwheel_devtools.quickstart.jobs import APP_NAME
from xwheel_devtools.verify.site import BEGIN, HandlerNote

EXECUTIONS_VARIABLE = "QUICKSTART_EXECUTIONS"


def count(ctx: JobContext) -> None:
    """Write down that this run is being executed: one line, one write, nothing else decides what is counted."""
    line = HandlerNote(
        what=BEGIN, run_id=ctx.run_id, job_id=ctx.job_id, planned_ms=ctx.planned_ms, at_ms=wall_ms(), executor=APP_NAME
    )
    handle = os.open(os.environ[EXECUTIONS_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, msgspec.json.encode(line) + b"\n")
    finally:
        os.close(handle)


@job("heartbeat")
def heartbeat(ctx: JobContext) -> str:
    """Say how late the run began."""
    count(ctx)
    late_ms = ctx.started_ms - ctx.planned_ms
    ctx.log(f"planned for {ctx.planned_ms}, began {late_ms} ms later")
    return f"{late_ms} ms late"


@job("disk_usage")
def disk_usage(ctx: JobContext) -> str:
    """Report how full the disk is."""
    count(ctx)
    usage = shutil.disk_usage(Path.cwd())
    percent = 100 * usage.used // usage.total
    ctx.log(f"{usage.free // 2**20} MiB free of {usage.total // 2**20} MiB")
    return f"{percent} % used"


@job("primes")
def primes(ctx: JobContext) -> str:
    """Count primes below the parameter: a shard takes its share of the numbers."""
    count(ctx)
    limit = int(ctx.param or "2000")
    mine = range(2 + ctx.shard_index, limit, ctx.shard_total)
    found = sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in mine)
    ctx.log(f"shard {ctx.shard_index} of {ctx.shard_total}: {found} primes below {limit}")
    return f"{found} primes"


@job("flaky")
def flaky(ctx: JobContext) -> str:
    """Fail on the first attempt, so that the retry has something to do."""
    count(ctx)
    if ctx.attempt == 1:
        raise ConnectionError("the first attempt always fails; the retry succeeds")
    return "second attempt"


@job("greet")
def greet(ctx: JobContext) -> str:
    """Greet the name in the parameter."""
    count(ctx)
    ctx.log(f"hello, {ctx.param}")
    return f"greeted {ctx.param}"
