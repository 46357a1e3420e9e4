"""Which open runs are due for a question, and whose a foreign executor's answer counts for."""

from __future__ import annotations

from msgspec.structs import replace
from sqlalchemy import insert

from tests.support.rows import NOW, job_values, make_run
from xwheel.model import Origin, RunState
from xwheel.storage import jobs, open_runs, runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.schema.tables import executor_group


def test_an_unanswered_run_is_due_before_its_send_is_given_up_if_it_is_to_be_killed(db: Database) -> None:
    sent = {"state": RunState.DISPATCHING, "dispatched_ms": NOW, "check_ms": NOW, "partition": 3}
    rows = [make_run(1, **sent, kill_requested=True), make_run(2, **sent)]
    rows.append(make_run(3, **{**sent, "partition": 4}, kill_requested=True))
    db.transaction(lambda conn: runs.insert_runs(conn, rows))
    with db.read() as conn:
        due = open_runs.list_due(conn, [3], NOW, NOW - 1, 10)
        assert [row.id for row in due] == [1]
        assert [row.id for row in open_runs.list_due(conn, [3], NOW, NOW, 10)] == [1, 2]


def test_an_answer_of_a_foreign_executor_counts_for_runs_at_its_address_only(db: Database) -> None:
    sent = {"state": RunState.RUNNING, "dispatched_ms": NOW, "check_ms": NOW, "job_id": 7, "group_id": 1}
    rows = [
        make_run(1, **sent, address="http://a/"),
        make_run(2, **sent, address="http://b/"),
        make_run(3, **{**sent, "job_id": 8}, address="http://a/"),
        make_run(4, **{**sent, "group_id": 2}, address="http://a/"),
    ]
    db.transaction(lambda conn: runs.insert_runs(conn, rows))
    holder = open_runs.Holder(1, "http://a/", "")
    found = db.transaction(lambda conn: open_runs.lock_same_job(conn, 7, holder))
    assert [row[0] for row in found] == [1]


def test_a_group_without_a_limit_is_not_among_the_limits(db: Database) -> None:
    groups = [
        {"id": number, "app_name": f"g{number}", "title": "", "max_running": most, "created_ms": 1, "updated_ms": 1}
        for number, most in ((1, 0), (2, 5))
    ]
    db.transaction(lambda conn: conn.execute(insert(executor_group).values(groups)))
    assert db.transaction(lambda conn: open_runs.lock_limits(conn, [1, 2])) == {2: 5}


def test_a_missed_fire_that_was_skipped_or_cancelled_is_not_made_up_for(db: Database) -> None:
    """One that a newer run covered keeps its key, but never ran."""
    old = {"origin": Origin.SCHEDULE, "due_ms": NOW - 60_000}
    extra = {"enabled": True, "next_fire_ms": NOW, "last_fire_ms": None, "awaits_root": None}
    more = {"revision": 1, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW}
    rows = [
        make_run(number, **old, state=state)
        for number, state in ((1, RunState.SUCCEEDED), (2, RunState.SKIPPED), (3, RunState.CANCELLED))
    ]

    def write(conn: Connection) -> int:
        job_id = jobs.insert_job(conn, {**job_values(), **extra, **more}).id
        runs.insert_runs(conn, [replace(item, job_id=job_id) for item in rows])
        return job_id

    job_id = db.transaction(write)
    with db.read() as conn:
        assert open_runs.find_last_missed(conn, [job_id], NOW, after_ms=0, threshold_ms=1000) == {job_id: 1}
