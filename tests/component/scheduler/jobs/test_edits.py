"""A stop or an edit wins over what is planned already; whatever wants a run enters by the same door."""

from __future__ import annotations

import pytest

from tests.support.databases import twin_of
from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.errors import ConflictError, FieldError, NotFoundError, ScheduleError
from xwheel.model import Job, Origin, RunState
from xwheel.scheduler.records import Fate
from xwheel.storage import runs
from xwheel.storage.database.engine import Database


def sent(node: HandNode) -> list[tuple[int, int]]:
    return [(shard.run.job_id, shard.run.planned_ms) for parcel in node.sent for shard in parcel.shards]


def test_stopping_inside_the_window_prevents_the_planned_fire(node: HandNode) -> None:
    job = node.job(schedule_conf="3")
    node.plan()
    assert [run.state for run in node.runs()] == [RunState.PLANNED]

    node.scheduler.management.jobs.stop(job.id)
    node.run_for(10_000)

    assert sent(node) == []
    (run,) = node.runs()
    assert (run.state, run.reason, run.origin_key) == (RunState.CANCELLED, "stopped", -run.id)
    assert node.load(job.id).next_fire_ms is None


def test_an_edit_yields_exactly_one_fire_under_the_new_definition(node: HandNode) -> None:
    job = node.job(schedule_type="ONCE", schedule_conf="2026-01-01T00:00:03")
    node.plan()

    node.scheduler.management.jobs.edit(job.id, {"schedule_conf": "2026-01-01T00:00:04"})
    node.run_for(10_000)

    assert sent(node) == [(job.id, NOW + 4000)]


