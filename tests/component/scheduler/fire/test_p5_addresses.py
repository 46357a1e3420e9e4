"""P5: a run by hand that names several executors is routed by its job's router among these."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import FieldError
from xwheel.model import Run, RunState
from xwheel.storage.database.engine import Database

A, B, C = (f"http://10.0.0.{number}:900{number}" for number in (1, 2, 3))


@pytest.fixture
def node(db: Database) -> HandNode:
    made = HandNode(db, ManualClock(NOW))
    made.group()
    made.register(A, B, C)
    return made


def went_to(node: HandNode, router: str, *addresses: str, times: int = 1) -> list[str | None]:
    job = node.job(enabled=False, name=router, route_strategy=router)
    for _ in range(times):
        node.scheduler.management.run_now.run(job.id, addresses=addresses)
        node.run_for(100)
    assert {(run.state, run.message) for run in node.runs(job.id)} == {(RunState.DISPATCHING, "")}
    return sorted(run.address or "" for run in node.runs(job.id))


def test_p5_the_router_chooses_among_the_named_ones(node: HandNode) -> None:
    assert went_to(node, "FIRST", C, B) == [B]
    assert went_to(node, "LAST", A, B) == [B]
    assert went_to(node, "ROUND", A, C, times=4) == [A, A, C, C]
    assert went_to(node, "SHARDING_BROADCAST", C, A) == [A, C]
    assert went_to(node, "RANDOM", B) == [B]
    assert set(went_to(node, "SHARDING_BROADCAST")) == {A, B, C}


def test_p5_shards_count_the_named_ones(node: HandNode) -> None:
    went_to(node, "SHARDING_BROADCAST", A, B)
    assert sorted((run.shard_index, run.shard_total) for run in node.runs()) == [(0, 2), (1, 2)]


def test_p5_it_goes_to_those_that_are_live_and_nowhere_else(node: HandNode) -> None:
    job = node.job(enabled=False, route_strategy="FIRST")

    def ended(*addresses: str) -> Run:
        made = node.scheduler.management.run_now.run(job.id, addresses=addresses)
        node.run_for(100)
        return next(run for run in node.runs(job.id) if run.id == made.id)

    gone = "http://10.0.0.9:9009"
    assert ended(gone, B).address == B
    run = ended(gone, "http://10.0.0.8:9008")
    assert (run.state, run.reason) == (RunState.REFUSED, "no_executor")
    assert f"none of {gone}, http://10.0.0.8:9008 is live in group" in run.message


def test_p5_a_run_that_waits_for_one_of_them_gets_it(node: HandNode) -> None:
    job = node.job(enabled=False, wait_for_executor_s=60)
    late = "http://10.0.0.9:9009"
    node.scheduler.management.run_now.run(job.id, addresses=[late, "http://10.0.0.8:9008"])
    node.run_for(1000)
    (run,) = node.runs()
    assert run.state is RunState.PLANNED
    node.register(late)
    node.run_for(2000)
    (run,) = node.runs()
    assert (run.state, run.address) == (RunState.DISPATCHING, late)


def test_p5_too_many_addresses_are_refused_and_repeated_ones_count_once(node: HandNode) -> None:
    job = node.job(enabled=False)
    many = [f"http://10.0.1.{100 + number}:9999" for number in range(11)]
    run = node.scheduler.management.run_now.run(job.id, addresses=[*many, *many])
    assert run.address == " ".join(many)
    with pytest.raises(FieldError, match="addresses: have 275 characters .* 255 are allowed: name fewer"):
        node.scheduler.management.run_now.run(job.id, addresses=[*many, "http://10.0.1.200:9999"])
