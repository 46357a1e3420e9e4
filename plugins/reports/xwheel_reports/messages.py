"""What the calls take and give."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct
from xwheel.api.schema import fields
from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.messages import Input
from xwheel.model import Run

from xwheel_reports.recent import NextFire
from xwheel_reports.storage import MOST_BUCKETS, Counts

MAX_RECENT: Final = 100


class ReportBy(StrEnum):
    """How wide the stretches of a report are."""

    HOUR = "hour"
    DAY = "day"


class ReportQuery(Input, frozen=True, kw_only=True):
    """Which hours or days of UTC, from ``from_ms`` on and before ``to_ms``; the last day or month unless told."""

    from_ms: fields.Time | None = None
    to_ms: fields.Time | None = None
    group_id: fields.Id | None = None
    job_id: fields.Id | None = None
    by: ReportBy = ReportBy.HOUR
    limit: Annotated[int, Meta(ge=1, le=MOST_BUCKETS)] = 1000


@fields_of(Counts)
class CountsView(Struct, frozen=True, kw_only=True):
    """What became of some runs; ``skipped`` counts due times, the durations run from begun to finished."""


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
    """How much there is; 10000 means at least this many. ``last_day`` comes from the hourly report.

    ``declaration_conflicts`` counts groups in which live executors of one release declare different jobs.
    """

    groups: int
    executors: int
    jobs: int
    scheduled_jobs: int
    planned_runs: int
    open_runs: int
    declaration_conflicts: int
    paused_since_ms: int | None
    last_day: CountsView


class RecentQuery(Input, frozen=True, kw_only=True):
    """Of which jobs."""

    job_id: Annotated[tuple[fields.Id, ...], Meta(min_length=1, max_length=MAX_RECENT)]


@fields_of(Run, "id state due_ms accepted_ms finished_ms")
class RecentRun(Struct, frozen=True, kw_only=True):
    """A run in short."""

    began_ms: int | None


class RecentItem(Struct, frozen=True, kw_only=True):
    """The last runs of a job, newest first."""

    job_id: int
    runs: list[RecentRun]


class RecentView(Struct, frozen=True, kw_only=True):
    """The last runs of jobs; those that the caller may not read are missing, as are those that do not exist."""

    items: list[RecentItem]


class UpcomingQuery(Input, frozen=True, kw_only=True):
    """How many of the next fires, until when, of which group."""

    until_ms: fields.Time | None = None
    group_id: fields.Id | None = None
    limit: fields.PageSize = 50


@fields_of(NextFire)
class UpcomingItem(Struct, frozen=True, kw_only=True):
    """The next fire of a job."""


UpcomingPage = page_of("UpcomingPage", UpcomingItem, "next fires, of which there is no more than one")
