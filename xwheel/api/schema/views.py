"""What clients of the management API get."""

from __future__ import annotations

from msgspec import Struct

from xwheel.api.http.errors import Problem
from xwheel.model import BlockScope, DeliveryPolicy, JoinMode, MisfirePolicy, Origin, RetryBackoff, RunState


class GroupView(Struct, frozen=True, kw_only=True):
    """A group as clients see it."""

    id: int
    app_name: str
    title: str
    max_running: int
    created_ms: int
    updated_ms: int


class ExecutorView(Struct, frozen=True, kw_only=True):
    """A live executor as clients see it."""

    id: int
    group_id: int
    address: str
    kind: str
    generation: int
    instance: str
    boot: str
    seen_ms: int
    suspect_until_ms: int
    labels: dict[str, str]
    secret: str | None
    earlier_secret: str | None


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
    misfire_threshold_ms: int | None
    route_strategy: str
    route_options: str
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
    revision: int
    schedule_error: str
    glue_version: int
    created_ms: int
    updated_ms: int


class GlueItem(Struct, frozen=True, kw_only=True):
    """A version of a job's source, in a list."""

    job_id: int
    number: int
    glue_type: str
    author: str
    remark: str
    created_ms: int


class GlueView(GlueItem, frozen=True, kw_only=True):
    """A version of a job's source."""

    source: str


class RunView(Struct, frozen=True, kw_only=True):
    """A run as clients see it."""

    id: int
    job_id: int
    group_id: int
    origin: Origin
    root_id: int
    chain_id: int
    chain_depth: int
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


class ChildItem(Struct, frozen=True, kw_only=True):
    """A job that runs after another, and the template of its parameter; null for its own."""

    child_id: int
    param: str | None


class FamilyView(Struct, frozen=True, kw_only=True):
    """Which jobs run after a job, and after which ones it runs itself; ``revision`` is the job's."""

    children: list[ChildItem]
    parents: list[int]
    revision: int


class BulkItem(Struct, frozen=True, kw_only=True):
    """What became of one job: the status and problem that a call for it alone would have had."""

    id: int
    status: int
    run_id: int | None
    problem: Problem | None


class BulkView(Struct, frozen=True, kw_only=True):
    """One item for each job, in the order in which they were named."""

    items: list[BulkItem]
    failed: int


class CountsView(Struct, frozen=True, kw_only=True):
    """What became of some runs; ``skipped`` counts due times, the durations run from accepted to finished."""

    open_runs: int
    succeeded: int
    failed: int
    timed_out: int
    killed: int
    lost: int
    refused: int
    cancelled: int
    skipped: int
    duration_sum_ms: int
    duration_max_ms: int
    lateness_max_ms: int


class BucketView(Struct, frozen=True, kw_only=True):
    """The runs that were due in an hour or a day."""

    from_ms: int
    counts: CountsView


class ReportView(Struct, frozen=True, kw_only=True):
    """The stretches that have any runs, earliest first, and all of them together."""

    from_ms: int
    to_ms: int
    items: list[BucketView]
    totals: CountsView


class OverviewView(Struct, frozen=True, kw_only=True):
    """How much there is; 10000 means at least so many. ``last_day`` comes from the hourly report."""

    groups: int
    executors: int
    jobs: int
    scheduled_jobs: int
    planned_runs: int
    open_runs: int
    paused_since_ms: int | None
    last_day: CountsView


class GroupPage(Struct, frozen=True, kw_only=True):
    """A page of groups; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[GroupView]
    next: int | None = None


class ExecutorPage(Struct, frozen=True, kw_only=True):
    """A page of executors; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[ExecutorView]
    next: int | None = None


class JobPage(Struct, frozen=True, kw_only=True):
    """A page of jobs, which may be short or empty; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[JobView]
    next: int | None = None


class GluePage(Struct, frozen=True, kw_only=True):
    """A page of versions, newest first; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[GlueItem]
    next: int | None = None


class RunPage(Struct, frozen=True, kw_only=True):
    """A page of runs, which may be short or empty; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[RunView]
    next: str | None = None


class CalendarPage(Struct, frozen=True, kw_only=True):
    """A page of calendars; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[CalendarItem]
    next: str | None = None
