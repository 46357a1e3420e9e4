"""The table: taken over from the core of xwheel 0.1.0 with all that is in it, made where there is none."""

from __future__ import annotations

from typing import ClassVar

from xwheel_run_logs.tables import RunLogTables, run_log

from tests.support.taken_over import TakenOver


class TestRunLog(TakenOver):
    plugin = RunLogTables()
    table = run_log
    row: ClassVar = {
        "id": 7,
        "job_id": 1,
        "partition": 1,
        "created_ms": 5,
        "store": "file",
        "ended": False,
        "fetch_ms": None,
        "delete_ms": 2**62,
    }
    index = "ix_run_log_job"
