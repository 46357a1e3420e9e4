"""Kill the process at every statement of claim, fence, answer and outcome: nothing is lost, nothing is doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crashes import Snapshot, bury_nodes, die_at
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import MisfirePolicy, Run, RunState
from xwheel.scheduler.finish.finish import OutcomeStatus
from xwheel.scheduler.records import Outcome
from xwheel.storage.database.engine import Database
from xwheel.wire.codec import EARLY_GENERATION

WAYS = 4  # shares of the statements, so that the shares can run side by side
FEWEST = {"sqlite": 60, "mysql": 20, "postgresql": 20}  # a server has fewer points


def prepare(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001", "http://127.0.0.1:9002", generation=EARLY_GENERATION)
    node.job(name="rate", schedule_conf="1", misfire_policy=MisfirePolicy.FIRE_ALL, end_ms=NOW + 4000)
    node.job(name="shards", schedule_conf="2", route_strategy="SHARDING_BROADCAST", end_ms=NOW + 4000)
    node.job(name="flaky", schedule_conf="4", max_retries=1, end_ms=NOW + 4000)
    node.scheduler.core.lease.release()


class Journal:
    """The executor: what it has ever taken, kept in a file that outlives the node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken = Counter(int(line) for line in path.read_text().split()) if path.exists() else Counter()

    def take(self, run_id: int) -> None:
        if run_id not in self.taken:
            with self.path.open("a") as file:
                file.write(f"{run_id}\n")
        self.taken[run_id] = 1


def drive(node: HandNode, journal: Journal, duration_ms: int, step_ms: int = 500) -> None:
    """Run the node and play the executor: each id runs once, first attempts of the flaky job fail.

    Fires are written and sent a step before they are due. Shards end a step later than the others: their acceptance is
    written, and that of the others is not.
    """
    node.scheduler.planning.tick.arm_ms = step_ms
    node.scheduler.sending.results.hold_ms = step_ms // 2
    shards: list[Run] = []

    def each() -> None:
        node.write_answers()
        while shards:
            node.finish([shards.pop()])
        for parcel in node.sent:
            for shard in parcel.shards:
                journal.take(shard.run.id)
        for run in node.answer():
            failed = run.job_id == 3 and run.attempt == 1
            if run.job_id == 2:
                shards.append(run)
            else:
                node.finish([run], RunState.FAILED if failed else RunState.SUCCEEDED)

    node.run_for(duration_ms, step_ms=step_ms, each=each)


def killed_at(url: str, journal_path: Path, number: int) -> bool:
    """Run the scenario in a child that kills itself at its nth point; tell whether it came that far."""

    def scenario(db: Database, _: object) -> None:
        drive(HandNode(db, ManualClock(NOW)), Journal(journal_path), 2000)

    return die_at(url, number, scenario)


@pytest.mark.parametrize("first", [1, *(pytest.param(way, marks=pytest.mark.nightly) for way in range(2, WAYS + 1))])
def test_nothing_is_lost_and_nothing_is_doubled(new_database: Callable[[], str], tmp_path: Path, first: int) -> None:
    db = Database(new_database())
    prepare(db)
    prepared, number = Snapshot(db), first
    while strike_and_check(db, prepared, tmp_path, number):
        number += WAYS
    assert number > FEWEST[db.backend], "the scenario must pass through claim, fence, answer and outcome"
    db.close()


def strike_and_check(db: Database, prepared: Snapshot, tmp_path: Path, number: int) -> bool:
    """Kill one process at a point and let the next one finish the work; False once no one was killed."""
    prepared.restore(db)
    db.close()  # the child shares no connection
    journal_path = tmp_path / f"{number}.journal"
    if not killed_at(db.engine.url.render_as_string(hide_password=False), journal_path, number):
        return False
    bury_nodes(db)
    node = HandNode(db, ManualClock(NOW + 2000))
    journal = Journal(journal_path)
    # the executor delivers again what the dead node may or may not have written down
    node.register("http://127.0.0.1:9001", "http://127.0.0.1:9002", generation=EARLY_GENERATION)
    spooled = [run for run in node.runs() if run.id in journal.taken]
    for run in spooled:
        node.finish([run], RunState.FAILED if run.job_id == 3 and run.attempt == 1 else RunState.SUCCEEDED)
    drive(node, journal, 14_000, step_ms=1000)

    rows = node.runs()
    expected = {
        1: {(NOW + 1000 * n, 1, 0) for n in range(1, 5)},
        2: {(NOW + 2000 * n, 1, shard) for n in (1, 2) for shard in (0, 1)},
        3: {(NOW + 4000, 1, 0), (NOW + 4000, 2, 0)},
    }
    for job_id, due in expected.items():
        mine = [run for run in rows if run.job_id == job_id]
        assert Counter((run.planned_ms, run.attempt, run.shard_index) for run in mine) == Counter(due)
    for run in rows:
        wanted = RunState.FAILED if run.job_id == 3 and run.attempt == 1 else RunState.SUCCEEDED
        assert run.state is wanted
    assert Counter(run.id for run in rows) == journal.taken
    (again,) = node.scheduler.finishing.finisher.finish([_outcome(rows[0].id)]).values()
    assert again is OutcomeStatus.REPEATED
    node.scheduler.core.lease.release()  # the next child needs the lock on the file
    return True


def _outcome(run_id: int) -> Outcome:
    return Outcome(run_id=run_id, state=RunState.FAILED)
