"""What a check of a cluster holds against each other: jobs, actions, run rows, executions, and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Span = tuple[int, int]
"""From and to, epoch milliseconds, both included."""


class FindingKind(StrEnum):
    """What went wrong."""

    MISSING = "missing"
    SKIPPED = "skipped"
    LOST = "lost"
    REFUSED = "refused"
    DOUBLE = "double"
    TWICE_PLANNED = "planned twice"
    NOT_DUE = "not due"
    OPEN = "still open"
    EARLY = "too early"
    OTHER_END = "other end"
    NOT_EXECUTED = "not executed"
    EXECUTED_ANYWAY = "executed anyway"
    OLD_EDITION = "old edition"
    TOGETHER = "together"
    TRANSITION = "transition"
    EPOCH = "epoch"
    OVERDUE = "overdue"
    RETRY = "retry"
    CHILD = "child"
    DELAY = "fixed delay"
    SHARDS = "shards"
    BY_HAND = "by hand"
    UNWRITTEN = "unwritten"


class Did(StrEnum):
    """What was asked of a job or run while jobs fired."""

    STOP = "stop"
    START = "start"
    EDIT = "edit"
    RESCHEDULE = "reschedule"
    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"
    KILL = "kill"
    BURST = "burst"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAction:
    """A change that was asked for over the management API.

    Attributes:
        job_id: The job; 0 for all of them.
        asked_ms: When it was first asked for.
        answered_ms: When a node said that it is done; None if none ever did.
        run_id: The run that a run by hand made, or that a kill was for; 0 if unknown.
        param: The parameter that jobs have from an edit on.
    """

    did: Did
    job_id: int
    asked_ms: int
    answered_ms: int | None = None
    run_id: int = 0
    param: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedJob:
    """What a job calls for.

    Attributes:
        due: Its due times; empty for one that does not fire by itself, and for a fixed delay.
        delay_ms: Of a fixed delay.
        first_ms: When a fixed delay must fire first.
        end_ms: No fixed delay fires later than this.
        shards: Runs of one fire.
        failures: This many attempts fail on purpose, and each has a retry.
        children: Jobs that run after each success.
        parents: Jobs that must all succeed in one chain before it runs; empty unless it joins.
        limit: Jobs with the same name have at most this many runs at once, on all executors together.
        at_most_once: No run of a fire may follow one that may have run.
        recover_lost: A lost run has one recovery run.
    """

    name: str
    due: Sequence[int] = ()
    delay_ms: int = 0
    first_ms: int = 0
    end_ms: int = 0
    shards: int = 1
    failures: int = 0
    children: Sequence[int] = ()
    parents: Sequence[int] = ()
    limit: tuple[str, int] | None = None
    at_most_once: bool = False
    recover_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as a node shows it, as far as it is judged."""

    id: int
    job_id: int
    origin: str = "schedule"
    origin_key: int = 0
    root_id: int = 0
    chain_id: int = 0
    shard_index: int = 0
    shard_total: int = 1
    attempt: int = 1
    retries_left: int = 0
    state: str = "succeeded"
    planned_ms: int = 0
    dispatched_ms: int | None = None
    finished_ms: int | None = None
    skip_last_ms: int | None = None
    kill_requested: bool = False
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Executed:
    """What a handler wrote: its first act, and its last one if it came that far.

    Attributes:
        end_ms: When it ended; None if its process died before, or was told to end.
    """

    run_id: int
    job_id: int
    planned_ms: int
    at_ms: int
    executor: str
    param: str = ""
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be.

    Attributes:
        invariant: Number of the invariant that broke, as in docs/explanation/faults.md; 0 if it is none of them.
        due_ms: Due time of the fire, or 0 where there is none to name.
    """

    kind: FindingKind
    invariant: int
    text: str
    due_ms: int = 0


@dataclass
class Observed:
    """What was seen in the tables while it happened.

    Attributes:
        states: The states of each run, in order, each noted once it changed.
        epochs: Sentences about epochs that fell, and about runs that were sent under one that was over.
        unwritten: Sentences about outcomes that were acknowledged and not in the database.
        overdue: Run id to the longest time in ms that it was overdue and yet planned.
        delays: Sentences about fixed delays that had both a next fire and an awaited run.
        idle: Sentences about fixed delays that had neither before their last fire, by our clock.
    """

    states: dict[int, list[str]] = field(default_factory=dict)
    epochs: list[str] = field(default_factory=list)
    unwritten: list[str] = field(default_factory=list)
    overdue: dict[int, int] = field(default_factory=dict)
    delays: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbances:
    """What had been done to the cluster, which decides what may come of it.

    Attributes:
        executors_ended: Executors ended or could not be reached: runs may be refused, interrupted or lost, if what
            follows from that is there.
        clock_moved: The database's clock jumped: due times may be skipped or come late, and no two times of
            different processes can be compared.
        overdue_limit_ms: No run may have been overdue and planned for longer: lease + 2 s, and how long no node could
            send. None not to judge that.
        slack_ms: This much later than the end plus the delay a fixed delay may plan its next fire: the end is written
            in between, and how long that takes depends on what is broken.
    """

    executors_ended: bool = False
    clock_moved: bool = False
    overdue_limit_ms: int | None = 12_000
    slack_ms: int = 1000


CALM = Disturbances()
"""Nothing was done to executors or clocks."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The numbers, and what must not be.

    Attributes:
        due: Due fires of all jobs; those of a fixed delay are those it had, and those by hand are what was asked for.
        rows: Run rows, one for each shard, attempt and child run.
        executions: What handlers wrote down.
        executed: Due fires that were executed at least once.
        lateness: Of each first execution of a due fire: its due time and how late it began, in due order.
    """

    due: int
    rows: int
    executions: int
    executed: int
    lateness: Sequence[tuple[int, int]]
    findings: Sequence[Finding]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, and there was something to judge."""
        return not self.findings and self.due > 0

    @property
    def counts(self) -> Counter[str]:
        """How often each kind of finding was made."""
        return Counter(str(item.kind) for item in self.findings)

    @property
    def invariants(self) -> list[int]:
        """The numbers of the invariants that broke."""
        return sorted({item.invariant for item in self.findings} - {0})

    def late(self, part: float, since_ms: int = 0, until_ms: int = 2**62) -> int | None:
        """Return a percentile of the lateness of fires due within a window, or None without any."""
        found = sorted(late for due, late in self.lateness if since_ms <= due <= until_ms)
        return found[min(len(found) - 1, int(part * len(found)))] if found else None

    def facts(self) -> Mapping[str, Any]:
        """Return the numbers for JSON."""
        return {
            "ok": self.ok,
            "due": self.due,
            "rows": self.rows,
            "executions": self.executions,
            "executed": self.executed,
            "findings": dict(self.counts),
            "invariants": self.invariants,
            "lateness_ms": {"p50": self.late(0.5), "p99": self.late(0.99), "max": self.late(1.0)},
        }


def is_delay(jobs: Mapping[int, ExpectedJob], row: RunRow) -> bool:
    """Return whether a row is of a job with a fixed delay."""
    return row.job_id in jobs and jobs[row.job_id].delay_ms > 0


def name_of(jobs: Mapping[int, ExpectedJob], job_id: int) -> str:
    """Return how a job is called in findings."""
    return repr(jobs[job_id].name) if job_id in jobs else f"job {job_id}"
