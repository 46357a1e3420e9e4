"""What clients of the management API send; what each field may hold stands in :mod:`xwheel.api.schema.fields`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from xwheel import model
from xwheel.api.schema import fields
from xwheel.api.schema.derived import changes_to


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that a client sends."""


class Nothing(Input, frozen=True, kw_only=True):
    """No field at all."""


class AddressInput(Input, frozen=True, kw_only=True):
    """An executor that does not register itself; ``secret`` is the group's secret that it is called with."""

    address: fields.Address
    secret: fields.PlainName | None = None


class GroupCreate(Input, frozen=True, kw_only=True):
    """A new executor group; an empty title becomes the app name, ``addresses`` are entered by hand.

    ``glue_types`` are those that its executors run though no plugin here has them.
    """

    app_name: fields.PlainName
    title: fields.Title = ""
    max_running: fields.MaxRunning = 0
    addresses: Annotated[tuple[AddressInput, ...], Meta(max_length=fields.MAX_ENTERED)] = ()
    glue_types: fields.GlueTypes = ()


@changes_to(GroupCreate, without=("app_name",))
class GroupChange(Input, frozen=True, kw_only=True):
    """New values for a group; its app name is its identity and stays, ``addresses`` replace all that it had."""


class JobCreate(Input, frozen=True, kw_only=True):
    """A new job, stopped unless ``enabled``; one run makes up for missed fires unless ``misfire_policy`` differs."""

    group_id: fields.Id
    name: fields.Name
    description: fields.Description = ""
    schedule_type: fields.ScheduleName = "NONE"
    schedule_conf: fields.ScheduleConf = ""
    timezone: fields.Timezone = "UTC"
    anchor_ms: fields.Time | None = None
    start_ms: fields.Time | None = None
    end_ms: fields.Time | None = None
    misfire_policy: model.MisfirePolicy = model.MisfirePolicy.FIRE_ONCE
    misfire_threshold_ms: fields.MisfireThreshold | None = None
    route_strategy: fields.PluginName = "FIRST"
    route_options: fields.RouteOptions = ""
    block_strategy: model.BlockStrategy = model.BlockStrategy.SERIAL_EXECUTION
    block_scope: model.BlockScope = model.BlockScope.EXECUTOR
    glue_type: fields.PluginName = "BEAN"
    handler: fields.Handler = ""
    param: fields.Param = ""
    timeout_s: fields.Timeout = 0
    max_retries: fields.Retries = 0
    retry_backoff: model.RetryBackoff = model.RetryBackoff.FIXED
    retry_delay_ms: fields.RetryDelay = 0
    retry_delays_ms: fields.RetryDelays = ()
    retry_max_delay_ms: fields.RetryDelay = 0
    retry_jitter_pct: fields.Percent = 0
    delivery: model.DeliveryPolicy = model.DeliveryPolicy.AT_LEAST_ONCE
    recover_lost: bool = False
    join_mode: model.JoinMode = model.JoinMode.ANY
    retention_days: fields.Retention = 0
    log_retention_days: fields.Retention = 0
    wait_for_executor_s: fields.Wait = 0
    jitter_ms: fields.Jitter = 0
    calendar_exclude: fields.CalendarNames = ()
    calendar_require: fields.CalendarNames = ()
    glue_source: fields.GlueSource | None = None
    enabled: bool = False


@changes_to(JobCreate, without=("group_id", "enabled"), never_null=("anchor_ms", "glue_source"))
class JobChange(Input, frozen=True, kw_only=True):
    """New values for a job; what is missing stays, and with ``revision`` only that revision is changed."""

    revision: fields.Revision | UnsetType = UNSET


class JobCopy(Input, frozen=True, kw_only=True):
    """A copy of a job, stopped; null keeps the group, and the name with ``(copy)`` behind it."""

    group_id: fields.Id | None = None
    name: fields.Name | None = None


class JobRevision(Input, frozen=True, kw_only=True):
    """Only if the job is at this revision; null for whatever is there."""

    revision: fields.Revision | None = None


class GlueSave(Input, frozen=True, kw_only=True):
    """A new version of a job's source; null for the token's name as author, only at ``revision`` unless null."""

    source: fields.GlueSource
    author: fields.Author | None = None
    remark: fields.Remark = ""
    revision: fields.Revision | None = None


class GlueRestore(Input, frozen=True, kw_only=True):
    """An old source as the newest version; null for the token's name as author, only at ``revision`` unless null."""

    author: fields.Author | None = None
    remark: fields.Remark = ""
    revision: fields.Revision | None = None


class RunRequest(Input, frozen=True, kw_only=True):
    """Run a job once, with its own parameter and on whichever executor its router chooses unless told otherwise.

    ``address`` is the one executor that may get it; among several ``addresses`` the router chooses. It is due at once,
    or else ``delay_ms`` later, or ``at`` an instant: ISO 8601 with an offset.
    """

    param: fields.Param | None = None
    address: fields.Address | None = None
    addresses: fields.Addresses = ()
    delay_ms: fields.Delay | None = None
    at: fields.Instant | None = None


