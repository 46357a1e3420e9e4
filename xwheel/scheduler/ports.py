"""What the stages hand to each other: the types that ``xwheel.server`` wires them with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from xwheel.model import Job, RegisteredExecutor, Run, RunState
from xwheel.storage.checks import Holder
from xwheel.storage.engine import Connection
from xwheel.storage.jobs import JobCursor


class LeaseView(Protocol):
    """What the stages may ask of the lease."""

    @property
    def epochs(self) -> Mapping[int, int]:
        """Partition to epoch, for the partitions this node holds."""
        ...

    def lock(self, conn: Connection) -> Mapping[int, int]:
        """Lock our lease rows and return partition to epoch as the database has them."""
        ...

    def may_act(self, margin_ms: int = 0) -> bool:
        """Tell whether the lease outlasts ``margin_ms`` from now."""
        ...


class ExecutorView(Protocol):
    """What the checks ask of the registry."""

    def all(self, now_ms: int) -> list[RegisteredExecutor]:
        """Return all live executors."""
        ...

    def app_name(self, group_id: int) -> str:
        """Return the app name of a group, or an empty text if it is not known yet."""
        ...

    def missing_since(self, holder: Holder, now_ms: int) -> int:
        """Return since when an executor that is not live has been missing."""
        ...

    def take_news(self) -> list[Holder]:
        """Return executors that left, died, came back or restarted since the last call."""
        ...


class Moves(NamedTuple):
    """What a node does next.

    Attributes:
        take: Free partitions to take, in the order in which to try.
        give: Held partitions to give back.
    """

    take: Sequence[int]
    give: Sequence[int]


@dataclass(slots=True)
class Planned:
    """What one claim writes.

    Attributes:
        runs: Rows to insert: planned ones and skip rows.
        job_updates: Where the schedules of the claimed jobs stand now.
        unfinished: Some job still has due times inside the window; claim again at once.
    """

    runs: list[Run] = field(default_factory=list)
    job_updates: list[JobCursor] = field(default_factory=list)
    unfinished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A run and who shall get it: several executors mean one shard each.

    Attributes:
        run: The planned row.
        job: Its job as it stood when the run was routed.
        executors: Never empty.
    """

    run: Run
    job: Job
    executors: Sequence[RegisteredExecutor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One fenced execution: a dispatching row, its job, and its executor."""

    run: Run
    job: Job
    executor: RegisteredExecutor


@dataclass(slots=True)
class Parcel:
    """One request: the shards that travel together to one executor through one lane.

    Attributes:
        lane: Fast or slow.
        executor: Who gets it.
        shards: What travels.
        expected: Shards that were given room before the fence.
        again: They were sent before, without an answer: a refused connection proves nothing now.
    """

    lane: int
    executor: RegisteredExecutor
    shards: list[Shard] = field(default_factory=list)
    expected: int = 0
    again: bool = False


class Places(Protocol):
    """What the stages ask of the trigger pool."""

    def choose(self, job_ids: Iterable[int]) -> dict[int, int]:
        """Return the lane of each job."""
        ...

    def acquire(self, lane: int, address: str, *, batch: bool) -> bool:
        """Take a place for one request; tell whether there was one."""
        ...

    def release(self, lane: int, address: str) -> None:
        """Give a place back."""
        ...

    def record(self, job_ids: Sequence[int], cost_ms: int, now_ms: int) -> None:
        """Note how long a send took, against every job that travelled in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A way for a run to end.

    Attributes:
        run_id: The run.
        state: The final state.
        reason: Short word for the cause, such as ``no_executor``; empty if the state says it all.
        code: Result code on the wire, or None.
        message: What the handler or the scheduler said.
        created_ms: When the run was created, as the reporter was told; 0 if it does not say. Ids restart in a new
            database, this does not.
    """

    run_id: int
    state: RunState
    reason: str = ""
    code: int | None = None
    message: str = ""
    created_ms: int = 0


class Fate(StrEnum):
    """What a send came to."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """The fate of one run."""

    run_id: int
    fate: Fate
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A parcel that came back.

    Attributes:
        parcel: What was sent.
        answers: One for each shard.
        reached: Whether a connection to the executor was made.
        cost_ms: How long it took.
        at_ms: When the answer was there.
    """

    parcel: Parcel
    answers: Sequence[Answer]
    reached: bool
    cost_ms: int
    at_ms: int
