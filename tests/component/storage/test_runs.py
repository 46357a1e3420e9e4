"""Which runs a search or a lock finds, and which it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec
import pytest
from sqlalchemy import event

from tests.support.databases import twin_of
from tests.support.rows import NOW, make_run
from xwheel.errors import DuplicateError
from xwheel.model import Origin, Run, RunState
from xwheel.model.reasons import RunReason
from xwheel.storage import runs
from xwheel.storage.database.bulk import MANY
from xwheel.storage.database.engine import Connection, Database


def _insert(db: Database, *rows: Run) -> None:
    db.transaction(lambda conn: runs.insert_runs(conn, rows))


def test_a_run_that_was_sent_or_cancelled_meanwhile_is_not_locked_for_its_send(db: Database) -> None:
    _insert(db, make_run(1), make_run(2, state=RunState.CANCELLED, finished_ms=NOW))
    _insert(db, make_run(3, state=RunState.DISPATCHING, dispatched_ms=NOW, check_ms=NOW))
    assert db.transaction(lambda conn: runs.lock_planned(conn, [1, 2, 3])).keys() == {1}


def test_a_second_answer_leaves_what_the_first_one_said(db: Database) -> None:
    _insert(db, make_run(1, state=RunState.RUNNING, accepted_ms=NOW, check_ms=NOW + 60_000))
    later = {1: runs.AcceptedRow(NOW + 5000, NOW + 90_000)}
    assert db.transaction(lambda conn: runs.update_accepted(conn, later, NOW + 5000)) == set()
    with db.read() as conn:
        found = runs.get_run(conn, 1)
    assert (found.accepted_ms, found.check_ms) == (NOW, NOW + 60_000)


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
    found = db.transaction(lambda conn: runs.lock_unsent_of_jobs(conn, [7], [Origin.SCHEDULE]))
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


@pytest.mark.parametrize("state", [RunState.PLANNED, RunState.SUCCEEDED, RunState.CANCELLED])
@pytest.mark.parametrize("again", [RunState.PLANNED, RunState.SKIPPED])
def test_no_fire_has_two_runs_whether_the_first_one_has_ended_or_not(
    db: Database, state: RunState, again: RunState
) -> None:
    fire = {"job_id": 7, "origin": Origin.SCHEDULE, "origin_key": NOW}
    _insert(db, make_run(1, **fire, state=state, finished_ms=None if state is RunState.PLANNED else NOW))
    for batch in ([make_run(2, **fire, state=again)], [make_run(3), make_run(2, **fire, state=again)]):
        with pytest.raises(DuplicateError):
            _insert(db, *batch)
    with db.read() as conn:
        assert [item.id for item in runs.list_runs(conn)] == [1]
        assert runs.find_existing(conn, [make_run(2, **fire), make_run(3)]) == {(7, "schedule", NOW, 0)}
        found = runs.find_run(conn, (7, "schedule", NOW, 0))
    assert found is not None
    assert found.id == 1


def test_a_cancelled_run_leaves_its_fire_to_another_one(db: Database) -> None:
    fire = {"job_id": 7, "origin": Origin.SCHEDULE, "origin_key": NOW}
    _insert(db, make_run(1, **fire))
    db.transaction(lambda conn: runs.cancel_runs(conn, [1], reason=RunReason.EDITED, now_ms=NOW))
    _insert(db, make_run(2, **fire))
    with db.read() as conn:
        assert {item.id: item.state for item in runs.list_runs(conn)} == {
            1: RunState.CANCELLED, 2: RunState.PLANNED
        }  # fmt: skip


@pytest.mark.parametrize(
    "question",
    [
        lambda conn: runs.get_runs(conn, [1]),
        lambda conn: runs.find_roots(conn, [1]),
        runs.list_runs,
        lambda conn: runs.find_existing(conn, [make_run(1)]),
    ],
    ids=["get_runs", "find_roots", "list_runs", "find_existing"],
)
def test_a_run_that_ends_between_two_questions_is_met(db: Database, question: Callable[[Connection], object]) -> None:
    """SQLite's readers keep the view that they began with; elsewhere the run has moved when the second one comes."""
    _insert(db, make_run(1))
    asked: list[str] = []
    twin = twin_of(db)

    def end(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)
        if len(asked) == 2:
            row = (1, str(RunState.SUCCEEDED), "", 200, "", NOW, None, NOW)
            twin.transaction(lambda conn: runs.close_runs(conn, [row]))

    with closing(twin), db.read() as conn:
        conn.exec_driver_sql("SELECT 1 FROM open_run")  # where a reader's view begins
        event.listen(db.engine, "before_cursor_execute", end)
        try:
            assert question(conn)
        finally:
            event.remove(db.engine, "before_cursor_execute", end)


def test_what_is_the_same_in_all_rows_of_a_batch_is_sent_once(db: Database) -> None:
    many = [make_run(number, origin_key=number, param=f"of {number}") for number in range(1, MANY + 3)]
    db.transaction(lambda conn: runs.insert_runs(conn, many))
    fenced = [runs.FencedRow(run.id, "http://ä", "boot", 1 + run.id % 2, None) for run in many]
    db.transaction(lambda conn: runs.update_fenced(conn, fenced, now_ms=5, check_ms=9))
    odd = many[0].id
    ends = [(run.id, str(RunState.SUCCEEDED), "", 200, "é" if run.id == odd else "", None, None, 7) for run in many]
    assert db.transaction(lambda conn: runs.close_runs(conn, ends)) == len(many)
    expected = {
        run.id: msgspec.structs.replace(
            run,
            state=RunState.SUCCEEDED,
            address="http://ä",
            instance="boot",
            shard_total=1 + run.id % 2,
            dispatched_ms=5,
            result_code=200,
            message="é" if run.id == odd else "",
            finished_ms=7,
        )
        for run in many
    }
    with db.read() as conn:
        assert runs.get_runs(conn, list(expected)) == expected
