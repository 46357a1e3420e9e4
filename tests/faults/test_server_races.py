"""Deadlocks, locks that come too late and clients that fall silent: tried again, with a bound, and counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event, select, text, update

from tests.support.node import HandNode
from tests.support.rows import NOW, make_executor, make_run
from xwheel.clock import ManualClock
from xwheel.errors import StorageError
from xwheel.model import PARTITIONS, Origin, RegisteredExecutor, Run, RunState
from xwheel.model.reasons import RunReason
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.scheduler.runs import run_now
from xwheel.storage import executors, retention, runs
from xwheel.storage.database import outage
from xwheel.storage.database.bulk import insert_many
from xwheel.storage.database.engine import ATTEMPTS, Connection, ConnectionLostError, Database
from xwheel.storage.schema.tables import executor, open_run


@pytest.fixture
def db(server_url: str) -> Iterator[Database]:
    database = Database(server_url)
    database.transaction(lambda conn: runs.insert_runs(conn, [make_run(1), make_run(2)]))
    yield database
    database.close()


def touch(conn: Connection, run_id: int) -> None:
    conn.execute(update(open_run).where(open_run.c.id == run_id).values(check_ms=open_run.c.check_ms + 1))


def counts(db: Database) -> list[int | None]:
    with db.read() as conn:
        return list(conn.execute(select(open_run.c.check_ms).order_by(open_run.c.id)).scalars())


@pytest.mark.parametrize("of_each", [5, 50, 1500])
@pytest.mark.parametrize("stage", ["fence", "accept", "end", "cancel"])
def test_half_of_the_open_runs_are_changed_without_waiting_for_the_other_half(
    db: Database, stage: str, of_each: int
) -> None:
    """A server that reads a short table from its beginning would wait for the rows that another node holds."""
    theirs, ours = range(10_000, 10_000 + 2 * of_each, 2), range(10_001, 10_001 + 2 * of_each, 2)
    given = {
        "fence": {},
        "cancel": {},
        "accept": {"state": RunState.DISPATCHING, "dispatched_ms": NOW, "check_ms": NOW},
        "end": {"state": RunState.RUNNING, "accepted_ms": NOW, "check_ms": NOW},
    }[stage]
    db.transaction(lambda conn: runs.insert_runs(conn, [make_run(item, **given) for item in (*theirs, *ours)]))
    fenced = [runs.FencedRow(item, "http://a/", "a", 1, None) for item in ours]
    ended = [(item, str(RunState.SUCCEEDED), "", 200, "", NOW, None, NOW) for item in ours]

    def change(conn: Connection) -> int:
        limit = "innodb_lock_wait_timeout = 1" if db.backend == "mysql" else "LOCAL lock_timeout = '1s'"
        conn.execute(text(f"SET {limit}"))
        match stage:
            case "fence":
                assert len(runs.lock_planned(conn, ours)) == of_each
                return runs.update_fenced(conn, fenced, now_ms=NOW, check_ms=NOW)
            case "accept":
                return len(runs.update_accepted(conn, dict.fromkeys(ours, runs.AcceptedRow(NOW, NOW)), NOW))
            case "end":
                assert len(runs.lock_runs(conn, ours)) == of_each
                return runs.close_runs(conn, ended)
            case _:
                assert len(runs.lock_runs(conn, ours)) == of_each
                return runs.cancel_runs(conn, ours, reason=RunReason.EDITED, now_ms=NOW)

    with db.write() as holder:
        for item in theirs:
            holder.execute(select(open_run.c.id).where(open_run.c.id == item).with_for_update()).one()
        with db.write() as conn:
            assert change(conn) == of_each


@pytest.mark.parametrize("before", [1, 2, 3])
def test_a_fire_whose_last_run_ends_while_its_old_ones_are_deleted_stays(db: Database, before: int) -> None:
    """Before which of the sweep's statements it ends makes no difference."""
    old_ms = NOW - 40 * retention.DAY_MS
    shards = {"job_id": 7, "root_id": 10, "due_ms": old_ms, "shard_total": 2}
    first = make_run(10, **shards, state=RunState.SUCCEEDED, finished_ms=old_ms)
    second = make_run(11, **shards, shard_index=1, state=RunState.RUNNING, accepted_ms=old_ms, check_ms=NOW)
    db.transaction(lambda conn: runs.insert_runs(conn, [first, second]))
    other, asked = Database(db.engine.url.render_as_string(hide_password=False)), 0

    def end(*_: object) -> None:
        nonlocal asked
        asked += 1
        if asked == before:
            row = (11, str(RunState.SUCCEEDED), "", 200, "", old_ms, None, NOW)
            other.transaction(lambda conn: runs.close_runs(conn, [row]))

    found = [retention.OldRun(old_ms, 10, 7, 10)]
    event.listen(db.engine, "before_cursor_execute", end)
    try:
        deleted = db.transaction(lambda conn: retention.delete_closed(conn, found, {7: NOW - retention.DAY_MS}))
    finally:
        event.remove(db.engine, "before_cursor_execute", end)
        other.close()
    assert asked >= before
    assert deleted == 0


