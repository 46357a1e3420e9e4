"""What the watcher finds in rows and journals, one look after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from xwheel_devtools.verify.journals import AcknowledgedRuns
from xwheel_devtools.verify.watch import Watcher

from tests.support.rows import make_run
from xwheel.clock import SystemClock
from xwheel.executor.journal import Journal
from xwheel.model import RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.wire.messages import CallbackItem, RunKey

JOB = 7


class Seen:
    """A watcher that looks when it is told to, at rows that tests change."""

    def __init__(self, db: Database, folder: Path) -> None:
        self.db = db
        url = db.engine.url.render_as_string(hide_password=False)
        self.watcher = Watcher(url, [JOB], [], (0, 0), [folder])

    def insert(self, run_id: int, **changes: object) -> None:
        due_ms = time.time_ns() // 1_000_000
        values = {"job_id": JOB, "partition": JOB, "due_ms": due_ms, "epoch": 1, **changes}
        self.db.transaction(lambda conn: runs.insert_runs(conn, [make_run(run_id, **values)]))

    def execute(self, statement: str) -> None:
        with self.db.write() as conn:
            conn.exec_driver_sql(statement)

    def look(self) -> None:
        self.watcher.look()


@pytest.fixture
def seen(sqlite_db: Database, tmp_path: Path) -> Iterator[Seen]:
    made = Seen(sqlite_db, tmp_path / "data")
    made.execute("UPDATE partition_lease SET epoch = 1, owner = 'a'")
    yield made
    made.watcher.close()


SEND = "UPDATE open_run SET state = 'dispatching', dispatched_ms = 5"


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("UPDATE open_run SET epoch = epoch", 1),
        ("UPDATE open_run SET epoch = 2", 0),  # adopted before it was sent
    ],
)
def test_a_run_that_is_sent_under_an_epoch_that_was_over(seen: Seen, between: str, found: int) -> None:
    seen.insert(1)
    seen.look()
    seen.execute("UPDATE partition_lease SET epoch = 2, owner = 'b'")
    seen.look()
    seen.execute(between)
    seen.execute(SEND)
    seen.look()
    texts = ["run 1 was sent under epoch 1 when its partition had epoch 2"] * found
    assert seen.watcher.seen.epochs == texts


def test_a_run_that_was_sent_before_its_partition_was_taken_is_well(seen: Seen) -> None:
    seen.insert(1)
    seen.look()
    seen.execute(SEND)
    seen.execute("UPDATE partition_lease SET epoch = 2, owner = 'b'")
    seen.look()
    seen.look()
    assert seen.watcher.seen.epochs == []


def test_a_run_that_is_stopped_instead_of_sent_is_well(seen: Seen) -> None:
    seen.insert(1)
    seen.execute("UPDATE partition_lease SET epoch = 2, owner = 'b'")
    seen.look()
    seen.execute("UPDATE open_run SET state = 'cancelled'")
    seen.look()
    assert seen.watcher.seen.epochs == []


def test_an_epoch_that_falls(seen: Seen) -> None:
    seen.look()
    seen.execute("UPDATE partition_lease SET epoch = 0 WHERE partition_lease.partition = 3")
    seen.look()
    assert seen.watcher.seen.epochs == ["the epoch of partition 3 fell from 1 to 0"]


@pytest.mark.parametrize(("state", "found"), [(RunState.RUNNING, 1), (RunState.SUCCEEDED, 0)])
def test_an_outcome_that_was_acknowledged_and_is_not_there(
    seen: Seen, tmp_path: Path, state: RunState, found: int
) -> None:
    seen.insert(1, state=state)
    seen.insert(2, state=RunState.RUNNING)
    acknowledge(tmp_path / "data", 1)
    seen.look()
    seen.look()
    texts = ["run 1 is running, and its outcome was acknowledged to data"] * found
    assert seen.watcher.seen.unwritten == texts


def test_acknowledged_runs_are_told_once_and_the_journal_stays_as_it_is(tmp_path: Path) -> None:
    acknowledged = AcknowledgedRuns(tmp_path / "data")
    assert acknowledged.read() == {}  # there is none yet
    acknowledge(tmp_path / "data", 1)
    assert acknowledged.read() == {1: "data"}
    acknowledge(tmp_path / "data", 2)
    assert acknowledged.read() == {2: "data"}
    (tmp_path / "data" / "journal.db").write_bytes(b"no database" * 1000)
    assert acknowledged.read() == {}


def acknowledge(folder: Path, run_id: int) -> None:
    """Let an executor take a run, end it, and hear that the scheduler has the outcome."""
    journal = Journal(folder, SystemClock())
    item = CallbackItem(run_id=run_id, job_id=JOB, created_ms=1000, code=200)
    journal.accept([RunKey(run_id, JOB, 1000)], lambda *_: None)
    journal.accept([RunKey(run_id + 100, JOB, 1000)], lambda *_: None)
    journal.finish([item])
    journal.acknowledge([item])
    journal.close()
