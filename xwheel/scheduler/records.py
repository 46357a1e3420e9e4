"""What the stages hand to each other, in the order in which a fire passes through it.

A run begins with :func:`new_run`, no matter who wants it. Its planned row is :data:`Queued` in the ring,
:class:`Routed` once its executors are chosen, a :class:`Shard` for each of them behind the fence, part of a
:class:`Parcel` in a lane, answered as a :class:`Delivery`; an :class:`Outcome` ends it.
What may not go yet is :class:`Deferred`. A :class:`Batch` collects what becomes of many.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from xwheel.model import GlueVersion, Job, Origin, RegisteredExecutor, Reporter, Run, RunState
from xwheel.model.reasons import RunReason, read_report
from xwheel.storage.runs import QueuedRun

# a planned run in memory: whole if it was just claimed, otherwise only what tells when it is due
Queued = QueuedRun | Run
PARCEL_RUNS: Final = 500  # runs that travel in one request, at most


def new_run(
    job: Job,
    *,
    origin: Origin,
    origin_key: int,
    due_ms: int,
    planned_ms: int,
    now_ms: int,
    epoch: int = 0,
    reason: RunReason = RunReason.PLAIN,
    param: str | None = None,
    skipped: tuple[int, int] | None = None,
    run_id: int = 0,
) -> Run:
    """Return a first attempt of a job, planned or, with ``skipped = (last_ms, count)``, as a skip row."""
    return Run(
        id=run_id,
        job_id=job.id,
        group_id=job.group_id,
        partition=job.partition,
        origin=origin,
        origin_key=origin_key,
        shard_index=0,
        shard_total=1,
        root_id=run_id,
        chain_id=run_id,
        chain_depth=0,
        attempt=1,
        retries_left=job.max_retries,
        state=RunState.SKIPPED if skipped else RunState.PLANNED,
        epoch=0 if skipped else epoch,
        due_ms=due_ms,
        planned_ms=planned_ms,
        created_ms=now_ms,
        param=param,
        reason=reason,
        finished_ms=now_ms if skipped else None,
        skip_last_ms=skipped[0] if skipped else None,
        skip_count=skipped[1] if skipped else 0,
    )


class Routed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run and its executors: several mean one shard each."""

    run: Run
    job: Job  # its job as it stood when the run was routed; the fence compares its revision
    executors: Sequence[RegisteredExecutor]  # never empty


class Shard(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fenced execution: a dispatching row, its job, and its executor."""

    run: Run
    job: Job
    executor: RegisteredExecutor
    is_pinned: bool = False  # only executors that were named when it was planned may have it


@dataclass(slots=True, eq=False)
class Parcel:
    """One request: the shards that travel together to one executor through one lane."""

    lane: int  # fast or slow
    executor: RegisteredExecutor  # who gets it
    limit: int = 0  # bytes it may have; with 0 it carries one run
    count: int = 0  # runs that have room in it: before the fence what was admitted, afterwards what travels
    size: int = 0  # their bytes, at most
    shards: list[Shard] = field(default_factory=list)  # what travels
    # they were sent before, without an answer: only an answer about that very run proves anything now
    again: bool = False
    # the sources of those of their jobs that have one, by job id
    sources: Mapping[int, GlueVersion] = field(default_factory=dict)
    # parcels that follow in the same place, one after the other; the last of them gives it back
    rest: Sequence[Parcel] = ()
    body_bytes: int = 0  # the size of the request, once it is encoded

    def has_room(self, size: int) -> bool:
        """Return whether a run of this size may travel along; an empty request takes one of any size."""
        return not self.count or (self.count < PARCEL_RUNS and self.size + size <= self.limit)

    def add(self, size: int) -> None:
        """Give a run room."""
        self.count += 1
        self.size += size

    def take_out(self, size: int) -> None:
        """Take a run's room back."""
        self.count -= 1
        self.size -= size

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


def reported(reason: str, message: str) -> tuple[RunReason, str]:
    """Return the reason and message of an outcome from outside; a word that is no reason here stands in the message."""
    found = read_report(reason)
    if found is not None:
        return found, message
    word = reason if reason.isprintable() else ""
    return RunReason.PLAIN, ": ".join(part for part in (word, message) if part)


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A way for a run to end."""

    run_id: int
    state: RunState
    # short word for the cause, such as ``no_executor``; empty if the state says it all
    reason: RunReason = RunReason.PLAIN
    code: int | None = None  # result code on the wire, or None
    message: str = ""  # what the handler or the scheduler said
    # when the run was created, as the reporter was told; 0 if it does not say. Ids restart in a new database, this
    # does not
    created_ms: int = 0
    instance: str = ""  # which executor instance says so; empty if it does not say
    reporter: Reporter | None = None  # who reports it; None for what this node found out itself
    # for what was decided before a send: it counts only while the run is planned under this epoch, since another node
    # may have sent it meanwhile. 0 for anything else
    epoch: int = 0
    recalled: bool = False  # its executor gave it back before it was due, and will not start it
    # when its handler began by its executor's clock; 0 if it never did, None if the executor does not say
    started_ms: int | None = None
    took_ms: int = 0  # how long its handler took by that clock


class Fate(StrEnum):
    """What a send came to."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOT_YET = "not_yet"
    """Refused, by an executor that may take it soon."""

    UNKNOWN = "unknown"


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The fate of one run."""

    run_id: int
    fate: Fate
    message: str = ""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A parcel that came back."""

    parcel: Parcel  # what was sent
    answers: Sequence[Answer]  # one for each shard
    reached: bool  # whether a connection to the executor was made
    cost_ms: int  # how long it took
    at_ms: int  # when the answer was there
    tried: bool = True  # False if nothing was sent because it was too late to
    again: bool = False  # the runs were sent before, so that an earlier request about them may still arrive


class Line(NamedTuple):
    """What deferred runs wait for together."""

    # ``group`` for room in a group with a limit, ``job`` for the end of a job's open runs, ``executor`` for an
    # executor to appear
    kind: str
    owner: int  # id of the job or group
    part: str = ""  # the one executor that a pinned run waits for, or the job whose router has none yet


class Deferred(NamedTuple):
    """A due run that may not go yet."""

    run: Run
    line: Line  # what it waits for
    until_ms: int | None = None  # when its wait ends whatever happens, or None
    soon: bool = False  # only a place was missing: it is tried again as soon as other runs without a place


@dataclass(slots=True)
class Batch:
    """What becomes of due runs on their way to their sends; a run in none of these is no longer planned or ours."""

    routed: list[Routed] = field(default_factory=list)  # whose executors are chosen
    shards: list[Shard] = field(default_factory=list)  # what is dispatching now and must be sent
    # ids of those without a place, or whose job changed: they are read and routed again
    waiting: set[int] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)  # ids of those whose job changed meanwhile
    deferred: list[Deferred] = field(default_factory=list)  # what may not go yet
    closed: list[Outcome] = field(default_factory=list)  # what will never go
    kills: list[int] = field(default_factory=list)  # open runs that a deferred one takes the place of

    def close(self, run: Run, state: RunState, reason: RunReason, message: str) -> None:
        """Note that a run will never go."""
        outcome = Outcome(run_id=run.id, state=state, reason=reason, message=message, epoch=run.epoch)
        self.closed.append(outcome)

    def cover(self, run_id: int, by: Run) -> None:
        """Note that a run will never go, since a newer one takes its place; only what is planned is cancelled."""
        state, text = RunState.CANCELLED, f"run {by.id} takes its place"
        self.closed.append(Outcome(run_id=run_id, state=state, reason=RunReason.COVERED, message=text))
