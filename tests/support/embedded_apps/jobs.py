"""The jobs of all applications: each execution is a line in a file."""

from __future__ import annotations

import os
from pathlib import Path

from xwheel import embedded

EVERY_MS = 500
FOLDER = Path(os.environ["EMBEDDED_FOLDER"])

scheduler = embedded.EmbeddedScheduler(FOLDER / "schedule")


def note(name: str, ctx: embedded.JobContext) -> None:
    line = f"{name} {ctx.run_id} {ctx.planned_ms} {os.getpid()}\n"
    handle = os.open(FOLDER / "executed", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


@scheduler.job(every=EVERY_MS / 1000)
def beat(ctx: embedded.JobContext) -> None:
    note("beat", ctx)


@scheduler.job(every=EVERY_MS / 1000)
async def async_beat(ctx: embedded.JobContext) -> None:
    note("async_beat", ctx)


@scheduler.job()
def by_hand(ctx: embedded.JobContext) -> str:
    note("by_hand", ctx)
    return f"did {ctx.param}"


def state() -> dict[str, object]:
    return {"pid": os.getpid(), "leads": scheduler.leads}


def trigger() -> dict[str, object]:
    return {**state(), "run_id": scheduler.run_now("by_hand", "it")}
