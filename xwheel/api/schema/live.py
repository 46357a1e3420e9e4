"""What clients of the management API ask of what is going on now, and get."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.fields import Id, PageSize, Time
from xwheel.api.schema.messages import Input
from xwheel.model import Run
from xwheel.scheduler.live.feed import EventKind

MAX_RECENT: Final = 100
Cursor = Annotated[str, Meta(min_length=1, max_length=64, extra={"hint": "a value of next"})]


class EventQuery(Input, frozen=True, kw_only=True):
    """After which cursor; without one there are no events, but a cursor to go on from."""

    after: Cursor | None = None


class EventView(Struct, frozen=True, kw_only=True):
    """Something changed.

    ``id`` is null for nodes, pauses and calendars, and when so much of a kind changed that its lists are to be read
    again. ``state`` is the one that a run, an alarm, an executor or a node has now; for others what was done.
    ``chain_id`` is the chain of a run, null for others and where it is not known.
    """

    kind: EventKind
    id: int | None
    job_id: int | None
    group_id: int | None
    state: str | None
    chain_id: int | None


class LiveCountsView(Struct, frozen=True, kw_only=True):
    """How much there is now, of what the caller may read.

    Runs count as ``running`` once they are sent, as ``waiting`` while they are due and not sent, as ``late`` when they
    are due for more than 30 s; no more than 2000 are counted that are sent, and as many that are not. ``failed_24h``
    are those that failed, timed out, were lost or refused, by the hourly report.
    """

    running: int
    waiting: int
    failed_24h: int
    late: int
    nodes: int
    nodes_away: int
    executors: int
    paused_since_ms: int | None


class EventsView(Struct, frozen=True, kw_only=True):
    """What changed after a cursor; ``reset`` if the cursor is unknown here, so that all is to be read again."""

    next: str
    reset: bool
    now_ms: int
    items: list[EventView]
    counts: LiveCountsView


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
