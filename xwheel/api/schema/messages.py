"""What clients of the management API send; what each field may hold stands in :mod:`xwheel.api.schema.fields`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from xwheel.api.schema.derived import changes_to
from xwheel.api.schema.fields import (
    MAX_CHILDREN,
    Address,
    After,
    Author,
    CalendarNames,
    Description,
    GlueSource,
    Handler,
    Id,
    Ids,
    Jitter,
    Line,
    MaxRunning,
    MisfireThreshold,
    Name,
    PageSize,
    Param,
    Percent,
    PlainName,
    PluginName,
    PreviewSize,
    Remark,
    ReportSize,
    Retention,
    Retries,
    RetryDelay,
    RetryDelays,
    Revision,
    RouteOptions,
    RunCursor,
    RunStates,
    ScheduleConf,
    ScheduleName,
    Time,
    Timeout,
    Timezone,
    Title,
    Wait,
)
from xwheel.model import (
    BlockScope,
    BlockStrategy,
    DeliveryPolicy,
    JoinMode,
    MisfirePolicy,
    Origin,
    RetryBackoff,
)


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that a client sends."""


class Nothing(Input, frozen=True, kw_only=True):
    """No field at all."""


class GroupCreate(Input, frozen=True, kw_only=True):
    """A new executor group; an empty title becomes the app name."""

    app_name: PlainName
    title: Title = ""
    max_running: MaxRunning = 0


@changes_to(GroupCreate, without=("app_name",))
class GroupChange(Input, frozen=True, kw_only=True):
    """New values for a group; its app name is its identity and stays."""


class JobCreate(Input, frozen=True, kw_only=True):
    """A new job, stopped unless ``enabled``."""

    group_id: Id
    name: Name
    description: Description = ""
    schedule_type: ScheduleName = "NONE"
    schedule_conf: ScheduleConf = ""
    timezone: Timezone = "UTC"
    anchor_ms: Time | None = None
    start_ms: Time | None = None
    end_ms: Time | None = None
    misfire_policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    misfire_threshold_ms: MisfireThreshold | None = None
    route_strategy: PluginName = "FIRST"
    route_options: RouteOptions = ""
    block_strategy: BlockStrategy = BlockStrategy.SERIAL_EXECUTION
    block_scope: BlockScope = BlockScope.EXECUTOR
    glue_type: PluginName = "BEAN"
    handler: Handler = ""
    param: Param = ""
    timeout_s: Timeout = 0
    max_retries: Retries = 0
    retry_backoff: RetryBackoff = RetryBackoff.FIXED
    retry_delay_ms: RetryDelay = 0
    retry_delays_ms: RetryDelays = ()
    retry_max_delay_ms: RetryDelay = 0
    retry_jitter_pct: Percent = 0
    delivery: DeliveryPolicy = DeliveryPolicy.AT_LEAST_ONCE
    recover_lost: bool = False
    join_mode: JoinMode = JoinMode.ANY
    retention_days: Retention = 0
    wait_for_executor_s: Wait = 0
    jitter_ms: Jitter = 0
    calendar_exclude: CalendarNames = ()
    calendar_require: CalendarNames = ()
    glue_source: GlueSource | None = None
    enabled: bool = False


@changes_to(JobCreate, without=("group_id", "enabled"), never_null=("anchor_ms", "glue_source"))
class JobChange(Input, frozen=True, kw_only=True):
    """New values for a job; what is missing stays, and with ``revision`` only that revision is changed."""

    revision: Revision | UnsetType = UNSET


class JobCopy(Input, frozen=True, kw_only=True):
    """A copy of a job, stopped; null keeps the group, and the name with ``(copy)`` behind it."""

    group_id: Id | None = None
    name: Name | None = None


class JobRevision(Input, frozen=True, kw_only=True):
    """Only if the job is at this revision; null for whatever is there."""

    revision: Revision | None = None


class GlueSave(Input, frozen=True, kw_only=True):
    """A new version of a job's source; null for the token's name as author, only at ``revision`` unless null."""

    source: GlueSource
    author: Author | None = None
    remark: Remark = ""
    revision: Revision | None = None


