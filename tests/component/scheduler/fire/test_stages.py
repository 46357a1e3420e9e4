"""Stages by themselves: lease, fence, places, routes, adopting, settling, registry, completion."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode, plugins
from tests.support.rows import NOW, make_executor, make_job, make_run
from xwheel import ring
from xwheel.clock import ManualClock
from xwheel.errors import LockError, RouteError, UnknownNameError
from xwheel.model import RunState
from xwheel.scheduler.records import Delivery, Parcel, Shard
from xwheel.scheduler.route.routers import route
from xwheel.scheduler.send.pool import TriggerPool
from xwheel.storage import leases
from xwheel.storage.database.engine import Database

# lease


def test_one_scheduler_holds_a_sqlite_file(sqlite_node: HandNode) -> None:
    with pytest.raises(LockError, match="one scheduler"):
        HandNode(sqlite_node.db, sqlite_node.clock)


def test_each_holder_gets_a_higher_epoch_for_every_partition(node: HandNode) -> None:
    before = dict(node.scheduler.core.lease.epochs)
    after = dict(node.successor().scheduler.core.lease.epochs)
    assert len(before) == 64
    assert after == {partition: epoch + 1 for partition, epoch in before.items()}


def test_a_lease_lasts_from_when_its_renewal_was_sent(node: HandNode) -> None:
    lease = node.scheduler.core.lease
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
    assert not node.scheduler.core.lease.may_act()


def test_a_missing_lease_row_stops_the_node(sqlite_node: HandNode) -> None:
    node = sqlite_node
    with node.db.write() as conn:
        conn.exec_driver_sql("DELETE FROM partition_lease WHERE partition_lease.partition = 7")
    with pytest.raises(LockError, match="lost 1 of its leases"):
        node.scheduler.core.lease.step(node.clock.now_ms())
    assert not node.scheduler.core.lease.may_act()
    with pytest.raises(LockError, match="63 rows instead of 64"):
        node.successor()


def test_without_a_lease_nothing_is_claimed_adopted_or_fenced(node: HandNode) -> None:
    node.job(schedule_conf="1")
    node.plan()
    node.db.transaction(lambda conn: leases.release_leases(conn, node.scheduler.core.lease.owner))
    node.tick(1000)
    assert node.sent == []
    assert {run.state for run in node.runs()} == {RunState.PLANNED}


# fence


def test_a_broadcast_becomes_one_shard_for_each_executor(node: HandNode) -> None:
    node.register("http://127.0.0.1:9003", instance="i3")
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST")
    node.scheduler.management.run_now.run(job.id)
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
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    second = max(node.answer(), key=lambda run: run.shard_index)
    node.finish([second], RunState.FAILED)
    node.run_for(300)

    (retry,) = node.answer()
    assert (retry.shard_index, retry.shard_total, retry.attempt) == (1, 2, 2)
    assert retry.address != second.address
    assert len(node.runs()) == 3


def test_a_broadcast_to_one_that_is_tried_again_stays_one_shard(node: HandNode) -> None:
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST", max_retries=1)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.finish(node.answer(), RunState.FAILED)
    node.register("http://127.0.0.1:9002", instance="i2")
    node.run_for(300)
    (retry,) = node.answer()
    assert (retry.shard_index, retry.shard_total, retry.attempt) == (0, 1, 2)


def test_what_an_old_epoch_planned_is_fenced_only_by_the_new_one(node: HandNode) -> None:
    node.job(schedule_conf="1")
    node.plan()
    heir = node.successor()
    heir.scheduler.core.registry.step(node.clock.now_ms())
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
        node.scheduler.management.run_now.run(job.id)
    seen: list[int] = []
    for _ in range(5):
        node.run_for(300)
        assert len(node.sent) <= 1
        seen += [run.id for run in node.answer()]
    assert len(seen) == len(set(seen)) == 5
    assert node.scheduler.sending.pool.in_flight() == {ring.FAST: 0, ring.SLOW: 0}


def test_a_slow_job_moves_to_the_slow_lane() -> None:
    pool = TriggerPool(8, 4, ring.PoolSelector(500, 10, 60_000))
    for _ in range(11):
        assert pool.acquire(ring.FAST, "a", batch=False)
        assert pool.came_back([back("a", cost_ms=501)], NOW)
    assert pool.choose([1, 2]) == {1: ring.SLOW, 2: ring.FAST}


def back(address: str, *, cost_ms: int = 5, reached: bool = True) -> Delivery:
    """Return what comes back of one run that was sent to a foreign executor."""
    executor = make_executor(address, kind="foreign", instance="")
    shard = Shard(run=make_run(1), job=make_job(), executor=executor)
    parcel = Parcel(lane=ring.FAST, executor=executor, shards=[shard])
    return Delivery(parcel=parcel, answers=[], reached=reached, cost_ms=cost_ms, at_ms=NOW)


def taken(pool: TriggerPool, address: str) -> int:
    """Take every place that an address has, those ahead too; return how many."""
    count = 0
    while pool.acquire(ring.FAST, address, batch=False, ahead=True):
        count += 1
    return count


def test_one_that_answers_quickly_gets_places_ahead_until_it_does_not() -> None:
    pool = TriggerPool(40, 4, ring.PoolSelector())
    assert taken(pool, "a") == 10
    pool.came_back([back("a")], NOW)
    assert taken(pool, "a") == 1 + 40
    assert pool.in_flight()[ring.FAST] == 10
    # those ahead take no place from others
    assert taken(pool, "b") == taken(pool, "c") == taken(pool, "d") == 10
    assert not pool.acquire(ring.FAST, "a", batch=False)
    # many at once, and not one by one
    assert not pool.came_back([back("a") for _ in range(19)], NOW)
    assert taken(pool, "a") == 0
    assert pool.came_back([back("a")], NOW)
    assert taken(pool, "a") == 20
    # half a second an answer: ten in flight at once have two of them ready in a tenth of a second
    pool.came_back([back("a", cost_ms=500) for _ in range(50)], NOW)
    assert pool.in_flight()[ring.FAST] == 30
    assert taken(pool, "a") == 10 + 2
    pool.came_back([back("a", reached=False)], NOW)
    assert taken(pool, "a") == 0


def test_a_place_ahead_is_for_those_who_ask_for_it() -> None:
    pool = TriggerPool(4, 4, ring.PoolSelector())
    for address in "ae":
        assert pool.acquire(ring.FAST, address, batch=False)
        pool.came_back([back(address)], NOW)
    assert pool.acquire(ring.FAST, "a", batch=False)
    assert not pool.acquire(ring.FAST, "a", batch=False)
    assert pool.acquire(ring.FAST, "a", batch=False, ahead=True)
    # a lane that others fill gives nothing ahead
    assert all(pool.acquire(ring.FAST, other, batch=False) for other in "bcd")
    assert not pool.acquire(ring.FAST, "e", batch=False, ahead=True)


def test_runs_for_an_xwheel_executor_travel_together_and_for_others_one_by_one(node: HandNode) -> None:
    node.register("http://127.0.0.1:9009", app_name="demo", kind="foreign", instance="", boot="")
    batch = node.job(enabled=False)
    single = node.job(enabled=False, route_strategy="LAST")
    for job in (batch, single):
        for _ in range(3):
            node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    sizes = {(parcel.executor.kind, len(parcel.shards)) for parcel in node.sent}
    assert sizes == {("xwheel", 3), ("foreign", 1)}


def test_a_foreign_executor_that_answered_gets_runs_ahead_each_once_and_in_order(node: HandNode) -> None:
    node.register("http://127.0.0.1:9009", app_name="demo", kind="foreign", instance="", boot="")
    job = node.job(enabled=False, route_strategy="LAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer()
    ids = [node.scheduler.management.run_now.run(job.id).id for _ in range(120)]
    node.run_for(300)
    # all are fenced, and no more requests are on their way than before
    assert {run.state for run in node.runs(job.id) if run.id in ids} == {RunState.DISPATCHING}
    assert len(node.sent) == 50
    assert [run.id for run in node.answer()] == sorted(ids)


def test_a_run_for_named_executors_is_never_fenced_ahead(node: HandNode) -> None:
    """One that is not sent in time after all would have to go elsewhere, where it may not go."""
    home = "http://127.0.0.1:9009"
    node.register(home, app_name="demo", kind="foreign", instance="", boot="")
    job = node.job(enabled=False, route_strategy="LAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer()
    ids = [node.scheduler.management.run_now.run(job.id, addresses=[home]).id for _ in range(120)]
    node.run_for(300)
    states = [run.state for run in node.runs(job.id) if run.id in ids]
    assert states.count(RunState.DISPATCHING) == len(node.sent) == 50


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
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    (run,) = node.runs()
    assert (run.state, run.reason) == (RunState.REFUSED, "no_route")
    assert "GONE" in run.message
