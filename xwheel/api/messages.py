"""What travels over the management API. Limits stand here and nowhere else; lengths fit ``storage/tables.py``."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from xwheel.model import MAX_ID, BlockStrategy, MisfirePolicy, Origin, RunState

MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""

DAY_MS: Final = 86_400_000
YEAR_S: Final = 31_536_000
MAX_PARAM: Final = 16_000
"""Characters; four bytes each still fit MariaDB's TEXT."""

MAX_PAGE: Final = 1000
MAX_NAMES_LENGTH: Final = 960
"""Characters of all names of a list together; with quotes and commas they fit their column of 1024."""

_NAME = r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z"
_BLANK_FREE = r"\A\S+\Z"
_VISIBLE = r"\S"
_PLUGIN: Final = {"hint": "the name of an installed plugin"}

Id = Annotated[int, Meta(ge=1, le=MAX_ID)]
Time = Annotated[int, Meta(ge=1, le=MAX_MS)]
AppName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=_NAME,
        extra={"hint": "letters, digits, dot, dash and underscore, a letter or digit first"},
    ),
]
Title = Annotated[str, Meta(max_length=128)]
Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=_VISIBLE, extra={"hint": "not only blanks"})]
Description = Annotated[str, Meta(max_length=1024)]
PluginName = Annotated[str, Meta(min_length=1, max_length=64, pattern=_BLANK_FREE, extra=_PLUGIN)]
ScheduleName = Annotated[str, Meta(min_length=1, max_length=32, pattern=_BLANK_FREE, extra=_PLUGIN)]
ScheduleConf = Annotated[str, Meta(max_length=512)]
Timezone = Annotated[str, Meta(min_length=1, max_length=64, extra={"hint": "an IANA name"})]
Handler = Annotated[str, Meta(max_length=255)]
Param = Annotated[str, Meta(max_length=MAX_PARAM)]
MisfireThreshold = Annotated[int, Meta(ge=0, le=7 * DAY_MS)]
Timeout = Annotated[int, Meta(ge=0, le=YEAR_S)]
Retries = Annotated[int, Meta(ge=0, le=9999)]
RetryDelay = Annotated[int, Meta(ge=0, le=DAY_MS)]
Wait = Annotated[int, Meta(ge=0, le=604_800)]
Jitter = Annotated[int, Meta(ge=0, le=DAY_MS)]
CalendarName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=_NAME,
        extra={"hint": "letters, digits, dot, dash and underscore, a letter or digit first"},
    ),
]
CalendarNames = Annotated[
    tuple[CalendarName, ...], Meta(max_length=16, extra={"max_characters": MAX_NAMES_LENGTH})
]
Revision = Annotated[int, Meta(ge=1, le=MAX_ID)]
After = Annotated[int, Meta(ge=0, le=MAX_ID)]
PageSize = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
PreviewSize = Annotated[int, Meta(ge=1, le=100)]
Line = Annotated[int, Meta(ge=1, le=2**31 - 1)]
RunCursor = Annotated[
    str,
    Meta(
        min_length=3,
        max_length=33,
        pattern=r"\A[0-9]{1,16}-[0-9]{1,16}\Z",
        extra={"hint": "a value of next"},
    ),
]


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that a client sends."""


class Nothing(Input, frozen=True, kw_only=True):
    """No field at all."""


class GroupCreate(Input, frozen=True, kw_only=True):
    """A new executor group; an empty title becomes the app name."""

    app_name: AppName
    title: Title = ""


class GroupChange(Input, frozen=True, kw_only=True):
    """A group's new title; its app name is its identity and stays."""

    title: Title


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
    misfire_policy: MisfirePolicy = MisfirePolicy.SKIP
    misfire_threshold_ms: MisfireThreshold = 5000
    route_strategy: PluginName = "FIRST"
    block_strategy: BlockStrategy = BlockStrategy.SERIAL_EXECUTION
    glue_type: PluginName = "BEAN"
    handler: Handler = ""
    param: Param = ""
    timeout_s: Timeout = 0
    max_retries: Retries = 0
    retry_delay_ms: RetryDelay = 0
    wait_for_executor_s: Wait = 0
    jitter_ms: Jitter = 0
    calendar_exclude: CalendarNames = ()
    calendar_require: CalendarNames = ()
    enabled: bool = False


