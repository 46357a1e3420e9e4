"""No statement of the pipeline reads a whole table, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, event

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import RunState
from xwheel.scheduler.records import Fate
from xwheel.storage import open_runs, retention, runs
from xwheel.storage.database.engine import Database

DAY_MS = 86_400_000
# small tables that are meant to be read whole
SMALL = {
    "node",
    "entered_address",
    "executor",
    "executor_group",
    "partition_lease",
    "setting",
    "calendar",
    "v",
    "api_token",
    "executor_secret",
    "alarm_rule",
    "CONSTANT",
}


def test_the_pipeline_scans_no_table(sqlite_db: Database) -> None:
    db = sqlite_db
    statements: dict[str, Any] = {}

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
            statements.setdefault(statement, parameters)

    event.listen(db.engine, "before_cursor_execute", note)
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001")
    rate = node.job(schedule_conf="1", max_retries=1)
    delay = node.job(schedule_type="FIX_DELAY", schedule_conf="2s")
    node.run_for(3000, each=lambda: node.finish(node.answer(), RunState.FAILED))
    node.scheduler.management.run_now.run(rate.id)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    node.run_for(12_000, step_ms=500)
    node.scheduler.management.jobs.edit(rate.id, {"schedule_conf": "2"})
    node.scheduler.management.schedules.pause()
    node.scheduler.management.jobs.stop(rate.id)
    heir = node.successor()
    heir.run_for(300)
    heir.scheduler.management.jobs.edit(rate.id, {"retention_days": 5})
    heir.scheduler.management.jobs.delete(delay.id)
    heir.clock.advance(40 * DAY_MS)
    heir.scheduler.core.lease.step(heir.clock.now_ms())
    for _ in range(30):
        heir.clock.advance(heir.scheduler.management.retention.step(heir.clock.now_ms()))
        heir.scheduler.core.lease.step(heir.clock.now_ms())
    assert heir.scheduler.management.retention.deleted_runs > 0

    assert len(statements) > 25
    with db.read() as conn:
        for statement, parameters in statements.items():
            plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            for row in plan:
                scanned = re.match(r"SCAN (\w+)\b(?! VIRTUAL)", row[-1])
                # a pause looks through all that is open
                if scanned and not row[-1].startswith("SCAN part") and "DISTINCT open_run.job_id" not in statement:
                    assert scanned[1] in SMALL, f"{row[-1]}:\n{statement}"


def test_each_question_of_the_upkeep_has_its_index(sqlite_db: Database) -> None:
    """Where two indexes would do, the planner takes the one that reads the fewest rows of a long table."""
    asked: list[tuple[str, Any]] = []

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        asked.append((statement, parameters))

    def used(question: Callable[[Connection], object]) -> str:
        with sqlite_db.write() as conn:
            event.listen(sqlite_db.engine, "before_cursor_execute", note)
            question(conn)
            event.remove(sqlite_db.engine, "before_cursor_execute", note)
            plans = [conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values).fetchall() for text, values in asked]
        asked.clear()
        return "; ".join(row[-1] for plan in plans for row in plan)

    old = retention.OldRun(NOW, 1, 1, 1)
    assert "ix_run_due (due_ms>? AND due_ms<?)" in used(lambda conn: retention.find_old_runs(conn, NOW, (5, 5), 9))
    assert "ix_run_job (job_id=? AND due_ms>? AND due_ms<?)" in used(
        lambda conn: retention.find_old_runs(conn, NOW, (5, 5), 9, 1)
    )
    assert "COVERING INDEX ix_run_job (job_id=?)" in used(
        lambda conn: retention.find_jobs_with_old_runs(conn, [1, 2], NOW)
    )
    assert "ix_run_root (root_id=?)" in used(lambda conn: retention.delete_closed(conn, [old], {1: NOW}))
    assert "ix_job_deleted" in used(lambda conn: retention.list_tombstones(conn, (5, 5), 9))
    assert "ix_run_job (job_id=?)" in used(lambda conn: retention.find_empty_tombstones(conn, [1]))
    assert "ix_child_arrival_created" in used(lambda conn: retention.delete_arrivals(conn, NOW, 9))
    queue = "ix_open_run_queue (partition=? AND epoch"
    assert queue in used(lambda conn: runs.find_unadopted(conn, [1, 2], NOW, 9))
    assert queue in used(lambda conn: runs.find_left(conn, {1: 5}, 9))
    assert "ix_open_run_queue" in used(lambda conn: runs.find_overdue(conn, {1: 5}, NOW, 9))
    holder = open_runs.Holder(1, "http://127.0.0.1:9001", "")
    for question in (
        lambda conn: runs.list_unanswered(conn, [1, 2], NOW, 9),
        lambda conn: open_runs.list_due(conn, [1, 2], NOW, NOW, 9),
        lambda conn: open_runs.list_holders(conn, [1, 2], NOW),
        lambda conn: open_runs.find_later(conn, holder, [1, 2], NOW, after_id=0, limit=9),
    ):
        assert "ix_open_run_check (check_ms>?" in used(question)
