"""What clients of the management API get."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from xwheel.api.http.errors import Problem
from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.messages import JobCreate
from xwheel.model import ChildLink, ExecutorGroup, GlueVersion, Job, RegisteredExecutor, Run
from xwheel.model.jobs import ScheduleState
from xwheel.model.reasons import SENTENCES
from xwheel.plugin.job_owners import DeclaredView
from xwheel.plugin.run_logs import LogText


class AddressView(Struct, frozen=True, kw_only=True):
    """An address that a person entered; ``error`` says why no run goes there, and is empty while it answers.

    ``secret`` is the name of the group's secret that it is called with, null for none.
    """

    address: str
    secret: str | None
    live: bool
    error: str


@fields_of(ExecutorGroup)
class GroupView(Struct, frozen=True, kw_only=True):
    """A group as clients see it."""

    addresses: list[AddressView]


@fields_of(
    RegisteredExecutor, without=("registered_as", "secret_id", "earlier_secret_id", "by_hand"), labels=dict[str, str]
)
class ExecutorView(Struct, frozen=True, kw_only=True):
    """A live executor as clients see it; ``source`` is ``registered``, or ``by_hand`` for an entered address."""

    source: Literal["registered", "by_hand"]
    secret: str | None
    earlier_secret: str | None


@fields_of(
    Job,
    "id",
    *(name for name in JobCreate.__struct_fields__ if name != "glue_source"),
    "next_fire_ms last_fire_ms revision schedule_error glue_version created_ms updated_ms",
)
class JobView(Struct, frozen=True, kw_only=True):
    """A job as clients see it; it is ``done`` once it was started and its schedule never fires again.

    ``declared`` is null unless code declares the job.
    """

    state: ScheduleState
    declared: DeclaredView | None


@fields_of(GlueVersion, without=("source",))
class GlueItem(Struct, frozen=True, kw_only=True):
    """A version of a job's source, in a list."""


class GlueView(GlueItem, frozen=True, kw_only=True):
    """A version of a job's source."""

    source: str


ReasonCode = Annotated[
    str,
    Meta(
        description="Why it is in its state: one of ``x-reasons``, or empty. While it runs, at times "
        "``idle:``, ``told:``, ``killed:`` or ``waits:`` and a time: what its last check found.",
        extra_json_schema={"x-reasons": {reason.value: words for reason, words in SENTENCES.items()}},
    ),
]


@fields_of(
    Run,
    "id job_id group_id origin origin_key root_id chain_id chain_depth attempt retries_left shard_index shard_total",
    "state due_ms planned_ms created_ms param reason address dispatched_ms accepted_ms finished_ms result_code message",
    "kill_requested skip_last_ms skip_count",
    reason=ReasonCode,
)
class RunView(Struct, frozen=True, kw_only=True):
    """A run as clients see it; ``job_name`` and ``app_name`` are those of its job, deleted or not, and its group.

    ``began_ms`` is when its executor began it, or accepted it where it does not tell; null before, and if it
    never began.
    """

    job_name: str
    app_name: str
    began_ms: int | None


class RunPage(Struct, frozen=True, kw_only=True):
    """A page of runs, which may be short or empty; ``next`` is the ``after`` of the following one, null on the last.

    It was looked for runs back to ``looked_ms``, the due time at which the following page begins; null for all.
    """

    items: list[RunView]
    next: str | None = None
    looked_ms: int | None = None


@fields_of(LogText)
class LogView(Struct, frozen=True, kw_only=True):
    """A piece of a run's log; ask again from ``next_line`` until ``is_end``."""

    run_id: int


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


@fields_of(Job, "schedule_type schedule_conf")
class JobWords(Struct, frozen=True, kw_only=True):
    """The schedule of a job in plain words, null where there are none for its type."""

    job_id: int
    description: WordsView | None


class JobWordsView(Struct, frozen=True, kw_only=True):
    """Schedules of jobs in words. A job that does not exist, or that the caller may not read, is missing."""

    items: list[JobWords]


class PauseView(Struct, frozen=True, kw_only=True):
    """Since when no schedule fires, or null while schedules fire."""

    paused_since_ms: int | None


class CalendarItem(Struct, frozen=True, kw_only=True):
    """A calendar in a list."""

    name: str
    updated_ms: int


class CalendarView(CalendarItem, frozen=True, kw_only=True):
    """A calendar as its author wrote it."""

    definition: dict[str, object]


@fields_of(ChildLink, "child_id param")
class ChildItem(Struct, frozen=True, kw_only=True):
    """A job that runs after another, and the template of its parameter; null for its own."""


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


GroupPage = page_of("GroupPage", GroupView, "groups")
ExecutorPage = page_of("ExecutorPage", ExecutorView, "executors")
JobPage = page_of("JobPage", JobView, "jobs, which may be short or empty")
GluePage = page_of("GluePage", GlueItem, "versions, newest first")
CalendarPage = page_of("CalendarPage", CalendarItem, "calendars", key=str)


class NodeView(Struct, frozen=True, kw_only=True):
    """A node; ``address`` and ``version`` are null where this node does not know them."""

    id: str
    name: str
    address: str | None
    version: str | None
    partitions: list[int]
    is_me: bool
    alive: bool
    draining: bool
    last_seen_ms: int
    since_ms: int


class NodesView(Struct, frozen=True, kw_only=True):
    """All nodes that did not leave, those that are away too; ``partitions_without`` are held by none that lives."""

    items: list[NodeView]
    next: None
    partitions_without: int