class JobChange(Input, frozen=True, kw_only=True):
    """New values for a job; what is missing stays, and with ``revision`` only that revision is changed."""

    name: Name | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    schedule_type: ScheduleName | UnsetType = UNSET
    schedule_conf: ScheduleConf | UnsetType = UNSET
    timezone: Timezone | UnsetType = UNSET
    anchor_ms: Time | UnsetType = UNSET
    start_ms: Time | UnsetType | None = UNSET
    end_ms: Time | UnsetType | None = UNSET
    misfire_policy: MisfirePolicy | UnsetType = UNSET
    misfire_threshold_ms: MisfireThreshold | UnsetType = UNSET
    route_strategy: PluginName | UnsetType = UNSET
    block_strategy: BlockStrategy | UnsetType = UNSET
    glue_type: PluginName | UnsetType = UNSET
    handler: Handler | UnsetType = UNSET
    param: Param | UnsetType = UNSET
    timeout_s: Timeout | UnsetType = UNSET
    max_retries: Retries | UnsetType = UNSET
    retry_delay_ms: RetryDelay | UnsetType = UNSET
    wait_for_executor_s: Wait | UnsetType = UNSET
    jitter_ms: Jitter | UnsetType = UNSET
    calendar_exclude: CalendarNames | UnsetType = UNSET
    calendar_require: CalendarNames | UnsetType = UNSET
    revision: Revision | UnsetType = UNSET


class RunRequest(Input, frozen=True, kw_only=True):
    """Run a job once; without ``param`` it gets the job's own, an empty one counts."""

    param: Param | None = None


class PageQuery(Input, frozen=True, kw_only=True):
    """Which page of a list ordered by id."""

    after: After = 0
    limit: PageSize = 50


class JobQuery(Input, frozen=True, kw_only=True):
    """Which jobs."""

    group_id: Id | None = None
    name: Name | None = None
    after: After = 0
    limit: PageSize = 50


class RunQuery(Input, frozen=True, kw_only=True):
    """Which runs, latest due time first."""

    job_id: Id | None = None
    state: RunState | None = None
    after: RunCursor | None = None
    limit: PageSize = 50


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

    after: CalendarName | None = None
    limit: PageSize = 50


class CalendarPath(Input, frozen=True, kw_only=True):
    """A calendar's name in a path."""

    name: CalendarName


class GroupView(Struct, frozen=True, kw_only=True):
    """A group as clients see it."""

    id: int
    app_name: str
    title: str
    created_ms: int
    updated_ms: int


class ExecutorView(Struct, frozen=True, kw_only=True):
    """A live executor as clients see it."""

    address: str
    kind: str
    generation: int
    instance: str
    boot: str
    seen_ms: int
    suspect_until_ms: int


class JobView(Struct, frozen=True, kw_only=True):
    """A job as clients see it."""

    id: int
    group_id: int
    name: str
    description: str
    schedule_type: str
    schedule_conf: str
    timezone: str
    anchor_ms: int
    start_ms: int | None
    end_ms: int | None
    misfire_policy: MisfirePolicy
    misfire_threshold_ms: int
    route_strategy: str
    block_strategy: str
    glue_type: str
    handler: str
    param: str
    timeout_s: int
    max_retries: int
    retry_delay_ms: int
    wait_for_executor_s: int
    jitter_ms: int
    calendar_exclude: tuple[str, ...]
    calendar_require: tuple[str, ...]
    enabled: bool
    next_fire_ms: int | None
    last_fire_ms: int | None
    revision: int
    schedule_error: str
    created_ms: int
    updated_ms: int


class RunView(Struct, frozen=True, kw_only=True):
    """A run as clients see it."""

    id: int
    job_id: int
    group_id: int
    origin: Origin
    root_id: int
    attempt: int
    retries_left: int
    shard_index: int
    shard_total: int
    state: RunState
    due_ms: int
    planned_ms: int
    created_ms: int
    param: str | None
    reason: str
    address: str | None
    dispatched_ms: int | None
    accepted_ms: int | None
    finished_ms: int | None
    result_code: int | None
    message: str
    kill_requested: bool
    skip_last_ms: int | None
    skip_count: int


class LogView(Struct, frozen=True, kw_only=True):
    """A piece of a run's log; ask again from ``next_line`` until ``is_end``."""

    run_id: int
    from_line: int
    next_line: int
    content: str
    is_end: bool


class DueView(Struct, frozen=True, kw_only=True):
    """A due time, and what clocks of the schedule's zone show then: ISO 8601 with the offset."""

    due_ms: int
    local: str


class WordsView(Struct, frozen=True, kw_only=True):
    """A schedule in plain words."""

    en: str
    zh: str


class PreviewView(Struct, frozen=True, kw_only=True):
    """The next due times, fewer if there are no more; ``description`` is null where there are no words for a type."""

    items: list[DueView]
    description: WordsView | None


class PauseView(Struct, frozen=True, kw_only=True):
    """Since when no schedule fires, or null while schedules fire."""

    paused_since_ms: int | None


class CalendarView(Struct, frozen=True, kw_only=True):
    """A calendar as its author wrote it."""

    name: str
    definition: dict[str, object]
    updated_ms: int


class CalendarItem(Struct, frozen=True, kw_only=True):
    """A calendar in a list."""

    name: str
    updated_ms: int


class Page(Struct, frozen=True, kw_only=True):
    """A page of a list; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[GroupView] | list[ExecutorView] | list[JobView] | list[RunView] | list[CalendarItem]
    next: int | str | None = None
