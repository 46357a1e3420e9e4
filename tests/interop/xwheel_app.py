"""Our own executor, the reference: ``python -m tests.interop.xwheel_app ADMIN_URL APP_NAME TOKEN PORT FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from xwheel.executor import Executor, JobContext, job


def note(word: str, param: str) -> None:
    with (Path(sys.argv[5]) / "executed").open("a", encoding="utf-8") as file:
        file.write(f"{word} {param}\n")


@job("echo")
def echo(ctx: JobContext) -> str:
    note("start", ctx.param)
    ctx.log(f"echo: {ctx.param}")
    note("end", ctx.param)
    return f"{ctx.param} {ctx.shard_index}/{ctx.shard_total}"


@job("sleep")
def sleep(ctx: JobContext) -> str:
    note("start", ctx.param)
    ctx.wait(float(ctx.param.split()[0]))
    note("end", ctx.param)
    return "slept"


@job("fail")
def fail(ctx: JobContext) -> None:
    note("start", ctx.param)
    raise ValueError(f"no luck with {ctx.param}")


def released(ctx: JobContext, label: str) -> None:
    while not (Path(sys.argv[5]) / label).exists():
        ctx.wait(0.02)


@job("hold")
def hold(ctx: JobContext) -> str:
    note("start", ctx.param)
    released(ctx, ctx.param)
    note("end", ctx.param)
    return "held"


@job("lines")
def lines(ctx: JobContext) -> str:
    note("start", ctx.param)
    count, label = ctx.param.split()
    for line in range(1, int(count) + 1):
        ctx.log(f"line {line} of {count}")
        if line == int(count) // 2:
            released(ctx, label)
    note("end", ctx.param)
    return "logged"


def main() -> None:
    admin_url, app_name, token, port, folder = sys.argv[1:]
    executor = Executor(
        handlers=[echo, sleep, hold, fail, lines],
        allowed_glue_types=["GLUE_SHELL"],
        app_name=app_name,
        admin_addresses=[admin_url],
        access_token=token,
        port=int(port),
        data_dir=Path(folder) / "data",
        beat_s=5,
    )
    sys.exit(0 if executor.run_forever() else 1)


if __name__ == "__main__":
    main()
