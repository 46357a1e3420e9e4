"""The global pause end to end: nothing is planned, nothing is lost, and the misfire policy decides afterwards."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from sqlalchemy import Connection

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.model import MisfirePolicy, Origin, Run, RunState
from xwheel.scheduler.jobs import pause
from xwheel.storage import jobs, runs

HELD_S = 0.5
"""How long a claim stays in its transaction: without the lock of the leases a pause is over by then."""


def go(node: HandNode, duration_ms: int, step_ms: int = 100) -> list[int]:
    """Let time pass; return the planned times of what was sent and answered, in seconds from the start."""
    found = node.answer()
    node.run_for(duration_ms, step_ms=step_ms, each=lambda: found.extend(node.answer()))
    return [(run.planned_ms - NOW) // 1000 for run in found]


def covered(runs: list[Run]) -> dict[int, tuple[int, int]]:
    """Rows that stand for due times: first second to last second and how many."""
    return {
        (run.planned_ms - NOW) // 1000: (((run.skip_last_ms or run.planned_ms) - NOW) // 1000, run.skip_count or 1)
        for run in runs
        if run.origin is Origin.SCHEDULE and run.state is not RunState.CANCELLED
    }


def test_a_paused_scheduler_plans_and_sends_nothing(node: HandNode) -> None:
    job = node.job(schedule_conf="1")
    assert go(node, 2000) == [1, 2]

    assert node.scheduler.management.schedules.pause() == NOW + 2000

    assert go(node, 20_000) == []
    assert [run for run in node.runs() if run.state is RunState.PLANNED] == []
    assert node.load(job.id).next_fire_ms == NOW + 3000
    assert node.scheduler.management.schedules.paused_since_ms() == NOW + 2000


def test_planned_fires_return_to_their_jobs(node: HandNode) -> None:
    job = node.job(schedule_conf="1")
    node.plan()
    assert [run.state for run in node.runs()] == [RunState.PLANNED] * 5
    assert node.load(job.id).next_fire_ms == NOW + 6000

    node.scheduler.management.schedules.pause()

    after = node.load(job.id)
    assert (after.next_fire_ms, after.enabled, after.revision) == (NOW + 1000, True, job.revision + 1)
    assert {(run.state, run.reason, run.origin_key == -run.id) for run in node.runs()} == {
        (RunState.CANCELLED, "paused", True)
    }


def test_n45_a_claim_that_is_under_way_when_schedules_are_paused_leaves_no_fire(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause waits for it, by the rows of the leases: else it takes back what is planned, and then more is."""
    job = node.job(schedule_conf="1")
    pausing = threading.Thread(target=node.scheduler.management.schedules.pause)

    def insert(conn: Connection, planned: Sequence[Run]) -> None:
        if planned and pausing.ident is None:
            pausing.start()
            pausing.join(HELD_S)
        insert_runs(conn, planned)

    insert_runs = runs.insert_runs
    monkeypatch.setattr(runs, "insert_runs", insert)
    node.plan()
    pausing.join()
    assert {(run.state, run.reason) for run in node.runs()} == {(RunState.CANCELLED, "paused")}
    assert node.load(job.id).next_fire_ms == NOW + 1000


def test_a_short_pause_delays_fires_and_loses_none(node: HandNode) -> None:
    node.job(schedule_conf="1")
    node.plan()
    node.scheduler.management.schedules.pause()
    assert go(node, 3500) == []
    assert node.scheduler.management.schedules.resume()
    assert go(node, 2600) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("policy", "rows", "fired"),
    [
        (MisfirePolicy.SKIP, {10: (50, 5), 60: (60, 1)}, [60]),
        (MisfirePolicy.FIRE_ONCE, {10: (40, 4), 50: (50, 1), 60: (60, 1)}, [50, 60]),
        (MisfirePolicy.FIRE_ALL, {at: (at, 1) for at in range(10, 70, 10)}, [10, 20, 30, 40, 50, 60]),
    ],
)
def test_after_a_pause_the_misfire_policy_decides(
    node: HandNode, policy: MisfirePolicy, rows: dict[int, tuple[int, int]], fired: list[int]
) -> None:
    node.job(schedule_conf="10", misfire_policy=policy, misfire_threshold_ms=5000)
    node.run_for(6000)
    assert [run.state for run in node.runs()] == [RunState.PLANNED]

    node.scheduler.management.schedules.pause()
    assert go(node, 54_000, step_ms=1000) == []
    node.scheduler.management.schedules.resume()

    assert sorted(go(node, 5000)) == fired
    # the next fire, at 70, is within the window already
    assert covered(node.runs()) == {**rows, 70: (70, 1)}


def test_runs_by_hand_go_during_a_pause(node: HandNode) -> None:
    job = node.job(schedule_conf="1")
    node.scheduler.management.schedules.pause()
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(5000)
    assert [item.id for item in node.answer()] == [run.id]


