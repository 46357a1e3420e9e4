"""Inserts and works jobs that do nothing, as benchmarks/peers_pg.py tells it."""

import asyncio
import json
import os
import sys
import time

import procrastinate
import psycopg

BATCH = 5000
POLL_S = 0.002
# one worker fetches one job at a time; eight in a process are three times as fast as one
WORKERS = 8
CONCURRENCY = 4

connector = procrastinate.PsycopgConnector(conninfo=os.environ["PEER_URL"], min_size=16, max_size=16)
app = procrastinate.App(connector=connector)
done = 0


@app.task(name="nothing", pass_context=False)
async def nothing(number: int) -> None:  # noqa: ARG001
    global done  # noqa: PLW0603
    done += 1


async def insert(count: int) -> None:
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        await nothing.batch_defer_async(*({"number": number} for number in numbers))


async def main(jobs: int, warm: int) -> None:
    watcher = await psycopg.AsyncConnection.connect(os.environ["PEER_URL"], autocommit=True)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        options = {"concurrency": CONCURRENCY, "install_signal_handlers": False}
        workers = asyncio.gather(*(app.run_worker_async(**options) for _ in range(WORKERS)))

        async def finish(count: int) -> None:
            left = True
            while left:
                await asyncio.sleep(POLL_S)
                if done >= count:
                    query = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"
                    row = await (await watcher.execute(query)).fetchone()
                    left = row is None or row[0]

        await insert(warm)
        await finish(warm)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        began = time.perf_counter()
        await insert(jobs)
        inserted = time.perf_counter()
        await finish(warm + jobs)
        ended = time.perf_counter()
        result = {"insert_s": inserted - began, "all_s": ended - began, "done": done - warm}
        print(json.dumps(result), flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # the end of our orders
        workers.cancel()
        await asyncio.gather(workers, return_exceptions=True)
    await watcher.close()


asyncio.run(main(*map(int, sys.argv[1:])))
