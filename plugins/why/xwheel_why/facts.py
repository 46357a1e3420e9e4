"""What was gathered about one due time of a job, and the verdict that is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from xwheel.model import Job, Run
from xwheel.model.versions import JobVersion

from xwheel_why.audit import AuditAccess, AuditedDeed


class Kind(StrEnum):
    """What there is for a due time."""

    RUN = "run"  # a run, whatever became of it
    SKIPPED = "skipped"  # a row that says that it was skipped
    CANCELLED = "cancelled"  # a run that was cancelled before it was sent
    NO_RUN = "no_run"  # nothing, for a reason that other rows tell
    UNKNOWN = "unknown"  # nothing, and rows do not tell why


class Cause(StrEnum):
    """Why there is no run; for a run, the cause is its reason, or its state where it has none."""

    NOT_CREATED = "not_created"
    JOB_DELETED = "job_deleted"
    JOB_STOPPED = "job_stopped"
    NEVER_STARTED = "never_started"
    SCHEDULE_ERROR = "schedule_error"
    NO_SCHEDULE = "no_schedule"
    NO_SUCH_TIME = "no_such_time"
    OUTSIDE_PERIOD = "outside_period"
    CALENDAR_EXCLUDES = "calendar_excludes"
    SCHEDULES_PAUSED = "schedules_paused"
    WAITS_FOR_RUN = "waits_for_run"
    NOT_DUE_YET = "not_due_yet"
    NOT_PLANNED_NO_NODE = "not_planned_no_node"
    NOT_PLANNED_NODE_BEHIND = "not_planned_node_behind"
    CHANGED_BEFORE_PLANNED = "changed_before_planned"
    NO_DUE_TIME = "no_due_time"
    UNKNOWN = "unknown"


class Naming(msgspec.Struct, frozen=True, kw_only=True):
    """What the schedule that was valid then says of a time."""

    is_named: bool = False  # it is a due time
    outside: str = ""  # ``start_ms`` or ``end_ms``, if it were one but for that field
    calendars: Sequence[str] = ()  # those that allow no fire then, if it were one without them
    #: calendars of the job that were changed since, with the time of the change: what they held then is not kept
    changed_calendars: Mapping[str, int] = {}
    error: str = ""  # why the schedule could not be asked, or empty
    before_ms: int | None = None  # the nearest due time before the one that was asked for
    after_ms: int | None = None  # the nearest one after it


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the partition of the job now."""

    partition: int
    node: str | None = None  # None for no node
    is_alive: bool = False
    started_ms: int | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may wait for that is due and planned."""

    live_executors: int  # of the group, now
    open_of_job: Sequence[int] = ()  # ids of runs of the job that executors have
    open_in_group: int = 0
    max_running: int = 0  # the group's limit of such runs; 0 for none


class AuditFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit says."""

    access: AuditAccess = AuditAccess.ABSENT
    kill: AuditedDeed | None = None  # of the run
    #: whether that may be read that is done to all schedules, which is a matter of all groups
    pauses_access: AuditAccess = AuditAccess.ABSENT
    pause: AuditedDeed | None = None  # of all schedules, which lasted at the time
    present_pause: AuditedDeed | None = None  # of all schedules, if they are paused now


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was gathered about one due time of a job; times are epoch milliseconds."""

    now_ms: int
    job: Job  # as it is now
    #: the job's versions, newest first: the latest ones without gaps
    versions: Sequence[JobVersion] = ()
    then: JobVersion | None = None  # the version that was valid at the time, with its definition; None if not kept
    earlier: Sequence[JobVersion] = ()  # that one and those before it, newest first, with their definitions
    job_then: Job | None = None  # the job with the schedule of that version; None too if that cannot be read
    later: Sequence[JobVersion] = ()  # versions made after the time, oldest first, with their definitions
    asked_ms: int | None = None  # the time that was asked for; None for the last due time that has passed
    due_ms: int | None = None  # the due time that is explained; None if there is none
    naming: Naming = Naming()
    awaits_completion: bool = False  # the schedule sets the next fire when the last one ends
    run: Run | None = None  # the run of the due time
    skip: Run | None = None  # the skip row that covers it
    cancelled: Sequence[Run] = ()  # cancelled runs of it, the last one first
    others: Sequence[Run] = ()  # runs of other origins that were due at the time
    fire: Sequence[Run] = ()  # what else belongs to the run's fire: shards, retries, recoveries
    has_more: bool = False  # there are more of these than were read
    previous: Run | None = None  # the fire before the time, of a schedule that waits for its runs
    awaited: Run | None = None  # the run that the next fire waits for
    holder: Holder | None = None
    waiting: Waiting | None = None  # of a run that is due and planned
    paused_since_ms: int | None = None  # all schedules are paused since then
    audit: AuditFacts = AuditFacts()
    kept_from_ms: int | None = None  # runs that were due before may have been deleted by retention; None: none was
    is_hidden: bool = False  # there is a row, of a group that the caller may not read
    is_searched: bool = True  # the search for a skip row came to its end

    @property
    def at_ms(self) -> int:
        """The time that is explained: the due time, or what was asked for, or now."""
        return self.due_ms or self.asked_ms or self.now_ms


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A row that says so."""

    table: str
    key: str  # its id, name, or job and revision
    at_ms: int | None = None  # when it was written, if it says when
    says: str


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a run's life, called after what ended it."""

    name: str  # planned, due, dispatched, accepted, began, finished
    from_ms: int
    to_ms: int
    took_ms: int
    is_over: bool = True  # False for the stage that the run is in now


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why, as far as rows tell."""

    kind: Kind
    cause: str
    sentence: str
    run: Run | None = None  # the run that it is about
    runs: Sequence[Run] = ()  # what followed: shards, retries, recoveries; cancelled ones
    lateness_ms: int | None = None  # from the due time to the begin of the run
    stages: Sequence[Stage] = ()
    took_most: str = ""  # the name of the longest stage; empty without stages
    facts: Mapping[str, Any] = {}
    evidence: Sequence[Evidence] = ()
    missing: Sequence[str] = ()  # what rows do not tell
