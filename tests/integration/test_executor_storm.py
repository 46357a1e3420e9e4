"""Everything at once: runs, repeats, kills, covers, discards, time limits and a scheduler that comes and goes."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.admins import FakeAdmin, trigger
from tests.support.executors import executor_of, wait_until
from xwheel.executor import JobContext, job

CALLS: Counter[int] = Counter()
JOBS = 25
INSIDE: Counter[int] = Counter()
OVERLAPS: list[int] = []


def enter(ctx: JobContext) -> None:
    CALLS[ctx.run_id] += 1
    INSIDE[ctx.job_id] += 1
    if INSIDE[ctx.job_id] > 1:
        OVERLAPS.append(ctx.job_id)


@job("thread")
def on_thread(ctx: JobContext) -> None:
    enter(ctx)
    try:
        end = time.monotonic() + float(ctx.param)
        while time.monotonic() < end and not ctx.cancelled:
            time.sleep(0.001)
    finally:
        INSIDE[ctx.job_id] -= 1


@job("async")
async def on_loop(ctx: JobContext) -> None:
    enter(ctx)
    try:
        await asyncio.sleep(float(ctx.param))
    finally:
        INSIDE[ctx.job_id] -= 1


@pytest.mark.parametrize("seed", range(3))
def test_every_accepted_run_has_one_call_and_one_outcome(seed: int, tmp_path: Path) -> None:
    CALLS.clear()
    INSIDE.clear()
    OVERLAPS.clear()
    accepted: set[int] = set()
    lock = threading.Lock()
    with FakeAdmin() as admin, executor_of(admin, tmp_path, [on_thread, on_loop], workers=8) as executor:
        address = executor.address

        def shoot(first: int) -> None:
            chance = random.Random(first + seed)
            for log_id in range(first, first + 250):
                number = chance.randrange(1, JOBS)
                fields = {
                    "executorParams": str(chance.random() * 0.02),
                    "executorBlockStrategy": chance.choice(["SERIAL_EXECUTION"] * 4 + ["COVER_EARLY", "DISCARD_LATER"]),
                    "executorTimeout": chance.choice([0, 0, 1]),
                }
                handler = ["thread", "async"][number % 2]
                if chance.random() < 0.3:
                    runs = [trigger(handler, log_id * 1000 + n, number, **fields) for n in range(5)]
                    reply = admin.call(address, "/runBatch", {"instance": executor.instance, "runs": runs})
                    good = {item["id"] for item in reply["data"]["runs"] if item["code"] == 200}
                else:
                    good = {log_id} if admin.run(address, handler, log_id, number, **fields)["code"] == 200 else set()
                with lock:
                    accepted.update(good)
                if good and chance.random() < 0.1:
                    again = min(good)
                    assert admin.run(address, handler, again, number, **fields)["code"] == 200
                if chance.random() < 0.05:
                    admin.call(address, "/kill", {"jobId": number})

        threads = [threading.Thread(target=shoot, args=(1000 * (number + 1),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(0.2)
            admin.down()
            time.sleep(0.2)
            admin.up()
        for thread in threads:
            thread.join(60)
        # an outcome that was refused while others were taken waits for a minute
        wait_until(lambda: len({item["logId"] for item in admin.outcomes}) >= len(accepted), 120)
        assert {item["logId"] for item in admin.outcomes} == accepted
        # an answer that was lost, or a repeated run, may bring an outcome twice, but never another one
        fates: dict[int, set[tuple[int, str]]] = {}
        for item in admin.outcomes:
            fates.setdefault(item["logId"], set()).add((item["handleCode"], item["handleMsg"]))
        assert all(len(fate) == 1 for fate in fates.values())
        assert max(CALLS.values()) == 1
        assert set(CALLS) <= accepted
        assert OVERLAPS == []
        assert all(CALLS[run_id] == 1 for run_id, fate in fates.items() if next(iter(fate))[0] == 200)
        kinds = Counter(item["xwheel"]["reason"] for item in admin.outcomes)
        assert {"", "killed", "covered"} <= set(kinds)


HEARD = threading.Event()
BEATS = 4
MOST_LINES = 4_000_000


@job("chatter")
def chatter(ctx: JobContext) -> None:
    number = 0
    while not HEARD.is_set() and number < MOST_LINES:
        ctx.log(f"line {number}")
        number += 1
    assert HEARD.is_set(), "no beat came while it wrote"


def test_a_handler_that_writes_all_the_time_does_not_stall_beats(tmp_path: Path) -> None:
    HEARD.clear()
    beats = itertools.count(1)

    with FakeAdmin() as admin, executor_of(admin, tmp_path, [chatter], beat_s=0.05) as executor:
        admin.run(executor.address, "chatter", 1)

        def note(uri: str, _body: object) -> None:
            if uri == "registry" and next(beats) == BEATS:
                HEARD.set()

        admin.refuse = note
        assert admin.outcome(1)["handleCode"] == 200
