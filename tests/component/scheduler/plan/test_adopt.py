"""Rows that no one holds find their way back: after a takeover, a lost memory, a send without an answer."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.clock import ManualClock
from xwheel.model import MisfirePolicy, RunState
from xwheel.scheduler.records import Fate
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.storage.runs import QueuedRun


def test_a_successor_finishes_what_was_planned(node: HandNode) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 3000)
    node.plan()
    heir = node.successor()
    heir.run_for(4000, each=lambda: heir.finish(heir.answer()))
    assert [run.planned_ms for run in heir.runs()] == [NOW + 1000, NOW + 2000, NOW + 3000]
    assert {run.state for run in heir.runs()} == {RunState.SUCCEEDED}


def test_rows_that_waited_too_long_pass_the_misfire_rule(node: HandNode) -> None:
    skip = node.job(schedule_conf="1", end_ms=NOW + 3000, misfire_policy=MisfirePolicy.SKIP)
    once = node.job(schedule_conf="1", end_ms=NOW + 3000, misfire_policy=MisfirePolicy.FIRE_ONCE)
    node.plan()
    node.clock.advance(60_000)
    heir = node.successor()
    heir.run_for(300)
    heir.finish(heir.answer())
    assert {(run.state, run.reason) for run in heir.runs(skip.id)} == {(RunState.SKIPPED, "misfire")}
    assert [run.planned_ms for run in heir.runs(once.id) if run.state is RunState.SUCCEEDED] == [NOW + 3000]


@pytest.mark.parametrize("claims_first", [True, False])
@pytest.mark.parametrize("is_over", [True, False])
def test_r17_fire_once_spares_one_run_a_job(node: HandNode, is_over: bool, claims_first: bool) -> None:
    """R17: rows come a thousand at a time, and what the claim finds missed as well makes no second run."""
    end_ms = NOW + (5000 if is_over else 6000)
    jobs = [node.job(schedule_conf="2ms", end_ms=end_ms, misfire_policy=MisfirePolicy.FIRE_ONCE) for _ in "ab"]
    node.plan()
    node.clock.advance(60_000)
    heir = node.successor()
    (heir.plan if claims_first else heir.adopt)()
    heir.run_for(300, each=lambda: heir.finish(heir.answer()))
    for job in jobs:
        runs = heir.runs(job.id)
        assert len(runs) >= 2500
        (spared,) = [run for run in runs if run.state is not RunState.SKIPPED]
        assert spared.planned_ms == end_ms


def test_a_run_that_memory_lost_is_found_by_reconciling(node: HandNode) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 1000)
    node.plan()
    node.scheduler.planning.tick.drain()
    node.run_for(7000)
    assert len(node.sent) == 1
    assert node.scheduler.planning.adopt.recovered == 1


def test_reconciling_goes_on_though_the_time_went_back(node: HandNode) -> None:
    node.adopt()
    node.clock.step_wall(-600_000)
    node.register("http://127.0.0.1:9001/")
    node.scheduler.management.run_now.run(node.job(enabled=False).id)
    node.adopt()
    node.scheduler.planning.tick.drain()
    node.run_for(7000)
    assert len(node.sent) == 1
    assert node.scheduler.planning.adopt.recovered == 1


def test_n5_reconciling_takes_up_no_row_of_an_older_epoch(node: HandNode) -> None:
    """N5: such a row was another holder's; it is adopted under our epoch, or falls out at the fence."""
    node.job(schedule_conf="1", end_ms=NOW + 1000)
    node.plan()
    heir = node.successor()
    now_ms = node.clock.advance(3000)
    heir.scheduler.planning.adopt.reconcile(now_ms)
    assert heir.scheduler.planning.adopt.recovered == 0
    heir.adopt()
    assert [run.epoch for run in heir.runs()] == [2]


def test_r1_what_a_former_holder_planned_is_adopted_however_much_and_earliest_first(db: Database) -> None:
    """R1: rows keep their older epoch until they are adopted, a batch at a time, so that a takeover is short."""
    node = HandNode(db, ManualClock(NOW))
    epoch = node.scheduler.core.lease.epochs[3]
    late = [make_run(n, partition=3, epoch=epoch, due_ms=NOW - n) for n in range(1, 2501)]
    others = [make_run(3000 + n, partition=n, epoch=epoch, due_ms=NOW + 4000) for n in range(64)]
    future = make_run(5000, partition=5, epoch=0, due_ms=NOW + 900_000)
    db.transaction(lambda conn: runs.insert_runs(conn, [*late, *others, future]))
    heir = node.successor()
    taken: list[list[QueuedRun]] = []
    heir.scheduler.planning.adopt.inbox.put = taken.append  # type: ignore[method-assign]
    steps = 0
    while heir.scheduler.planning.adopt.step(NOW) == 0:
        steps += 1
    assert steps <= 4
    assert Counter(run.id for batch in taken for run in batch) == Counter(run.id for run in [*late, *others])
    assert {run.epoch for batch in taken for run in batch} == {epoch + 1}
    assert {run.id for run in late[-900:]} <= {run.id for run in taken[0]}  # longest due
    assert {run.id: run.epoch for run in heir.runs()}[5000] == 0  # its time has not come


