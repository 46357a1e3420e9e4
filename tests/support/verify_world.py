"""Rows and executions of a load in which all went well, to be spoiled by tests of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xwheel_devtools.verify.records import (
    CALM,
    Disturbances,
    Executed,
    ExpectedJob,
    FindingKind,
    Observed,
    RunRow,
    UserAction,
    Verdict,
)
from xwheel_devtools.verify.verdict import judge

T = 1_795_000_000_000
PLAIN, FAILING, PARENT, CHILD, DELAY, SHARDED = range(1, 7)
JOBS = {
    PLAIN: ExpectedJob(name="plain", due=[T, T + 1000, T + 2000]),
    FAILING: ExpectedJob(name="failing", due=[T], failures=1),
    PARENT: ExpectedJob(name="parent", due=[T], children=[CHILD]),
    CHILD: ExpectedJob(name="child"),
    DELAY: ExpectedJob(name="delay", delay_ms=900, first_ms=T + 900, end_ms=T + 3000),
    SHARDED: ExpectedJob(name="sharded", due=[T], shards=2),
}


@dataclass
class World:
    """Rows and executions of a run in which all went well, to be spoiled."""

    rows: dict[int, RunRow] = field(default_factory=dict)
    executions: list[Executed] = field(default_factory=list)
    watched: Observed = field(default_factory=Observed)
    jobs: dict[int, ExpectedJob] = field(default_factory=lambda: dict(JOBS))

    def change(self, run_id: int, **values: object) -> None:
        self.rows[run_id] = replace(self.rows[run_id], **values)  # type: ignore[arg-type]

    def forget(self, run_id: int) -> None:
        """Take an execution away."""
        self.executions = [item for item in self.executions if item.run_id != run_id]

    def remove(self, run_id: int) -> None:
        """Take a row and its execution away."""
        del self.rows[run_id]
        self.forget(run_id)

    def add(self, run_id: int, job_id: int, planned_ms: int, **values: object) -> None:
        """Add a row that was executed 30 ms late."""
        values = {"root_id": run_id, "chain_id": run_id, "origin_key": planned_ms, **values}
        values = {"finished_ms": planned_ms + 50, "dispatched_ms": planned_ms + 5, **values}
        row = RunRow(id=run_id, job_id=job_id, planned_ms=planned_ms, **values)  # type: ignore[arg-type]
        self.rows[run_id] = row
        self.executions.append(Executed(run_id, job_id, planned_ms, planned_ms + 30, "executor0"))

    def judge(self, *, actions: Sequence[UserAction] = (), disturbances: Disturbances = CALM) -> Verdict:
        rows = list(self.rows.values())
        return judge(self.jobs, rows, self.executions, self.watched, actions=actions, disturbances=disturbances)

    def kinds(
        self, *, actions: Sequence[UserAction] = (), disturbances: Disturbances = CALM
    ) -> list[tuple[FindingKind, int]]:
        return [(item.kind, item.invariant) for item in self.judge(actions=actions, disturbances=disturbances).findings]


def good_world() -> World:
    """Return a run in which all went well."""
    made = World()
    for number in range(3):
        made.add(10 + number, PLAIN, T + number * 1000)
    made.add(20, FAILING, T, state="failed", retries_left=2)
    made.add(21, FAILING, T, origin="retry", origin_key=20, root_id=20, attempt=2, retries_left=1)
    made.add(30, PARENT, T)
    made.add(31, CHILD, T + 50, origin="child", origin_key=30, chain_id=30)
    made.add(40, DELAY, T + 900)
    made.add(41, DELAY, T + 1850)
    made.add(42, DELAY, T + 2850)  # the outcome was written 50 ms after the end
    made.add(50, SHARDED, T, shard_total=2)
    made.add(51, SHARDED, T, shard_total=2, shard_index=1, root_id=50)
    made.watched.states = {10: ["planned", "running", "succeeded"], 20: ["dispatching", "failed"]}
    return made
