"""What is asked of events, and answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from xwheel.api.schema.messages import Input

from xwheel_console.live.feed import EventKind

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
