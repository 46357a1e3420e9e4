"""The words of the design as types: jobs, runs, groups, executors and the states of a run.

All times are epoch milliseconds, UTC. All records are frozen; a change is a new row in the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

PARTITIONS: Final = 64
"""Fixed share count; a job lives in partition ``id % 64``."""

MAX_ID: Final = 2**53 - 1
"""Ids fit 53 bits, so that JavaScript and Gson peers keep them exactly."""

FAILED_OVER: Final = "failed_over"
UNREACHABLE: Final = "unreachable"
"""Reason of a run that another attempt at the next executor follows: whom its router had asked was gone by then."""


SHARED_SECRET: Final = 0
"""In place of a secret's id: the token that all executors share."""

NO_SECRET: Final = -1
"""In place of a secret's id: what was proven is a group's token, of which only a digest is known."""


class RunState(StrEnum):
    """Where a run stands; see the transition table below."""

    PLANNED = "planned"
    DISPATCHING = "dispatching"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    LOST = "lost"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    REFUSED = "refused"


OPEN_STATES: Final = frozenset({RunState.PLANNED, RunState.DISPATCHING, RunState.RUNNING})
FINAL_STATES: Final = frozenset(RunState) - OPEN_STATES
OUTCOME_STATES: Final = frozenset(
    {RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT, RunState.KILLED},
)
"""Final states that an executor can report."""

TRANSITIONS: Final[dict[RunState, frozenset[RunState]]] = {
    RunState.PLANNED: frozenset(
        {RunState.DISPATCHING, RunState.SKIPPED, RunState.CANCELLED, RunState.REFUSED},
    ),
    RunState.DISPATCHING: OUTCOME_STATES | {RunState.RUNNING, RunState.REFUSED, RunState.LOST},
    RunState.RUNNING: OUTCOME_STATES | {RunState.LOST},
    RunState.LOST: OUTCOME_STATES,
}
"""The only changes that happen. A state without an entry is final for good."""


class Origin(StrEnum):
    """Why a run exists; with ``origin_key`` and the shard index it makes the run unique within its job."""

    SCHEDULE = "schedule"
    API = "api"
    RETRY = "retry"
    CHILD = "child"
    RECOVERY = "recovery"


class MisfirePolicy(StrEnum):
    """What happens to due times that passed longer ago than the job's threshold; new jobs have ``fire_once``."""

    SKIP = "skip"
    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"


class BlockStrategy(StrEnum):
    """What an executor does with a run while another one of the same job is there; XXL-JOB's names."""

    SERIAL_EXECUTION = "SERIAL_EXECUTION"
    DISCARD_LATER = "DISCARD_LATER"
    COVER_EARLY = "COVER_EARLY"


class BlockScope(StrEnum):
    """Where the block strategy holds: on each executor, as in XXL-JOB, or once for all executors together."""

    EXECUTOR = "executor"
    CLUSTER = "cluster"


class RetryBackoff(StrEnum):
    """How the delay before a retry grows from attempt to attempt."""

    FIXED = "fixed"
    LIST = "list"
    EXPONENTIAL = "exponential"


class DeliveryPolicy(StrEnum):
    """What a run may cost when nobody knows whether it ran: a second execution, or none at all."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class JoinMode(StrEnum):
    """When a job with several parents runs: after each of them, or once all of one chain succeeded."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorGroup:
    """Executors that share an app name.

    Attributes:
        max_running: How many runs of the group may be dispatching or running at once, on all executors and nodes
            together; 0 for no limit.
    """

    id: int
    app_name: str
    title: str
    max_running: int
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredExecutor:
    """One executor process as the registry knows it.

    Attributes:
        address: Normalised base URL without trailing slash; the key of routing.
        registered_as: The address as the executor spelled it.
        kind: ``xwheel`` if it speaks our batch calls, otherwise ``foreign``.
        generation: Wire generation, 1 to 4 (``reference: xxl-job-protocol``); decides ``/run`` or ``/trigger``.
        instance: Journal identity of an xwheel executor, empty for foreign ones.
        boot: Changes with each start of an xwheel executor, empty for foreign ones.
        seen_ms: Last beat that the database knows.
        suspect_until_ms: After a failed send: routed to only if nobody else is there, until this time.
        labels: What an xwheel executor says of itself, for routers; empty for foreign ones.
        secret_id: The executor secret that it registered with, and is called with: an id, ``SHARED_SECRET`` or
            ``NO_SECRET``. None if a node of an older version wrote it: such nodes know only the shared one.
        earlier_secret_id: Another secret that was proven at the address before, or None.
    """

    id: int
    group_id: int
    address: str
    registered_as: str
    kind: str
    generation: int
    instance: str
    boot: str
    seen_ms: int
    suspect_until_ms: int
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    secret_id: int | None = None
    earlier_secret_id: int | None = None


