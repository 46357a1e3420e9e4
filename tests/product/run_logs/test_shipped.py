"""Logs that executors ship: whose they may be, what is answered, and what the rows say then."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update
from xwheel_run_logs import LogKey, storage
from xwheel_run_logs.shipped import ShippedLogs
from xwheel_run_logs.storage import FOR_EVER, RunLogRow

from tests.product.run_logs.node import LogNode
from tests.product.run_logs.stores import MemoryStore, fails
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import DuplicateError, LogStoreError
from xwheel.model import NO_SECRET, SHARED_SECRET, Reporter, Run
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.retention import DAY_MS
from xwheel.storage.schema.tables import open_run
from xwheel.wire.messages import LogPart, LogReceipt

SHARED = None
INSTANCE = "instance-1"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def node(db: Database, store: MemoryStore) -> LogNode:
    node = LogNode(db, ManualClock(NOW), stores=[store, MemoryStore("other")], run_logs={"store": "memory"})
    node.group()
    node.register("http://127.0.0.1:9001")
    return node


def sent(node: LogNode, **fields: Any) -> Run:
    """Return a run that is at the executor."""
    job = node.job(enabled=False, **fields)
    run_id = node.scheduler.management.run_now.run(job.id).id
    node.run_for(300)
    node.answer()
    (run,) = [run for run in node.runs(job.id) if run.id == run_id]
    return run


def part(run: Run, from_line: int, content: str, *, is_end: bool = False) -> LogPart:
    return LogPart(run_id=run.id, created_ms=run.created_ms, from_line=from_line, content=content, is_end=is_end)


def ship(node: LogNode, *parts: LogPart, instance: str = INSTANCE, group_id: int | None = SHARED) -> list[LogReceipt]:
    return list(node.kept.take_logs(instance, parts, Reporter(group_id)))


def row_of(node: LogNode, run: Run) -> RunLogRow | None:
    with node.db.read() as conn:
        return storage.find_log(conn, run.id)


def test_lines_are_kept_and_the_log_has_a_row(node: LogNode, store: MemoryStore) -> None:
    run = sent(node)
    assert ship(node, part(run, 1, "a\nb\n")) == [LogReceipt(run_id=run.id, next_line=3)]
    assert row_of(node, run) == RunLogRow(
        run.id, run.job_id, run.partition, run.created_ms, "memory", False, None, FOR_EVER
    )
    assert ship(node, part(run, 3, "c\n", is_end=True)) == [LogReceipt(run_id=run.id, next_line=4, settled=True)]
    row = row_of(node, run)
    assert row is not None
    assert row.ended
    assert store.logs == {LogKey(run.id, run.created_ms): ["a", "b", "c"]}


def test_a_gap_and_a_repetition_are_answered_with_the_line_that_is_missing(node: LogNode) -> None:
    run = sent(node)
    assert ship(node, part(run, 5, "e\n", is_end=True)) == [LogReceipt(run_id=run.id, next_line=1)]
    for _ in range(2):
        assert ship(node, part(run, 1, "a\n")) == [LogReceipt(run_id=run.id, next_line=2)]
    row = row_of(node, run)
    assert row is not None
    assert not row.ended


def test_an_executor_that_lost_lines_ends_its_log_with_those_that_are_there(node: LogNode) -> None:
    run = sent(node)
    ship(node, part(run, 1, "a\nb\nc\n"))
    assert ship(node, part(run, 1, "a\n", is_end=True)) == [LogReceipt(run_id=run.id, next_line=4, settled=True)]
    row = row_of(node, run)
    assert row is not None
    assert row.ended


def test_a_question_is_answered_without_lines(node: LogNode, store: MemoryStore) -> None:
    first, second, third = (sent(node, name=name) for name in ("first", "second", "third"))
    ship(node, part(first, 1, "a\nb\n"), part(second, 1, "a\n", is_end=True))
    appended = len(store.appended)
    assert sorted(ship(node, *(part(run, 1, "") for run in (first, second, third))), key=lambda r: r.run_id) == [
        LogReceipt(run_id=first.id, next_line=3),
        LogReceipt(run_id=second.id, settled=True),
        LogReceipt(run_id=third.id, next_line=1),
    ]
    assert len(store.appended) == appended
    assert row_of(node, third) is None


def test_an_end_whose_row_was_not_written_is_written_when_it_is_asked_for(node: LogNode, store: MemoryStore) -> None:
    run = sent(node)
    ship(node, part(run, 1, "a\n"))
    store.complete.add(LogKey(run.id, run.created_ms))  # and then the node ended
    assert ship(node, part(run, 1, "")) == [LogReceipt(run_id=run.id, next_line=2, settled=True)]
    row = row_of(node, run)
    assert row is not None
    assert row.ended


def test_a_log_is_taken_from_nobody_but_the_executor_that_has_the_run(node: LogNode, store: MemoryStore) -> None:
    run = sent(node)
    line = part(run, 1, "a\n")
    other_time = LogPart(run_id=run.id, created_ms=run.created_ms + 1, from_line=1, content="a\n")
    unknown = LogPart(run_id=run.id + 1, created_ms=run.created_ms, from_line=1, content="a\n")
    refused = [
        ship(node, line, instance="instance-2"),
        ship(node, line, instance=""),
        ship(node, line, group_id=run.group_id + 1),
        ship(node, other_time),
        ship(node, unknown),
    ]
    assert [(receipt.settled, receipt.message) for (receipt,) in refused] == [
        (True, "the run is another executor's"),
        (True, "the run is another executor's"),
        (True, "the run was sent under another secret"),
        (True, "no run has this id and time"),
        (True, "no run has this id and time"),
    ]
    assert not store.appended
    assert row_of(node, run) is None
    assert ship(node, line, group_id=run.group_id) == [LogReceipt(run_id=run.id, next_line=2)]


@pytest.mark.parametrize(
    ("sent_under", "group_id", "is_taken"),
    [(SHARED_SECRET, SHARED, True), (7, SHARED, False), (NO_SECRET, SHARED, False), (7, 1, True), (NO_SECRET, 1, True)],
)
def test_s21_who_may_report_a_run_may_write_its_log_and_no_one_else(
    node: LogNode, store: MemoryStore, sent_under: int, group_id: int | None, is_taken: bool
) -> None:
    """S21: a holder of the shared token wrote into, and ended, logs of runs that were sent under a group's secret."""
    run = sent(node)
    node.db.transaction(lambda conn: conn.execute(update(open_run).values(secret_id=sent_under)))
    for line in (part(run, 1, ""), part(run, 1, "a\n", is_end=True)):
        (receipt,) = ship(node, line, group_id=group_id)
        assert receipt.message == ("" if is_taken else "the run was sent under another secret")
    assert bool(store.appended) == is_taken