def test_nodes_that_write_beats_at_the_same_time_meet_no_deadlock(server_url: str) -> None:
    """Each heard the executors in an order of its own."""
    clock = ManualClock(NOW)
    databases = [Database(server_url) for _ in range(2)]
    databases[0].transaction(lambda conn: executors.insert_group(conn, app_name="demo", title="demo", now_ms=NOW))
    crowd = [make_executor(f"http://10.0.0.1:{10_000 + number}") for number in range(2000)]
    rows = [tuple(getattr(item, name) for name in executors.REGISTERED) for item in crowd]
    databases[0].transaction(lambda conn: insert_many(conn, executor, executors.REGISTERED, rows))
    barrier = threading.Barrier(len(databases), timeout=60)

    def beat(db: Database, heard: list[RegisteredExecutor]) -> None:
        registry = ExecutorRegistry(db, ExecutorSecrets(db, clock, "x" * 32, KeyRing()), dead_after_ms=90_000)
        for turn in range(10):
            registry.step(NOW)
            for facts in heard:
                registry.register("demo", facts, NOW + 1 + turn)
            barrier.wait()
            registry.flush(NOW + 1 + turn)

    threads = [
        threading.Thread(target=beat, args=(db, heard))
        for db, heard in zip(databases, (crowd, crowd[::-1]), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [db.deadlocks for db in databases] == [0, 0]
    for db in databases:
        db.close()


def test_a_deadlock_is_tried_again_and_counted(db: Database) -> None:
    with db.write() as conn:
        conn.execute(update(open_run).values(check_ms=0))
    barrier = threading.Barrier(2, timeout=30)
    tries: list[int] = []

    def work(conn: Connection, first: int, second: int) -> None:
        tries.append(first)
        touch(conn, first)
        if tries.count(first) == 1:
            barrier.wait()  # both hold their first row now
        touch(conn, second)

    threads = [
        threading.Thread(target=lambda pair=pair: db.transaction(lambda conn: work(conn, *pair)))
        for pair in ((1, 2), (2, 1))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (db.deadlocks, db.retries) == (1, 1)
    assert len(tries) == 3
    assert counts(db) == [2, 2]  # what the loser had done was undone before it was done again


def test_a_failed_serialization_is_tried_again_and_counted(db: Database) -> None:
    """Two that read a row and then write it, on a server that forces SERIALIZABLE on everybody."""
    with db.write() as conn:
        conn.execute(update(open_run).values(check_ms=0))
    db.engine = db.engine.execution_options(isolation_level="SERIALIZABLE")
    barrier = threading.Barrier(2, timeout=60)
    tries: list[str] = []

    def work(conn: Connection) -> None:
        name = threading.current_thread().name
        tries.append(name)
        seen = conn.execute(select(open_run.c.check_ms).where(open_run.c.id == 1)).scalar_one() or 0
        if tries.count(name) == 1:
            barrier.wait()  # both have read now
        conn.execute(update(open_run).where(open_run.c.id == 1).values(check_ms=seen + 1))

    threads = [threading.Thread(target=db.transaction, args=(work,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (db.deadlocks, db.retries) == (1, 1)
    assert len(tries) == 3
    assert counts(db)[0] == 2  # neither overwrote the other


def test_a_lock_that_comes_too_late_undoes_the_whole_transaction(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "LOCK_WAIT_S", 1)
    late = Database(db.engine.url.render_as_string(hide_password=False))
    with db.write() as conn:
        conn.execute(update(open_run).values(check_ms=0))
    tries: list[int] = []
    holder = db.engine.connect()
    holder.execute(select(open_run.c.id).where(open_run.c.id == 2).with_for_update())

    def work(conn: Connection) -> None:
        tries.append(1)
        touch(conn, 1)
        if len(tries) == 2:
            holder.close()
        touch(conn, 2)

    late.transaction(work)
    assert late.deadlocks == 1
    assert len(tries) == 2
    assert counts(db) == [1, 1]
    late.close()


def test_a_lock_that_never_comes_is_given_up(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "LOCK_WAIT_S", 1)
    late = Database(db.engine.url.render_as_string(hide_password=False))
    with db.engine.connect() as holder:
        holder.execute(select(open_run.c.id).where(open_run.c.id == 2).with_for_update())
        with pytest.raises(StorageError, match="lost the race for its locks 5 times"):
            late.transaction(lambda conn: touch(conn, 2))
    assert late.deadlocks == ATTEMPTS
    late.close()


def test_a_client_that_falls_silent_keeps_no_locks(db: Database) -> None:
    silent = Database(db.engine.url.render_as_string(hide_password=False), idle_s=1)

    def fall_silent() -> None:
        with silent.write() as conn:
            touch(conn, 1)
            # no one commits: another waits for the lock only until the server ends the silent one
            db.transaction(lambda other: touch(other, 1))
            touch(conn, 2)

    with pytest.raises(ConnectionLostError):
        fall_silent()
    assert silent.broken == 1
    silent.close()


def test_sessions_have_the_bounds(db: Database) -> None:
    questions = (
        {"SHOW lock_timeout": "10s", "SHOW idle_in_transaction_session_timeout": "10s", "SHOW random_page_cost": "1.1"}
        if db.backend == "postgresql"
        else {"SELECT @@innodb_lock_wait_timeout": 10, "SELECT @@idle_transaction_timeout": 10}
    )
    with db.read() as conn:
        assert {question: conn.execute(text(question)).scalar() for question in questions} == questions


def test_a_stop_waits_for_no_run_of_another_job(db: Database) -> None:
    """R19: what is planned is found without a lock, and locked by its key."""
    mine, others = 7, 7 + PARTITIONS
    planned = [
        make_run(number, job_id=mine if number % 2 else others, partition=7, due_ms=NOW) for number in range(10, 30)
    ]
    db.transaction(lambda conn: runs.insert_runs(conn, planned))
    quick = Database(db.engine.url.render_as_string(hide_password=False), statement_s=2)

    def stop(conn: Connection) -> list[int]:
        return [item.id for item in runs.lock_unsent_of_jobs(conn, [mine], tuple(Origin))]

    theirs = [item.id for item in planned if item.job_id == others]
    with db.write() as fence:
        runs.lock_runs(fence, theirs[:5])
        # and what is fenced next need not wait for what is stopped
        with quick.write() as stopping:
            assert stop(stopping) == [item.id for item in planned if item.job_id == mine]
            assert len(runs.lock_runs(fence, theirs)) == len(theirs)
    assert quick.deadlocks == 0
    quick.close()


def test_a_stop_leaves_what_was_fenced_while_it_waited(db: Database) -> None:
    """R19: found as planned, locked once the fence has committed, and read again."""
    db.transaction(lambda conn: runs.insert_runs(conn, [make_run(10, job_id=7, partition=7)]))
    found: list[list[Run]] = []
    stopping = threading.Thread(
        target=lambda: found.append(db.transaction(lambda conn: runs.lock_unsent_of_jobs(conn, [7], tuple(Origin))))
    )
    with db.write() as fence:
        runs.lock_planned(fence, [10])
        stopping.start()
        stopping.join(0.5)
        assert stopping.is_alive()
        runs.update_fenced(fence, [runs.FencedRow(10, "http://a", "i", 1, None)], now_ms=NOW, check_ms=NOW)
    stopping.join(30)
    assert found == [[]]


def test_a_run_now_beside_a_delete_sends_nothing(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R12: run_now has read the job, the job is deleted, and only then the run is written."""
    db = Database(server_url)
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001/")
    job = node.job(enabled=False)
    manager, make = node.scheduler.management.jobs, run_now.new_run

    def delete_first(*given: Any, **facts: Any) -> Run:
        manager.delete(job.id)  # on another connection: this transaction goes on
        return make(*given, **facts)

    monkeypatch.setattr(run_now, "new_run", delete_first)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(1000)
    assert node.sent == []
    with db.read() as conn:
        found = runs.get_run(conn, run.id)
    assert (found.state, found.reason) == (RunState.CANCELLED, "deleted")
    db.close()
