"""The table: taken over from the core of xwheel 0.1.0 with all that is in it, made where there is none."""

from __future__ import annotations

from typing import ClassVar

from xwheel_reports.storage import Counts
from xwheel_reports.tables import ReportTables, hourly_report

from tests.support.taken_over import TakenOver


class TestHourlyReport(TakenOver):
    plugin = ReportTables()
    table = hourly_report
    row: ClassVar = {"hour_ms": 0, "job_id": 7, "group_id": 1, **Counts(failed=2, duration_sum_ms=2**40)._asdict()}
    index = "ix_hourly_report_job"
