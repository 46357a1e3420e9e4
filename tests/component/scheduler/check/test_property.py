"""Whatever executors do, no open run stays past its check, and in the end none is open."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from tests.support.network import attach, check, states
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import ConflictError
from xwheel.model import FINAL_STATES, OPEN_STATES, Run, RunState
from xwheel.scheduler.records import Fate
from xwheel.storage.database.engine import Database

ADDRESSES = [f"http://127.0.0.1:900{number}" for number in range(4)]
GARBAGE: list[Any] = [None, 404, 500, b"?", {"code": 500, "msg": "no"}, {"code": 200, "data": {"runs": 1}}]
REASONS = {"unknown_there", "instance_gone", "executor_gone", "no_report", "deadline", "killed_by_user", ""}


class World:
    """A node, two executors of each kind, and what chance does to them."""

    def __init__(self, db: Database, seed: int) -> None:
        self.chance = random.Random(seed)
        random.seed(seed)  # the router that chooses at random asks the module
        self.node = HandNode(db, ManualClock(NOW), trigger={"check_after_s": 60})
        self.node.group()
        limits = [0, 0, 20, 120] * 2
        self.jobs = [self.node.job(enabled=False, timeout_s=limit, route_strategy="RANDOM") for limit in limits]
        self.alive = set(range(len(ADDRESSES)))
        self._boots = [0] * len(ADDRESSES)
        self._states: dict[int, Any] = {}
        attach(self.node, self._answer)

    def step(self) -> list[Run]:
        """Let five seconds pass; return what is open."""
        for number in self.alive:
            self._beat(number)
        self.node.run_for(5000, step_ms=5000)
        self.node.answer(self.chance.choice([Fate.ACCEPTED, Fate.ACCEPTED, Fate.UNKNOWN]))
        check(self.node)
        return [run for run in self.node.runs() if run.state in OPEN_STATES]

    def disturb(self, open_runs: list[Run]) -> None:
        """Kill a run, or let an executor come, go or fall silent."""
        if open_runs and self.chance.random() < 0.2:
            with contextlib.suppress(ConflictError):
                self.node.scheduler.management.killer.kill(self.chance.choice(open_runs).id)
        if self.chance.random() < 0.05:
            number = self.chance.randrange(len(ADDRESSES))
            self._boots[number] += 1
            self.alive.symmetric_difference_update({number})
            if self.chance.random() < 0.5:
                self.node.scheduler.core.registry.remove("demo", ADDRESSES[number])

    def end(self) -> None:
        for address in ADDRESSES:
            self.node.scheduler.core.registry.remove("demo", address)
        self.alive.clear()

    def _beat(self, number: int) -> None:
        if number % 2:
            self.node.register(ADDRESSES[number], kind="foreign", instance="", boot="")
        else:
            boot = f"boot-{self._boots[number]}"
            self.node.register(ADDRESSES[number], instance=f"instance-{number}", boot=boot)

    def _answer(self, address: str, path: str, body: dict[str, Any]) -> Any:
        number = ADDRESSES.index(address)
        if number not in self.alive or self.chance.random() < 0.2:
            return self.chance.choice(GARBAGE)
        if number % 2:
            return {"code": self.chance.choice([200, 500])}
        for key in body.get("keys", ()):
            self._states.setdefault(key[0], self.chance.choice(["unknown", "accepted", "started", "started"]))
        return states(self._states, instance=f"instance-{number}")(address, path, body)


@pytest.mark.parametrize("seed", range(4))
def test_no_open_run_is_past_its_check(db: Database, seed: int) -> None:
    world = World(db, seed)
    for _ in range(120):
        for job in world.chance.sample(world.jobs, 2):
            world.node.scheduler.management.run_now.run(job.id)
        open_runs = world.step()
        assert_looked_at(open_runs, world.node.clock.now_ms())
        world.disturb(open_runs)
    world.end()
    for _ in range(40):
        assert_looked_at(world.step(), world.node.clock.now_ms())
    found = world.node.runs()
    assert {run.state for run in found} <= FINAL_STATES
    reasons = {run.reason for run in found if run.state is not RunState.REFUSED}
    assert reasons <= REASONS
    assert len(reasons) >= 5


def assert_looked_at(open_runs: list[Run], now_ms: int) -> None:
    for run in open_runs:
        if run.state is not RunState.PLANNED:
            assert run.check_ms is not None
            assert run.check_ms > now_ms - 60_000, run
