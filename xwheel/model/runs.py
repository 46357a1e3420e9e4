"""One planned execution of a job: its states, the changes between them, and why it exists."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from xwheel.model.reasons import WAITS


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

# final states that an executor can report
OUTCOME_STATES: Final = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT, RunState.KILLED})
TRANSITIONS: Final[dict[RunState, frozenset[RunState]]] = {
    RunState.PLANNED: frozenset({RunState.DISPATCHING, RunState.SKIPPED, RunState.CANCELLED, RunState.REFUSED}),
    RunState.DISPATCHING: OUTCOME_STATES | {RunState.RUNNING, RunState.REFUSED, RunState.LOST},
    RunState.RUNNING: OUTCOME_STATES | {RunState.LOST},
    RunState.LOST: OUTCOME_STATES,
}
"""The changes that an outcome may make. A state without an entry is final for good.

Besides, a dispatching or running run is cancelled or refused if its executor gave it back before it was due.
"""


class Origin(StrEnum):
    """Why a run exists; with ``origin_key`` and the shard index it makes the run unique within its job."""

    SCHEDULE = "schedule"
    API = "api"
    RETRY = "retry"
    CHILD = "child"
    RECOVERY = "recovery"


# characters of all addresses that a planned run may name, with a blank between each two: the column has this many
MAX_ADDRESSES_LENGTH: Final = 255


class Run(msgspec.Struct, frozen=True, gc=False):
    """One planned execution of a job: one shard, one attempt.

    A struct and not a dataclass, and not by keyword only, because making these from rows is the largest single cost of
    a busy node; everything but a row is passed by keyword. The columns of its table stand in the order of the fields.
    """

    id: int
    job_id: int
    group_id: int
    partition: int
    origin: Origin
    # with job, origin and shard index unique: planned ms, failed run id, parent root id or own id
    origin_key: int
    shard_index: int
    shard_total: int
    root_id: int  # id of the first run of this fire; shards, retries and recovery runs share it
    # root id of the fire that began the chain of parents and children; its own ``root_id`` for most
    chain_id: int
    chain_depth: int  # how many parents stand between this run and the beginning of its chain
    attempt: int  # 1 for the first, rising with each retry
    retries_left: int
    state: RunState
    epoch: int  # epoch of the lease that holds the run while planned; 0 if it is not adopted yet
    due_ms: int  # when it should be sent
    # the due time that the schedule named; differs from ``due_ms`` after a misfire or a retry
    planned_ms: int
    created_ms: int  # immutable; travels as ``logDateTime`` and is part of the executor's journal key
    param: str | None
    reason: str  # why it is in its state, a ``RunReason``; while it runs, at times a mark
    # the executor that got it; while planned those that may get it, between blanks, or None for all
    address: str | None = None
    instance: str | None = None
    dispatched_ms: int | None = None
    accepted_ms: int | None = None
    # when its handler began there; 0 if it never did, None if its executor has not told, as foreign ones never do
    started_ms: int | None = None
    finished_ms: int | None = None
    check_ms: int | None = None
    kill_requested: bool = False
    result_code: int | None = None
    message: str = ""
    skip_last_ms: int | None = None
    skip_count: int = 0  # for skip rows: how many due times the row covers; 1001 means "at least 1000"
    # what its executor had registered with when it was sent, as in ``RegisteredExecutor``
    secret_id: int | None = None

    @property
    def began_ms(self) -> int | None:
        """When it began: as its executor told, else when that accepted it; None before, and if it never began."""
        if self.started_ms is None and not self.reason.startswith(WAITS):
            return self.accepted_ms
        return self.started_ms or None
