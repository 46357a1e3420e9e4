"""Whatever fires and however it ends: never more open than allowed, and everything goes, oldest first."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import BlockScope, Job, Run, RunState
from xwheel.storage import executors
from xwheel.storage.database.engine import Database

SENT = (RunState.DISPATCHING, RunState.RUNNING)


@dataclass
class Storm:
    """A node under random load; every sent batch is checked against the rules."""

    db: Database
    chance: random.Random
    node: HandNode = field(init=False)
    jobs: list[Job] = field(init=False)
    limits: dict[int, int] = field(default_factory=dict)
    order: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.node = HandNode(self.db, ManualClock(NOW), trigger={"waiting_limit": 100})
        for number in (1, 2, 3):
            self.node.group(f"g{number}")
            self.limits[number] = 0
        self.beat()
        routes = ("ROUND", "SHARDING_BROADCAST")
        self.jobs = [
            self.node.job(
                enabled=False,
                group_id=1 + number % 3,
                route_strategy=routes[number % 4 == 0],
                block_scope=BlockScope.CLUSTER if number % 2 else BlockScope.EXECUTOR,
                max_retries=number % 3,
                retry_delay_ms=300,
                wait_for_executor_s=3600,
            )
            for number in range(9)
        ]
        for number in (1, 2):
            self.limit(number, 3)

    def limit(self, group_id: int, most: int) -> None:
        change = {"max_running": most}
        self.db.transaction(lambda conn: executors.update_group(conn, group_id, change, NOW))
        self.node.scheduler.core.registry.step(self.node.clock.now_ms())
        self.limits[group_id] = most

    def beat(self) -> None:
        for number in (1, 2, 3):
            for place in (1, 2):
                address = f"http://127.0.0.1:9{number}0{place}"
                self.node.register(address, app_name=f"g{number}", instance=f"i{number}{place}")

    def serve(self) -> None:
        """Answer what was sent, check it, and end some of what runs."""
        sent = self.node.answer()
        found = self.node.runs()
        running = [run for run in found if run.state in SENT]
        self.check(sent, running)
        ended = [run for run in running if self.chance.random() < 0.5]
        good = [run for run in ended if self.chance.random() < 0.7]
        self.node.finish(good)
        self.node.finish([run for run in ended if run not in good], RunState.FAILED)

    def check(self, sent: list[Run], running: list[Run]) -> None:
        per_group = Counter(run.group_id for run in running)
        grown = {run.group_id for run in sent}
        for group_id in grown:
            assert self.limits[group_id] == 0 or per_group[group_id] <= self.limits[group_id]
        for job in self.jobs:
            if job.block_scope is BlockScope.CLUSTER:
                assert len({run.root_id for run in running if run.job_id == job.id}) <= 1
        for run in sorted(sent, key=lambda run: (run.dispatched_ms, run.due_ms, run.id)):
            if run.id == run.root_id and run.shard_index == 0:
                self.order.setdefault(run.job_id, []).append((run.due_ms, run.id))


@pytest.mark.servers_get(1)
@pytest.mark.parametrize("seed", range(6))
def test_never_more_than_allowed_and_everything_goes_in_due_order(db: Database, seed: int) -> None:
    chance = random.Random(seed)
    storm = Storm(db, chance)
    node = storm.node
    asked = 0
    for turn in range(80):
        for _ in range(chance.randrange(4)):
            node.scheduler.management.run_now.run(chance.choice(storm.jobs).id)
            asked += 1
        if chance.random() < 0.05:
            storm.limit(chance.choice((1, 2)), chance.choice((2, 3, 5)))
        if turn == 40:
            storm.node = node = node.successor()
            storm.beat()
        node.run_for(100, step_ms=50)
        storm.serve()
        storm.beat()
    for _ in range(600):
        node.run_for(200, step_ms=100)
        storm.serve()
        storm.beat()
        if not any(run.state in (RunState.PLANNED, *SENT) for run in node.runs()):
            break
    final = node.runs()
    assert {run.state for run in final} <= {RunState.SUCCEEDED, RunState.FAILED}
    assert len([run for run in final if run.id == run.root_id]) == asked
    for job in storm.jobs:
        went = storm.order.get(job.id, [])
        assert went == sorted(went), f"job {job.id}"


def test_the_storm_would_notice_a_gate_that_lets_all_go(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    storm = Storm(db, random.Random(1))
    monkeypatch.setattr(storm.node.scheduler.planning.firing.limits, "concerns", lambda _: [])
    for _ in range(5):
        storm.node.scheduler.management.run_now.run(storm.jobs[1].id)
    storm.node.run_for(200)
    with pytest.raises(AssertionError):
        storm.serve()
