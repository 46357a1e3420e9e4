"""Two nodes write the last two outcomes of one fire, or of two parents of a join, at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.databases import twin_of
from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from tests.support.stubs import StubTimetable
from xwheel.model import ChildLink, JoinMode, Origin, Run, RunState
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.observers import Observers
from xwheel.scheduler.records import Outcome
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.storage.run_ids import RunIds

ROUNDS = 15


def completer(db: Database, node: HandNode) -> Finisher:
    timetable: Any = StubTimetable(lambda job, now_ms: now_ms + 1)
    return Finisher(db, RunIds(db), node.clock, timetable, Observers((), db), lambda: None, lambda _: None)


@pytest.fixture
def pair(node: HandNode) -> Iterator[list[Finisher]]:
    """Two completers that share nothing but the database."""
    twins = [twin_of(node.db), twin_of(node.db)]
    yield [completer(twin, node) for twin in twins]
    for twin in twins:
        twin.close()


def at_once(pair: Sequence[Finisher], batches: Sequence[Sequence[Run]], state: RunState) -> None:
    """Let each completer write its batch, both beginning together."""
    start = threading.Barrier(len(batches))
    failures: list[BaseException] = []

    def finish(one: Finisher, batch: Sequence[Run]) -> None:
        start.wait(10)
        try:
            one.finish([Outcome(run_id=run.id, state=state, code=200) for run in batch])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=finish, args=pieces) for pieces in zip(pair, batches, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def make(node: HandNode, name: str, **changes: object) -> int:
    values = {"schedule_type": "NONE", "schedule_conf": "", "enabled": False}
    return node.job(name=name, **{**values, **changes}).id


def running(node: HandNode, run_id: int, job_id: int, **changes: object) -> Run:
    run = make_run(run_id, job_id=job_id, partition=job_id % 64, state=RunState.RUNNING, **changes)
    node.db.transaction(lambda conn: runs.insert_runs(conn, [run]))
    return run


def test_the_last_two_shards_bring_one_child(node: HandNode, pair: list[Finisher]) -> None:
    parent, child = make(node, "parent"), make(node, "child")
    node.scheduler.management.dependencies.set_children(
        parent, [ChildLink(parent_id=parent, child_id=child, param=None)]
    )
    for number in range(ROUNDS):
        root = 1_000_000 + 10 * number
        shards = [
            running(node, root + index, parent, root_id=root, shard_index=index, shard_total=2, origin_key=root)
            for index in range(2)
        ]
        at_once(pair, [[shards[0]], [shards[1]]], RunState.SUCCEEDED)
        assert [run.origin_key for run in node.runs(child)].count(root) == 1
    assert len(node.runs(child)) == ROUNDS


def test_the_last_two_parents_bring_one_join(node: HandNode, pair: list[Finisher]) -> None:
    left, right, join = make(node, "left"), make(node, "right"), make(node, "join", join_mode=JoinMode.ALL)
    for parent in (left, right):
        node.scheduler.management.dependencies.set_children(
            parent, [ChildLink(parent_id=parent, child_id=join, param=None)]
        )
    for number in range(ROUNDS):
        chain = 1_000_000 + 10 * number
        parents = [
            running(node, chain + place, job_id, origin=Origin.CHILD, origin_key=chain, chain_id=chain, chain_depth=1)
            for place, job_id in enumerate((left, right), 1)
        ]
        at_once(pair, [[parents[0]], [parents[1]]], RunState.SUCCEEDED)
        assert [run.origin_key for run in node.runs(join)].count(chain) == 1
    assert len(node.runs(join)) == ROUNDS


def test_the_last_two_shards_set_one_next_fire(node: HandNode, pair: list[Finisher]) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1s", route_strategy="SHARDING_BROADCAST")
    node.register("http://127.0.0.1:9002", instance="i2")
    for _ in range(ROUNDS):
        node.run_for(1500)
        shards = node.answer()
        assert len(shards) == 2
        at_once(pair, [[shards[0]], [shards[1]]], RunState.SUCCEEDED)
        ended = node.load(job.id)
        assert (ended.awaits_root, ended.next_fire_ms) == (None, node.clock.now_ms() + 1)


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.LOST])
def test_one_outcome_told_to_two_nodes_is_followed_once(node: HandNode, pair: list[Finisher], state: RunState) -> None:
    job_id = make(node, "flaky", max_retries=1, recover_lost=True)
    for number in range(ROUNDS):
        first = NOW + 100 * number
        batch = [running(node, first + place, job_id, retries_left=1, origin=Origin.API) for place in range(20)]
        at_once(pair, [batch, batch[::-1]], state)
    follow_ups = [run for run in node.runs(job_id) if run.attempt == 2]
    assert len(follow_ups) == 20 * ROUNDS
    assert len({run.origin_key for run in follow_ups}) == 20 * ROUNDS
