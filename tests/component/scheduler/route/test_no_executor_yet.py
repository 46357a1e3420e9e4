"""Routers that know no one yet: the run waits as one without an executor does, and holds up no other job."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.asking import wait_for
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import Job, RegisteredExecutor, RunState
from xwheel.plugin import NoExecutorYetError, RouteContext
from xwheel.storage.database.engine import Database

ADDRESSES = ("http://127.0.0.1:9001", "http://127.0.0.1:9002")


class Later:
    """A router that knows somebody once it is told to."""

    name = "LATER"
    asks = False

    def __init__(self) -> None:
        self.is_there = False
        self.calls = 0

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        self.calls += 1
        if not self.is_there:
            raise NoExecutorYetError("the node is on its way")
        return [context.executors[-1]]


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture(params=["trusted", "not trusted"])
def node(request: pytest.FixtureRequest, sqlite_db: Database, later: Later) -> HandNode:
    made = HandNode(sqlite_db, ManualClock(NOW))
    ours = made.scheduler.core.plugins.routers.trusted
    made.install_routers(later, trusted=ours | {"LATER"} if request.param == "trusted" else ours)
    made.group()
    made.register(*ADDRESSES)
    return made


def job_of(node: HandNode, **fields: object) -> Job:
    job = node.job(**{"enabled": False, **fields})
    with node.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE job SET route_strategy = 'LATER' WHERE id = {job.id}")
    return node.load(job.id)


def run_for(node: HandNode, ms: int) -> None:
    """Let time pass; what a thread chooses for is back after each part of it."""
    for _ in range(ms // 100):
        node.run_for(100)
        wait_for(lambda: not len(node.scheduler.routing.async_chooser))
    node.tick(20)


def run_now(node: HandNode, job: Job) -> None:
    node.scheduler.management.run_now.run(job.id)
    run_for(node, 300)


def test_a_run_waits_until_its_router_knows_somebody(node: HandNode, later: Later) -> None:
    job = job_of(node, wait_for_executor_s=30)
    run_now(node, job)
    run_for(node, 5000)
    (run,) = node.runs(job.id)
    assert run.state is RunState.PLANNED
    assert 4 < later.calls < 20  # from time to time, not in each step
    later.is_there = True
    run_for(node, 1500)
    (run,) = node.runs(job.id)
    assert (run.state, run.address) == (RunState.DISPATCHING, ADDRESSES[1])


def test_without_a_wait_it_is_refused_at_once(node: HandNode) -> None:
    job = job_of(node)
    run_now(node, job)
    (run,) = node.runs(job.id)
    assert (run.state, run.reason) == (RunState.REFUSED, "no_route")
    assert run.message == f"job {job.id}: the node is on its way"


def test_a_wait_ends_with_what_the_router_said(node: HandNode) -> None:
    job = job_of(node, wait_for_executor_s=2)
    run_now(node, job)
    run_for(node, 3000)
    (run,) = node.runs(job.id)
    assert (run.state, run.reason) == (RunState.REFUSED, "no_route")
    assert f"job {job.id}: the node is on its way, and none came in the 2." in run.message


def test_one_fire_of_a_schedule_waits_and_others_are_skipped(node: HandNode, later: Later) -> None:
    job = job_of(node, enabled=True, schedule_conf="1", wait_for_executor_s=60)
    run_for(node, 8000)
    due = [run for run in node.runs(job.id) if run.due_ms <= node.clock.now_ms() - 500]
    assert due[0].state is RunState.PLANNED
    assert {(run.state, run.reason) for run in due[1:]} == {(RunState.SKIPPED, "waiting_for_executor")}
    assert len(due) > 5
    later.is_there = True
    run_for(node, 1500)
    assert node.runs(job.id)[0].state is RunState.DISPATCHING


def test_jobs_wait_each_by_themselves(node: HandNode, later: Later) -> None:
    """One whose router knows no one is no reason to hold up those behind it in the same group."""

    known: set[int] = set()

    class Choosy(Later):
        def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
            self.is_there = context.job.id in known
            return super().route(context)

    ours = node.scheduler.core.plugins.routers.trusted
    node.install_routers(Choosy(), trusted=ours | {"LATER"})
    first, second = (job_of(node, wait_for_executor_s=60) for _ in range(2))
    run_now(node, first)
    run_now(node, second)
    known.add(second.id)
    run_for(node, 1500)
    assert node.runs(first.id)[0].state is RunState.PLANNED
    assert node.runs(second.id)[0].state is RunState.DISPATCHING


def test_many_runs_by_hand_are_tried_from_time_to_time_only(node: HandNode, later: Later) -> None:
    job = job_of(node, wait_for_executor_s=60)
    for _ in range(40):
        node.scheduler.management.run_now.run(job.id)
    run_for(node, 4000)
    assert {run.state for run in node.runs(job.id)} == {RunState.PLANNED}
    assert later.calls < 40 * 8
    later.is_there = True
    run_for(node, 3000)
    assert {run.state for run in node.runs(job.id)} == {RunState.DISPATCHING}
    # which of them come first is up to the threads of a router that is not trusted
    assert sorted(run.id for run in node.answer()) == [run.id for run in node.runs(job.id)]
