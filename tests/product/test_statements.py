"""The rules that every statement keeps, on each database: isolation, lock order, bulk forms, and times in UTC."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from tests.product.alarms.support import AlarmNode, Recorder, rule, settle
from tests.support import million
from tests.support.row_meter import metered
from tests.support.rows import NOW, make_run
from xwheel.clock import ManualClock
from xwheel.model import RunState
from xwheel.scheduler.records import Fate
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Database
from xwheel.storage.database.rows import database_now_ms

# the order in which a transaction locks rows of these, as docs/explanation/pipeline.md says
LOCK_ORDER = (
    "partition_lease",
    "executor_group",
    "job",
    "open_run",
    "run_history",
    "alarm",
    "alarm_episode",
    "alarm_attempt",
)
# MariaDB joins the keys that are locked, as a table
LOCKS = re.compile(
    r"\bFROM (?:JSON_TABLE\(.*?\) AS v, )?(\w+)\b.*\bORDER BY (.+?) "
    r"(?:FOR UPDATE|FOR SHARE|LOCK IN SHARE MODE)",
    re.DOTALL,
)
UPSERTS = re.compile(r"ON CONFLICT|ON DUPLICATE KEY|\bMERGE\b|\bREPLACE INTO", re.IGNORECASE)


@contextmanager
def listening(db: Database) -> Iterator[list[list[str]]]:
    """Give the statements of each transaction."""
    transactions: list[list[str]] = []
    current: dict[int, list[str]] = {}

    def note(conn: Connection, _cursor: object, statement: str, *_: object) -> None:
        current.setdefault(id(conn.connection.dbapi_connection), []).append(" ".join(statement.split()))

    def end(conn: Connection) -> None:
        transactions.append(current.pop(id(conn.connection.dbapi_connection), []))

    listeners: list[tuple[str, Callable[..., Any]]] = [
        ("before_cursor_execute", note),
        ("commit", end),
        ("rollback", end),
    ]
    for name, listener in listeners:
        event.listen(db.engine, name, listener)
    try:
        yield transactions
    finally:
        for name, listener in listeners:
            event.remove(db.engine, name, listener)


def misplaced(statements: list[str]) -> list[str]:
    """Return what a transaction locks after something that comes later in the order, or not by id."""
    reached, found = 0, []
    for statement in statements:
        if not re.search(r"FOR UPDATE|FOR SHARE|LOCK IN SHARE MODE", statement):
            continue
        match = LOCKS.search(statement)
        table = match[1] if match else ""
        if table in LOCK_ORDER:
            place = LOCK_ORDER.index(table)
            key = "partition" if table == "partition_lease" else "id"
            is_ordered = re.fullmatch(rf"{table}\.[`\"]?{key}[`\"]?( \+ \S+)?", match[2]) if match else None
            if place < reached or not is_ordered:
                found.append(statement)
            reached = max(reached, place)
        elif (
            re.search(r"(?:FROM|AS v,) (open_run|run_history|job|partition_lease|executor_group)\b", statement)
            and " WHERE job.id = " not in statement
        ):
            found.append(statement)
    return found


def live(db: Database) -> None:
    """Let a node do everything that it does with runs."""
    node = AlarmNode(db, ManualClock(NOW), channels=[Recorder()])
    node.group()
    node.register("http://127.0.0.1:9001", "http://127.0.0.1:9002")
    rule(node, "failed", "skipped", window_s=3)
    rule(node, "not_run", "still_running", not_run_s=10, still_running_s=1)
    rate = node.job(schedule_conf="1", max_retries=1)
    child = node.job(enabled=False)
    delay = node.job(schedule_type="FIX_DELAY", schedule_conf="2s")
    shards = node.job(schedule_conf="2", route_strategy="SHARDING_BROADCAST", block_scope="cluster")
    node.scheduler.management.jobs.edit(shards.id, {"timeout_s": 5})
    with db.write() as conn:
        jobs.replace_children(conn, delay.id, [])
        conn.execute(text("UPDATE executor_group SET max_running = 3"))
        conn.execute(text(f"INSERT INTO job_child (parent_id, child_id) VALUES ({delay.id}, {child.id})"))
    for state in (RunState.FAILED, RunState.SUCCEEDED):
        node.run_for(3000, step_ms=500, each=lambda s=state: node.finish(node.answer(), s))
        settle(node)
    node.scheduler.management.run_now.run(rate.id)
    node.run_for(1000, step_ms=500)
    node.answer(Fate.UNKNOWN)
    node.run_for(8000, step_ms=1000)
    settle(node)
    node.scheduler.management.jobs.edit(rate.id, {"schedule_conf": "2"})
    node.scheduler.management.jobs.stop(rate.id)
    node.scheduler.management.jobs.delete(shards.id)
    node.successor().run_for(1000, step_ms=500)


def test_transactions_lock_in_one_order_and_say_nothing_that_is_forbidden(db: Database) -> None:
    with listening(db) as transactions:
        live(db)
    statements = [statement for transaction in transactions for statement in transaction]
    assert len(set(statements)) > 40
    assert [found for transaction in transactions if (found := misplaced(transaction))] == []
    # of a job that was changed under an earlier version the state before is written too, if that is not there
    upserts = [statement for statement in statements if UPSERTS.search(statement)]
    assert [statement for statement in upserts if not statement.startswith("INSERT INTO job_version ")] == []
    assert [statement for statement in statements if "FOR UPDATE OF" in statement] == []
    changes = ("UPDATE", "DELETE", "INSERT INTO open_run ")
    assert [item for item in statements if item.startswith(changes) and " RETURNING " in item] == []
    if db.backend != "sqlite":
        locked = {match[1] for statement in statements if (match := LOCKS.search(statement))}
        # rows of the history are locked for what was taken for lost
        assert locked >= set(LOCK_ORDER) - {"executor_group", "run_history"}


@pytest.mark.parametrize(
    "statements",
    [
        [
            "SELECT open_run.id FROM open_run WHERE x ORDER BY open_run.id FOR UPDATE",
            "SELECT job.id FROM job ORDER BY job.id FOR UPDATE",
        ],
        ["SELECT open_run.id FROM open_run WHERE x ORDER BY open_run.due_ms FOR UPDATE"],
        ["SELECT open_run.id FROM open_run WHERE x FOR UPDATE"],
    ],
)
def test_a_wrong_order_is_seen(statements: list[str]) -> None:
    assert misplaced(statements) == statements[-1:]


def test_each_connection_is_read_committed_for_reads_and_writes(db: Database) -> None:
    if db.backend == "sqlite":
        with db.read() as conn:
            assert conn.exec_driver_sql("PRAGMA read_uncommitted").scalar_one() == 0
        return
    name = "transaction_isolation" if db.backend == "postgresql" else "tx_isolation"
    question = f"SHOW {name}" if db.backend == "postgresql" else f"SELECT @@SESSION.{name}"
    found = set()
    for _ in range(3):
        with db.read() as one, db.read() as another, db.write() as writing:
            found |= {str(conn.execute(text(question)).scalar_one()) for conn in (one, another, writing)}
    assert {word.lower().replace("-", " ") for word in found} == {"read committed"}


def test_a_reader_sees_what_was_committed_meanwhile(db: Database) -> None:
    with db.read() as conn:
        assert runs.list_runs(conn) == []
        db.transaction(lambda other: runs.insert_runs(other, [make_run(1)]))
        # SQLite's readers keep the view that they began with
        assert len(runs.list_runs(conn)) == (0 if db.backend == "sqlite" else 1)


def test_statements_of_a_batch_do_not_grow_with_its_rows(db: Database) -> None:
    def claim(conn: Connection, ids: list[int]) -> None:
        found, _ = jobs.find_due_jobs(conn, range(64), NOW, len(ids))
        jobs.lock_fires(conn, found)
        runs.insert_runs(conn, [make_run(item) for item in ids])
        jobs.update_fires(conn, [jobs.JobCursor(item, None, NOW, None, True, "") for item in ids])

    def fence(conn: Connection, ids: list[int]) -> None:
        locked = runs.lock_planned(conn, ids)
        assert len(locked) in (0, len(ids))
        rows = [runs.FencedRow(item, "http://127.0.0.1:9001", "instance-1", 1, None) for item in ids]
        assert runs.update_fenced(conn, rows, now_ms=NOW, check_ms=NOW) == len(ids)

    def accept(conn: Connection, ids: list[int]) -> None:
        assert runs.update_accepted(conn, dict.fromkeys(ids, runs.AcceptedRow(NOW, NOW)), NOW) == set(ids)

    def finish(conn: Connection, ids: list[int]) -> None:
        rows = [(item, RunState.SUCCEEDED, "", 200, "", NOW, None, NOW) for item in runs.lock_runs(conn, ids)]
        assert runs.close_runs(conn, rows) == len(ids)

    for stage in (claim, fence, accept, finish):
        counts = []
        for ids in (list(range(1, 21)), list(range(1001, 1501))):
            with listening(db) as transactions:
                db.transaction(lambda conn, s=stage, i=ids: s(conn, i))
            counts.append(sum(map(len, transactions)))
        assert counts[0] == counts[1] <= 6, stage.__name__


def test_the_database_gives_the_time_in_utc_whatever_its_zone(db: Database) -> None:
    with db.read() as conn:
        before_ms = time.time() * 1000
        told_ms = database_now_ms(conn)
        after_ms = time.time() * 1000
    # the servers of these tests are five and a half hours away
    assert before_ms - 60_000 < told_ms < after_ms + 60_000


def test_a_batch_is_looked_up_though_statistics_know_nothing_of_its_state(db: Database) -> None:
    few = 800
    with db.write() as conn:
        runs.insert_runs(conn, [make_run(item, state=RunState.SUCCEEDED) for item in range(1, 40_001)])
    million.analyze(db)
    planned = range(40_001, 40_001 + few)
    with db.write() as conn:
        runs.insert_runs(conn, [make_run(item) for item in planned])
    with db.write() as conn, metered(conn) as costs:
        runs.lock_planned(conn, planned)
        rows = [runs.FencedRow(item, "http://127.0.0.1:9001", "instance-1", 1, None) for item in planned]
        assert runs.update_fenced(conn, rows, now_ms=NOW, check_ms=NOW) == few
    assert costs
    assert [cost for cost in costs if cost.rows > 10 * few] == []
