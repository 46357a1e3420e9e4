"""Kill the process before every statement between an outcome and what follows from it.

One fire of a broadcast, a retry, a join, a recovery run and a fixed delay with a child: whatever statement is the last,
the next node ends with the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.crashes import Snapshot, bury_nodes, die_at
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import ChildLink, JoinMode, MisfirePolicy, Run, RunState
from xwheel.scheduler.records import Outcome
from xwheel.storage import jobs
from xwheel.storage.database.engine import Database

WAYS = 4  # shares of the statements, so that the shares can run side by side
FEWEST = {"sqlite": 60, "mysql": 20, "postgresql": 20}  # a server has fewer points
EXECUTORS = ("http://127.0.0.1:9001", "http://127.0.0.1:9002")
START, LEFT, RIGHT, JOINED, LAST, DELAY, AFTER = range(1, 8)

LINKS = {
    START: [(LEFT, "${result}"), (RIGHT, None)],
    LEFT: [(JOINED, f"${{result.{LEFT}}}+${{result.{RIGHT}}}")],
    RIGHT: [(JOINED, f"${{result.{LEFT}}}+${{result.{RIGHT}}}")],
    JOINED: [(LAST, None)],
    DELAY: [(AFTER, "${result}")],
}
# job, shard, attempt, why, how it ends, parameter: what one fire of the broadcast comes to
EXPECTED = Counter(
    [
        (START, 0, 1, "schedule", "succeeded", None),
        (START, 1, 1, "schedule", "failed", None),
        (START, 1, 2, "retry", "succeeded", None),
        (LEFT, 0, 1, "child", "failed", '["1/0/1", "1/1/2"]'),
        (LEFT, 0, 2, "retry", "succeeded", '["1/0/1", "1/1/2"]'),
        (RIGHT, 0, 1, "child", "succeeded", None),
        (JOINED, 0, 1, "child", "succeeded", "2/0/2+3/0/1"),
        (LAST, 0, 1, "child", "lost", None),
        (LAST, 0, 2, "recovery", "failed", None),
        (LAST, 0, 3, "retry", "succeeded", None),
    ]
)
ENDINGS = {(job_id, shard, attempt): RunState(state) for job_id, shard, attempt, _, state, _ in EXPECTED.elements()}


def prepare(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register(*EXECUTORS)
    by_hand = {"schedule_type": "NONE", "schedule_conf": "", "enabled": False, "max_retries": 1}
    node.job(
        schedule_conf="2",
        end_ms=NOW + 2000,
        misfire_policy=MisfirePolicy.FIRE_ALL,
        route_strategy="SHARDING_BROADCAST",
        max_retries=1,
    )
    node.job(**by_hand)
    node.job(**by_hand)
    node.job(**by_hand, join_mode=JoinMode.ALL)
    node.job(**by_hand, recover_lost=True)
    node.job(schedule_type="FIX_DELAY", schedule_conf="3s", misfire_policy=MisfirePolicy.FIRE_ALL)
    node.job(**by_hand)
    for parent, links in LINKS.items():
        rows = [ChildLink(parent_id=parent, child_id=child, param=param) for child, param in links]
        db.transaction(lambda conn, parent=parent, rows=rows: jobs.replace_children(conn, parent, rows))
    node.scheduler.core.lease.release()


def outcome_of(run: Run) -> Outcome:
    state = ENDINGS.get((run.job_id, run.shard_index, run.attempt), RunState.SUCCEEDED)
    message = f"{run.job_id}/{run.shard_index}/{run.attempt}"
    return Outcome(run_id=run.id, state=state, code=200, message=message)


class Journal:
    """What executors have ever taken, in a file that outlives the node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken = {int(line) for line in path.read_text().split()} if path.exists() else set()

    def take(self, sent: Sequence[Run]) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{run.id}\n" for run in sent if run.id not in self.taken)
        self.taken.update(run.id for run in sent)


def drive(node: HandNode, journal: Journal, duration_ms: int) -> None:
    def each() -> None:
        sent = [shard.run for parcel in node.sent for shard in parcel.shards]
        journal.take(sent)
        node.answer()
        node.scheduler.finishing.finisher.finish([outcome_of(run) for run in sent])

    node.run_for(duration_ms, step_ms=500, each=each)


def killed_at(url: str, journal_path: Path, number: int) -> bool:
    """Run the scenario in a child that dies at the nth point of its outcomes; tell whether it came that far."""

    def scenario(db: Database, switch: Callable[[bool], None]) -> None:
        switch(False)
        node = HandNode(db, ManualClock(NOW))
        finish = node.scheduler.finishing.finisher.finish

        def watched(outcomes: Sequence[Outcome]) -> object:
            switch(True)
            try:
                return finish(outcomes)
            finally:
                switch(False)

        node.scheduler.finishing.finisher.finish = watched  # type: ignore[method-assign,assignment]
        drive(node, Journal(journal_path), 9000)

    return die_at(url, number, scenario)


@pytest.mark.long(40)
@pytest.mark.parametrize("first", [1, *(pytest.param(way, marks=pytest.mark.nightly) for way in range(2, WAYS + 1))])
def test_what_follows_survives_every_statement(new_database: Callable[[], str], tmp_path: Path, first: int) -> None:
    db = Database(new_database())
    prepare(db)
    prepared, number = Snapshot(db), first
    while strike_and_check(db, prepared, tmp_path, number):
        number += WAYS
    assert number > FEWEST[db.backend], "the scenario must pass through every kind of follow-up"
    db.close()


def strike_and_check(db: Database, prepared: Snapshot, tmp_path: Path, number: int) -> bool:
    """Kill one process at a point and let the next one finish the work; False once no one was killed."""
    prepared.restore(db)
    db.close()  # the child shares no connection
    journal = Journal(tmp_path / f"{number}.journal")
    if not killed_at(db.engine.url.render_as_string(hide_password=False), journal.path, number):
        return False
    bury_nodes(db)
    node = HandNode(db, ManualClock(NOW + 9000))
    node.register(*EXECUTORS)
    journal = Journal(journal.path)
    # the executors deliver again what the dead node may or may not have written down
    node.scheduler.finishing.finisher.finish([outcome_of(run) for run in node.runs() if run.id in journal.taken])
    drive(node, journal, 12_000)

    rows = node.runs()
    found = Counter(
        (run.job_id, run.shard_index, run.attempt, str(run.origin), str(run.state), run.param)
        for run in rows
        if run.job_id < DELAY
    )
    assert found == EXPECTED, f"killed at point {number}"
    assert {run.shard_total for run in rows if run.job_id == START} == {2}
    assert {run.id for run in rows if run.finished_ms} == journal.taken
    check_delay(node, rows)
    node.scheduler.core.lease.release()  # the next child needs the lock on the file
    return True


def check_delay(node: HandNode, rows: Sequence[Run]) -> None:
    """Each end of the fixed delay has its child, and the delay goes on."""
    job = node.load(DELAY)
    ends = [run for run in rows if run.job_id == DELAY and run.finished_ms]
    assert len(ends) >= 4
    assert (job.next_fire_ms is None) is (job.awaits_root is not None)
    calls = [run for run in rows if run.job_id == AFTER]
    assert Counter(run.origin_key for run in calls) == Counter(run.id for run in ends)
    assert {run.param for run in calls} == {f"{DELAY}/0/1"}
