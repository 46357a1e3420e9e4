"""Many parked runs: bounded in memory, cheap to look at, none forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.model import BlockScope, Job, Origin, RunState
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.records import Deferred, Line
from xwheel.storage import executors, runs
from xwheel.storage.database.engine import Database
from xwheel.storage.runs import QueuedRun
from xwheel.testing import ManualClock

LINE = Line("group", 1)


def waiting_runs(limit: int = 1000) -> DeferredRuns:
    return DeferredRuns(lambda: None, limit=limit)


def deferred(run_id: int, *, line: Line = LINE, due_ms: int = NOW, job_id: int = 1, **more: Any) -> Deferred:
    return Deferred(make_run(run_id, due_ms=due_ms, job_id=job_id), line, **more)


def queued(run_id: int, *, due_ms: int = NOW, job_id: int = 1) -> QueuedRun:
    return QueuedRun(run_id, job_id, 1, 1, 1, due_ms)


def ids(found: list[QueuedRun]) -> list[int]:
    return [run.id for run in found]


def test_looks_come_after_a_growing_wait_and_ask_only_the_head() -> None:
    lines = waiting_runs()
    lines.defer([deferred(number) for number in range(1, 101)], NOW)
    looks: list[int] = []
    for now_ms in range(NOW, NOW + 5000, 10):
        found = lines.take_ripe(now_ms)
        if found:
            looks.append(now_ms - NOW)
            assert ids(found) == list(range(1, 9))
            lines.defer([deferred(run.id) for run in found], now_ms)
    assert looks == [200, 400, 800, 1600, 2600, 3600, 4600]


def test_a_line_whose_head_goes_is_asked_on_at_once_in_growing_parts() -> None:
    lines = waiting_runs(100_000)
    lines.defer([deferred(number) for number in range(1, 10_001)], NOW)
    now_ms, sizes = NOW + 200, []
    while found := lines.take_ripe(now_ms):
        sizes.append(len(found))
        now_ms += 100
    assert sum(sizes) == 10_000
    assert sizes[:4] == [8, 16, 32, 64]
    assert max(sizes) == 500
    assert len(lines) == 0


def test_an_end_and_an_arrival_wake_only_those_who_wait_for_them() -> None:
    lines = waiting_runs()
    dead, other = Line("executor", 1, "http://a"), Line("executor", 2)
    lines.defer(
        [deferred(1, line=dead, until_ms=NOW + 60_000), deferred(2, line=other, until_ms=NOW + 60_000)], NOW
    )
    lines.arrived(1)
    assert ids(lines.take_ripe(NOW + 1)) == [1]


def test_the_end_of_a_wait_is_looked_at_when_it_comes() -> None:
    lines = waiting_runs()
    lines.defer([deferred(1, line=Line("executor", 1), until_ms=NOW + 50)], NOW)
    assert lines.next_try_ms() == NOW + 50
    assert ids(lines.take_ripe(NOW + 50)) == [1]


def test_what_a_full_memory_forgets_is_the_newest_and_is_known_to_be_missing() -> None:
    lines = waiting_runs(100)
    lines.defer([deferred(number, due_ms=NOW + number) for number in range(200, 0, -1)], NOW)
    assert len(lines) == 100
    assert lines.overflowed == 100
    assert all(lines.is_held(number) for number in range(1, 101))
    assert lines.is_beyond(queued(150, due_ms=NOW + 150))
    assert not lines.is_beyond(queued(50, due_ms=NOW + 50))
    assert not lines.is_beyond(queued(500, due_ms=NOW + 150, job_id=2))
    lines.forget(range(1, 27))
    assert not lines.is_beyond(queued(150, due_ms=NOW + 150))  # there is room again


@pytest.fixture
def crowd(sqlite_db: Database) -> tuple[HandNode, Job]:
    """A node with one running run of a serial job and room for few more in memory."""
    node = HandNode(sqlite_db, ManualClock(NOW), trigger={"waiting_limit": 2000})
    node.group()
    node.register("http://127.0.0.1:9001")
    job = node.job(
        enabled=False, block_scope=BlockScope.CLUSTER, block_strategy="SERIAL_EXECUTION", param="x"
    )
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


def test_ten_thousand_parked_runs_cost_a_few_statements_a_second(crowd: tuple[HandNode, Job]) -> None:
    node, job = crowd
    node.scheduler.core.deferred._limit = 20_000
    started = node.answer()
    asked = insert(node, job, 10_000)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.register("http://127.0.0.1:9001")
    node.adopt()
    for _ in range(20):
        node.tick(20)
    assert len(node.scheduler.core.deferred) == 10_000
    seen: list[str] = []
    event.listen(
        node.db.engine, "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement)
    )
    for _ in range(250):
        node.tick(20)
    # five seconds: a handful of looks, each a handful of statements
    assert len(seen) <= 6 * 12
    node.finish(started)
    node.tick(1)
    assert [run.id for run in node.answer()] == asked[:1]


def test_a_hundred_thousand_rows_beyond_memory_are_looked_through_and_not_taken_up(
    crowd: tuple[HandNode, Job],
) -> None:
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
        conn.exec_driver_sql(f"UPDATE run SET due_ms = due_ms + 1, open_partition = 63 WHERE id = {lost[0]}")
        conn.exec_driver_sql(f'UPDATE run SET "partition" = 63 WHERE id = {lost[0]}')
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
