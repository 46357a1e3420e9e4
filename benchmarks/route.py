"""What choosing an executor costs: CPU of a send, 100 executors, against making the ring each time as XXL-JOB does.

A batch is 1,000 runs of as many jobs that the tick thread routes with one list of executors, which it reads once a
tick; each batch has a list of its own. What needs the plugin ``router_extra`` is left out without it.
"""

from __future__ import annotations

import hashlib
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from xwheel_devtools.testing import ManualClock, sample_executors, sample_job, sample_run

from benchmarks._report import Report
from xwheel.config import build_config
from xwheel.model import Job, RegisteredExecutor, Run
from xwheel.plugin.discovery import load_plugins
from xwheel.scheduler.executors.loads import Loads
from xwheel.scheduler.route.choose import Chooser

EXECUTORS = 100
JOBS = 1000
BATCHES = 20
GOAL_US = 2.0
RING_CALLS = 40
BUILTIN = ("FIRST", "LAST", "RANDOM", "ROUND", "SHARDING_BROADCAST")
EXTRA = (
    "CONSISTENT_HASH",
    "LEAST_FREQUENTLY_USED",
    "LEAST_RECENTLY_USED",
    "LEAST_LOADED",
    "WEIGHTED",
    "STICKY",
    "LABELS",
)
GOAL = (*BUILTIN, "CONSISTENT_HASH")

Choose = Callable[[Run, Job, Sequence[RegisteredExecutor], int], Sequence[RegisteredExecutor] | None]


def ring_each_time(job_id: int, addresses: Sequence[str]) -> str:
    """Choose as XXL-JOB does: a sorted ring of 100 places an address, made for this one choice."""
    ring = {}
    for address in addresses:
        for number in range(100):
            ring[place_of(f"SHARD-{address}-NODE-{number}")] = address
    places = sorted(ring)
    return ring[places[bisect_left(places, place_of(str(job_id))) % len(places)]]


def place_of(key: str) -> int:
    """Return where a key stands."""
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "little")


def chooser() -> tuple[Choose, set[str]]:
    """Return what the tick thread calls, and the names it knows."""
    routers = load_plugins(build_config({})).routers
    clock = ManualClock()
    elsewhere: Any = _nobody
    loads = Loads(elsewhere, clock)  # asked by none of them
    return Chooser(routers, elsewhere, loads, routers).choose, set(routers)


def _nobody(*_: object, **__: object) -> None:
    raise AssertionError("no router asks here")


def cpu_us(choose: Choose, name: str) -> float:
    """Return the CPU of one send in microseconds."""
    options = "zone" if name == "LABELS" else ""
    jobs = [sample_job(id=number, route_strategy=name, route_options=options) for number in range(1, JOBS + 1)]
    run = sample_run()
    made = sample_executors(EXECUTORS, labels={"zone": "a", "weight": "2"})
    for job in jobs:
        choose(run, job, made, 1)  # as on a node that has been running for a while
    sends = 0
    began = time.process_time()
    for batch in range(BATCHES):
        executors = list(made)
        for job in jobs:
            sends += len(choose(run, job, executors, batch) or ())
    return (time.process_time() - began) / sends * 1e6


def main() -> None:
    """Measure and print."""
    report = Report(__doc__ or "")
    repeats = report.parse().repeats
    choose, known = chooser()
    addresses = [item.registered_as for item in sample_executors(EXECUTORS)]
    rebuilt: list[float] = []
    costs: dict[str, list[float]] = {name: [] for name in (*BUILTIN, *EXTRA) if name in known}
    for _ in range(repeats):
        began = time.process_time()
        for _ in range(RING_CALLS):
            ring_each_time(random.randrange(1, 2**53), addresses)
        rebuilt.append((time.process_time() - began) / RING_CALLS * 1e6)
        for name, samples in costs.items():
            samples.append(cpu_us(choose, name))
    report.figure("ring made for each send", rebuilt, "us")
    for name, samples in costs.items():
        report.figure(name, samples, "us")
        if name in GOAL:
            middle = sorted(samples)[len(samples) // 2]
            report.note(name, f"goal {GOAL_US:g}: {'held' if middle < GOAL_US else 'MISSED'}")
    if "CONSISTENT_HASH" in costs:
        report.ratio("ring made each time / CONSISTENT_HASH", rebuilt, costs["CONSISTENT_HASH"])
    report.finish()


if __name__ == "__main__":
    main()
