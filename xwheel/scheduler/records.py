"""What the stages hand to each other: a fire on its way from the plan to its outcome."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from xwheel.model import GlueVersion, Job, RegisteredExecutor, Run, RunState
from xwheel.storage.jobs import JobCursor
from xwheel.storage.runs import QueuedRun

Queued = QueuedRun | Run
"""A planned run in memory: whole if it was just claimed, otherwise only what tells when it is due."""

PARCEL_RUNS: Final = 200
"""Runs that travel in one request, at most."""


class Moves(NamedTuple):
    """What a node does next.

    Attributes:
        take: Free partitions to take, in the order in which to try.
        give: Held partitions to hand over, each with the node that gets it.
        is_short: Others hold what is this node's share.
    """

    take: Sequence[int]
    give: Mapping[int, str]
    is_short: bool


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


class Routed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run and who shall get it: several executors mean one shard each.

    Attributes:
        run: The planned row.
        job: Its job as it stood when the run was routed.
        executors: Never empty.
    """

    run: Run
    job: Job
    executors: Sequence[RegisteredExecutor]


class Shard(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fenced execution: a dispatching row, its job, and its executor."""

    run: Run
    job: Job
    executor: RegisteredExecutor


@dataclass(slots=True)
class Load:
    """How much a request carries: runs, and their bytes at most; with a limit of 0 it carries one run."""

    limit: int = 0
    runs: int = 0
    size: int = 0

    def has_room(self, size: int) -> bool:
        """Return whether a run of this size may travel along; an empty request takes one of any size."""
        return not self.runs or (self.runs < PARCEL_RUNS and self.size + size <= self.limit)

    def add(self, size: int) -> None:
        """Count a run in."""
        self.runs += 1
        self.size += size

    def take_out(self, size: int) -> None:
        """Count a run out."""
        self.runs -= 1
        self.size -= size


@dataclass(slots=True, eq=False)
class Parcel:
    """One request: the shards that travel together to one executor through one lane.

    Attributes:
        lane: Fast or slow.
        executor: Who gets it.
        shards: What travels.
        load: Before the fence what was given room; afterwards what travels.
        again: They were sent before, without an answer: only an answer about that very run proves anything now.
        sources: The sources of those of their jobs that have one, by job id.
        rest: Parcels that follow in the same place, one after the other; the last of them gives it back.
        body_bytes: The size of the request, once it is encoded.
    """

    lane: int
    executor: RegisteredExecutor
    shards: list[Shard] = field(default_factory=list)
    load: Load = field(default_factory=Load)
    again: bool = False
    sources: Mapping[int, GlueVersion] = field(default_factory=dict)
    rest: Sequence[Parcel] = ()
    body_bytes: int = 0

    def whole(self) -> Parcel:
        """Return one parcel of everything that is to travel in this place."""
        if not self.rest:
            return self
        shards = [shard for parcel in (self, *self.rest) for shard in parcel.shards]
        return dataclasses.replace(self, shards=shards, rest=())

    def halves(self) -> Parcel:
        """Return the first half of the shards, followed by the second and by what was to follow anyway."""
        middle = len(self.shards) // 2
        second = dataclasses.replace(self, shards=self.shards[middle:], rest=())
        return dataclasses.replace(self, shards=self.shards[:middle], rest=(second, *self.rest))


class Reporter(NamedTuple):
    """Who reports outcomes from outside, as the secret says that the report came with.

    Attributes:
        group_id: The only group whose runs it may end; None for the token that all executors share, which ends only
            runs that were sent under it.
    """

    group_id: int | None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A way for a run to end.

    Attributes:
        run_id: The run.
        state: The final state.
        reason: Short word for the cause, such as ``no_executor``; empty if the state says it all.
        code: Result code on the wire, or None.
        message: What the handler or the scheduler said.
        created_ms: When the run was created, as the reporter was told; 0 if it does not say. Ids restart in a new
            database, this does not.
        instance: Which executor instance says so; empty if it does not say.
        reporter: Who reports it; None for what this node found out itself.
    """

    run_id: int
    state: RunState
    reason: str = ""
    code: int | None = None
    message: str = ""
    created_ms: int = 0
    instance: str = ""
    reporter: Reporter | None = None


class Fate(StrEnum):
    """What a send came to."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The fate of one run."""

    run_id: int
    fate: Fate
    message: str = ""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A parcel that came back.

    Attributes:
        parcel: What was sent.
        answers: One for each shard.
        reached: Whether a connection to the executor was made.
        tried: False if nothing was sent because it was too late to.
        cost_ms: How long it took.
        at_ms: When the answer was there.
    """

    parcel: Parcel
    answers: Sequence[Answer]
    reached: bool
    cost_ms: int
    at_ms: int
    tried: bool = True


class Line(NamedTuple):
    """What parked runs wait for together.

    Attributes:
        kind: ``group`` for room in a group with a limit, ``job`` for the end of a job's open runs, ``executor`` for
            an executor to appear.
        owner: Id of the job or group.
        address: The one executor that a pinned run waits for, or empty.
    """

    kind: str
    owner: int
    address: str = ""


class Parked(NamedTuple):
    """A due run that may not go yet.

    Attributes:
        run: The planned row.
        line: What it waits for.
        until_ms: When its wait ends whatever happens, or None.
        soon: Only a place was missing: it is looked at again as soon as other runs without a place.
    """

    run: Run
    line: Line
    until_ms: int | None = None
    soon: bool = False


@dataclass(slots=True)
class Fenced:
    """What the fence made of the runs it was given; a run in none of these is no longer planned or no longer ours.

    Attributes:
        shards: What is dispatching now and must be sent.
        changed: Ids whose job changed meanwhile: they must be read and routed again.
        parked: What must wait.
        closed: What will never go.
        kills: Open runs that a parked one takes the place of.
    """

    shards: list[Shard] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)
    parked: list[Parked] = field(default_factory=list)
    closed: list[Outcome] = field(default_factory=list)
    kills: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Gated:
    """What a limit or a cluster-wide block strategy makes of runs.

    Attributes:
        passed: Ids that may go.
        parked: What must wait.
        closed: What will never go.
        kills: Open runs that a parked one takes the place of.
    """

    passed: set[int] = field(default_factory=set)
    parked: list[Parked] = field(default_factory=list)
    closed: list[Outcome] = field(default_factory=list)
    kills: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Success:
    """A fire whose every shard succeeded.

    Attributes:
        first: The root run: what it was planned with counts.
        results: The shards' messages by index.
        param: The parameter that the handlers got.
    """

    first: Run
    results: Sequence[str]
    param: str

    @property
    def result(self) -> str:
        """What the fire returned: its message, or the JSON list of its shards' messages."""
        if len(self.results) == 1:
            return self.results[0]
        return json.dumps(list(self.results), ensure_ascii=False)


class TemplateError(Exception):
    """A parameter cannot be made from this result; the sentence says why."""
