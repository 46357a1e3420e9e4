"""Chains under a storm: nodes die at random statements, outcomes come late, twice and out of order.

What must be there in the end is worked out here from the seed alone; the scheduler has to arrive at exactly that.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import event

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import ChildLink, JoinMode, MisfirePolicy, Run, RunState
from xwheel.scheduler.records import Fate, Outcome
from xwheel.storage import jobs
from xwheel.storage.database.engine import Database

FIRES = [NOW + 2000 * number for number in range(1, 5)]
STEP_MS = 500
STORM_STEPS = 45
CALM_STEPS = 120
EXECUTORS = ("http://127.0.0.1:9001", "http://127.0.0.1:9002")

Row = tuple[str, int, int, int, int, str, str, "str | None"]


class KilledError(BaseException):
    """The process is gone before this statement; no handler of ours may catch it."""


@dataclass(frozen=True)
class Kind:
    """How a job of the storm behaves: its retries and how often it fails or is lost."""

    retries: int
    fails: float
    is_lost: float = 0.0
    shards: int = 1


# start is a broadcast; flaky and steady follow it; both must succeed for joined; each of them also calls twice
KINDS = {
    "start": Kind(retries=1, fails=0.15, shards=2),
    "flaky": Kind(retries=3, fails=0.5),
    "steady": Kind(retries=0, fails=0.1),
    "joined": Kind(retries=1, fails=0.3),
    "last": Kind(retries=1, fails=0.2, is_lost=0.5),
    "twice": Kind(retries=0, fails=0.1),
}


def verdict(seed: int, name: str, fire: int, shard: int, attempt: int) -> RunState:
    """Return how an attempt ends: fate knows it before anybody planned it."""
    dice = random.Random(f"{seed}/{name}/{fire}/{shard}/{attempt}").random()
    kind = KINDS[name]
    if dice < kind.is_lost:
        return RunState.LOST
    return RunState.FAILED if dice < kind.is_lost + kind.fails else RunState.SUCCEEDED


class Expected:
    """The rows that must be there, worked out fire by fire."""

    def __init__(self, seed: int, ids: dict[str, int]) -> None:
        self.seed = seed
        self.ids = ids
        self.rows: Counter[Row] = Counter()
        for number in FIRES:
            self._chain(number)

    def _chain(self, fire: int) -> None:
        start = self._fire("start", fire, "schedule", None)
        if start is None:
            return
        passed = json.dumps([f"start {fire} {shard} {attempt}" for shard, attempt in enumerate(start)])
        middle = {
            name: self._fire(name, fire, "child", param)
            for name, param in (("flaky", f"{passed} of {self.ids['start']}"), ("steady", None))
        }
        results = {name: f"{name} {fire} 0 {won[0]}" for name, won in middle.items() if won is not None}
        for result in results.values():
            self._fire("twice", fire, "child", f'{{"from": "{result}"}}')
        if len(results) == len(middle):
            text = f"{results['flaky']} and {results['steady']}"
            if self._fire("joined", fire, "child", text) is not None:
                self._fire("last", fire, "child", "$5")

    def _fire(self, name: str, fire: int, origin: str, param: str | None) -> list[int] | None:
        """Note every attempt of every shard; return the attempts that succeeded, or None if a shard did not."""
        kind = KINDS[name]
        won: list[int] = []
        for shard in range(kind.shards):
            attempt, left, why, recovered = 1, kind.retries, origin, False
            while True:
                state = verdict(self.seed, name, fire, shard, attempt)
                self.rows[name, fire, shard, kind.shards, attempt, why, str(state), param] += 1
                if state is RunState.SUCCEEDED:
                    won.append(attempt)
                    break
                if state is RunState.LOST and not recovered:
                    why, recovered = "recovery", True
                elif state is RunState.FAILED and left:
                    why, left = "retry", left - 1
                else:
                    break
                attempt += 1
        return won if len(won) == kind.shards else None


@dataclass
class Peers:
    """The executors: what they took and what the scheduler has not acknowledged; they outlive every node."""

    seed: int
    names: dict[int, str]
    taken: dict[int, Outcome] = field(default_factory=dict)
    unsent: dict[int, Outcome] = field(default_factory=dict)

    def take(self, run: Run, fire: int) -> None:
        if run.id in self.taken:
            return
        name = self.names[run.job_id]
        state = verdict(self.seed, name, fire, run.shard_index, run.attempt)
        text = f"{name} {fire} {run.shard_index} {run.attempt}"
        self.taken[run.id] = self.unsent[run.id] = Outcome(run_id=run.id, state=state, code=200, message=text)


class Storm:
    """One run of the scenario under one seed."""

    def __init__(self, db: Database, seed: int) -> None:
        self.dice = random.Random(seed)
        self.node = HandNode(db, ManualClock(NOW))
        self.node.group()
        self.node.register(*EXECUTORS)
        self.ids = self._jobs()
        self.peers = Peers(seed, {job_id: name for name, job_id in self.ids.items()})
        self.fuse = 0
        self.deaths = 0
        event.listen(db.engine, "before_cursor_execute", self._burn)
        event.listen(db.engine, "commit", self._burn)

    def rage(self) -> None:
        for _ in range(STORM_STEPS):
            if self.dice.random() < 0.5:
                self.fuse = self.dice.randint(1, 40)
            try:
                self._step()
            except KilledError:
                self._die()
            self.fuse = 0
            if self.dice.random() < 0.05:
                self._die()

    def calm_down(self) -> list[Run]:
        for _ in range(CALM_STEPS):
            self._step(calm=True)
            rows = self.node.runs()
            if not self.peers.unsent and len(rows) > len(FIRES) and all(row.finished_ms for row in rows):
                return rows
        raise AssertionError(f"still open: {[row for row in self.node.runs() if not row.finished_ms]}")

    def _jobs(self) -> dict[str, int]:
        special: dict[str, dict[str, Any]] = {
            "start": {
                "schedule_conf": "2",
                "misfire_policy": MisfirePolicy.FIRE_ALL,
                "end_ms": FIRES[-1],
                "route_strategy": "SHARDING_BROADCAST",
            },
            "joined": {"join_mode": JoinMode.ALL},
            "last": {"recover_lost": True},
        }
        ids = {}
        for name, kind in KINDS.items():
            by_hand = {} if name == "start" else {"schedule_type": "NONE", "schedule_conf": "", "enabled": False}
            values = {"max_retries": kind.retries, "retry_delay_ms": 700, "retry_jitter_pct": 50}
            ids[name] = self.node.job(name=name, **{**by_hand, **values, **special.get(name, {})}).id
        both = f"${{result.{ids['flaky']}}} and ${{result.{ids['steady']}}}"
        for parent, links in {
            "start": {"flaky": "${result} of ${job_id}", "steady": None},
            "flaky": {"joined": both, "twice": '{"from": "${result:json}"}'},
            "steady": {"joined": both, "twice": '{"from": "${result:json}"}'},
            "joined": {"last": "$$5"},
        }.items():
            rows = [
                ChildLink(parent_id=ids[parent], child_id=ids[child], param=param) for child, param in links.items()
            ]
            self.node.db.transaction(
                lambda conn, parent=parent, rows=rows: jobs.replace_children(conn, ids[parent], rows)
            )
        return ids

    def _step(self, *, calm: bool = False) -> None:
        """Let the loops turn once, then let executors take what was sent and report some of what they did."""
        self.node.run_for(STEP_MS, step_ms=STEP_MS)
        self._take(1.0)
        fate = Fate.ACCEPTED if calm or self.dice.random() < 0.7 else Fate.UNKNOWN
        self.node.answer(fate)
        waiting = list(self.peers.unsent.values())
        self.dice.shuffle(waiting)
        chosen = waiting if calm else waiting[: self.dice.randint(0, len(waiting))]
        if not calm:
            # what was acknowledged long ago comes once more, and what comes is cut into odd pieces
            chosen += self.dice.sample(list(self.peers.taken.values()), min(2, len(self.peers.taken)))
        while chosen:
            size = self.dice.randint(1, 4)
            part, chosen = chosen[:size], chosen[size:]
            self.node.scheduler.finishing.finisher.finish(part)
            if calm or self.dice.random() < 0.8:  # otherwise the reply got lost: they will come again
                for outcome in part:
                    self.peers.unsent.pop(outcome.run_id, None)

    def _take(self, share: float) -> None:
        sent = [shard.run for parcel in self.node.sent for shard in parcel.shards]
        if not sent:
            return
        fuse, self.fuse = self.fuse, 0  # the executors' work is no statement of the node's
        planned = {run.id: run.planned_ms for run in self.node.runs()}
        self.fuse = fuse
        for run in sent:
            if self.dice.random() < share:
                self.peers.take(run, planned[run.chain_id])

    def _die(self) -> None:
        """Kill the node; some of what was on the wire has arrived."""
        self.fuse = 0
        self.deaths += 1
        self._take(0.5)
        self.node = self.node.successor()
        self.node.register(*EXECUTORS)

    def _burn(self, *_: object) -> None:
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                raise KilledError


@pytest.mark.servers_get(1)
@pytest.mark.parametrize("seed", range(20))
def test_a_storm_leaves_exactly_the_expected_runs(db: Database, seed: int) -> None:
    storm = Storm(db, seed)
    storm.rage()
    rows = storm.calm_down()

    fires = {run.id: run.planned_ms for run in rows}
    names = storm.peers.names
    found = Counter(
        (
            names[run.job_id],
            fires[run.chain_id],
            run.shard_index,
            run.shard_total,
            run.attempt,
            str(run.origin),
            str(run.state),
            run.param,
        )
        for run in rows
    )
    expected = Expected(seed, storm.ids).rows
    assert found == expected
    assert set(storm.peers.taken) == set(fires), "every run was executed, and nothing else"
    assert storm.deaths > 5
