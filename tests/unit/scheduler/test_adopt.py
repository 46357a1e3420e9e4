"""Rows that nobody holds find their way back: after a takeover, a lost memory, a send without an answer."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.model import MisfirePolicy, RunState
from xwheel.scheduler.handover import Fate
from xwheel.storage.engine import Database
from xwheel.testing import ManualClock


def test_a_successor_finishes_what_was_planned(node: HandNode) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 3000)
    node.plan()
    heir = node.successor()
    heir.run_for(4000, each=lambda: heir.finish(heir.answer()))
    assert [run.planned_ms for run in heir.runs()] == [NOW + 1000, NOW + 2000, NOW + 3000]
    assert {run.state for run in heir.runs()} == {RunState.SUCCEEDED}


def test_rows_that_waited_too_long_pass_the_misfire_rule(node: HandNode) -> None:
    skip = node.job(schedule_conf="1", end_ms=NOW + 3000)
    once = node.job(schedule_conf="1", end_ms=NOW + 3000, misfire_policy=MisfirePolicy.FIRE_ONCE)
    node.plan()
    node.clock.advance(60_000)
    heir = node.successor()
    heir.run_for(300)
    heir.finish(heir.answer())
    assert {(run.state, run.reason) for run in heir.runs(skip.id)} == {(RunState.SKIPPED, "misfire")}
    assert [run.planned_ms for run in heir.runs(once.id) if run.state is RunState.SUCCEEDED] == [NOW + 3000]


def test_a_run_that_memory_lost_is_found_by_reconciling(node: HandNode) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 1000)
    node.plan()
    node.scheduler.ring_loop.drain()
    node.run_for(7000)
    assert len(node.sent) == 1
    assert node.scheduler.adopting.recovered == 1


def test_a_held_run_is_not_taken_up_twice(node: HandNode) -> None:
    node.scheduler.pool.acquire = lambda *_args, **_options: False  # type: ignore[method-assign]
    node.job(schedule_conf="1", end_ms=NOW + 1000)
    node.run_for(20_000)
    assert node.scheduler.adopting.recovered == 0
    assert node.scheduler.ring_loop.depth() == (0, 1)


def test_more_waiting_than_memory_holds_stays_rows(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW), trigger={"waiting_limit": 100})
    node.group()
    node.register("http://127.0.0.1:9001")
    acquire = node.scheduler.pool.acquire
    node.scheduler.pool.acquire = lambda *_args, **_options: False  # type: ignore[method-assign]
    job = node.job(enabled=False)
    for _ in range(150):
        node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    assert node.scheduler.ring_loop.depth() == (0, 100)
    assert node.scheduler.ring_loop.overflowed == 50
    node.scheduler.pool.acquire = acquire  # type: ignore[method-assign]
    node.run_for(6000)
    assert sum(len(parcel.shards) for parcel in node.sent) == 150


def test_an_unanswered_send_is_asked_again_with_the_same_id(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN, "timed out")
    assert node.runs()[0].state is RunState.DISPATCHING

    node.run_for(11_000)

    (parcel,) = node.sent
    assert parcel.again
    assert [shard.run.id for shard in parcel.shards] == [run.id]
    node.answer()
    assert node.runs()[0].state is RunState.RUNNING


def test_an_instance_that_moved_is_asked_at_its_new_address(node: HandNode) -> None:
    job = node.job(enabled=False)
    node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    node.scheduler.registry.remove("demo", "http://127.0.0.1:9001")
    node.register("http://127.0.0.1:7777", instance="instance-1")
    node.run_for(11_000)
    assert node.sent[0].executor.address == "http://127.0.0.1:7777"


@pytest.mark.parametrize("is_there", [True, False])
def test_an_outcome_that_comes_while_a_send_is_settled_is_the_last_word(
    node: HandNode, is_there: bool
) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    if not is_there:
        node.scheduler.registry.remove("demo", "http://127.0.0.1:9001")
    waiting = node.runs()
    node.finish([run])
    node.scheduler.resender.settle(waiting, node.clock.now_ms())
    assert (node.runs()[0].state, node.runs()[0].check_ms) == (RunState.SUCCEEDED, None)
    assert node.sent == []


def test_a_run_whose_instance_is_gone_is_lost_and_may_still_be_corrected(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    node.scheduler.registry.remove("demo", "http://127.0.0.1:9001")
    node.run_for(100_000, step_ms=1000)
    assert (node.runs()[0].state, node.runs()[0].reason) == (RunState.LOST, "instance_gone")

    node.finish([run])
    assert node.runs()[0].state is RunState.SUCCEEDED


def test_a_foreign_run_without_an_answer_counts_as_running_and_is_never_sent_again(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001", kind="foreign", instance="", boot="")
    job = node.job(enabled=False)
    node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    assert node.runs()[0].state is RunState.RUNNING
    node.run_for(30_000, step_ms=1000)
    assert node.sent == []


def test_a_foreign_run_cut_off_by_a_crash_counts_as_running(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001", kind="foreign", instance="", boot="")
    node.scheduler.manager.run_now(node.job(enabled=False).id)
    node.run_for(300)
    heir = node.successor()
    heir.run_for(11_000, step_ms=500)
    assert heir.sent == []
    assert heir.runs()[0].state is RunState.RUNNING


def test_a_fire_planned_twice_by_a_cursor_set_back_runs_once(node: HandNode) -> None:
    job = node.job(schedule_conf="1", end_ms=NOW + 2000)
    node.run_for(2500)
    with node.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE job SET next_fire_ms = {NOW + 1000} WHERE id = {job.id}")
    node.run_for(2500)
    assert [run.planned_ms for run in node.runs()] == [NOW + 1000, NOW + 2000]
    assert node.scheduler.claiming.duplicates == 2


def test_draining_leaves_everything_to_the_rows(node: HandNode) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 3000)
    node.plan()
    assert len(node.scheduler.ring_loop.drain()) == 3
    heir = node.successor()
    heir.run_for(4000)
    assert len({shard.run.id for parcel in heir.sent for shard in parcel.shards}) == 3
