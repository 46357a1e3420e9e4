"""Thousands of parked runs: cheap to look at, none forgotten."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.clock import ManualClock
from xwheel.model import BlockScope, Job, Origin, RunState
from xwheel.storage import executors, runs
from xwheel.storage.database.engine import Database


@pytest.fixture
def waiting_limit() -> int:
    """Room for few runs in memory."""
    return 2000


@pytest.fixture
def crowd(sqlite_db: Database, waiting_limit: int) -> tuple[HandNode, Job]:
    """A node with one running run of a serial job and room for so many more in memory."""
    node = HandNode(sqlite_db, ManualClock(NOW), trigger={"waiting_limit": waiting_limit})
    node.group()
    node.register("http://127.0.0.1:9001")
    job = node.job(enabled=False, block_scope=BlockScope.CLUSTER, block_strategy="SERIAL_EXECUTION", param="x")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(200)
    return node, job


def insert(node: HandNode, job: Job, count: int, *, epoch: int = 0) -> list[int]:
    source = node.scheduler.core.run_ids
    made: list[int] = []
    while len(made) < count:
        source.ensure(min(5000, count - len(made)))
        part = source.take(min(5000, count - len(made)))
        rows = [
            make_run(
                item,
                job_id=job.id,
                partition=job.partition,
                origin=Origin.API,
                origin_key=item,
                due_ms=node.clock.now_ms() + len(made) + place,
                epoch=epoch,
            )
            for place, item in enumerate(part)
        ]
        node.db.transaction(lambda conn, rows=rows: runs.insert_runs(conn, rows))  # type: ignore[misc]
        made += part
    node.clock.advance(count)
    return made


@pytest.mark.parametrize("waiting_limit", [20_000])
def test_ten_thousand_parked_runs_cost_a_few_statements_a_second(crowd: tuple[HandNode, Job]) -> None:
    node, job = crowd
    started = node.answer()
    asked = insert(node, job, 10_000)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.register("http://127.0.0.1:9001")
    node.adopt()
    for _ in range(20):
        node.tick(20)
    assert len(node.scheduler.core.deferred) == 10_000
    seen: list[str] = []
    event.listen(node.db.engine, "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement))
    for _ in range(250):
        node.tick(20)
    # five seconds: a handful of looks, each a handful of statements
    assert len(seen) <= 6 * 12
    node.finish(started)
    node.tick(1)
    assert [run.id for run in node.answer()] == asked[:1]


def test_a_hundred_thousand_rows_beyond_memory_are_looked_through_and_not_taken_up(crowd: tuple[HandNode, Job]) -> None:
    node, job = crowd
    started = node.answer()
    epoch = node.scheduler.core.lease.epochs[job.partition]
    asked = insert(node, job, 100_000, epoch=epoch)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.register("http://127.0.0.1:9001")
    node.scheduler.planning.adopt.reconcile(node.clock.now_ms())
    for _ in range(20):
        node.tick(20)
    assert len(node.scheduler.core.deferred) == 2000
    before = node.scheduler.planning.adopt.recovered
    node.scheduler.planning.adopt.reconcile(node.clock.now_ms())
    assert node.scheduler.planning.adopt.recovered == before  # those beyond memory wait their turn
    lost = insert(node, node.job(enabled=False), 1, epoch=epoch)
    with node.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE open_run SET due_ms = due_ms + 1 WHERE id = {lost[0]}")
        conn.exec_driver_sql(f'UPDATE open_run SET "partition" = 63 WHERE id = {lost[0]}')
    node.clock.advance(2000)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.scheduler.planning.adopt.reconcile(node.clock.now_ms())
    node.tick(20)
    assert [run.id for run in node.answer()] == lost  # not hidden behind the parked ones
    node.finish(started)
    node.tick(1)
    assert [run.id for run in node.answer()] == asked[:1]


def test_what_was_beyond_memory_goes_in_order_once_there_is_room(sqlite_db: Database) -> None:
    node = HandNode(sqlite_db, ManualClock(NOW), trigger={"waiting_limit": 100})
    node.group()
    node.register("http://127.0.0.1:9001")
    node.db.transaction(lambda conn: executors.update_group(conn, 1, {"max_running": 20}, NOW))
    node.scheduler.core.registry.step(NOW)
    job = node.job(enabled=False)
    asked = insert(node, job, 400)
    sent: list[int] = []

    def serve() -> None:
        started = node.answer()
        sent.extend(run.id for run in started)
        node.finish(started)

    node.run_for(60_000, step_ms=50, each=serve)
    assert sorted(sent) == sorted(asked)
    assert sent[:100] == asked[:100]
    assert {run.state for run in node.runs()} == {RunState.SUCCEEDED}