class Job(msgspec.Struct, frozen=True, gc=False):
    """What to run and when.

    Attributes:
        partition: ``id % PARTITIONS``.
        anchor_ms: Where fixed rates count from.
        start_ms: No fire before; None for no limit.
        end_ms: No fire after; None for no limit.
        misfire_threshold_ms: How late a due time may be and still fire as itself; None for the node's setting.
        timeout_s: Run time limit in seconds, 0 for none.
        block_scope: Whether the block strategy is the executor's or holds for the whole cluster.
        max_retries: How many further attempts a failed run gets.
        retry_backoff: How the delay grows.
        retry_delay_ms: Delay before a retry; before the first one if the backoff is exponential.
        retry_delays_ms: Delays of the list backoff, the last one for all further attempts.
        retry_max_delay_ms: No exponential delay is longer; 0 for a day.
        retry_jitter_pct: A delay is lengthened by up to this percentage, 0 to 100.
        delivery: Whether a run that may have run is tried again.
        recover_lost: A lost run gets one recovery run; only with at-least-once delivery.
        join_mode: For a child of several parents.
        retention_days: Finished runs older than this are deleted; 0 for the node's setting.
        wait_for_executor_s: How long a run waits for an executor to appear, 0 to refuse at once.
        jitter_ms: Fires are sent up to so much later than planned, 0 for none.
        calendar_exclude: Calendars in which the job must not fire.
        calendar_require: Calendars outside of which the job must not fire.
        next_fire_ms: Next due time not yet planned; None while stopped or exhausted.
        awaits_root: Root run id whose end sets the next fire (fixed delay), or None.
        revision: Rises with each edit, stop, start and delete.
        schedule_error: Why the schedule was stopped by the scheduler, or empty.
        glue_version: Number of the current version of the source, 0 if there is none.
        route_options: What the job's router goes by, in the router's own words; empty for none.
    """

    id: int
    group_id: int
    partition: int
    name: str
    description: str
    schedule_type: str
    schedule_conf: str
    timezone: str
    anchor_ms: int
    start_ms: int | None
    end_ms: int | None
    misfire_policy: MisfirePolicy
    misfire_threshold_ms: int | None
    route_strategy: str
    block_strategy: str
    block_scope: BlockScope
    glue_type: str
    handler: str
    param: str
    timeout_s: int
    max_retries: int
    retry_backoff: RetryBackoff
    retry_delay_ms: int
    retry_delays_ms: tuple[int, ...]
    retry_max_delay_ms: int
    retry_jitter_pct: int
    delivery: DeliveryPolicy
    recover_lost: bool
    join_mode: JoinMode
    retention_days: int
    wait_for_executor_s: int
    jitter_ms: int
    calendar_exclude: tuple[str, ...]
    calendar_require: tuple[str, ...]
    enabled: bool
    next_fire_ms: int | None
    last_fire_ms: int | None
    awaits_root: int | None
    revision: int
    schedule_error: str
    created_ms: int
    updated_ms: int
    glue_version: int = 0
    route_options: str = ""


class NewSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source that is to be saved.

    Attributes:
        author: Who wrote it.
        remark: Why, in a line.
    """

    source: str
    author: str
    remark: str = ""


class GlueVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A source as it was saved; never changed afterwards.

    Attributes:
        number: Counts from 1 for each job.
        glue_type: What it was written for.
        created_ms: Rises with the number; travels as ``glueUpdatetime``.
    """

    job_id: int
    number: int
    glue_type: str
    source: str
    author: str
    remark: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLink:
    """That one job runs after another.

    Attributes:
        parent_id: Whose success counts.
        child_id: Which job runs then.
        param: Template of the child's parameter, or None for the child's own; see ``docs/reference/children.md``.
    """

    parent_id: int
    child_id: int
    param: str | None


class Run(msgspec.Struct, frozen=True, gc=False):
    """One planned execution of a job: one shard, one attempt.

    A struct and not a dataclass, and not by keyword only, because making these from rows is the largest single cost of
    a busy node; everything but a row is passed by keyword. The columns of its table stand in the order of the fields.

    Attributes:
        origin_key: With job, origin and shard index unique: planned ms, failed run id, parent root id or own id.
        root_id: Id of the first run of this fire; shards, retries and recovery runs share it.
        chain_id: Root id of the fire that began the chain of parents and children; its own ``root_id`` for most.
        chain_depth: How many parents stand between this run and the beginning of its chain.
        attempt: 1 for the first, rising with each retry.
        epoch: Epoch of the lease that holds the run while planned; 0 if nobody adopted it yet.
        due_ms: When it should be sent.
        planned_ms: The due time that the schedule named; differs from ``due_ms`` after a misfire or a retry.
        created_ms: Immutable; travels as ``logDateTime`` and is part of the executor's journal key.
        address: Who got it; while planned the one executor that may get it, or None for whomever the router chooses.
        reason: Short word for how it ended up in its state, such as ``misfire`` or ``no_executor``; empty if plain.
        skip_count: For skip rows: how many due times the row covers; 1001 means "at least 1000".
        secret_id: What its executor had registered with when it was sent, as in :class:`RegisteredExecutor`.
    """

    id: int
    job_id: int
    group_id: int
    partition: int
    origin: Origin
    origin_key: int
    shard_index: int
    shard_total: int
    root_id: int
    chain_id: int
    chain_depth: int
    attempt: int
    retries_left: int
    state: RunState
    epoch: int
    due_ms: int
    planned_ms: int
    created_ms: int
    param: str | None
    reason: str
    address: str | None
    instance: str | None
    dispatched_ms: int | None
    accepted_ms: int | None
    finished_ms: int | None
    check_ms: int | None
    kill_requested: bool
    result_code: int | None
    message: str
    skip_last_ms: int | None
    skip_count: int
    secret_id: int | None = None
