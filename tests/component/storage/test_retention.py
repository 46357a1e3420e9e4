"""The questions of retention, where the loop that asks them does not show the answer."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, select

from tests.support.rows import NOW, job_values, make_run
from tests.support.upkeep import DAY_MS, insert
from xwheel.model import RunState
from xwheel.storage import jobs, retention, runs
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import tables


def _jobs(db: Database, count: int, **changes: Any) -> list[int]:
    values = {"enabled": True, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None}
    values |= {"revision": 1, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW}
    values = job_values(**changes) | values
    return db.transaction(lambda conn: [jobs.insert_job(conn, values).id for _ in range(count)])


def test_only_deleted_jobs_without_runs_are_removed_whatever_the_caller_asks(db: Database) -> None:
    alive, empty, busy = _jobs(db, 3)

    def delete(conn: Any) -> int:
        for job_id in (empty, busy):
            jobs.delete_jobs(conn, [job_id], NOW)
        return retention.delete_tombstones(conn, [alive, empty, busy])

    insert(db, [make_run(1, job_id=busy)])
    assert db.transaction(delete) == 1
    with db.read() as conn:
        assert sorted(conn.execute(select(tables.job.c.id)).scalars()) == sorted([alive, busy])


def test_old_runs_come_in_the_order_of_due_time_and_id(db: Database) -> None:
    """Half of them at the same instant, so that a page ends among equals."""
    insert(
        db,
        [
            make_run(number, due_ms=NOW - (number % 2) * number, job_id=1 + number % 3, state=RunState.SUCCEEDED)
            for number in range(1, 30)
        ],
    )
    expected = sorted((NOW - (number % 2) * number, number) for number in range(1, 30))
    for job_id in (None, 2):
        found: list[tuple[int, int]] = []
        with db.read() as conn:
            while page := retention.find_old_runs(conn, NOW + 1, found[-1] if found else (0, 0), 4, job_id):
                assert len(page) <= 4
                found += [item[:2] for item in page]
        assert found == [place for place in expected if job_id is None or 1 + place[1] % 3 == job_id]


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("change", ["ends", "is tried again"])
def test_a_fire_that_changes_between_the_statements_of_a_batch_stays(db: Database, change: str, before: int) -> None:
    """Each statement sees what was committed before it: here another one's change comes before one of the three."""
    old_ms = NOW - 40 * DAY_MS
    shard = {"job_id": 7, "root_id": 10, "due_ms": old_ms}
    open_now = make_run(11, **shard, shard_index=1, shard_total=2, state=RunState.RUNNING, accepted_ms=old_ms)
    again = make_run(12, **shard, attempt=2, accepted_ms=None, check_ms=NOW)
    insert(db, [make_run(10, **shard, state=RunState.LOST, finished_ms=old_ms)])
    if change == "ends":
        insert(db, [open_now])
    asked = 0

    def let_another_change_it(conn: Any, *_: object) -> None:
        nonlocal asked
        asked += 1
        if asked == before and change == "ends":
            runs.close_runs(conn, [(11, str(RunState.SUCCEEDED), "", 200, "", old_ms, None, NOW)])
        elif asked == before:
            runs.insert_runs(conn, [again])

    event.listen(db.engine, "before_cursor_execute", let_another_change_it)
    try:
        found = [retention.OldRun(old_ms, 10, 7, 10)]
        deleted = db.transaction(lambda conn: retention.delete_closed(conn, found, {7: NOW - DAY_MS}))
    finally:
        event.remove(db.engine, "before_cursor_execute", let_another_change_it)
    assert (asked >= before, deleted) == (True, 0)


def test_jobs_are_found_by_their_own_retention_up_to_a_hundred_years(db: Database) -> None:
    (short,), (long,), (plain,) = (_jobs(db, 1, retention_days=5), _jobs(db, 1, retention_days=36_500), _jobs(db, 1))
    ids = (short, long, plain)
    for number, days in ((0, 4.9), (1, 5.1)):
        due_ms = NOW - round(days * DAY_MS)
        insert(
            db,
            [
                make_run(100 * number + job_id, job_id=job_id, due_ms=due_ms, state=RunState.FAILED, finished_ms=due_ms)
                for job_id in ids
            ],
        )
        with db.read() as conn:
            assert retention.find_jobs_with_old_runs(conn, ids, NOW) == [short][:number]
    with db.read() as conn:
        assert retention.find_own_retention(conn, ids) == {short: 5, long: 36_500}
