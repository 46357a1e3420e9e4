"""A real node and two real executors: what is limited never overlaps, as the handlers themselves wrote down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.executors import wait_until
from tests.support.rows import job_values
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.config import build_config
from xwheel.executor import Executor, JobContext, job
from xwheel.model import BlockScope, RunState
from xwheel.node.loops import Scheduler
from xwheel.node.node import Node
from xwheel.storage import executors as groups
from xwheel.storage import runs

EXECUTOR_TOKEN = "token-between-node-and-executors"


PAIRED = ("two at once", "as they come")


@dataclass
class Records:
    """When handlers began and ended: ``(monotonic time, job, +1 or -1)``."""

    lines: list[tuple[float, str, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    met: dict[str, threading.Event] = field(default_factory=lambda: {name: threading.Event() for name in PAIRED})

    def note(self, name: str, step: int) -> None:
        with self.lock:
            self.lines.append((time.monotonic(), name, step))
            if name in self.met and sum(by for _, found, by in self.lines if found == name) == 2:
                self.met[name].set()

    def most_at_once(self, name: str) -> int:
        open_now = most = 0
        for _, found, step in sorted(self.lines):
            if found == name:
                open_now += step
                most = max(most, open_now)
        return most

    def count(self, name: str) -> int:
        return sum(1 for _, found, step in self.lines if found == name and step > 0)


RECORDS = Records()


@job("noted")
def noted(ctx: JobContext) -> str:
    RECORDS.note(ctx.param, 1)
    if ctx.param in PAIRED:
        RECORDS.met[ctx.param].wait(60)  # two do come together, however slow the machine is
    time.sleep(0.05)
    RECORDS.note(ctx.param, -1)
    return "ok"


@dataclass
class Place:
    """A node with its own database, and how to make an executor for it."""

    node: Node
    folder: Path
    executors: list[Executor] = field(default_factory=list)

    @property
    def scheduler(self) -> Scheduler:
        return self.node.scheduler

    def group(self, app_name: str, most: int) -> int:
        now_ms = self.scheduler.core.clock.now_ms()
        made = self.scheduler.core.db.transaction(
            lambda conn: groups.insert_group(conn, app_name=app_name, title="", now_ms=now_ms, max_running=most)
        )
        wait_until(lambda: most == 0 or made.id in self.scheduler.core.registry.limited_groups)
        return made.id

    def executor(self, app_name: str) -> None:
        executor = Executor(
            handlers=[noted],
            glue_types={"BEAN": BeanGlue()},
            app_name=app_name,
            admin_addresses=[f"http://127.0.0.1:{self.node.executors.port}"],
            access_token=EXECUTOR_TOKEN,
            port=0,
            data_dir=self.folder / f"executor{len(self.executors)}",
            leave_s=0,
        )
        executor.start()
        self.executors.append(executor)

    def make(self, group_id: int, name: str, **changes: Any) -> int:
        now_ms = self.scheduler.core.clock.now_ms()
        values = job_values(
            group_id=group_id, name=name, param=name, handler="noted", route_strategy="ROUND", **changes
        )
        return self.scheduler.management.jobs.create({**values, "anchor_ms": now_ms}, enabled=False).id

    def ended(self, job_id: int) -> list[RunState]:
        with self.scheduler.core.db.read() as conn:
            return [run.state for run in runs.list_runs(conn, job_id=job_id, limit=1000)]


@pytest.fixture
def place(tmp_path: Path, new_database: Callable[[], str]) -> Iterator[Place]:
    config = build_config(
        {"database": {"url": new_database()}, "api": {"port": 0, "executor_port": 0, "executor_token": EXECUTOR_TOKEN}}
    )
    RECORDS.lines.clear()
    RECORDS.met.update({name: threading.Event() for name in PAIRED})
    made = Place(Node(config, announce=lambda _: None), tmp_path)
    made.node.start()
    try:
        yield made
    finally:
        for executor in made.executors:
            executor.stop()
        made.node.stop()


def test_two_executors_never_run_more_than_limit_and_strategy_allow(place: Place) -> None:
    limited, free = place.group("limited", 2), place.group("free", 0)
    for app_name in ("limited", "free"):
        place.executor(app_name)
        place.executor(app_name)
    wait_until(lambda: len(place.scheduler.core.registry.all(place.scheduler.core.clock.now_ms())) == 4)
    two = place.make(limited, "two at once", block_strategy="SERIAL_EXECUTION")
    other = place.make(limited, "two at once")
    serial = place.make(free, "one by one", block_scope=BlockScope.CLUSTER)
    plain = place.make(free, "as they come")
    for _ in range(10):
        for job_id in (two, other, serial, plain):
            place.scheduler.management.run_now.run(job_id)
    for job_id in (two, other, serial, plain):
        wait_until(lambda job_id=job_id: place.ended(job_id) == [RunState.SUCCEEDED] * 10, 60)
    assert RECORDS.count("two at once") == 20
    assert RECORDS.most_at_once("two at once") == 2
    assert RECORDS.count("one by one") == 10
    assert RECORDS.most_at_once("one by one") == 1
    assert RECORDS.most_at_once("as they come") == 2  # one on each executor: the records can tell


def test_a_run_waits_for_the_first_executor_and_starts_as_it_comes(place: Place) -> None:
    group_id = place.group("late", 0)
    job_id = place.make(group_id, "waited for", wait_for_executor_s=60)
    place.scheduler.management.run_now.run(job_id)
    wait_until(lambda: len(place.scheduler.core.deferred) == 1)
    place.executor("late")
    wait_until(lambda: place.ended(job_id) == [RunState.SUCCEEDED])
