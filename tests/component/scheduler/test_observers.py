"""Observers of plugins: their rows are written with what happens, and what is wrong with them costs nothing else."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import Run, RunState
from xwheel.plugin import Changes, PluginDatabase, Rows
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.registries import Registry
from xwheel.scheduler.observers import Observers
from xwheel.storage import runs
from xwheel.storage.database.engine import Database

TABLE = "toys_seen"


class Toys:
    """Notes each end in its table; ``answer`` says something else."""

    name = "toys"

    def __init__(self) -> None:
        self.answer: Callable[[Changes], Any] = noted
        self.changes: list[Changes] = []
        self.written: list[Rows] = []
        self.read = 0

    def refresh(self, database: PluginDatabase, now_ms: int) -> None:
        self.read += 1

    def rows(self, changes: Changes) -> Rows:
        self.changes.append(changes)
        found: Rows = self.answer(changes)
        return found

    def committed(self, rows: Rows) -> None:
        self.written.append(rows)


def noted(changes: Changes) -> Rows:
    return {TABLE: [{"run_id": run.id, "state": str(end.state)} for run, end in changes.ended]}


class ToyNode(HandNode):
    def installed(self, known: Plugins) -> Plugins:
        self.toys = Toys()
        return dataclasses.replace(known, observers=Registry("observer", {"toys": self.toys}, {}))


@pytest.fixture
def node(db: Database) -> Iterator[ToyNode]:
    with db.write() as conn:
        conn.execute(text(f"CREATE TABLE {TABLE} (run_id BIGINT NOT NULL, state VARCHAR(16) NOT NULL)"))
    made = ToyNode(db, ManualClock(NOW))
    made.group()
    made.register("http://127.0.0.1:9001")
    yield made
    made.scheduler.core.lease.release()
    with db.write() as conn:
        conn.execute(text(f"DROP TABLE {TABLE}"))


def run_once(node: ToyNode, state: RunState = RunState.FAILED) -> Run:
    job = node.job(enabled=False)
    node.scheduler.management.run_now.run(job.id)
    node.adopt()
    node.tick(20)
    (run,) = node.answer()
    node.finish([run], state)
    return run


def seen(node: ToyNode) -> list[tuple[int, str]]:
    with node.db.read() as conn:
        return [tuple(row) for row in conn.execute(text(f"SELECT run_id, state FROM {TABLE}"))]


def state_of(node: ToyNode, run: Run) -> RunState:
    with node.db.read() as conn:
        return runs.get_run(conn, run.id).state


def test_rows_are_written_with_the_end(node: ToyNode) -> None:
    assert node.toys.read == 1
    run = run_once(node)
    assert seen(node) == [(run.id, "failed")]
    assert node.toys.written == [{TABLE: [{"run_id": run.id, "state": "failed"}]}]
    (ended,) = [changes for changes in node.toys.changes if changes.ended]
    assert (ended.now_ms, ended.ended[0][0].id, ended.ended[0][1].state) == (NOW + 20, run.id, RunState.FAILED)


class Seeing(Toys):
    """Notes what is sent, too."""

    sees_dispatches = True


def test_who_sees_dispatches_writes_with_them_and_no_one_else_is_asked(node: ToyNode) -> None:
    run_once(node)
    assert not any(changes.dispatched for changes in node.toys.changes)
    seeing = Seeing()
    seeing.answer = lambda changes: {
        TABLE: [{"run_id": run.id, "state": f"{run.state} {job.name}"} for run, job in changes.dispatched]
    }
    observers = Observers([seeing], node.db)
    node.scheduler.planning.firing.fence.observers = observers
    job = node.job(enabled=False, name="seen")
    run_id = node.scheduler.management.run_now.run(job.id).id
    node.adopt()
    node.tick(20)
    assert (run_id, "dispatching seen") in seen(node)
    (change,) = [changes for changes in seeing.changes if changes.dispatched]
    assert (change.now_ms, change.ended, change.inserted) == (node.clock.now_ms(), (), ())
    assert seeing.written == [{TABLE: [{"run_id": run_id, "state": "dispatching seen"}]}]


def test_one_that_fails_with_a_dispatch_stops_no_send(node: ToyNode, caplog: pytest.LogCaptureFixture) -> None:
    seeing = Seeing()
    seeing.answer = lambda _: {TABLE: [{"run_id": None, "state": "a"}]}
    node.scheduler.planning.firing.fence.observers = Observers([seeing], node.db)
    with caplog.at_level(logging.ERROR):
        run = run_once(node)
    assert state_of(node, run) is RunState.FAILED
    assert "rows of toys: " in caplog.text
    assert seeing.written == []


def test_no_rows_are_no_writing(node: ToyNode) -> None:
    node.toys.answer = lambda _: {TABLE: []}
    run_once(node)
    assert seen(node) == []
    assert node.toys.written == []


def fails(_: Changes) -> Rows:
    raise SystemExit("no")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (fails, "observer toys failed: SystemExit: no"),
        (lambda _: None, "rows must be a mapping"),
        (lambda _: {"run": [{"id": 1}]}, "'run' is none of its own tables"),
        (lambda _: {TABLE: [{"run_id": 1, "state": "a"}, {"run_id": 2}]}, "have different columns"),
        (lambda _: {TABLE: [{"run_id": [1], "state": "a"}]}, "must be a text, a number, bytes or None, not list"),
        (lambda _: {TABLE: [{"run_id) --": 1}]}, "must be a text"),
        (lambda _: {TABLE: 5}, "must be a sequence of mappings"),
        (lambda _: {TABLE: [5]}, "must be a sequence of mappings"),
        (lambda _: {TABLE: [{"run_id": 1, "state": "\ud800"}]}, "rows of toys: UnicodeEncodeError"),
        (lambda _: {TABLE: [{"run_id": 2**80, "state": "a"}]}, "rows of toys: "),
        (lambda _: {TABLE: [{"run_id": 1, "state": "a"}] * 10_001}, "more than 10000 rows"),
        (lambda _: {TABLE: [{"run_id": None, "state": "a"}]}, "rows of toys: "),
        (lambda _: {TABLE: [{"run_id": 1, "colour": "a"}]}, "rows of toys: "),
        (lambda _: {"toys_gone": [{"run_id": 1}]}, "rows of toys: "),
        (lambda _: {TABLE: [{"run_id": 1, "state": "a"}], "toys_gone": [{"run_id": 1}]}, "rows of toys: "),
    ],
)
def test_what_is_wrong_with_its_rows_costs_nothing_else(
    node: ToyNode, caplog: pytest.LogCaptureFixture, answer: Callable[[Changes], Any], words: str
) -> None:
    node.toys.answer = answer
    with caplog.at_level(logging.ERROR):
        run = run_once(node)
    assert state_of(node, run) is RunState.FAILED
    assert seen(node) == []
    assert words in caplog.text
    assert node.toys.written == []


def test_one_that_fails_to_read_is_asked_nevertheless(node: ToyNode, caplog: pytest.LogCaptureFixture) -> None:
    def away(database: PluginDatabase, now_ms: int) -> None:
        raise KeyError("rules")

    node.toys.refresh = away  # type: ignore[method-assign]
    assert node.scheduler.core.observers.step(NOW) == 1000
    assert "observer toys failed: KeyError" in caplog.text
    run = run_once(node)
    assert seen(node) == [(run.id, "failed")]


def test_it_sees_skipped_fires_and_stopped_jobs(node: ToyNode) -> None:
    node.toys.answer = lambda _: {}
    node.job(schedule_type="FIX_RATE", schedule_conf="10", misfire_policy="skip", misfire_threshold_ms=1000)
    node.clock.advance(60_000)
    node.keep_lease()
    node.plan()
    inserted = [run for changes in node.toys.changes for run in changes.inserted]
    assert RunState.SKIPPED in {run.state for run in inserted}
