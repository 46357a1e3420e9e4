"""What clients of the management API ask of the last runs of jobs and of their next fires, and get."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.fields import Id, PageSize, Time
from xwheel.api.schema.messages import Input
from xwheel.model import Run

MAX_RECENT: Final = 100


class RecentQuery(Input, frozen=True, kw_only=True):
    """Of which jobs."""

    job_id: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MAX_RECENT)]


@fields_of(Run, "id state due_ms accepted_ms finished_ms")
class RecentRun(Struct, frozen=True, kw_only=True):
    """A run in short."""


class RecentItem(Struct, frozen=True, kw_only=True):
    """The last runs of a job, newest first."""

    job_id: int
    runs: list[RecentRun]


class RecentView(Struct, frozen=True, kw_only=True):
    """The last runs of jobs; those that the caller may not read are missing, as are those that do not exist."""

    items: list[RecentItem]


class UpcomingQuery(Input, frozen=True, kw_only=True):
    """How many of the next fires, until when, of which group."""

    until_ms: Time | None = None
    group_id: Id | None = None
    limit: PageSize = 50


class UpcomingItem(Struct, frozen=True, kw_only=True):
    """The next fire of a job."""

    job_id: int
    job_name: str
    app_name: str
    group_id: int
    due_ms: int


UpcomingPage = page_of("UpcomingPage", UpcomingItem, "next fires, of which there is no more than one")