def test_a_held_run_is_not_taken_up_twice(node: HandNode) -> None:
    node.scheduler.sending.pool.acquire = lambda *_args, **_options: False  # type: ignore[method-assign]
    node.job(schedule_conf="1", end_ms=NOW + 1000)
    node.run_for(20_000)
    assert node.scheduler.planning.adopt.recovered == 0
    assert node.scheduler.planning.tick.depth() == (0, 1)


def test_r20_more_waiting_than_memory_holds_stays_rows(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    node = HandNode(db, ManualClock(NOW), trigger={"waiting_limit": 100})
    node.group()
    node.register("http://127.0.0.1:9001")
    acquire = node.scheduler.sending.pool.acquire
    node.scheduler.sending.pool.acquire = lambda *_args, **_options: False  # type: ignore[method-assign]
    job = node.job(enabled=False)
    for _ in range(150):
        node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    assert node.scheduler.planning.tick.depth() == (0, 100)
    assert node.scheduler.planning.tick.overflowed == 50
    node.scheduler.sending.pool.acquire = acquire  # type: ignore[method-assign]
    with caplog.at_level("INFO"):
        node.run_for(6000)
    assert sum(len(parcel.shards) for parcel in node.sent) == 150
    # R20: what was let go on purpose does not read like a loss
    assert "50 due runs were over trigger.waiting_limit and waited as rows" in caplog.text
    assert "in no memory" not in caplog.text
    assert node.scheduler.planning.adopt.recovered == 0


def test_an_unanswered_send_is_asked_again_with_the_same_id(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
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
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    node.scheduler.core.registry.remove("demo", "http://127.0.0.1:9001")
    node.register("http://127.0.0.1:7777", instance="instance-1")
    node.run_for(11_000)
    assert node.sent[0].executor.address == "http://127.0.0.1:7777"


@pytest.mark.parametrize("is_there", [True, False])
def test_an_outcome_that_comes_while_a_send_is_settled_is_the_last_word(node: HandNode, is_there: bool) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    if not is_there:
        node.scheduler.core.registry.remove("demo", "http://127.0.0.1:9001")
    waiting = node.runs()
    node.finish([run])
    node.scheduler.sending.resender.settle(waiting, node.clock.now_ms())
    assert (node.runs()[0].state, node.runs()[0].check_ms) == (RunState.SUCCEEDED, None)
    assert node.sent == []


@pytest.mark.parametrize("steps", [False, True])
def test_a_clock_that_jumps_ahead_makes_no_executor_that_was_silent_for_seconds_gone(
    node: HandNode, steps: bool
) -> None:
    """What was sent there may still lie in its socket, and would run a second time if it counted as lost."""
    registry = node.scheduler.core.registry
    node.scheduler.management.run_now.run(node.job(enabled=False).id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    registry.step(node.clock.now_ms())
    node.clock.advance(600_000)
    for _ in range(60):
        node.run_for(1000, step_ms=1000)
        if node.sent:
            node.answer(Fate.UNKNOWN)
        if steps:
            registry.step(node.clock.now_ms())
        assert [run.state for run in node.runs()] == [RunState.DISPATCHING]


def test_a_run_whose_instance_is_gone_is_lost_and_may_still_be_corrected(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    node.scheduler.core.registry.remove("demo", "http://127.0.0.1:9001")
    for _ in range(100):
        node.run_for(1000, step_ms=1000)
        node.scheduler.core.registry.step(node.clock.now_ms())
    assert (node.runs()[0].state, node.runs()[0].reason) == (RunState.LOST, "instance_gone")

    node.finish([run])
    assert node.runs()[0].state is RunState.SUCCEEDED


def test_a_foreign_run_without_an_answer_counts_as_running_and_is_never_sent_again(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001", kind="foreign", instance="", boot="")
    job = node.job(enabled=False)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    assert node.runs()[0].state is RunState.RUNNING
    node.run_for(30_000, step_ms=1000)
    assert node.sent == []


def test_a_foreign_run_cut_off_by_a_crash_counts_as_running(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001", kind="foreign", instance="", boot="")
    node.scheduler.management.run_now.run(node.job(enabled=False).id)
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
    assert node.scheduler.planning.claim.duplicates == 2


def test_draining_leaves_everything_to_the_rows(node: HandNode) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 3000)
    node.plan()
    assert len(node.scheduler.planning.tick.drain()) == 3
    heir = node.successor()
    heir.run_for(4000)
    assert len({shard.run.id for parcel in heir.sent for shard in parcel.shards}) == 3


def test_a_failure_while_rows_are_reconciled_makes_the_next_step_do_it_again(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt = node.scheduler.planning.adopt
    node.adopt()
    calls: list[int | None] = []

    def reconcile(now_ms: int, before_ms: int | None = None) -> None:
        calls.append(before_ms)
        if len(calls) == 1:
            adopt.wakeups.note_failure()

    monkeypatch.setattr(adopt, "reconcile", reconcile)
    adopt.wakeups.note_failure()
    for _ in range(3):
        adopt.step(node.clock.now_ms())
    assert len(calls) == 2
    assert None not in calls  # what is not due yet is looked for, too


def test_after_a_full_batch_of_new_rows_the_next_one_is_adopted_at_once(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel.scheduler.plan.adopt.BATCH", 2)
    node.adopt()
    rows = [make_run(number, partition=3, epoch=0, due_ms=NOW) for number in range(1, 4)]
    node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    assert node.scheduler.planning.adopt.step(NOW) == 0
