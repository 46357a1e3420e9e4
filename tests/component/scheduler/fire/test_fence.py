"""The last gate before bytes leave: whose runs pass it, and what a COMMIT without an answer leaves behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.node import HandNode
from xwheel.model import RunState
from xwheel.scheduler.fire.fence import SHARD_MS, TURN_MS
from xwheel.storage.database.engine import CommitUnknownError, Connection


def execute(node: HandNode, statement: str) -> None:
    with node.db.write() as conn:
        conn.exec_driver_sql(statement)


@pytest.mark.parametrize("step", [-1, 1])
def test_n6_a_run_of_another_epoch_is_not_fenced(node: HandNode, step: int) -> None:
    """N6: its partition went elsewhere and came back; the node that adopted it there may have sent it."""
    job = node.job(enabled=False)
    taken = node.scheduler.management.run_now.run(job.id)
    node.adopt()
    execute(node, f"UPDATE open_run SET epoch = epoch + {step} WHERE id = {taken.id}")
    node.tick(20)
    assert node.sent == []
    assert [run.state for run in node.runs(job.id)] == [RunState.PLANNED]


@pytest.mark.parametrize("committed", [True, False])
def test_n7_after_an_unknown_commit_only_what_is_still_ours_is_sent(
    node: HandNode, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """N7: what was taken over meanwhile belongs to the taker, whether the COMMIT took effect or not."""
    kept, gone = node.job(enabled=False), node.job(enabled=False)
    mine, theirs = (node.scheduler.management.run_now.run(kept.id), node.scheduler.management.run_now.run(gone.id))
    node.adopt()
    transaction = node.db.transaction
    broken: list[int] = []

    class _UndoneError(Exception):
        pass

    def cut(work: Callable[[Connection], Any], **options: Any) -> Any:
        if broken or work.__qualname__.split(".")[0] != "Fence":
            return transaction(work, **options)
        broken.append(1)

        def undone(conn: Connection) -> None:
            work(conn)
            if not committed:
                raise _UndoneError

        with contextlib.suppress(_UndoneError):
            transaction(undone)
        execute(
            node,
            f"UPDATE partition_lease SET owner = 'another', epoch = epoch + 1 "
            f"WHERE partition_lease.partition = {gone.id % 64}",
        )
        raise CommitUnknownError("the connection broke at COMMIT")

    monkeypatch.setattr(node.db, "transaction", cut)
    node.tick(20)
    assert broken
    assert [shard.run.id for parcel in node.sent for shard in parcel.shards] == [mine.id]
    assert {run.id: run.state for run in node.runs()} == {
        mine.id: RunState.DISPATCHING,
        theirs.id: RunState.DISPATCHING if committed else RunState.PLANNED,
    }
    node.answer()
    assert not any(node.scheduler.sending.pool.in_flight().values())


def test_an_edit_between_the_routing_and_the_fence_is_what_is_sent(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = node.job(enabled=False)
    node.scheduler.management.run_now.run(job.id)
    node.adopt()
    transaction = node.db.transaction

    def late(work: Callable[[Connection], Any], **options: Any) -> Any:
        if work.__qualname__.split(".")[0] == "Fence":
            monkeypatch.undo()
            node.scheduler.management.jobs.edit(job.id, {"handler": "other"})
        return transaction(work, **options)

    monkeypatch.setattr(node.db, "transaction", late)
    node.tick(20)
    node.tick(200)
    assert [shard.job.handler for parcel in node.sent for shard in parcel.shards] == ["other"]


def test_n6_a_run_that_was_adopted_elsewhere_just_before_the_fence_is_not_sent(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = node.job(enabled=False)
    taken = node.scheduler.management.run_now.run(job.id)
    node.adopt()
    transaction = node.db.transaction

    def late(work: Callable[[Connection], Any], **options: Any) -> Any:
        if work.__qualname__.split(".")[0] == "Fence":
            monkeypatch.undo()
            execute(node, f"UPDATE open_run SET epoch = epoch + 1 WHERE id = {taken.id}")
        return transaction(work, **options)

    monkeypatch.setattr(node.db, "transaction", late)
    node.tick(20)
    assert node.sent == []
    assert [run.state for run in node.runs(job.id)] == [RunState.PLANNED]


def test_a_run_that_was_planned_for_another_group_is_sent_in_that_of_its_job(node: HandNode) -> None:
    """Its executor reports from there, and an outcome counts only from the group of the run."""
    other = node.group("other")
    job = node.job(enabled=False)
    taken = node.scheduler.management.run_now.run(job.id)
    execute(node, f"UPDATE open_run SET group_id = {other} WHERE id = {taken.id}")
    node.adopt()
    node.tick(20)
    assert [(run.state, run.group_id) for run in node.runs(job.id)] == [(RunState.DISPATCHING, job.group_id)]


def test_the_retry_of_a_shard_is_sent_as_that_shard(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST", max_retries=1)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.finish([run for run in node.answer() if run.shard_index == 1], RunState.FAILED)
    node.run_for(300)
    shards = [shard.run for parcel in node.sent for shard in parcel.shards]
    assert [(run.attempt, run.shard_index, run.shard_total) for run in shards] == [(2, 1, 2)]


def test_each_shard_of_a_broadcast_puts_the_first_check_off(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", "http://127.0.0.1:9003")
    waits: list[set[int]] = []
    for strategy in ("FIRST", "SHARDING_BROADCAST"):
        job = node.job(enabled=False, route_strategy=strategy)
        node.scheduler.management.run_now.run(job.id)
        node.run_for(300)
        waits.append({(run.check_ms or 0) - (run.dispatched_ms or 0) for run in node.runs(job.id)})
    (single,), (wide,) = waits
    assert wide - single == 2 * SHARD_MS


def test_what_may_wait_for_its_turn_at_a_foreign_executor_is_checked_later(node: HandNode) -> None:
    node.register("http://127.0.0.1:9009", kind="foreign", instance="", boot="")
    waits: list[set[int]] = []
    for strategy in ("FIRST", "LAST"):
        job = node.job(enabled=False, route_strategy=strategy)
        node.scheduler.management.run_now.run(job.id)
        node.run_for(300)
        waits.append({(run.check_ms or 0) - (run.dispatched_ms or 0) for run in node.runs(job.id)})
    (own,), (foreign,) = waits
    assert foreign - own == TURN_MS
