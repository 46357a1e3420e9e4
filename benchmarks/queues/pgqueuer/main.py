"""Inserts and works jobs that do nothing, as benchmarks/peers_pg.py tells it."""

import asyncio
import json
import os
import sys
import time

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from pgqueuer.models import Job

BATCH = 5000
POLL_S = 0.002
# five as in its own benchmark, tools/benchmark.py; a batch of a hundred is faster here than that one's ten
DEQUEUERS = 5
DEQUEUED = 100


async def main(jobs: int, warm: int) -> None:
    url = os.environ["PEER_URL"]
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    watcher = await asyncpg.connect(url)
    done = 0
    managers = [PgQueuer(AsyncpgDriver(await asyncpg.connect(url))) for _ in range(DEQUEUERS)]
    for manager in managers:

        @manager.entrypoint("nothing")
        async def nothing(_: Job) -> None:
            nonlocal done
            done += 1

    tasks = [asyncio.create_task(manager.run(batch_size=DEQUEUED)) for manager in managers]

    async def insert(count: int) -> None:
        for first in range(0, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            payloads = [b"%d" % number for number in numbers]
            await queries.enqueue(["nothing"] * len(numbers), payloads, [0] * len(numbers))

    async def finish(count: int) -> None:
        left = True
        while left:
            await asyncio.sleep(POLL_S)
            if done >= count:
                left = await watcher.fetchval("SELECT EXISTS (SELECT FROM pgqueuer)")

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
    for manager in managers:
        manager.shutdown.set()
    await asyncio.gather(*tasks)


uvloop.run(main(*map(int, sys.argv[1:])))