def test_a_planned_run_has_no_log(node: LogNode, store: MemoryStore) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    (receipt,) = ship(node, part(run, 1, "a\n"))
    assert receipt.message == "the run is another executor's"
    assert not store.appended


def test_a_store_that_fails_leaves_a_row_that_finds_what_it_may_have(node: LogNode, store: MemoryStore) -> None:
    run = sent(node)
    store.trouble = fails
    with pytest.raises(LogStoreError):
        ship(node, part(run, 1, "a\n", is_end=True))
    row = row_of(node, run)
    assert row is not None
    assert not row.ended
    store.trouble = lambda: None
    assert ship(node, part(run, 1, "a\n", is_end=True)) == [LogReceipt(run_id=run.id, next_line=2, settled=True)]


def test_a_log_that_began_in_another_store_goes_on_there(node: LogNode, store: MemoryStore) -> None:
    run, lost = sent(node, name="first"), sent(node, name="second")
    for which, name in ((run, "other"), (lost, "gone")):
        row = RunLogRow(which.id, which.job_id, which.partition, which.created_ms, name, False, None, FOR_EVER)
        node.db.transaction(lambda conn, row=row: storage.add_logs(conn, [row]))  # type: ignore[misc]
    receipts = ship(node, part(run, 1, "a\n"), part(lost, 1, "a\n"))
    assert receipts == [
        LogReceipt(run_id=run.id, next_line=2),
        LogReceipt(
            run_id=lost.id, settled=True, message="the log store 'gone' that has its beginning is not there any more"
        ),
    ]
    assert not store.appended


def test_two_nodes_that_get_the_same_lines_at_once(
    node: LogNode, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sent(node)
    other = ShippedLogs(node.db, node.kept.stores)
    insert = storage.add_logs
    tries: list[int] = []

    def add(conn: Connection, rows: list[RunLogRow]) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise DuplicateError("one of 1 logs exists by now")
        insert(conn, rows)

    monkeypatch.setattr(storage, "add_logs", add)
    assert ship(node, part(run, 1, "a\n")) == [LogReceipt(run_id=run.id, next_line=2)]
    assert len(tries) == 2
    assert other.take(INSTANCE, [part(run, 1, "a\nb\n")], Reporter(SHARED)) == [LogReceipt(run_id=run.id, next_line=3)]
    assert store.logs[LogKey(run.id, run.created_ms)] == ["a", "b"]


def test_a_job_may_keep_its_logs_for_another_time(node: LogNode) -> None:
    run = sent(node, log_retention_days=3)
    ship(node, part(run, 1, "a\n"))
    row = row_of(node, run)
    assert row is not None
    assert row.delete_ms == run.created_ms + 3 * DAY_MS


def test_without_a_store_nothing_is_wanted(db: Database) -> None:
    node = LogNode(db, ManualClock(NOW))
    assert not node.kept.wants_logs()
