"""Calendars end to end: what a change does to started jobs, to planned fires and to other processes."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.errors import ConflictError, NotFoundError, ScheduleError
from xwheel.model import MisfirePolicy, RunState
from xwheel.storage import settings

CLOSED = {"times": ["2026-01-01T00:00:05..2026-01-01T00:00:10"]}
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def save(node: HandNode, name: str, **definition: object) -> None:
    """Write a calendar, a millisecond after whatever was written before."""
    node.clock.advance(1)
    node.scheduler.management.schedules.save_calendar(name, definition)


def go(node: HandNode, duration_ms: int, step_ms: int = 100) -> list[int]:
    """Let time pass; return the planned times of what was sent and answered, in seconds from the start."""
    found = node.answer()
    node.run_for(duration_ms, step_ms=step_ms, each=lambda: found.extend(node.answer()))
    return [(run.planned_ms - NOW) // 1000 for run in found]


def test_an_excluded_stretch_is_left_out_with_its_first_moment_and_without_its_last(node: HandNode) -> None:
    save(node, "closed", **CLOSED)
    node.job(schedule_conf="1", anchor_ms=NOW, calendar_exclude=("closed",))
    assert go(node, 12_000) == [1, 2, 3, 4, 10, 11, 12]
    # a due time that a calendar takes out is no skip
    assert {run.state for run in node.runs()} == {RunState.RUNNING, RunState.PLANNED}


def test_a_required_stretch_is_kept_to(node: HandNode) -> None:
    save(node, "open", **CLOSED)
    save(node, "second", times=["2026-01-01T00:00:08..2026-01-01T00:01"])
    node.job(name="one", schedule_conf="1", anchor_ms=NOW, calendar_require=("open",))
    node.job(name="both", schedule_conf="1", anchor_ms=NOW, calendar_require=("open", "second"))
    node.run_for(3_000)
    assert sorted((run.planned_ms - NOW) // 1000 for run in node.runs()) == [5, 6, 7, 8, 8]


def test_a_change_cancels_planned_fires_and_moves_the_next_one(node: HandNode) -> None:
    save(node, "closed", weekdays="SUN")
    job = node.job(schedule_conf="3", anchor_ms=NOW, calendar_exclude=("closed",))
    node.plan()
    (planned,) = node.runs()
    assert (planned.state, planned.planned_ms) == (RunState.PLANNED, NOW + 3000)

    save(node, "closed", times=["2026-01-01T00:00:02..2026-01-01T00:00:08"])
    (cancelled,) = node.runs()
    assert (cancelled.state, cancelled.reason) == (RunState.CANCELLED, "calendar")
    assert node.load(job.id).next_fire_ms == NOW + 9000

    assert go(node, 12_000) == [9, 12]


def test_a_change_that_frees_time_brings_the_next_fire_forward(node: HandNode) -> None:
    save(node, "closed", dates=["2026-01-01..2026-01-10"])
    job = node.job(schedule_conf="1h", anchor_ms=NOW, calendar_exclude=("closed",))
    assert job.next_fire_ms == NOW + 10 * DAY_MS

    save(node, "closed", dates=["2026-02-01"])
    assert node.load(job.id).next_fire_ms == NOW + HOUR_MS


def test_the_same_time_is_planned_once_through_a_change(node: HandNode) -> None:
    save(node, "closed", weekdays="SUN")
    node.job(schedule_conf="3", anchor_ms=NOW, calendar_exclude=("closed",))
    node.plan()
    save(node, "closed", weekdays="SAT")
    assert go(node, 4000) == [3]
    rows = [run.state for run in node.runs() if run.planned_ms == NOW + 3000]
    assert sorted(rows) == [RunState.CANCELLED, RunState.RUNNING]


def test_jobs_that_do_not_use_a_calendar_are_left_alone(node: HandNode) -> None:
    for name in ("closed", "close"):
        save(node, name, weekdays="SUN")
    other = node.job(name="other", schedule_conf="3", calendar_exclude=("close",))
    stopped = node.job(name="stopped", schedule_conf="3", enabled=False, calendar_exclude=("closed",))
    node.plan()
    before = node.load(other.id), node.load(stopped.id), node.runs()
    save(node, "closed", weekdays="SAT")
    assert (node.load(other.id), node.load(stopped.id), node.runs()) == before


def test_a_change_that_leaves_a_started_job_without_a_fire_is_undone(node: HandNode) -> None:
    save(node, "closed", weekdays="SUN")
    job = node.job(schedule_conf="3", anchor_ms=NOW, calendar_exclude=("closed",))
    node.plan()
    before = node.load(job.id), node.runs()
    with pytest.raises(ScheduleError, match="ten years"):
        save(node, "closed", weekdays="MON-SUN")
    assert (node.load(job.id), node.runs()) == before
    assert go(node, 6000) == [3, 6]


def test_a_change_by_another_process_counts_after_a_look(node: HandNode) -> None:
    save(node, "closed", weekdays="SUN")
    node.job(schedule_conf="1", anchor_ms=NOW, calendar_exclude=("closed",))
    node.clock.advance(1)
    node.db.transaction(lambda conn: settings.save_calendar(conn, "closed", CLOSED, node.clock.now_ms()))
    assert node.scheduler.core.calendars.step(node.clock.now_ms()) == 1000
    assert go(node, 11_000) == [1, 2, 3, 4, 10, 11]


def test_the_next_node_knows_the_calendars(node: HandNode) -> None:
    save(node, "closed", **CLOSED)
    node.job(schedule_conf="1", anchor_ms=NOW, calendar_exclude=("closed",))
    second = node.successor()
    second.register("http://127.0.0.1:9001")
    assert go(second, 11_000) == [1, 2, 3, 4, 10, 11]


def test_a_misfire_counts_only_what_the_calendar_left(node: HandNode) -> None:
    save(node, "closed", **CLOSED)
    job = node.job(
        schedule_conf="1",
        anchor_ms=NOW,
        calendar_exclude=("closed",),
        misfire_policy=MisfirePolicy.SKIP,
        misfire_threshold_ms=5000,
    )
    node.clock.advance(20_000)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.plan()
    skipped = next(run for run in node.runs() if run.state is RunState.SKIPPED)
    # 1 to 4 and 10 to 15 are missed; from 16 on fires are at most five seconds late
    assert (skipped.job_id, skipped.planned_ms, skipped.skip_last_ms, skipped.skip_count) == (
        job.id,
        NOW + 1000,
        NOW + 15_000,
        10,
    )


def test_the_days_are_those_of_the_jobs_zone(node: HandNode) -> None:
    save(node, "new-year", dates=["2026-01-01"])
    fires = {
        timezone: node.job(
            name=timezone, schedule_conf="1h", anchor_ms=NOW, timezone=timezone, calendar_exclude=("new-year",)
        ).next_fire_ms
        for timezone in ("UTC", "Asia/Shanghai", "Pacific/Honolulu")
    }
    assert fires == {
        "UTC": NOW + 24 * HOUR_MS,
        "Asia/Shanghai": NOW + 16 * HOUR_MS,
        "Pacific/Honolulu": NOW + HOUR_MS,  # still the last day of the old year there
    }


def test_make_up_days_are_worked(node: HandNode) -> None:
    save(node, "cn", workdays="CN")
    job = node.job(
        schedule_type="CRON", schedule_conf="0 0 9 * * ?", timezone="Asia/Shanghai", calendar_require=("cn",)
    )
    # New Year's holiday ends on the third; Sunday the fourth makes up for it
    assert job.next_fire_ms == NOW + 3 * DAY_MS + HOUR_MS


def test_a_calendar_in_use_is_not_deleted(node: HandNode) -> None:
    save(node, "closed", weekdays="SUN")
    job = node.job(schedule_conf="3", enabled=False, calendar_require=("closed",))
    with pytest.raises(ConflictError, match=f"job {job.id} uses calendar closed"):
        node.scheduler.management.schedules.delete_calendar("closed")
    assert "closed" in node.scheduler.core.calendars.current()
    node.scheduler.management.jobs.edit(job.id, {"calendar_require": ()})
    node.scheduler.management.schedules.delete_calendar("closed")
    assert node.scheduler.core.calendars.current() == {}
    with pytest.raises(NotFoundError):
        node.scheduler.management.schedules.delete_calendar("closed")