class Rerun(Input, frozen=True, kw_only=True):
    """Run it again; without ``param`` with the parameter it had, an empty one counts."""

    param: fields.Param | None = None


class ChildInput(Input, frozen=True, kw_only=True):
    """A job that runs after another; ``param`` is a template, null for the child's own parameter."""

    child_id: fields.Id
    param: fields.Param | None = None


class ChildrenChange(Input, frozen=True, kw_only=True):
    """Every job that runs after this one, in place of those that did; only at ``revision`` unless null."""

    children: Annotated[tuple[ChildInput, ...], Meta(max_length=fields.MAX_CHILDREN)]
    revision: fields.Revision | None = None


class Bulk(Input, frozen=True, kw_only=True):
    """Which jobs; one that is named twice is done once."""

    ids: fields.Ids


class BulkRun(Bulk, frozen=True, kw_only=True):
    """Which jobs shall run once, with what, and when; null for each job's own parameter, and for at once."""

    param: fields.Param | None = None
    delay_ms: fields.Delay | None = None
    at: fields.Instant | None = None


class PageQuery(Input, frozen=True, kw_only=True):
    """Which page of a list ordered by id."""

    after: fields.After = 0
    limit: fields.PageSize = 50


class GroupQuery(Input, frozen=True, kw_only=True):
    """Which groups; ``app_name`` is how their names begin."""

    app_name: fields.PlainName | None = None
    after: fields.After = 0
    limit: fields.PageSize = 50


class ExecutorQuery(Input, frozen=True, kw_only=True):
    """Which live executors."""

    group_id: fields.Id | None = None
    after: fields.After = 0
    limit: fields.PageSize = 50


class JobSearch(Input, frozen=True, kw_only=True):
    """Which jobs; ``name`` is the whole name, ``name_contains`` a part of it in any case.

    ``search`` is a part of the name, the description or the handler, in any case. ``deleted`` asks for deleted jobs
    alone: they are kept as long as any of their runs, which name them.
    """

    group_id: fields.Id | None = None
    name: fields.Name | None = None
    name_contains: fields.Name | None = None
    handler: fields.Handler | None = None
    enabled: bool | None = None
    schedule_type: fields.ScheduleName | None = None
    glue_type: fields.PluginName | None = None
    search: fields.SearchedName | None = None
    deleted: bool = False


class JobSort(StrEnum):
    """In which order jobs come."""

    ID = "id"
    NEXT_FIRE = "next_fire"


class JobQuery(JobSearch, frozen=True, kw_only=True):
    """Which jobs, in which order, and which page of them; by their next fire there is one page."""

    sort: JobSort = JobSort.ID
    after: fields.After = 0
    limit: fields.PageSize = 50


class RunSearch(Input, frozen=True, kw_only=True):
    """Which runs, latest due time first; due at ``from_ms`` or later, and before ``to_ms``.

    ``job_name`` is how the names of their jobs begin, ``message`` a part of the message.
    """

    job_id: fields.Id | None = None
    group_id: fields.Id | None = None
    state: fields.RunStates = ()
    from_ms: fields.Time | None = None
    to_ms: fields.Time | None = None
    root_id: fields.Id | None = None
    chain_id: fields.Id | None = None
    origin: model.Origin | None = None
    address: fields.Address | None = None
    job_name: fields.Name | None = None
    message: fields.Searched | None = None
    min_duration_ms: fields.Duration | None = None


class RunQuery(RunSearch, frozen=True, kw_only=True):
    """Which runs, and which page of them."""

    after: fields.RunCursor | None = None
    limit: fields.PageSize = 50


class LogQuery(Input, frozen=True, kw_only=True):
    """From which line of a log on, or how many of its last lines."""

    from_line: fields.Line = 1
    tail: fields.Tail | None = None


class PreviewQuery(Input, frozen=True, kw_only=True):
    """A schedule that may belong to no job, and from when on its due times are wanted; now unless told otherwise."""

    schedule_type: fields.ScheduleName
    schedule_conf: fields.ScheduleConf = ""
    timezone: fields.Timezone = "UTC"
    anchor_ms: fields.Time | None = None
    start_ms: fields.Time | None = None
    end_ms: fields.Time | None = None
    calendar_exclude: fields.CalendarNames = ()
    calendar_require: fields.CalendarNames = ()
    from_ms: fields.Time | None = None
    count: fields.PreviewSize = 5


class WordsQuery(Input, frozen=True, kw_only=True):
    """Of which jobs the schedules are wanted in words."""

    job_id: Annotated[tuple[fields.Id, ...], Meta(min_length=1, max_length=fields.MAX_WORDS)]


class NameQuery(Input, frozen=True, kw_only=True):
    """Which page of a list ordered by name."""

    after: fields.PlainName | None = None
    limit: fields.PageSize = 50


class NamePath(Input, frozen=True, kw_only=True):
    """The name of a calendar, a token or a secret in a path."""

    name: fields.PlainName
