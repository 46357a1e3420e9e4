"""What to run and when: jobs, the sources of their scripts, and which job runs after which.

All times are epoch milliseconds, UTC. All records are frozen; a change is a new row in the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from xwheel.errors import FieldError, ScheduleError

PARTITIONS: Final = 64  # fixed share count
MAX_ID: Final = 2**53 - 1  # ids fit 53 bits, so that JavaScript and Gson peers keep them exactly
# bytes of a parameter as UTF-8: what MariaDB's TEXT holds, and XXL-JOB's column
MAX_PARAM_BYTES: Final = 65_535
# bytes of a script as UTF-8: executors take bodies of 5 MiB, and some characters are escaped on their way
MAX_SOURCE_BYTES: Final = 4 * 1024 * 1024


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
    """What a run may cost when it is unknown whether it ran: a second execution, or none at all."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class JoinMode(StrEnum):
    """When a job with several parents runs: after each of them, or once all of one chain succeeded."""

    ANY = "any"
    ALL = "all"


class ScheduleState(StrEnum):
    """Whether a job's schedule fires: not at all, from time to time, or never again."""

    STOPPED = "stopped"
    STARTED = "started"
    DONE = "done"


class Job(msgspec.Struct, frozen=True, gc=False):
    """What to run and when."""

    id: int
    group_id: int
    partition: int  # below ``PARTITIONS``, from its id
    name: str
    description: str
    schedule_type: str
    schedule_conf: str
    timezone: str
    anchor_ms: int  # where fixed rates count from
    start_ms: int | None  # no fire before; None for no limit
    end_ms: int | None  # no fire after; None for no limit
    misfire_policy: MisfirePolicy
    # how late a due time may be and still fire as itself; None for the node's setting
    misfire_threshold_ms: int | None
    route_strategy: str
    block_strategy: str
    block_scope: BlockScope  # whether the block strategy is the executor's or holds for the whole cluster
    glue_type: str
    handler: str
    param: str
    timeout_s: int  # run time limit in seconds, 0 for none
    max_retries: int  # how many further attempts a failed run gets
    retry_backoff: RetryBackoff  # how the delay grows
    retry_delay_ms: int  # delay before a retry; before the first one if the backoff is exponential
    retry_delays_ms: tuple[int, ...]  # delays of the list backoff, the last one for all further attempts
    retry_max_delay_ms: int  # no exponential delay is longer; 0 for a day
    retry_jitter_pct: int  # a delay is lengthened by up to this percentage, 0 to 100
    delivery: DeliveryPolicy  # whether a run that may have run is tried again
    recover_lost: bool  # a lost run gets one recovery run; only with at-least-once delivery
    join_mode: JoinMode  # for a child of several parents
    retention_days: int  # finished runs older than this are deleted; 0 for the node's setting
    # logs in a log store that are older are deleted, with the run at the latest; 0 for the node's setting
    log_retention_days: int
    wait_for_executor_s: int  # how long a run waits for an executor to appear, 0 to refuse at once
    jitter_ms: int  # fires are sent up to this much later than planned, 0 for none
    calendar_exclude: tuple[str, ...]  # calendars in which the job must not fire
    calendar_require: tuple[str, ...]  # calendars outside of which the job must not fire
    enabled: bool
    next_fire_ms: int | None  # the next due time that is to be planned; None while stopped or exhausted
    last_fire_ms: int | None
    awaits_root: int | None  # root run id whose end sets the next fire (fixed delay), or None
    revision: int  # rises with each edit, stop, start and delete
    schedule_error: str  # why the schedule was stopped by the scheduler, or empty
    created_ms: int
    updated_ms: int
    glue_version: int = 0  # number of the current version of the source, 0 if there is none
    route_options: str = ""  # what the job's router goes by, in the router's own words; empty for none


# what a new job has in fields that no author writes
_NEW: Final = {
    "id": 0,
    "partition": 0,
    "next_fire_ms": None,
    "last_fire_ms": None,
    "awaits_root": None,
    "revision": 1,
    "schedule_error": "",
    "glue_version": 0,
}
# fields of a job that no author writes
KEPT_BY_NODES: Final = frozenset({*_NEW, "enabled", "created_ms", "updated_ms"})
# fields that code may set for a job that it declares, besides those that follow from the declaration
DECLARABLE: Final = tuple(
    name
    for name in Job.__struct_fields__
    if name not in KEPT_BY_NODES
    and name not in {"name", "group_id", "glue_type", "handler", "anchor_ms", "schedule_type", "schedule_conf"}
)


def draft_job(values: Mapping[str, Any], now_ms: int) -> Job:
    """Return a job of which only the fields are known that its author sets; it has no id yet."""
    times = {"anchor_ms": values.get("anchor_ms") or now_ms, "created_ms": now_ms, "updated_ms": now_ms}
    return msgspec.convert({**values, **_NEW, **times}, Job)


def check_fields(job: Job) -> None:
    """Refuse a job whose fields contradict one another; FieldError names the field."""
    if job.glue_type == "BEAN" and not job.handler.strip():
        raise FieldError("handler", "must name a handler")
    if job.retry_backoff is RetryBackoff.LIST and not job.retry_delays_ms:
        raise FieldError("retry_delays_ms", "must hold at least one delay for the backoff list")
    check_period(job)


def state_of(job: Job, now_ms: int) -> ScheduleState:
    """Return whether a job's schedule fires; it is done once the last fire of a started job is due.

    A run of that fire may be open still, and people and parents may run the job as before.
    """
    if not job.enabled:
        return ScheduleState.STOPPED
    if job.next_fire_ms is not None or job.awaits_root is not None:
        return ScheduleState.STARTED
    return ScheduleState.DONE if (job.last_fire_ms or 0) <= now_ms else ScheduleState.STARTED


def check_period(job: Job) -> None:
    """Refuse a job whose schedule ends before it starts; raises ScheduleError."""
    if job.start_ms is not None and job.end_ms is not None and job.end_ms <= job.start_ms:
        raise ScheduleError("end_ms", "must be later than start_ms")


class NewSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source that is to be saved."""

    source: str
    author: str  # who wrote it
    remark: str = ""  # why, in a line

    def __post_init__(self) -> None:
        """Drop a byte-order mark, which shells and interpreters take for a part of the first line."""
        msgspec.structs.force_setattr(self, "source", self.source.removeprefix("\ufeff"))


class GlueVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A source as it was saved; never changed afterwards."""

    job_id: int
    number: int  # counts from 1 for each job
    glue_type: str  # what it was written for
    source: str
    author: str
    remark: str
    created_ms: int  # rises with the number; travels as ``glueUpdatetime``


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLink:
    """That one job runs after another."""

    parent_id: int  # whose success counts
    child_id: int  # which job runs then
    # template of the child's parameter, or None for the child's own; see ``docs/reference/children.md``
    param: str | None
