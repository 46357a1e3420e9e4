"""An unmodified pyxxl: ``python -m tests.interop.pyxxl_app ADMIN_URL APP_NAME TOKEN PORT FOLDER``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pyxxl import ExecutorConfig, PyxxlRunner
from pyxxl.ctx import g


def note(word: str) -> None:
    with (Path(sys.argv[5]) / "executed").open("a", encoding="utf-8") as file:
        file.write(f"{word} {g.xxl_run_data.executorParams}\n")


async def echo() -> str:
    note("start")
    run = g.xxl_run_data
    g.logger.info("echo: %s", run.executorParams)
    note("end")
    return f"{run.executorParams} {run.broadcastIndex}/{run.broadcastTotal}"


async def sleep() -> str:
    note("start")
    await asyncio.sleep(float(g.xxl_run_data.executorParams.split()[0]))
    note("end")
    return "slept"


async def fail() -> None:
    note("start")
    raise ValueError(f"no luck with {g.xxl_run_data.executorParams}")


async def released(label: str) -> None:
    while not (Path(sys.argv[5]) / label).exists():
        await asyncio.sleep(0.02)


async def hold() -> str:
    note("start")
    await released(g.xxl_run_data.executorParams)
    note("end")
    return "held"


async def lines() -> str:
    note("start")
    count, label = g.xxl_run_data.executorParams.split()
    for line in range(1, int(count) + 1):
        g.logger.info("line %d of %s", line, count)
        if line == int(count) // 2:
            await released(label)
    note("end")
    return "logged"


def main() -> None:
    admin_url, app_name, token, port, folder = sys.argv[1:]
    config = ExecutorConfig(
        xxl_admin_baseurl=f"{admin_url}/api/",
        executor_app_name=app_name,
        access_token=token,
        executor_url=f"http://127.0.0.1:{port}",
        executor_listen_host="127.0.0.1",
        executor_listen_port=int(port),
        # its default gives a callback up after 15 s; a busy machine may take longer to start a node
        http_retry_times=100,
        log_local_dir=str(Path(folder) / "logs"),
        debug=True,
    )
    runner = PyxxlRunner(config)
    for handler in (echo, sleep, hold, fail, lines):
        runner.register(name=handler.__name__)(handler)
    runner.run_executor()


if __name__ == "__main__":
    main()
