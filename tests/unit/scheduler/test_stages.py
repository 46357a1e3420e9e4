"""Stages by themselves: lease, fence, places, routes, adopting, settling, registry, completion."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode, plugins
from tests.support.rows import NOW, make_executor, make_job, make_run
from xwheel import ring
from xwheel.errors import LockError, NotFoundError, RouteError, UnknownNameError
from xwheel.model import MisfirePolicy, Origin, RunState
from xwheel.scheduler.complete import MESSAGE_LENGTH, Verdict
from xwheel.scheduler.ports import Fate, Outcome
from xwheel.scheduler.route import route
from xwheel.scheduler.trigger_pool import TriggerPool
from xwheel.storage import executors, partitions, runs
from xwheel.storage.engine import Database
from xwheel.testing import ManualClock


@pytest.fixture
def node(db: Database) -> HandNode:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001")
    return node


def successor(node: HandNode) -> HandNode:
    node.crash()
    return HandNode(node.db, node.clock)


# lease


def test_one_scheduler_holds_a_sqlite_file(node: HandNode) -> None:
    with pytest.raises(LockError, match="one scheduler"):
        HandNode(node.db, node.clock)


def test_each_holder_gets_a_higher_epoch_for_every_partition(node: HandNode) -> None:
    before = dict(node.scheduler.lease.epochs)
    after = dict(successor(node).scheduler.lease.epochs)
    assert len(before) == 64
    assert after == {partition: epoch + 1 for partition, epoch in before.items()}


def test_a_lease_lasts_from_when_its_renewal_was_sent(node: HandNode) -> None:
    lease = node.scheduler.lease
    node.clock.advance(9_999)
    assert lease.may_act()
    assert not lease.may_act(margin_ms=3000)
    node.clock.advance(1)
    assert not lease.may_act()
    lease.step(node.clock.now_ms())
    assert lease.may_act(margin_ms=9_999)


def test_a_wall_clock_step_does_not_stretch_the_lease(node: HandNode) -> None:
    node.clock.advance(10_000)
    node.clock.step_wall(-60_000)
    assert not node.scheduler.lease.may_act()


def test_a_missing_lease_row_stops_the_node(node: HandNode) -> None:
    with node.db.write() as conn:
        conn.exec_driver_sql("DELETE FROM partition_lease WHERE partition = 7")
    with pytest.raises(LockError, match="63 rows instead of 64"):
        node.db.transaction(lambda conn: partitions.lock_leases(conn, node.scheduler.lease.owner))


def test_without_a_lease_nothing_is_claimed_adopted_or_fenced(node: HandNode) -> None:
    node.job(schedule_conf="1")
    node.plan()
    node.db.transaction(lambda conn: partitions.release_leases(conn, node.scheduler.lease.owner))
    node.tick(1000)
    assert node.sent == []
    assert {run.state for run in node.runs()} == {RunState.PLANNED}


# fence


def test_a_broadcast_becomes_one_shard_for_each_executor(node: HandNode) -> None:
    node.register("http://127.0.0.1:9003", instance="i3")
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST")
    node.scheduler.manager.run_now(job.id)
    node.run_for(300)

    sent = sorted(node.answer(), key=lambda run: run.shard_index)

    rows = sorted(node.runs(), key=lambda run: run.shard_index)
    assert [(run.shard_index, run.shard_total, run.address) for run in rows] == [
        (number, 3, f"http://127.0.0.1:900{number + 1}") for number in range(3)
    ]
    assert {run.root_id for run in rows} == {rows[0].id}
    assert [run.id for run in sent] == [run.id for run in rows]
    assert {run.state for run in rows} == {RunState.RUNNING}


def test_a_retried_shard_keeps_its_index_and_total(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST", max_retries=1)
    node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    second = max(node.answer(), key=lambda run: run.shard_index)
    node.finish([second], RunState.FAILED)
    node.run_for(300)

    (retry,) = node.answer()
    assert (retry.shard_index, retry.shard_total, retry.attempt) == (1, 2, 2)
    assert retry.address == second.address
    assert len(node.runs()) == 3


def test_what_an_old_epoch_planned_is_fenced_only_by_the_new_one(node: HandNode) -> None:
    node.job(schedule_conf="1")
    node.plan()
    heir = successor(node)
    heir.scheduler.registry.step(node.clock.now_ms())
    node.tick(1000)
    assert node.sent == []
    heir.run_for(1000)
    assert len(heir.sent) == 2


# places


def test_an_address_holds_at_most_a_quarter_of_a_lane() -> None:
    pool = TriggerPool(8, 4, ring.PoolSelector())
    assert [pool.acquire(ring.FAST, "a", batch=False) for _ in range(3)] == [True, True, False]
    assert pool.acquire(ring.FAST, "b", batch=False)
    assert pool.acquire(ring.SLOW, "a", batch=False)
    pool.release(ring.FAST, "a")
    assert pool.acquire(ring.FAST, "a", batch=False)


def test_a_full_lane_lets_runs_wait_and_drops_none(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW), trigger={"fast_pool": 4, "slow_pool": 4})
    node.group()
    node.register("http://127.0.0.1:9001", kind="foreign", instance="", boot="")
    job = node.job(enabled=False, block_strategy="SERIAL_EXECUTION")
    for _ in range(5):
        node.scheduler.manager.run_now(job.id)
    seen: list[int] = []
    for _ in range(5):
        node.run_for(300)
        assert len(node.sent) <= 1
        seen += [run.id for run in node.answer()]
    assert len(seen) == len(set(seen)) == 5
    assert node.scheduler.pool.in_flight() == {ring.FAST: 0, ring.SLOW: 0}


def test_a_slow_job_moves_to_the_slow_lane() -> None:
    pool = TriggerPool(8, 4, ring.PoolSelector(500, 10, 60_000))
    for _ in range(11):
        pool.record([1, 1], 501, NOW)
    assert pool.choose([1, 2]) == {1: ring.SLOW, 2: ring.FAST}


def test_runs_for_an_xwheel_executor_travel_together_and_for_others_one_by_one(node: HandNode) -> None:
    node.register("http://127.0.0.1:9009", app_name="demo", kind="foreign", instance="", boot="")
    batch = node.job(enabled=False)
    single = node.job(enabled=False, route_strategy="LAST")
    for job in (batch, single):
        for _ in range(3):
            node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    sizes = {(parcel.executor.kind, len(parcel.shards)) for parcel in node.sent}
    assert sizes == {("xwheel", 3), ("foreign", 1)}


# routes


def test_routers_choose_as_their_names_say() -> None:
    executors_ = [make_executor(f"http://127.0.0.1:900{n}") for n in range(3)]
    suspect = make_executor("http://127.0.0.1:9009", suspect_until_ms=NOW + 1)

    def chosen(name: str) -> list[str]:
        job = make_job(route_strategy=name)
        found = route(job, [*executors_, suspect], plugins().routers, beat=_refuse, idle_beat=_refuse)
        return [item.address[-1] for item in found]

    assert chosen("FIRST") == ["0"]
    assert chosen("LAST") == ["2"]
    assert {chosen("RANDOM")[0] for _ in range(60)} == {"0", "1", "2"}
    turns = [chosen("ROUND")[0] for _ in range(6)]
    assert sorted(turns[:3]) == ["0", "1", "2"]
    assert turns[:3] == turns[3:]
    assert chosen("SHARDING_BROADCAST") == ["0", "1", "2", "9"]


def _refuse(address: str) -> bool:
    raise AssertionError(f"{address} was asked")


def test_a_router_that_fails_fails_its_run_only() -> None:
    class Angry:
        name = "ANGRY"
        asks = False

        def route(self, context: object) -> list[object]:
            raise ValueError("not today")

    class Nobody(Angry):
        def route(self, context: object) -> list[object]:
            return []

    job = make_job(route_strategy="ANGRY")
    for routers, words in (({"ANGRY": Angry()}, "not today"), ({"ANGRY": Nobody()}, "none of 1")):
        with pytest.raises(RouteError, match=words):
            route(job, [make_executor()], routers, beat=_refuse, idle_beat=_refuse)  # type: ignore[arg-type]
    with pytest.raises(RouteError, match="no live executor"):
        route(job, [], {}, beat=_refuse, idle_beat=_refuse)
    with pytest.raises(UnknownNameError, match="ANGRY"):
        route(job, [make_executor()], plugins().routers, beat=_refuse, idle_beat=_refuse)


def test_a_job_whose_router_is_gone_is_refused_with_its_name(node: HandNode) -> None:
    job = node.job(enabled=False)
    with node.db.write() as conn:
        conn.exec_driver_sql("UPDATE job SET route_strategy = 'GONE'")
    node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    (run,) = node.runs()
    assert (run.state, run.reason) == (RunState.REFUSED, "no_route")
    assert "GONE" in run.message


# adopting and settling


def test_a_successor_finishes_what_was_planned(node: HandNode) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 3000)
    node.plan()
    heir = successor(node)
    heir.run_for(4000, each=lambda: heir.finish(heir.answer()))
    assert [run.planned_ms for run in heir.runs()] == [NOW + 1000, NOW + 2000, NOW + 3000]
    assert {run.state for run in heir.runs()} == {RunState.SUCCEEDED}


def test_rows_that_waited_too_long_pass_the_misfire_rule(node: HandNode) -> None:
    skip = node.job(schedule_conf="1", end_ms=NOW + 3000)
    once = node.job(schedule_conf="1", end_ms=NOW + 3000, misfire_policy=MisfirePolicy.FIRE_ONCE)
    node.plan()
    node.clock.advance(60_000)
    heir = successor(node)
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
    node.register("http://127.0.0.1:7777")
    node.run_for(11_000)
    assert node.sent[0].executor.address == "http://127.0.0.1:7777"


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
    heir = successor(node)
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


# completion


def test_outcomes_are_told_apart(node: HandNode) -> None:
    job = node.job(enabled=False)
    first, second = (node.scheduler.manager.run_now(job.id) for _ in range(2))
    node.run_for(300)
    node.answer()
    finish = node.scheduler.completer.finish
    outcomes = [
        Outcome(run_id=second.id, state=RunState.FAILED, code=500, message="x" * 20_000),
        Outcome(run_id=first.id, state=RunState.SUCCEEDED, code=200),
        Outcome(run_id=first.id, state=RunState.FAILED, code=500),
        Outcome(run_id=999_999, state=RunState.SUCCEEDED),
    ]
    assert finish(outcomes) == {
        first.id: Verdict.FINISHED,
        second.id: Verdict.FINISHED,
        999_999: Verdict.UNKNOWN,
    }
    assert set(finish(outcomes[:3]).values()) == {Verdict.REPEATED}
    rows = {run.id: run for run in node.runs()}
    assert rows[first.id].state is RunState.SUCCEEDED
    assert len(rows[second.id].message) == MESSAGE_LENGTH


def test_a_callback_may_beat_the_reply(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    node.finish([run])
    node.answer()
    (row,) = node.runs()
    assert (row.state, row.accepted_ms) == (RunState.SUCCEEDED, None)


def test_a_planned_run_takes_no_outcome(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.manager.run_now(job.id)
    verdicts = node.scheduler.completer.finish([Outcome(run_id=run.id, state=RunState.SUCCEEDED)])
    assert verdicts == {run.id: Verdict.REPEATED}


def test_a_late_outcome_withdraws_the_retry_of_a_lost_run(node: HandNode) -> None:
    job = node.job(enabled=False)
    rows = [
        make_run(500, job_id=job.id, partition=job.partition, state=RunState.LOST, finished_ms=NOW),
        make_run(
            501,
            job_id=job.id,
            partition=job.partition,
            origin=Origin.RETRY,
            origin_key=500,
            due_ms=NOW + 90_000,
            attempt=2,
        ),
    ]
    node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    node.finish([rows[0]])
    states = {run.id: (run.state, run.reason) for run in node.runs()}
    assert states == {500: (RunState.SUCCEEDED, ""), 501: (RunState.CANCELLED, "late_outcome")}


def test_more_than_five_hundred_outcomes_are_closed(node: HandNode) -> None:
    rows = [make_run(number, state=RunState.RUNNING) for number in range(1, 1202)]
    node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    node.finish(rows)
    assert {run.state for run in node.runs()} == {RunState.SUCCEEDED}


# registry


def test_beats_stay_in_memory_until_they_are_flushed(node: HandNode) -> None:
    registry = node.scheduler.registry
    registry.step(node.clock.now_ms())
    node.clock.advance(20_000)
    node.register("http://127.0.0.1:9001")
    assert _seen(node) == NOW
    node.clock.advance(10_000)
    registry.step(node.clock.now_ms())
    assert _seen(node) == NOW + 20_000


def test_an_executor_without_a_beat_dies_and_is_swept(node: HandNode) -> None:
    registry = node.scheduler.registry
    node.clock.advance(90_000)
    assert len(registry.live(1, node.clock.now_ms())) == 1
    node.clock.advance(1)
    assert registry.live(1, node.clock.now_ms()) == []
    node.clock.advance(40_000)
    registry.step(node.clock.now_ms())
    with node.db.read() as conn:
        assert executors.list_executors(conn) == []
    node.register("http://127.0.0.1:9001")
    assert len(registry.live(1, node.clock.now_ms())) == 1


def test_a_leave_takes_effect_at_once(node: HandNode) -> None:
    assert node.scheduler.registry.remove("demo", "http://127.0.0.1:9001")
    assert not node.scheduler.registry.remove("demo", "http://127.0.0.1:9001")
    assert node.scheduler.registry.live(1, node.clock.now_ms()) == []


def test_a_new_boot_is_written_at_once(node: HandNode) -> None:
    node.register("http://127.0.0.1:9001", boot="boot-2")
    with node.db.read() as conn:
        assert [item.boot for item in executors.list_executors(conn)] == ["boot-2"]


def test_an_unknown_group_is_refused(node: HandNode) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        node.register("http://127.0.0.1:9001", app_name="nowhere")


def _seen(node: HandNode) -> int:
    with node.db.read() as conn:
        return executors.list_executors(conn)[0].seen_ms


def test_draining_leaves_everything_to_the_rows(node: HandNode) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 3000)
    node.plan()
    assert len(node.scheduler.ring_loop.drain()) == 3
    heir = successor(node)
    heir.run_for(4000)
    assert len({shard.run.id for parcel in heir.sent for shard in parcel.shards}) == 3
