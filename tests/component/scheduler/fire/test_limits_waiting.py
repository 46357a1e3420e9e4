"""Runs that wait for an executor, and runs that only one executor may get."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from tests.support.databases import twin_of
from tests.support.node import HandNode
from tests.support.rows import NOW, make_executor, make_run
from xwheel.clock import ManualClock
from xwheel.model import Job, MisfirePolicy, Origin, Run, RunState
from xwheel.storage import executors, runs
from xwheel.storage.database.engine import Database

HOME = "http://127.0.0.1:9001"
AWAY = "http://127.0.0.1:9002"


@pytest.fixture
def empty_node(db: Database) -> HandNode:
    """A node whose group has no executor."""
    node = HandNode(db, ManualClock(NOW))
    node.group()
    return node


def run_now(node: HandNode, job: Job, *, address: str | None = None) -> Run:
    run = node.scheduler.management.run_now.run(job.id, addresses=[address] if address else ())
    node.run_for(200)
    return run


def ends(node: HandNode, job: Job) -> list[tuple[str, str]]:
    return [(str(run.state), run.reason) for run in node.runs(job.id)]


def test_without_a_wait_a_run_is_refused_at_once(empty_node: HandNode) -> None:
    job = empty_node.job(enabled=False)
    run_now(empty_node, job)
    (run,) = empty_node.runs()
    assert (run.state, run.reason) == (RunState.REFUSED, "no_executor")
    assert run.message == f"job {job.id}: no live executor in group 1"


def test_a_wait_ends_with_a_refusal_that_says_how_long_it_was(empty_node: HandNode) -> None:
    job = empty_node.job(enabled=False, wait_for_executor_s=10)
    asked = run_now(empty_node, job)
    empty_node.run_for(asked.due_ms + 9_900 - empty_node.clock.now_ms())
    assert ends(empty_node, job) == [("planned", "")]
    empty_node.run_for(200)
    (run,) = empty_node.runs()
    assert (run.state, run.reason) == (RunState.REFUSED, "no_executor")
    assert "none came in the 10.0 s since it was due" in run.message


def test_an_arrival_wakes_waiting_runs_at_once(empty_node: HandNode) -> None:
    job = empty_node.job(enabled=False, wait_for_executor_s=60)
    asked = [run_now(empty_node, job) for _ in range(3)]
    empty_node.run_for(5000)
    empty_node.register(HOME)
    empty_node.tick(1)
    assert [run.id for run in empty_node.answer()] == [run.id for run in asked]


def test_waiting_runs_go_oldest_due_first_whichever_row_came_first(empty_node: HandNode) -> None:
    job = empty_node.job(enabled=False, wait_for_executor_s=60)
    now_ms = empty_node.clock.now_ms()
    rows = [
        make_run(700 + number, job_id=job.id, partition=job.partition, origin=Origin.API, due_ms=now_ms + after_ms)
        for number, after_ms in enumerate((900, 300, 600))
    ]
    empty_node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    empty_node.run_for(5000)
    empty_node.register(HOME)
    empty_node.tick(1)
    assert [run.due_ms - now_ms for run in empty_node.answer()] == [300, 600, 900]


def test_an_arrival_at_another_node_is_seen_with_the_registry(empty_node: HandNode) -> None:
    job = empty_node.job(enabled=False, wait_for_executor_s=60)
    run_now(empty_node, job)
    registry = empty_node.scheduler.core.registry
    twin = twin_of(empty_node.db)
    there = make_executor(HOME, seen_ms=empty_node.clock.now_ms())
    twin.transaction(lambda conn: executors.save_executor(conn, there))
    twin.close()
    empty_node.tick(1)
    assert empty_node.sent == []
    registry.step(empty_node.clock.now_ms())
    empty_node.tick(1)
    assert len(empty_node.answer()) == 1


def test_a_dead_group_makes_skips_and_no_flood_of_waiting_runs(empty_node: HandNode) -> None:
    job = empty_node.job(schedule_conf="1", wait_for_executor_s=3600)
    by_hand = empty_node.job(enabled=False, wait_for_executor_s=3600)
    for _ in range(3):
        run_now(empty_node, by_hand)
    empty_node.run_for(20_000)
    due = [(run.state, run.reason) for run in empty_node.runs(job.id) if run.due_ms <= empty_node.clock.now_ms()]
    assert due[0] == (RunState.PLANNED, "")
    assert set(due[1:]) == {(RunState.SKIPPED, "waiting_for_executor")}
    assert len(due) > 15
    assert ends(empty_node, by_hand) == [("planned", "")] * 3


def test_after_the_wait_the_next_fire_waits_anew(empty_node: HandNode) -> None:
    job = empty_node.job(schedule_conf="1", wait_for_executor_s=3)
    empty_node.run_for(10_000)
    reasons = [run.reason for run in empty_node.runs(job.id) if run.state is not RunState.PLANNED]
    assert reasons.count("no_executor") >= 2
    assert "waiting_for_executor" in reasons


@pytest.mark.parametrize("policy", list(MisfirePolicy))
def test_a_restart_changes_nothing_for_a_run_within_its_wait(empty_node: HandNode, policy: MisfirePolicy) -> None:
    node = empty_node
    job = node.job(
        schedule_conf="3600",
        anchor_ms=NOW - 3_599_000,
        wait_for_executor_s=30,
        misfire_policy=policy,
        misfire_threshold_ms=5000,
    )
    node.run_for(2000)
    (first,) = [run for run in node.runs(job.id) if run.due_ms <= node.clock.now_ms()]
    node.clock.advance(15_000)
    heir = node.successor()
    heir.run_for(2000)
    assert ends(heir, job)[0] == ("planned", "")
    last = heir.successor()
    last.register(HOME)
    last.run_for(500)
    assert [run.id for run in last.answer()] == [first.id]


def test_a_restart_keeps_the_end_of_the_wait(empty_node: HandNode) -> None:
    job = empty_node.job(enabled=False, wait_for_executor_s=10)
    asked = run_now(empty_node, job)
    empty_node.run_for(5000)
    heir = empty_node.successor()
    heir.run_for(asked.due_ms + 9_900 - heir.clock.now_ms())
    assert ends(heir, job) == [("planned", "")]
    heir.run_for(300)
    assert ends(heir, job) == [("refused", "no_executor")]


def test_a_stopped_job_waits_no_more(empty_node: HandNode) -> None:
    job = empty_node.job(schedule_conf="1", wait_for_executor_s=60)
    empty_node.run_for(3000)
    empty_node.scheduler.management.jobs.stop(job.id)
    empty_node.register(HOME)
    empty_node.run_for(1000)
    assert empty_node.sent == []
    assert {state for state, _ in ends(empty_node, job)} == {"cancelled", "skipped"}


def test_a_pinned_run_goes_to_its_address_and_asks_no_router(node: HandNode) -> None:
    node.register(AWAY, instance="i2")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST")
    run_now(node, job, address=AWAY)
    (run,) = node.answer()
    assert (run.address, run.instance, run.shard_total) == (AWAY, "i2", 1)


def test_a_pinned_run_without_its_executor_is_refused_by_name(node: HandNode) -> None:
    job = node.job(enabled=False)
    run_now(node, job, address=AWAY)
    (run,) = node.runs()
    assert (run.state, run.reason) == (RunState.REFUSED, "no_executor")
    assert run.message == f"job {job.id}: executor {AWAY} is not live in group 1"


def test_a_pinned_run_waits_for_its_executor_and_holds_up_no_other(node: HandNode) -> None:
    job = node.job(schedule_conf="1", wait_for_executor_s=60)
    pinned = run_now(node, job, address=AWAY)
    node.run_for(3000)
    others = node.answer()
    assert pinned.id not in {run.id for run in others}
    assert len(others) >= 2
    assert {run.origin for run in others} == {Origin.SCHEDULE}
    node.register(AWAY, instance="i2")
    node.tick(1)
    assert [(run.id, run.address) for run in node.answer()] == [(pinned.id, AWAY)]


def test_a_retried_shard_keeps_its_index_though_its_first_executor_left(node: HandNode) -> None:
    node.register(AWAY, instance="i2")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST", max_retries=1, wait_for_executor_s=60)
    run_now(node, job)
    shards = sorted(node.answer(), key=lambda run: run.shard_index)
    node.scheduler.core.registry.remove("demo", AWAY)
    node.scheduler.core.registry.remove("demo", HOME)
    node.finish(shards[1:], RunState.FAILED)
    node.run_for(2000)
    node.register(HOME)
    node.tick(1)
    (retry,) = node.answer()
    assert (retry.shard_index, retry.shard_total, retry.address) == (1, 2, HOME)


def test_a_fire_that_was_cancelled_in_memory_holds_up_no_later_one(empty_node: HandNode) -> None:
    job = empty_node.job(schedule_type="ONCE", schedule_conf="2026-01-01T00:00:03", wait_for_executor_s=60)
    empty_node.plan()
    empty_node.scheduler.management.jobs.stop(job.id)
    empty_node.scheduler.management.jobs.start(job.id)
    empty_node.run_for(5000)
    assert sorted(ends(empty_node, job)) == [("cancelled", "stopped"), ("planned", "")]


def test_a_claimed_fire_is_not_read_again_before_it_is_sent(empty_node: HandNode) -> None:
    seen: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    empty_node.register(HOME)
    empty_node.job(schedule_conf="3")
    empty_node.plan()
    event.listen(empty_node.db.engine, "before_cursor_execute", note)
    empty_node.tick(3000)
    event.remove(empty_node.db.engine, "before_cursor_execute", note)
    assert len(empty_node.sent) == 1
    reads = [item for item in seen if item.startswith("SELECT") and "FROM open_run" in item]
    assert len(reads) == 1  # what is still planned, locked by the fence
