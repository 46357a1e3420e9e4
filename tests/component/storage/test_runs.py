"""Which runs a search or a lock finds, and which it leaves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.rows import NOW, make_run
from xwheel.model import Origin, Run, RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection, Database


def _insert(db: Database, *rows: Run) -> None:
    db.transaction(lambda conn: runs.insert_runs(conn, rows))


def test_a_run_that_was_cancelled_meanwhile_is_not_locked_for_its_send(db: Database) -> None:
    _insert(db, make_run(1), make_run(2, state=RunState.CANCELLED, finished_ms=NOW))
    assert db.transaction(lambda conn: runs.lock_planned(conn, [1, 2])).keys() == {1}


def test_an_edit_leaves_a_run_that_was_sent_between_its_search_and_its_lock(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _insert(db, *(make_run(number, job_id=7, partition=7, origin=Origin.SCHEDULE) for number in (1, 2)))
    lock = runs.lock_runs

    def lock_late(conn: Connection, ids: Sequence[int]) -> dict[int, Run]:
        sent = runs.FencedRow(1, "http://a/", "a", 1, None)
        runs.update_fenced(conn, [sent], now_ms=NOW, check_ms=NOW)
        return lock(conn, ids)

    monkeypatch.setattr(runs, "lock_runs", lock_late)
    found = db.transaction(lambda conn: runs.lock_planned_of_jobs(conn, [7], [Origin.SCHEDULE]))
    assert [item.id for item in found] == [2]


def test_sends_of_other_nodes_are_not_settled(db: Database) -> None:
    sent = {"state": RunState.DISPATCHING, "dispatched_ms": NOW, "check_ms": NOW}
    _insert(db, make_run(1, **sent, partition=3), make_run(2, **sent, partition=4))
    with db.read() as conn:
        assert [item.id for item in runs.list_unanswered(conn, [3], NOW, 10)] == [1]


def test_pages_of_a_reconciliation_leave_out_no_row_of_one_due_time(db: Database) -> None:
    _insert(db, *(make_run(number, partition=3, epoch=1, due_ms=NOW) for number in range(1, 6)))
    found: list[int] = []
    after = None
    with db.read() as conn:
        while page := runs.find_overdue(conn, {3: 1}, NOW, 2, after):
            found += [item.id for item in page]
            after = page[-1]
    assert found == [1, 2, 3, 4, 5]