@pytest.mark.parametrize(
    ("changes", "fires"),
    [
        ({"schedule_conf": "30"}, [55, 85]),  # counted from the edit
        ({"schedule_conf": "30", "anchor_ms": NOW + 10_000}, [40, 70]),  # from what is given with it
        ({"param": "x"}, [60, 120]),  # as before
    ],
)
def test_n42_an_interval_that_is_edited_counts_from_the_edit(
    node: HandNode, changes: dict[str, object], fires: list[int]
) -> None:
    job = node.job(schedule_type="FIX_RATE", schedule_conf="60")
    node.run_for(25_000, step_ms=1000)
    node.scheduler.management.jobs.edit(job.id, changes)
    found: list[int] = []
    node.run_for(
        100_000, step_ms=1000, each=lambda: found.extend((run.planned_ms - NOW) // 1000 for run in node.answer())
    )
    assert found[:2] == fires


def test_stop_and_start_fires_the_same_time_once(node: HandNode) -> None:
    job = node.job(schedule_type="ONCE", schedule_conf="2026-01-01T00:00:03")
    node.plan()

    node.scheduler.management.jobs.stop(job.id)
    node.scheduler.management.jobs.start(job.id)
    node.run_for(10_000)

    assert sent(node) == [(job.id, NOW + 3000)]
    assert sorted(run.state for run in node.runs()) == [RunState.CANCELLED, RunState.DISPATCHING]


def test_an_edit_that_leaves_the_schedule_alone_cancels_nothing_and_is_sent(node: HandNode) -> None:
    job = node.job(schedule_conf="3", param="old")
    node.plan()
    before = node.runs()

    node.scheduler.management.jobs.edit(job.id, {"param": "new", "timeout_s": 9})
    node.run_for(3500)

    assert [run.id for run in node.runs()][: len(before)] == [run.id for run in before]
    (shard,) = node.sent[0].shards
    assert (shard.job.param, shard.job.timeout_s) == ("new", 9)


def test_an_edit_between_routing_and_fence_is_routed_again(node: HandNode) -> None:
    job = node.job(schedule_conf="1", param="old")
    node.plan()
    place = node.scheduler.sending.pool.acquire

    def edit_first(lane: int, address: str, **more: bool) -> bool:
        node.scheduler.sending.pool.acquire = place  # type: ignore[method-assign]
        node.scheduler.management.jobs.edit(job.id, {"param": "new"})
        return place(lane, address, **more)

    node.scheduler.sending.pool.acquire = edit_first  # type: ignore[method-assign]
    node.tick(1000)
    assert node.sent == []
    node.tick(20)

    assert [shard.job.param for parcel in node.sent for shard in parcel.shards] == ["new"]
    assert node.scheduler.sending.pool.in_flight() == {0: 1, 1: 0}


@pytest.mark.parametrize("route", ["FIRST", "SHARDING_BROADCAST"])
def test_planned_runs_follow_their_job_into_its_new_group(node: HandNode, route: str) -> None:
    """R17: what is planned moves, also in memory; what is open stays with the group that has it."""
    job = node.job(schedule_conf="1", route_strategy=route)
    node.run_for(1100)
    (first,) = node.answer()
    other = node.group("other")
    node.register("http://127.0.0.1:9002/", "http://127.0.0.1:9003/", app_name="other")
    node.plan()
    stray = make_run(9_000_001, job_id=job.id, group_id=job.group_id, partition=job.partition, epoch=0, due_ms=NOW)
    planned = {run.id for run in node.runs(job.id) if run.state is RunState.PLANNED}
    assert planned

    node.scheduler.management.jobs.edit(job.id, {"group_id": other})
    groups = {run.id: run.group_id for run in node.runs(job.id)}
    assert {groups[run_id] for run_id in planned} == {other}
    assert groups[first.id] == job.group_id
    # one that another transaction was about to write follows when it is sent
    node.db.transaction(lambda conn: runs.insert_runs(conn, [stray]))
    node.run_for(1000)

    shards = [shard for parcel in node.sent for shard in parcel.shards]
    assert {shard.executor.group_id for shard in shards} == {other}
    assert {shard.run.group_id for shard in shards} == {other}
    sent_ids = {shard.run.id for shard in shards}
    assert stray.id in sent_ids
    assert {run.group_id for run in node.runs(job.id) if run.id in sent_ids} == {other}
    assert node.load(job.id).group_id == other


def test_a_job_moves_into_no_group_that_is_not_there(node: HandNode) -> None:
    """R17: an edit is checked as a new job is."""
    job = node.job()
    with pytest.raises(NotFoundError, match="group 77"):
        node.scheduler.management.jobs.edit(job.id, {"group_id": 77})


def test_a_run_that_was_written_beside_the_delete_of_its_job_is_never_sent(node: HandNode) -> None:
    """R12: its transaction had read the job before; the fence reads the job again."""
    job = node.job(enabled=False)
    node.scheduler.management.run_now.run(job.id)
    node.plan()
    node.tick()
    node.finish(node.answer())

    node.scheduler.management.jobs.delete(job.id)
    late = make_run(9_000_001, job_id=job.id, group_id=job.group_id, partition=job.partition, epoch=0, due_ms=NOW)
    node.db.transaction(lambda conn: runs.insert_runs(conn, [late]))
    node.run_for(1000)

    assert node.sent == []
    with node.db.read() as conn:
        found = runs.get_run(conn, late.id)
    assert (found.state, found.reason) == (RunState.CANCELLED, "deleted")


def test_a_deleted_job_never_fires_again_and_keeps_its_runs(node: HandNode) -> None:
    job = node.job(schedule_conf="1")
    node.run_for(1200)
    node.finish(node.answer())

    node.scheduler.management.jobs.delete(job.id)
    node.run_for(5000)

    assert sent(node) == []
    assert RunState.SUCCEEDED in {run.state for run in node.runs(job.id)}
    with pytest.raises(NotFoundError):
        node.scheduler.management.jobs.start(job.id)


def test_run_now_is_sent_within_300_ms_even_if_the_job_is_stopped(node: HandNode) -> None:
    job = node.job(enabled=False, schedule_type="NONE", schedule_conf="", param="stored")

    run = node.scheduler.management.run_now.run(job.id, param="")
    node.run_for(300)

    (shard,) = node.sent[0].shards
    assert (shard.run.id, shard.run.param, shard.run.origin) == (run.id, "", Origin.API)


def test_run_now_with_the_same_key_is_the_same_run(node: HandNode) -> None:
    job = node.job(enabled=False)
    first = node.scheduler.management.run_now.run(job.id, idempotency_key="order-7")
    again = node.scheduler.management.run_now.run(job.id, idempotency_key="order-7")
    other = node.scheduler.management.run_now.run(job.id, idempotency_key="order-8")

    assert first.id == again.id != other.id


def test_a_row_of_another_process_is_adopted_within_300_ms(node: HandNode, db: Database) -> None:
    job = node.job(enabled=False)
    node.run_for(1000)
    other = twin_of(db)
    row = make_run(
        777_000, job_id=job.id, partition=job.partition, origin=Origin.API, due_ms=node.clock.now_ms(), root_id=777_000
    )
    other.transaction(lambda conn: runs.insert_runs(conn, [row]))
    other.close()

    node.run_for(300)

    assert [shard.run.id for parcel in node.sent for shard in parcel.shards] == [777_000]


def test_a_retry_is_adopted_within_300_ms_and_waits_for_its_delay(node: HandNode) -> None:
    job = node.job(enabled=False, max_retries=2, retry_delay_ms=1000)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.finish(node.answer(), RunState.FAILED)
    node.run_for(900)
    assert node.sent == []
    node.run_for(400)

    (retry,) = node.answer()
    assert (retry.origin, retry.attempt, retry.retries_left) == (Origin.RETRY, 2, 1)
    first = min(node.runs(), key=lambda run: run.id)
    assert (retry.origin_key, retry.root_id) == (first.id, first.id)


def test_retries_of_scheduled_fires_end_with_a_stop_and_those_by_hand_do_not(node: HandNode) -> None:
    job = node.job(schedule_conf="1", max_retries=1)
    node.run_for(1100)
    scheduled = node.answer()
    node.scheduler.management.jobs.stop(job.id)
    by_hand = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer()

    node.finish([*scheduled, by_hand], RunState.FAILED)

    assert [run.origin_key for run in node.runs() if run.origin is Origin.RETRY] == [by_hand.id]


def test_a_stale_revision_is_refused_and_writes_nothing(node: HandNode) -> None:
    job = node.job()
    node.scheduler.management.jobs.edit(job.id, {"name": "second"}, revision=job.revision)
    with pytest.raises(ConflictError, match="revision"):
        node.scheduler.management.jobs.edit(job.id, {"name": "third"}, revision=job.revision)
    assert node.load(job.id).name == "second"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schedule_type": "MOON"}, "schedule_type"),
        ({"schedule_conf": "0"}, "schedule_conf"),
        ({"schedule_conf": "-5"}, "schedule_conf"),
        ({"schedule_type": "CRON", "schedule_conf": "every day"}, "schedule_conf"),
        ({"schedule_type": "CRON", "schedule_conf": "0 0 9 * * ?", "timezone": "Mars/Base"}, "timezone"),
        ({"schedule_type": "ONCE", "schedule_conf": "tomorrow"}, "schedule_conf"),
        ({"route_strategy": "NEAREST"}, "route_strategy"),
        ({"glue_type": "GLUE_COBOL"}, "glue_type"),
        ({"handler": " "}, "handler"),
        ({"start_ms": NOW + 5, "end_ms": NOW + 5}, "end_ms"),
    ],
)
def test_impossible_definitions_name_their_field(node: HandNode, changes: dict[str, object], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        node.job(**changes)
    assert caught.value.field == field
    assert node.runs() == []


def test_a_job_that_would_never_fire_cannot_start(node: HandNode) -> None:
    job = node.job(enabled=False, schedule_type="ONCE", schedule_conf="2020-01-01T00:00:00")
    with pytest.raises(ScheduleError, match="never fire"):
        node.scheduler.management.jobs.start(job.id)
    assert not node.load(job.id).enabled


def test_no_executor_refuses_at_once_with_a_reason(node: HandNode) -> None:
    node.scheduler.core.registry.remove("demo", "http://127.0.0.1:9001")
    node.job(schedule_conf="1", end_ms=NOW + 1000)
    node.run_for(1500)

    (run,) = node.runs()
    assert (run.state, run.reason) == (RunState.REFUSED, "no_executor")


def test_a_refused_send_is_retried_and_its_address_comes_last(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="instance-2")
    job = node.job(enabled=False, max_retries=1)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    (first,) = node.answer(Fate.REFUSED, "connection refused", reached=False)
    node.run_for(300)

    (retry,) = node.answer()
    assert (first.address, retry.address) == ("http://127.0.0.1:9001", "http://127.0.0.1:9002")


def test_n29_an_edited_fixed_delay_waits_for_its_open_run_and_counts_from_its_end_anew(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="3")
    node.run_for(3000)
    (first,) = node.answer()
    node.scheduler.management.jobs.edit(job.id, {"schedule_conf": "5"})
    node.run_for(20_000)
    assert [run.id for run in node.runs(job.id)] == [first.id]
    node.finish([first])
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 5000


def test_n29_an_edit_while_an_end_is_being_written_sets_the_next_fire_by_the_new_schedule(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="3")
    node.run_for(3000)
    (first,) = node.answer()
    timetable = node.scheduler.core.timetable
    real, asked = timetable.next_fire, list[str]()

    def ask_and_edit(item: Job, after_ms: int) -> int | None:
        found = real(item, after_ms)
        asked.append(item.schedule_conf)
        if len(asked) == 1:
            node.scheduler.management.jobs.edit(job.id, {"schedule_conf": "5"})
        return found

    monkeypatch.setattr(timetable, "next_fire", ask_and_edit)
    node.finish([first])
    assert (asked[0], asked[-1]) == ("3", "5")
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 5000


def test_the_built_in_routers_take_none(sqlite_node: HandNode) -> None:
    sqlite_node.group()
    for name in ("FIRST", "LAST", "RANDOM", "ROUND", "SHARDING_BROADCAST"):
        with pytest.raises(FieldError, match=f"the router {name} takes none"):
            sqlite_node.job(route_strategy=name, route_options="zone=a")
