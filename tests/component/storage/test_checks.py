"""The statements of the checks: only what is due, by index, whatever else the table holds."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import event

from tests.support.network import attach, check, states
from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.clock import ManualClock
from xwheel.model import PARTITIONS, RunState
from xwheel.storage import open_runs, runs
from xwheel.storage.database.engine import Database
from xwheel.storage.open_runs import Holder

ALL = range(PARTITIONS)


def insert(db: Database, run_id: int, state: RunState, check_ms: int | None, **changes: Any) -> None:
    row = make_run(run_id, state=state, check_ms=check_ms, **{"address": "http://a:1", "instance": "one", **changes})
    db.transaction(lambda conn: runs.insert_runs(conn, [row]))


def due(db: Database, now_ms: int, unanswered_ms: int = 0, limit: int = 100) -> list[int]:
    with db.read() as conn:
        return [row.id for row in open_runs.list_due(conn, ALL, now_ms, unanswered_ms, limit)]


def test_only_open_rows_that_are_due_are_found_longest_due_first(db: Database) -> None:
    insert(db, 1, RunState.RUNNING, NOW)
    insert(db, 2, RunState.RUNNING, NOW - 5)
    insert(db, 3, RunState.RUNNING, NOW + 1)
    insert(db, 4, RunState.SUCCEEDED, None)
    insert(db, 5, RunState.DISPATCHING, NOW - 10)
    insert(db, 6, RunState.DISPATCHING, NOW, kill_requested=True)
    assert sorted(due(db, NOW)) == [1, 2, 6]
    assert due(db, NOW, limit=1) == [2]
    assert due(db, NOW, NOW - 10)[0] == 5
    with db.read() as conn:
        assert open_runs.list_due(conn, [2], NOW, NOW, 100) == []


def test_a_row_without_a_job_or_an_executor_is_still_found(db: Database) -> None:
    insert(db, 1, RunState.RUNNING, NOW, address=None, instance=None, dispatched_ms=None)
    with db.read() as conn:
        (row,) = open_runs.list_due(conn, ALL, NOW, 0, 10)
    assert (row.timeout_s, row.address, row.instance, row.dispatched_ms) == (0, "", "", NOW)
    assert row.state is RunState.RUNNING


def test_runs_of_an_executor_are_found_by_what_names_it(db: Database) -> None:
    insert(db, 1, RunState.RUNNING, NOW + 5)
    insert(db, 2, RunState.RUNNING, NOW + 5, address="http://b:1")
    insert(db, 3, RunState.RUNNING, NOW + 5, instance="")
    insert(db, 4, RunState.RUNNING, NOW)
    insert(db, 5, RunState.RUNNING, NOW + 5, group_id=2)

    def later(holder: Holder, after_id: int = 0) -> list[int]:
        with db.read() as conn:
            return open_runs.find_later(conn, holder, ALL, NOW, after_id=after_id, limit=10)

    assert later(Holder(1, "http://a:1", "one")) == [1, 2]
    assert later(Holder(1, "http://a:1", "one"), 1) == [2]
    assert later(Holder(1, "http://a:1", "")) == [1, 3]
    with db.read() as conn:
        assert sorted(open_runs.list_holders(conn, ALL, NOW)) == [
            Holder(1, "http://a:1", ""),
            Holder(1, "http://a:1", "one"),
            Holder(1, "http://b:1", "one"),
            Holder(2, "http://a:1", "one"),
        ]


@pytest.mark.parametrize(("kill", "expected"), [(False, NOW + 50), (True, NOW + 1)])
def test_an_accepted_run_to_kill_is_due_at_once(db: Database, kill: bool, expected: int) -> None:
    insert(db, 1, RunState.DISPATCHING, NOW, kill_requested=kill)
    db.transaction(lambda conn: runs.update_accepted(conn, {1: runs.AcceptedRow(NOW + 1, NOW + 50)}, NOW + 1))
    with db.read() as conn:
        assert runs.get_run(conn, 1).check_ms == expected


def test_the_checks_scan_no_table(sqlite_db: Database) -> None:
    db = sqlite_db
    statements: dict[str, Any] = {}

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE")) and "run" in statement:
            statements.setdefault(statement, parameters)

    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://a:1", instance="", boot="", kind="foreign")
    job = node.job(enabled=False, timeout_s=5)
    ids = [node.scheduler.management.run_now.run(job.id).id for _ in range(3)]
    node.run_for(300)
    node.answer()
    attach(node, states({}))
    event.listen(db.engine, "before_cursor_execute", note)
    node.scheduler.management.killer.kill(ids[0])
    check(node, 60_000)
    check(node, 60_000)
    assert any("finished_ms >=" in statement for statement in statements)
    with db.read() as conn:
        for statement, parameters in statements.items():
            for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall():
                assert not re.match(r"SCAN run\b", row[-1]), f"{row[-1]}:\n{statement}"
                # open rows are few; all runs of a group or a job are not
                assert "ix_run_group" not in row[-1], statement
                assert "ix_run_job" not in row[-1] or "due_ms>" in row[-1], f"{row[-1]}:\n{statement}"
