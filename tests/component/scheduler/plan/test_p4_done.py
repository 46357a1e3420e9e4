"""P4: a job whose schedule never fires again is done, once its last fire is due."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW, make_job
from xwheel.clock import ManualClock
from xwheel.model.jobs import ScheduleState, state_of
from xwheel.storage import jobs
from xwheel.storage.database.engine import Database

SECOND = "2026-01-01T00:00:{:02}"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"enabled": False, "next_fire_ms": None, "last_fire_ms": NOW - 1}, ScheduleState.STOPPED),
        ({"enabled": False, "next_fire_ms": None, "last_fire_ms": None}, ScheduleState.STOPPED),
        ({"enabled": True, "next_fire_ms": NOW - 1, "last_fire_ms": NOW - 2}, ScheduleState.STARTED),
        ({"enabled": True, "next_fire_ms": None, "last_fire_ms": NOW, "awaits_root": 5}, ScheduleState.STARTED),
        ({"enabled": True, "next_fire_ms": None, "last_fire_ms": NOW + 1}, ScheduleState.STARTED),
        ({"enabled": True, "next_fire_ms": None, "last_fire_ms": NOW}, ScheduleState.DONE),
        ({"enabled": True, "next_fire_ms": None, "last_fire_ms": None}, ScheduleState.DONE),
    ],
)
def test_p4_the_state_follows_from_what_is_stored(fields: dict[str, Any], state: ScheduleState) -> None:
    assert state_of(make_job(**fields), NOW) is state


@pytest.mark.parametrize(
    "schedule",
    [
        {"schedule_type": "ONCE", "schedule_conf": "2026-01-01T00:00:08"},
        {"schedule_type": "CRON", "schedule_conf": "8 * * * * ?", "end_ms": NOW + 30_000},
        {"schedule_type": "FIX_RATE", "schedule_conf": "8", "end_ms": NOW + 9_000},
    ],
    ids=lambda item: item["schedule_type"],
)
def test_p4_a_job_that_has_fired_for_the_last_time_is_done(db: Database, schedule: dict[str, Any]) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001")
    made = node.job(**schedule)

    def state() -> ScheduleState:
        with node.db.read() as conn:
            return state_of(jobs.get_job(conn, made.id), node.clock.now_ms())

    assert state() is ScheduleState.STARTED
    node.run_for(5000)  # its only fire is planned ahead
    assert (len(node.runs(made.id)), state()) == (1, ScheduleState.STARTED)
    node.run_for(4000)
    assert (len(node.runs(made.id)), state()) == (1, ScheduleState.DONE)
    node.scheduler.management.jobs.edit(made.id, {"end_ms": None, "schedule_type": "FIX_RATE", "schedule_conf": "9"})
    assert state() is ScheduleState.STARTED
    node.scheduler.management.jobs.stop(made.id)
    assert state() is ScheduleState.STOPPED
