"""What the report says of hours long ago goes, a batch at a time."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from xwheel_devtools.testing import ManualClock
from xwheel_reports.storage import Counts, JobHour, replace_hour
from xwheel_reports.sweep import ReportSweep
from xwheel_reports.tables import hourly_report

from tests.support.rows import NOW
from tests.support.upkeep import DAY_MS, HOUR_MS, GivenLease
from xwheel.config import build_config
from xwheel.storage.database.engine import Database


def sweep(db: Database, lease: GivenLease, **settings: Any) -> ReportSweep:
    """Return what swept for half an hour."""
    clock = ManualClock(NOW)
    made = ReportSweep(db, lease, clock, build_config({"upkeep": {"sweep_batch": 10, **settings}}).upkeep)
    while clock.now_ms() < NOW + HOUR_MS // 2:
        clock.advance(made.step(clock.now_ms()))
    return made


def fill(db: Database, *days: int) -> None:
    """Write the last two hours of days ago, of 25 jobs."""
    rows = [JobHour(job_id, 1, Counts(failed=1)) for job_id in range(1, 26)]
    for day in days:
        for hour_ms in (NOW - day * DAY_MS, NOW - day * DAY_MS - HOUR_MS):
            db.transaction(lambda conn, at=hour_ms: replace_hour(conn, at, (), rows))


def hours_of(db: Database) -> list[int]:
    with db.read() as conn:
        return list(conn.execute(select(hourly_report.c.hour_ms)).scalars())


def test_hours_go_by_their_own_age(db: Database) -> None:
    fill(db, 399, 401)
    assert sweep(db, GivenLease()).deleted == 50
    hours = hours_of(db)
    assert len(hours) == 50
    assert min(hours) == NOW - 399 * DAY_MS - HOUR_MS


@pytest.mark.parametrize(("days", "left"), [(0, 100), (1, 50)])
def test_none_goes_without_a_retention_nor_while_it_is_counted(db: Database, days: int, left: int) -> None:
    fill(db, 3, 500)
    sweep(db, GivenLease(), report_retention_days=days)
    assert len(hours_of(db)) == left


def test_only_the_holder_of_partition_0_deletes(db: Database) -> None:
    fill(db, 500)
    assert sweep(db, GivenLease(1)).deleted == 0
