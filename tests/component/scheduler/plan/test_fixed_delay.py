"""FIX_DELAY and the misfire policies, end to end through restarts, on a clock that only tests move."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import MisfirePolicy, RunState
from xwheel.scheduler.records import Fate
from xwheel.storage.database.engine import Database


def invariant_8(node: HandNode, job_id: int) -> None:
    """Exactly one of a next fire and an awaited root with an open run."""
    job = node.load(job_id)
    open_roots = {run.root_id for run in node.runs(job_id) if run.finished_ms is None}
    assert (job.next_fire_ms is None) is (job.awaits_root is not None)
    assert job.awaits_root is None or job.awaits_root in open_roots


def test_the_next_fire_waits_for_the_end_of_the_last(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="2s")
    node.run_for(2100)
    (first,) = node.answer()
    invariant_8(node, job.id)
    node.run_for(60_000, step_ms=1000)
    assert node.sent == []

    node.finish([first])
    ended = node.clock.now_ms()
    invariant_8(node, job.id)
    assert node.load(job.id).next_fire_ms == ended + 2000
    node.run_for(2500)
    (second,) = node.answer()
    assert second.planned_ms == ended + 2000


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT, RunState.KILLED])
def test_any_final_state_counts(node: HandNode, state: RunState) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1s")
    node.run_for(1100)
    node.finish(node.answer(), state)
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 1000
    assert node.load(job.id).awaits_root is None


def test_a_refused_fire_counts_as_ended(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1s")
    node.run_for(1100)
    node.answer(Fate.REFUSED)
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 1000


def test_a_retry_keeps_the_fire_open(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1s", max_retries=1)
    node.run_for(1100)
    node.finish(node.answer(), RunState.FAILED)
    invariant_8(node, job.id)
    assert node.load(job.id).next_fire_ms is None
    node.run_for(300)
    node.finish(node.answer(), RunState.SUCCEEDED)
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 1000


def test_all_shards_must_have_ended(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1s", route_strategy="SHARDING_BROADCAST")
    node.run_for(1100)
    first, second = node.answer()
    node.finish([first])
    assert node.load(job.id).next_fire_ms is None
    node.finish([second])
    assert node.load(job.id).next_fire_ms is not None


@pytest.mark.parametrize("policy", list(MisfirePolicy))
def test_the_delay_survives_restarts_at_every_stage(db: Database, policy: MisfirePolicy) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001")
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="2s", misfire_policy=policy)
    node.run_for(500)
    node = node.successor()  # planned
    node.run_for(2500)
    (run,) = node.answer()
    node = node.successor()  # running
    node.run_for(2000)
    node.finish([run])
    node = node.successor()  # ended, nothing planned yet
    invariant_8(node, job.id)
    node.run_for(2500)
    assert len([shard for parcel in node.sent for shard in parcel.shards]) == 1
    assert len(node.runs(job.id)) == 2


@pytest.mark.parametrize(
    ("policy", "fires"), [(MisfirePolicy.SKIP, 0), (MisfirePolicy.FIRE_ONCE, 1), (MisfirePolicy.FIRE_ALL, 1)]
)
def test_a_misfired_delay_follows_its_policy(node: HandNode, policy: MisfirePolicy, fires: int) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="8s", misfire_policy=policy)
    node.clock.advance(60_000)
    heir = node.successor()
    heir.register("http://127.0.0.1:9001")
    heir.run_for(300)
    assert len(heir.sent) == fires
    rows = heir.runs(job.id)
    assert [run.state for run in rows] == ([RunState.DISPATCHING] if fires else [RunState.SKIPPED])
    invariant_8(heir, job.id)
    if not fires:
        assert heir.load(job.id).next_fire_ms == NOW + 60_000 + 8000 + 100


def test_an_edit_while_a_run_is_on_its_way_waits_for_it(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1s")
    node.run_for(1100)
    (run,) = node.answer()
    node.scheduler.management.jobs.edit(job.id, {"schedule_conf": "5s"})
    invariant_8(node, job.id)
    node.finish([run])
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 5000


def test_a_delay_that_becomes_a_rate_fires_without_waiting(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1s")
    node.run_for(1100)
    node.answer()
    node.scheduler.management.jobs.edit(job.id, {"schedule_type": "FIX_RATE", "schedule_conf": "2s"})
    node.run_for(2500)
    assert len(node.sent) == 1


def test_an_edit_before_the_send_replaces_the_planned_fire(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="3s")
    node.plan()
    node.scheduler.management.jobs.edit(job.id, {"schedule_conf": "1s"})
    invariant_8(node, job.id)
    node.run_for(5000)
    assert [shard.run.planned_ms for parcel in node.sent for shard in parcel.shards] == [NOW + 1000]


def test_a_stopped_delay_ignores_the_end_of_its_run(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="1s")
    node.run_for(1100)
    runs = node.answer()
    node.scheduler.management.jobs.stop(job.id)
    node.finish(runs)
    assert (node.load(job.id).next_fire_ms, node.load(job.id).awaits_root) == (None, None)


@pytest.mark.parametrize(
    ("policy", "fired", "skipped"),
    [(MisfirePolicy.SKIP, 6, 55), (MisfirePolicy.FIRE_ONCE, 7, 54), (MisfirePolicy.FIRE_ALL, 61, 0)],
)
def test_misfire_policies_hold_through_a_long_outage(
    node: HandNode, policy: MisfirePolicy, fired: int, skipped: int
) -> None:
    job = node.job(
        schedule_conf="1",
        misfire_policy=policy,
        misfire_threshold_ms=5000,
        anchor_ms=NOW + 1000,
        start_ms=NOW + 1000,
        end_ms=NOW + 61_000,
    )
    node.clock.advance(61_000)
    heir = node.successor()
    heir.register("http://127.0.0.1:9001")
    heir.plan()
    heir.run_for(3000, each=lambda: heir.finish(heir.answer()))

    rows = heir.runs(job.id)
    assert len([run for run in rows if run.state is RunState.SUCCEEDED]) == fired
    assert sum(run.skip_count for run in rows) == skipped
    due = [run.planned_ms for run in rows if run.state is RunState.SUCCEEDED]
    assert len(due) == len(set(due))


@pytest.mark.parametrize(("threshold_ms", "state"), [(30_000, RunState.SUCCEEDED), (1000, RunState.SKIPPED)])
def test_the_threshold_is_the_jobs_own(node: HandNode, threshold_ms: int, state: RunState) -> None:
    job = node.job(
        schedule_type="ONCE",
        schedule_conf="2026-01-01T00:00:01",
        misfire_policy=MisfirePolicy.SKIP,
        misfire_threshold_ms=threshold_ms,
    )
    node.clock.advance(20_000)
    heir = node.successor()
    heir.register("http://127.0.0.1:9001")
    heir.run_for(1000, each=lambda: heir.finish(heir.answer()))
    assert [run.state for run in heir.runs(job.id)] == [state]


@pytest.mark.parametrize("is_planned", [False, True])
@pytest.mark.parametrize(
    ("settings", "late_ms", "state"),
    [
        ({}, 30_000, RunState.SUCCEEDED),
        ({}, 30_001, RunState.SKIPPED),
        ({"misfire_threshold_ms": 5000}, 5000, RunState.SUCCEEDED),
        ({"misfire_threshold_ms": 5000}, 5001, RunState.SKIPPED),
    ],
)
def test_a_job_without_a_threshold_has_that_of_the_settings(
    node: HandNode, settings: dict[str, int], late_ms: int, state: RunState, is_planned: bool
) -> None:
    """Also for a fire that was planned and waited for a node to take it up."""
    job = node.job(
        schedule_type="ONCE",
        schedule_conf="2026-01-01T00:00:01",
        misfire_policy=MisfirePolicy.SKIP,
        misfire_threshold_ms=None,
    )
    if is_planned:
        node.plan()
        assert [run.state for run in node.runs(job.id)] == [RunState.PLANNED]
    node.crash()
    node.clock.advance(1000 + late_ms)
    heir = HandNode(node.db, node.clock, schedule=settings)
    heir.register("http://127.0.0.1:9001")
    heir.plan()
    heir.run_for(300, each=lambda: heir.finish(heir.answer()))
    assert [run.state for run in heir.runs(job.id)] == [state]


def test_a_fixed_rate_keeps_its_phase_through_restart_misfire_and_edit(node: HandNode) -> None:
    job = node.job(schedule_conf="7s", anchor_ms=NOW + 3)
    node.run_for(8000, each=lambda: node.finish(node.answer()))
    node.clock.advance(100_000)
    heir = node.successor()
    heir.register("http://127.0.0.1:9001")
    heir.scheduler.management.jobs.edit(job.id, {"param": "other", "end_ms": NOW + 10**9})
    heir.run_for(20_000, each=lambda: heir.finish(heir.answer()))
    planned = [run.planned_ms for run in heir.runs(job.id) if run.state is RunState.SUCCEEDED]
    assert len(planned) >= 4
    assert {(at - NOW - 3) % 7000 for at in planned} == {0}


def test_jitter_beyond_the_window_stays_a_row_until_it_comes_near(node: HandNode) -> None:
    job = node.job(schedule_type="ONCE", schedule_conf="2026-01-01T00:00:01", jitter_ms=3_600_000)
    node.run_for(300)
    (row,) = node.runs(job.id)
    assert row.planned_ms == NOW + 1000
    assert row.due_ms > NOW + 6000
    assert row.epoch == 0
    assert node.scheduler.planning.tick.depth() == (0, 0)
    node.clock.advance(row.due_ms - node.clock.now_ms() - 4000)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.register("http://127.0.0.1:9001")
    node.run_for(3900)
    assert node.sent == []
    node.run_for(200)
    assert len(node.sent) == 1


def test_the_delay_counts_from_the_end_that_is_written_whatever_the_transaction_waits_for(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="5")
    node.run_for(6000)
    transact = node.db.transaction

    def slow(work: Any) -> Any:
        node.clock.advance(700)  # others write
        return transact(work)

    monkeypatch.setattr(node.db, "transaction", slow)
    node.finish(node.answer())
    (run,) = (run for run in node.runs(job.id) if run.state is RunState.SUCCEEDED)
    assert run.finished_ms is not None
    assert node.load(job.id).next_fire_ms == run.finished_ms + 5000