def test_retries_go_during_a_pause(node: HandNode) -> None:
    node.job(schedule_conf="30", max_retries=1, retry_delay_ms=8000)
    node.run_for(30_000, step_ms=1000)
    (failed,) = node.answer()
    node.finish([failed], RunState.FAILED)

    node.scheduler.management.schedules.pause()
    node.run_for(10_000)

    (retry,) = node.answer()
    assert (retry.origin, retry.origin_key) == (Origin.RETRY, failed.id)


def test_what_was_sent_goes_on_during_a_pause(node: HandNode) -> None:
    node.job(schedule_conf="3")
    node.run_for(3000)
    node.scheduler.management.schedules.pause()
    (run,) = node.answer()
    node.finish([run])
    assert covered(node.runs()) == {3: (3, 1)}
    assert [item.state for item in node.runs() if item.id == run.id] == [RunState.SUCCEEDED]


def test_n30_a_job_that_is_stopped_gets_no_next_fire_from_a_pause(node: HandNode) -> None:
    """R11: a planned fire of a stopped job, which a node of before left, does not start the job again."""
    job = node.job(schedule_conf="1")
    node.plan()
    values = {"enabled": False, "next_fire_ms": None}
    node.db.transaction(lambda conn: jobs.update_job(conn, job.id, values))
    node.scheduler.management.schedules.pause()
    node.scheduler.management.schedules.resume()
    after = node.load(job.id)
    assert (after.enabled, after.next_fire_ms) == (False, None)
    assert go(node, 10_000) == []


def test_a_fixed_delay_has_one_next_fire_through_a_pause(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="3")
    node.plan()
    assert node.load(job.id).awaits_root is not None

    node.scheduler.management.schedules.pause()
    paused = node.load(job.id)
    assert (paused.next_fire_ms, paused.awaits_root) == (NOW + 3000, None)

    node.run_for(4000)
    node.scheduler.management.schedules.resume()
    assert go(node, 1000) == [3]
    after = node.load(job.id)
    assert (after.next_fire_ms, after.awaits_root is None) == (None, False)


def test_a_fixed_delay_whose_run_ends_during_a_pause_goes_on_afterwards(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="3")
    node.run_for(3000)
    node.scheduler.management.schedules.pause()
    node.finish(node.answer())
    assert node.load(job.id).next_fire_ms == NOW + 6000
    assert go(node, 4000) == []
    node.scheduler.management.schedules.resume()
    assert go(node, 200) == [6]


def test_a_pause_survives_a_crash(node: HandNode) -> None:
    node.job(schedule_conf="1")
    node.plan()
    node.scheduler.management.schedules.pause()
    second = node.successor()
    second.register("http://127.0.0.1:9001")
    assert (go(second, 3000), second.scheduler.management.schedules.paused_since_ms()) == ([], NOW)

    second.scheduler.management.schedules.resume()
    assert go(second, 1000) == [1, 2, 3, 4]


def test_a_crash_in_the_middle_of_pausing_plans_nothing_more(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch is written first, so fires that were not given back yet are the only ones that may still go."""
    node.job(schedule_conf="1")
    node.plan()

    def crash(conn: object, limit: int) -> list[int]:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(pause.runs, "find_planned_jobs", crash)
        with pytest.raises(RuntimeError, match="killed"):
            node.scheduler.management.schedules.pause()
    assert go(node, 10_000) == [1, 2, 3, 4, 5]
    assert node.scheduler.management.schedules.pause() == NOW


def test_every_batch_of_jobs_is_given_back(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "BATCH", 3)
    made = [node.job(name=f"job {number}", schedule_conf="2") for number in range(10)]
    node.plan()
    node.scheduler.management.schedules.pause()
    assert {run.state for run in node.runs()} == {RunState.CANCELLED}
    assert {node.load(job.id).next_fire_ms for job in made} == {NOW + 2000}


def test_a_stop_during_a_pause_wins(node: HandNode) -> None:
    job = node.job(schedule_conf="1")
    node.plan()
    node.scheduler.management.schedules.pause()
    node.scheduler.management.jobs.stop(job.id)
    node.scheduler.management.schedules.resume()
    assert go(node, 3000) == []
    assert node.load(job.id).next_fire_ms is None


def test_pausing_and_resuming_twice_changes_nothing_more(node: HandNode) -> None:
    job = node.job(schedule_conf="1")
    node.plan()
    first = node.scheduler.management.schedules.pause()
    before = node.load(job.id), node.runs()
    node.clock.advance(500)
    assert node.scheduler.management.schedules.pause() == first
    assert (node.load(job.id), node.runs()) == before
    assert [node.scheduler.management.schedules.resume() for _ in range(2)] == [True, False]