class GlueRestore(Input, frozen=True, kw_only=True):
    """An old source as the newest version; null for the token's name as author, only at ``revision`` unless null."""

    author: Author | None = None
    remark: Remark = ""
    revision: Revision | None = None


class RunRequest(Input, frozen=True, kw_only=True):
    """Run a job once, with its own parameter and on whichever executor its router chooses unless told otherwise."""

    param: Param | None = None
    address: Address | None = None


class Rerun(Input, frozen=True, kw_only=True):
    """Run it again; without ``param`` with the parameter it had, an empty one counts."""

    param: Param | None = None


class ChildInput(Input, frozen=True, kw_only=True):
    """A job that runs after another; ``param`` is a template, null for the child's own parameter."""

    child_id: Id
    param: Param | None = None


class ChildrenChange(Input, frozen=True, kw_only=True):
    """Every job that runs after this one, in place of those that did; only at ``revision`` unless null."""

    children: Annotated[tuple[ChildInput, ...], Meta(max_length=MAX_CHILDREN)]
    revision: Revision | None = None


class Bulk(Input, frozen=True, kw_only=True):
    """Which jobs; one that is named twice is done once."""

    ids: Ids


class BulkRun(Input, frozen=True, kw_only=True):
    """Which jobs shall run once, and with what; null for each job's own parameter."""

    ids: Ids
    param: Param | None = None


class PageQuery(Input, frozen=True, kw_only=True):
    """Which page of a list ordered by id."""

    after: After = 0
    limit: PageSize = 50


class GroupQuery(Input, frozen=True, kw_only=True):
    """Which groups; ``app_name`` is how their names begin."""

    app_name: PlainName | None = None
    after: After = 0
    limit: PageSize = 50


class ExecutorQuery(Input, frozen=True, kw_only=True):
    """Which live executors."""

    group_id: Id | None = None
    after: After = 0
    limit: PageSize = 50


class JobQuery(Input, frozen=True, kw_only=True):
    """Which jobs; ``name`` is the whole name, ``name_contains`` a part of it in any case."""

    group_id: Id | None = None
    name: Name | None = None
    name_contains: Name | None = None
    handler: Handler | None = None
    enabled: bool | None = None
    schedule_type: ScheduleName | None = None
    after: After = 0
    limit: PageSize = 50


class RunQuery(Input, frozen=True, kw_only=True):
    """Which runs, latest due time first; due at ``from_ms`` or later, and before ``to_ms``."""

    job_id: Id | None = None
    group_id: Id | None = None
    state: RunStates = ()
    from_ms: Time | None = None
    to_ms: Time | None = None
    root_id: Id | None = None
    chain_id: Id | None = None
    origin: Origin | None = None
    address: Address | None = None
    after: RunCursor | None = None
    limit: PageSize = 50


class ReportBy(StrEnum):
    """How wide the stretches of a report are."""

    HOUR = "hour"
    DAY = "day"


class ReportQuery(Input, frozen=True, kw_only=True):
    """Which hours or days of UTC, from ``from_ms`` on and before ``to_ms``; the last day or month unless told."""

    from_ms: Time | None = None
    to_ms: Time | None = None
    group_id: Id | None = None
    job_id: Id | None = None
    by: ReportBy = ReportBy.HOUR
    limit: ReportSize = 1000


class LogQuery(Input, frozen=True, kw_only=True):
    """From which line of a log on."""

    from_line: Line = 1


class PreviewQuery(Input, frozen=True, kw_only=True):
    """A schedule that may belong to no job, and from when on its due times are wanted; now unless told otherwise."""

    schedule_type: ScheduleName
    schedule_conf: ScheduleConf = ""
    timezone: Timezone = "UTC"
    anchor_ms: Time | None = None
    start_ms: Time | None = None
    end_ms: Time | None = None
    calendar_exclude: CalendarNames = ()
    calendar_require: CalendarNames = ()
    from_ms: Time | None = None
    count: PreviewSize = 5


class CalendarQuery(Input, frozen=True, kw_only=True):
    """Which page of the calendars, by name."""

    after: PlainName | None = None
    limit: PageSize = 50


class NamePath(Input, frozen=True, kw_only=True):
    """The name of a calendar, a token or a secret in a path."""

    name: PlainName
