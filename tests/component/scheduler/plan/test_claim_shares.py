"""What a claim takes first, what it leaves alone, and what it writes of jobs that changed hands meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW, job_values
from xwheel.model import Job, MisfirePolicy, RunState
from xwheel.scheduler.plan.claim import TARGET_MS
from xwheel.storage import jobs
from xwheel.storage.database.engine import Connection, Database

HOUR_MS = 3_600_000


def make_jobs(db: Database, count: int, **values: Any) -> list[int]:
    """Write started jobs as they stand, without asking when they fire."""
    row = {"enabled": True, "last_fire_ms": None, "awaits_root": None, "revision": 1, "schedule_error": ""}
    row |= {"created_ms": NOW, "updated_ms": NOW}
    return db.transaction(
        lambda conn: [jobs.insert_job(conn, {**job_values(), **row, **values}).id for _ in range(count)]
    )


def planned_times(node: HandNode, job_id: int) -> list[int]:
    return [run.planned_ms for run in node.runs(job_id) if run.state is not RunState.SKIPPED]


@pytest.mark.parametrize("policy", [MisfirePolicy.SKIP, MisfirePolicy.FIRE_ALL])
def test_r13_on_time_jobs_never_wait_for_those_behind(sqlite_node: HandNode, policy: MisfirePolicy) -> None:
    node = sqlite_node
    node.group()
    behind = make_jobs(
        node.db, 1280, schedule_conf="1", anchor_ms=NOW - 2 * HOUR_MS, next_fire_ms=NOW - HOUR_MS, misfire_policy=policy
    )
    on_time = [node.job(schedule_conf="1", anchor_ms=NOW + 1000).id for _ in range(64)]
    claiming = node.scheduler.planning.claim
    for number in range(1, 5):
        now_ms = node.clock.now_ms()
        assert claiming.step(now_ms) == 0
        if number == 1:
            claiming.step(now_ms)  # the first batch is small: one job of a partition at a time
        due = list(range(NOW + 1000, now_ms + 5001, 1000))
        for job_id in on_time:
            assert planned_times(node, job_id) == due
        node.clock.advance(1000)
        node.keep_lease()
    caught_up = [job_id for job_id in behind if (node.load(job_id).next_fire_ms or 0) > NOW]
    assert len(caught_up) >= 4 or policy is MisfirePolicy.FIRE_ALL
    assert any(node.runs(job_id) for job_id in behind[:64])


def test_r13_a_batch_that_runs_out_of_questions_leaves_those_behind_for_later(sqlite_node: HandNode) -> None:
    """Few enough to be read together, and the ones behind come first by their ids."""
    node = sqlite_node
    node.group()
    make_jobs(node.db, 8, schedule_conf="1", anchor_ms=NOW - 2 * HOUR_MS, next_fire_ms=NOW - HOUR_MS)
    on_time = [node.job(schedule_conf="1", anchor_ms=NOW + 1000).id for _ in range(3)]
    asked: list[int] = []
    real = node.scheduler.planning.claim.planner.plan

    def plan(*args: Any, **options: Any) -> Any:
        asked.append(options["max_questions"])
        return real(*args, **options)

    node.scheduler.planning.claim.planner.plan = plan  # type: ignore[method-assign]
    assert node.scheduler.planning.claim.step(NOW) == 0
    for job_id in on_time:
        assert len(planned_times(node, job_id)) == 5
    assert asked == [2000, 2000]


def test_r11_a_pause_and_its_end_give_stopped_jobs_no_next_fire(node: HandNode) -> None:
    job = node.job(schedule_conf="1")
    node.plan()
    with node.db.write() as conn:  # as a schedule that failed after these fires were planned
        conn.exec_driver_sql(f"UPDATE job SET enabled = 0 = 1, next_fire_ms = NULL WHERE id = {job.id}")
    node.scheduler.management.schedules.pause()
    node.scheduler.management.schedules.resume()
    assert node.load(job.id).next_fire_ms is None
    assert {run.state for run in node.runs(job.id)} == {RunState.CANCELLED}
    assert {run.reason for run in node.runs(job.id)} == {"paused"}


def test_r11_stopped_jobs_with_a_next_fire_hold_up_nobody_and_are_repaired(node: HandNode) -> None:
    bad = make_jobs(node.db, 320, enabled=False, next_fire_ms=NOW - 1, schedule_error="as it was")
    good = [node.job(schedule_conf="1", anchor_ms=NOW + 1000).id for _ in range(64)]
    node.plan()
    assert all(len(node.runs(job_id)) == 5 for job_id in good)
    assert not any(node.runs(job_id) for job_id in bad)
    rows = [node.load(job_id) for job_id in bad]
    assert {(row.next_fire_ms, row.enabled, row.schedule_error) for row in rows} == {(None, False, "as it was")}
    with node.db.read() as conn:
        assert jobs.find_due_jobs(conn, range(64), NOW, 1000) == ([], False)


def test_r11_a_job_that_is_started_while_its_bad_row_is_repaired_keeps_its_next_fire(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bad,) = make_jobs(node.db, 1, enabled=False, next_fire_ms=NOW - 1, schedule_conf="60")
    real, started = jobs.get_jobs, list[int]()

    def get_jobs(conn: Connection, ids: Collection[int], **options: Any) -> Mapping[int, Job]:
        found = real(conn, ids, **options)
        if not started:
            started.append(bad)
            node.scheduler.management.jobs.start(bad)
        return found

    monkeypatch.setattr(jobs, "get_jobs", get_jobs)
    node.scheduler.planning.claim.step(NOW)
    assert started
    job = node.load(bad)
    assert job.enabled
    assert job.next_fire_ms is not None


@pytest.mark.parametrize("change", ["gone", "another epoch"])
def test_n3_a_partition_that_left_us_between_read_and_lock_is_not_planned(node: HandNode, change: str) -> None:
    leaving, staying = node.job(schedule_conf="1"), node.job(schedule_conf="1")
    lease = node.scheduler.core.lease
    real = lease.lock

    def lock(conn: Connection) -> Mapping[int, int]:
        held = dict(real(conn))
        epoch = held.pop(leaving.partition)
        return held if change == "gone" else {**held, leaving.partition: epoch + 1}

    lease.lock = lock  # type: ignore[method-assign]
    node.scheduler.planning.claim.step(NOW)
    assert node.runs(leaving.id) == []
    assert node.load(leaving.id).next_fire_ms == leaving.next_fire_ms
    assert len(node.runs(staying.id)) == 5
    lease.lock = real  # type: ignore[method-assign]
    node.plan()
    assert len(node.runs(leaving.id)) == 5


def test_n4_a_fixed_delay_awaits_no_fire_that_was_planned_before(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1")
    node.run_for(1500)
    node.finish(node.answer())
    (done,) = node.runs(job.id)
    # a restored backup: the job waits for the fire that has had its run, which is over
    with node.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE job SET next_fire_ms = {done.planned_ms}, awaits_root = NULL WHERE id = {job.id}")
    node.scheduler.planning.claim.step(node.clock.now_ms())
    after = node.load(job.id)
    assert after.awaits_root is None
    assert after.next_fire_ms == node.clock.now_ms()
    node.run_for(500)
    assert [run.state for run in node.runs(job.id)] == [RunState.SUCCEEDED, RunState.DISPATCHING]


def test_a_crowded_partition_is_claimed_without_waiting(node: HandNode) -> None:
    made = [node.job(enabled=False, schedule_conf="3600") for _ in range(64 * 30)]
    crowded = [job.id for job in made if job.partition == 5]
    assert len(crowded) == 30
    for job_id in crowded:
        node.scheduler.management.jobs.edit(job_id, {"schedule_type": "ONCE", "schedule_conf": "2026-01-01T00:00:02"})
        node.scheduler.management.jobs.start(job_id)
    node.plan()
    assert len(node.runs()) == 30


def test_the_claim_asks_for_what_the_last_ones_allow_and_counts_no_wait_for_its_turn(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    spent = {"inside": 0, "before": 0}
    find, write, transaction = jobs.find_due_jobs, jobs.update_seen_fires, node.db.transaction

    def note(conn: Any, partitions: Any, horizon_ms: int, limit: int, **bounds: Any) -> Any:
        if horizon_ms > node.clock.now_ms() and not bounds:
            asked.append(limit)
        return find(conn, partitions, horizon_ms, limit, **bounds)

    def work(*args: Any) -> Any:
        node.clock.advance(spent["inside"])
        return write(*args)

    def wait(call: Any) -> Any:
        node.clock.advance(spent["before"])
        return transaction(call)

    real, allowed = node.scheduler.planning.claim.planner.plan, []

    def plan(*args: Any, **options: Any) -> Any:
        allowed.append((options["max_runs"], options["max_questions"]))
        return real(*args, **options)

    monkeypatch.setattr(node.scheduler.planning.claim.planner, "plan", plan)
    monkeypatch.setattr(jobs, "find_due_jobs", note)
    monkeypatch.setattr(jobs, "update_seen_fires", work)
    monkeypatch.setattr(node.db, "transaction", wait)
    for inside, before in ((2 * TARGET_MS, 0), (0, 900), (0, 0)):
        spent.update(inside=inside, before=before)
        node.job(schedule_conf="60", anchor_ms=node.clock.now_ms() + 1000)
        node.scheduler.planning.claim.step(node.clock.now_ms())
        node.scheduler.core.lease.step(node.clock.now_ms())
    # so few are one for each partition, so each of them may have more, and a quick one lets the next be larger
    assert asked == [100, 50, 75]
    assert allowed == [(500, 2000), (250, 1000), (375, 1500)]
