"""The unmodified pyxxl from PyPI as an executor: ``python -m tests.support.pyxxl_app ADMIN_API_URL PORT TOKEN``."""

from __future__ import annotations

import asyncio
import sys

from pyxxl import ExecutorConfig, PyxxlRunner
from pyxxl.ctx import g

from tests.support.admins import APP_NAME


def main() -> None:
    url, port, token = sys.argv[1:]
    config = ExecutorConfig(
        xxl_admin_baseurl=url,
        executor_app_name=APP_NAME,
        access_token=token,
        executor_url=f"http://127.0.0.1:{port}",
        executor_listen_host="127.0.0.1",
        executor_listen_port=int(port),
        debug=True,
    )
    runner = PyxxlRunner(config)

    @runner.register(name="hello")
    async def hello() -> str:
        g.logger.info("pyxxl says hello to %s", g.xxl_run_data.executorParams)
        return "hello " + str(g.xxl_run_data.executorParams)

    @runner.register(name="facts")
    async def facts() -> dict[str, int]:
        return {"rows": 3}

    @runner.register(name="fails")
    async def fails() -> None:
        raise ValueError("no luck")

    @runner.register(name="sleeps")
    async def sleeps() -> None:
        await asyncio.sleep(60)

    runner.run_executor()


if __name__ == "__main__":
    main()
