"""The overview's questions: they count what is there, and of some groups what is theirs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import event
from xwheel_devtools.testing import ManualClock
from xwheel_reports import storage as reports
from xwheel_reports.counting import ReportLoop
from xwheel_reports.resources import count_conflicts

from tests.component.storage.test_run_list import some_runs
from tests.support.rows import NOW, job_values
from tests.support.upkeep import DAY_MS, GivenLease
from xwheel.model import RunState
from xwheel.storage import executors, jobs, runs
from xwheel.storage.database.engine import Database


def test_the_overview_counts(db: Database) -> None:
    made = some_runs(60)
    db.transaction(lambda conn: runs.insert_runs(conn, made))
    with db.read() as conn:
        found = reports.get_overview(conn)
    states = [run.state for run in made]
    assert found.planned_runs == states.count(RunState.PLANNED)
    assert found.open_runs == states.count(RunState.RUNNING) + states.count(RunState.DISPATCHING)
    assert (found.groups, found.jobs, found.scheduled_jobs) == (0, 0, 0)


def test_the_overview_of_some_groups_counts_what_is_theirs(db: Database) -> None:
    made = some_runs(60)

    def fill(conn: Any) -> None:
        runs.insert_runs(conn, made)
        for number in range(4):
            executors.insert_group(conn, app_name=f"group-{number}", title="", now_ms=NOW)
        for number in range(12):
            enabled = number % 3 > 0
            extra = {"enabled": enabled, "next_fire_ms": NOW if enabled else None, "last_fire_ms": None}
            values = {**job_values(group_id=1 + number % 4), **extra, "awaits_root": None, "revision": 1}
            jobs.insert_job(conn, {**values, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW})

    db.transaction(fill)
    with db.read() as conn:
        every = reports.get_overview(conn)
        parts = [reports.get_overview(conn, [group_id]) for group_id in (1, 2, 3, 4)]
        pair, nothing = reports.get_overview(conn, {1, 3, 99}), reports.get_overview(conn, [])
    assert every == reports.Overview(*map(sum, zip(*parts, strict=True)))
    assert pair == reports.Overview(*map(sum, zip(parts[0], parts[2], strict=True)))
    assert nothing == (0, 0, 0, 0, 0)
    assert (every.groups, every.jobs, every.scheduled_jobs) == (4, 12, 8)
    mine = [run.state for run in made if run.group_id == 1]
    assert parts[0].planned_runs == mine.count(RunState.PLANNED) > 0


def test_it_reads_no_whole_table_and_the_report_by_its_indexes(sqlite_db: Database) -> None:
    db = sqlite_db
    db.transaction(lambda conn: runs.insert_runs(conn, some_runs()))
    asked: list[tuple[str, Any]] = []

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        asked.append((statement, parameters))

    def used(question: Any) -> str:
        with db.write() as conn:
            event.listen(db.engine, "before_cursor_execute", note)
            question(conn)
            event.remove(db.engine, "before_cursor_execute", note)
            plans = [conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", given).fetchall() for text, given in asked]
        asked.clear()
        return "; ".join(row[-1] for plan in plans for row in plan)

    clock = ManualClock(NOW + 40 * DAY_MS)
    loop = ReportLoop(db, GivenLease(), clock, interval_ms=60_000)

    def count(_conn: object) -> None:
        for _ in range(30):
            clock.advance(loop.step(clock.now_ms()))

    assert not re.search(r"SCAN (run_history|job)\b(?! USING)", used(reports.get_overview))
    assert not re.search(r"SCAN run_history\b(?! USING)", used(count))
    assert loop.counted_hours > 0
    assert "ix_run_due (due_ms>? AND due_ms<?)" in used(lambda conn: reports.count_part(conn, NOW, NOW + 9, 0, 9, 9))
    assert "COVERING INDEX ix_run_due (due_ms>? AND due_ms<?)" in used(
        lambda conn: reports.find_part_end(conn, NOW, NOW + 9, 9)
    )
    assert "(hour_ms<?)" in used(lambda conn: reports.delete_reports(conn, NOW, 9))
    assert "(hour_ms>? AND hour_ms<?)" in used(lambda conn: reports.get_totals(conn, 0, NOW))
    assert "ix_hourly_report_job (job_id=? AND hour_ms>? AND hour_ms<?)" in used(
        lambda conn: reports.list_report(conn, 0, NOW, job_id=1, by="day")
    )


class Toys:
    """Says how many groups contradict themselves."""

    name = "toys"

    def __init__(self, answer: object = None) -> None:
        self.answer = answer

    def conflicts(self, conn: Any, groups: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer or (2 if groups is None else len(groups))


def test_conflicts_are_counted_and_one_that_fails_has_none(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    owners: list[Any] = [Toys(), Toys(SystemExit("no")), Toys("many"), Toys()]
    assert count_conflicts(owners, db, None) == 4
    assert count_conflicts(owners, db, {1, 2, 3}) == 6
    assert caplog.text.count("resources toys failed") == 2
