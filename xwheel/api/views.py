"""What clients of the management API get."""

from __future__ import annotations

from msgspec import Struct

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
    created_ms: int
    updated_ms: int


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


class Page(Struct, frozen=True, kw_only=True):
    """A page of a list; ``next`` is the ``after`` of the following one, null on the last."""

    items: list[GroupView] | list[ExecutorView] | list[JobView] | list[RunView] | list[CalendarItem]
    next: int | str | None = None
