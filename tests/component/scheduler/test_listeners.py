"""Run listeners get every change that was committed, and never delay the pipeline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.node import HandNode, plugins
from tests.support.rows import NOW
from tests.support.waiting import wait_until
from xwheel.clock import ManualClock
from xwheel.config import build_config
from xwheel.errors import NotFoundError
from xwheel.model import MisfirePolicy, Run, RunState
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.plugin import RunChange
from xwheel.plugin.registries import Registry
from xwheel.scheduler.jobs.jobs import BulkAction
from xwheel.scheduler.listeners import BATCH, ListenerQueue, RunFeed
from xwheel.scheduler.records import Fate
from xwheel.storage import runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection, Database

LONG_S = 60.0


class Collector:
    """Keeps what it is told."""

    name = "collector"

    def __init__(self) -> None:
        self.told: list[RunChange] = []

    def on_change(self, changes: Sequence[RunChange]) -> None:
        self.told += changes

    def states(self, run: Run) -> list[str]:
        return [str(change.state) for change in self.told if change.run_id == run.id]


@pytest.fixture
def told(node: HandNode) -> Collector:
    collector = Collector()
    node.db.listen(collector.on_change)
    return collector


def check_complete(node: HandNode, told: Collector) -> None:
    """What was told last of each run is what its row says, with its reason."""
    last = {change.run_id: change for change in told.told}
    rows = node.runs()
    assert {run.id: (run.state, run.reason) for run in rows} == {
        run_id: (change.state, change.reason) for run_id, change in last.items()
    }
    assert all((last[run.id].job_id, last[run.id].group_id) == (run.job_id, run.group_id) for run in rows)


def test_a_run_is_told_from_its_plan_to_its_end(node: HandNode, told: Collector) -> None:
    job = node.job(schedule_type="FIX_RATE", schedule_conf="4")
    node.run_for(5000)
    (run,) = node.answer()
    node.finish([run])
    assert told.states(run) == ["planned", "dispatching", "running", "succeeded"]
    addresses = ["", *["http://127.0.0.1:9001"] * 3]
    assert [change.address for change in told.told if change.run_id == run.id] == addresses
    assert {change.job_id for change in told.told} == {job.id}
    check_complete(node, told)


def test_every_way_to_a_state_is_told(node: HandNode, told: Collector) -> None:
    run_now = node.scheduler.management.run_now.run
    retried = node.job(enabled=False, max_retries=1, name="retried")
    broadcast = node.job(enabled=False, route_strategy="SHARDING_BROADCAST", name="broadcast")
    foreign = node.job(enabled=False, name="foreign")
    killed = node.job(enabled=False, name="killed")
    node.register("http://127.0.0.1:9002")
    run_now(retried.id)
    run_now(broadcast.id)
    node.run_for(300)
    node.finish([run for run in node.answer() if run.job_id == retried.id], RunState.FAILED)
    node.scheduler.management.jobs.change_many(BulkAction.RUN, [foreign.id])
    node.run_for(300)
    node.answer(Fate.REFUSED, "busy")
    node.scheduler.management.killer.kill(run_now(killed.id).id)
    states = {change.state for change in told.told}
    assert states >= {"planned", "dispatching", "running", "failed", "refused", "cancelled"}
    assert {change.reason for change in told.told} >= {"executor_refused", "killed_by_user"}
    check_complete(node, told)


def test_skips_stops_and_pauses_are_told(node: HandNode, told: Collector) -> None:
    job = node.job(schedule_type="FIX_RATE", schedule_conf="2", misfire_policy=MisfirePolicy.SKIP)
    node.run_for(60_000, step_ms=60_000)
    node.scheduler.management.jobs.stop(job.id)
    other = node.job(schedule_type="FIX_RATE", schedule_conf="2", name="other")
    node.plan()
    node.scheduler.management.schedules.pause()
    found = {(change.state, change.reason) for change in told.told}
    assert found >= {("skipped", "misfire"), ("cancelled", "stopped"), ("cancelled", "paused")}
    assert {change.job_id for change in told.told} == {job.id, other.id}
    check_complete(node, told)


def test_a_late_outcome_tells_what_it_withdraws(node: HandNode, told: Collector) -> None:
    job = node.job(enabled=False, recover_lost=True)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer()
    node.finish([run], RunState.LOST)
    node.finish([run])
    assert told.states(run)[-2:] == ["lost", "succeeded"]
    assert "late_outcome" in {change.reason for change in told.told}
    check_complete(node, told)


def test_what_is_rolled_back_is_not_told(node: HandNode, told: Collector) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    before = len(told.told)

    def work(conn: Connection) -> None:
        changes.note_cancelled(conn, [run], "never", NOW)
        raise NotFoundError("job", job.id)

    with pytest.raises(NotFoundError):
        node.db.transaction(work)
    assert len(told.told) == before
    with node.db.write() as conn:  # the same pooled connection
        runs.cancel_runs(conn, [], reason="", now_ms=NOW)
    assert len(told.told) == before


def change(number: int) -> RunChange:
    return RunChange(number, 7, 1, RunState.PLANNED, NOW)


class Hanging(Collector):
    """Keeps what it is told, and does not return before it may."""

    name = "hanging"

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def on_change(self, changes: Sequence[RunChange]) -> None:
        super().on_change(changes)
        self.release.wait(LONG_S)


def test_a_queue_that_is_full_drops_the_oldest_and_says_so_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock, listener = ManualClock(NOW), Hanging()
    queue = ListenerQueue("slow", listener, clock, 10)
    queue.put([change(-1)])
    wait_until(lambda: len(listener.told) == 1)
    with caplog.at_level(logging.WARNING):
        for number in range(15):
            queue.put([change(number)])
        queue.put([change(number) for number in range(15, 40)])
        assert len(caplog.records) == 1
        clock.advance(60_000)
        queue.put([change(40)])
    assert [record.getMessage() for record in caplog.records] == [
        "run listener slow is too slow: 1 changes were dropped, the last one of run 0 of job 7 (planned)",
        "run listener slow is too slow: 30 changes were dropped, the last one of run 30 of job 7 (planned)",
    ]
    assert (queue.health().queued, queue.health().dropped, queue.health().busy_ms) == (10, 31, 60_000)
    assert queue.is_busy()
    listener.release.set()
    wait_until(lambda: not queue.is_busy())
    assert [item.run_id for item in listener.told] == [-1, *range(31, 41)]
    wait_until(lambda: queue.health().delivered == 11)
    assert (queue.health().queued, queue.health().busy_ms) == (0, 0)


def test_a_listener_that_raises_gets_the_next_batch(caplog: pytest.LogCaptureFixture) -> None:
    class Raising(Collector):
        def on_change(self, changes: Sequence[RunChange]) -> None:
            super().on_change(changes)
            if len(self.told) == BATCH:
                raise SystemExit("no")

    listener = Raising()
    queue = ListenerQueue("raising", listener, ManualClock(NOW), 10 * BATCH)
    queue.put([change(number) for number in range(BATCH + 5)])
    wait_until(lambda: queue.health().delivered == 5)
    assert "run listener raising raised SystemExit: no" in caplog.text
    assert len(listener.told) == BATCH + 5
    health = queue.health()
    assert (health.delivered, health.failures, health.last_error) == (5, 1, "SystemExit: no")
    assert not queue.is_busy()


def test_a_listener_is_told_nothing_after_its_queue_was_closed(caplog: pytest.LogCaptureFixture) -> None:
    listener = Hanging()
    queue = ListenerQueue("closed", listener, ManualClock(NOW), 10)
    queue.put([change(1)])
    wait_until(lambda: len(listener.told) == 1)
    queue.put([change(2)])
    queue.close()
    queue.put([change(3)])
    listener.release.set()
    name = "xwheel-listen-closed"
    wait_until(lambda: name not in {thread.name for thread in threading.enumerate()})
    assert [item.run_id for item in listener.told] == [1]
    assert (queue.health().queued, caplog.records) == (1, [])


def test_listeners_that_hang_or_raise_delay_nothing(sqlite_db: Database, caplog: pytest.LogCaptureFixture) -> None:
    """A node on real threads: one listener never returns, one always raises, and the third gets everything."""

    class Raising(Collector):
        name = "raising"

        def on_change(self, changes: Sequence[RunChange]) -> None:
            super().on_change(changes)
            raise RuntimeError("no")

    hanging, raising, good = Hanging(), Raising(), Collector()
    listeners = {item.name: item for item in (hanging, raising, good)}
    loaded = replace(plugins(), run_listeners=Registry("run listener", listeners, {}))
    node = Scheduler(Core(build_config({}), sqlite_db, loaded, "x" * 32))
    hand = HandNode.__new__(HandNode)  # only to make rows
    hand.db, hand.clock, hand.scheduler = sqlite_db, ManualClock(NOW), node
    hand.group()
    job = hand.job(enabled=False)

    node.start()
    try:
        for _ in range(2):  # the second one while the first listener hangs
            run = node.management.run_now.run(job.id)
            wait_until(lambda run=run: good.states(run) == ["planned", "refused"])  # type: ignore[misc]
            wait_until(lambda: bool(hanging.told))
        wait_until(lambda: len(raising.told) == len(good.told) == 4)
        wait_until(lambda: {item.name: item.delivered for item in node.core.listeners.health()}["collector"] == 4)
        health = {item.name: item for item in node.core.listeners.health()}
        assert (health["hanging"].delivered, health["collector"].failures) == (0, 0)
        wait_until(lambda: node.core.listeners.health()[-1].last_error == "RuntimeError: no")
        assert not any(service.name.startswith("listen") for service in node.services)
    finally:
        node.stop()
        hanging.release.set()
    assert "run listener hanging did not finish in 2000 ms" in caplog.text
    assert "run listener collector" not in caplog.text


def test_without_listeners_nothing_is_noted(node: HandNode) -> None:
    with node.db.write() as conn:
        assert changes.KEY not in conn.info
    assert RunFeed({}, node.clock, limit=1000).health() == []
