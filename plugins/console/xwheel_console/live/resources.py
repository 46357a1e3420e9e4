"""``GET /api/v1/events``: what changed, and how much there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

import falcon
import msgspec
from xwheel.api.http.body import take_query
from xwheel.api.http.resource import reply
from xwheel.model.access import current_actor
from xwheel.plugin import Need, Of, Operation, Permission, PluginSite, ResourceRoute
from xwheel.plugin.news import BringsNews

from xwheel_console.live.feed import LiveCounts, LiveScope
from xwheel_console.live.messages import EventQuery, EventsView, EventView, LiveCountsView
from xwheel_console.live.reader import READ_MS, LiveReader, SharedAnswer

MOST_ENCODED: Final = 64


class LiveNews:
    """The events, which a loop of the node reads while somebody asks for them."""

    name = "live"
    chapters: Mapping[str, str] = {"events": "What changed a moment ago, for pages that stay open."}

    def __init__(self) -> None:
        self._reader: LiveReader | None = None

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return ``/events``."""
        self._reader = reader = LiveReader(
            site.database, site.clock, site.executors.live, lambda: site.offering(BringsNews)
        )
        return [ResourceRoute("/events", Events(reader, site), {"GET": Need(Permission.READ, Of.SOME)})]

    def step(self, now_ms: int) -> int:
        """Read what changed, if somebody asked lately."""
        return READ_MS if self._reader is None else self._reader.step(now_ms)

    def end(self) -> None:
        """Nothing is held."""


class Events:
    """``/events``: answered from memory.

    Args:
        reader: Knows what changed lately.
        site: What the plugin works with.
    """

    def __init__(self, reader: LiveReader, site: PluginSite) -> None:
        self._reader = reader
        self._site = site

    @Operation({200: EventsView}, query=EventQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell what changed after a cursor, and how much there is; ask again with ``next``.

        With a cursor that is unknown here, as of another node or of a while ago, ``reset`` is true: then show again
        what you show, and go on from ``next``. Of a kind of which very much changed there is one event without an id.
        """
        query = take_query(req, EventQuery)
        answer = self._reader.ask(query.after, LiveScope.of(current_actor().grants))
        items, counts = _encoded(answer)
        view = EventsView(
            next=answer.news.cursor,
            reset=answer.news.events is None,
            now_ms=self._site.now_ms(),
            items=cast("list[EventView]", items),
            counts=cast(LiveCountsView, counts),
        )
        reply(resp, view)
        # each open page asks once a second: to compress it would take more time than it saves
        resp.context.as_is = True


@lru_cache(maxsize=MOST_ENCODED)
def _encoded(answer: SharedAnswer) -> tuple[msgspec.Raw, msgspec.Raw]:
    """Return events and counts as JSON, made once for all who get the same answer; it depends on nothing else."""
    items = [
        EventView(
            kind=event.kind,
            id=event.id,
            job_id=event.job_id,
            group_id=event.group_id,
            state=event.state,
            chain_id=event.chain_id,
        )
        for event in answer.news.events or ()
    ]
    counts = _counts_view(answer.counts, answer.scope.groups)
    return msgspec.Raw(msgspec.json.encode(items)), msgspec.Raw(msgspec.json.encode(counts))


def _counts_view(counts: LiveCounts, groups: frozenset[int] | None) -> LiveCountsView:
    def total(of: Mapping[int, int]) -> int:
        return sum(count for group_id, count in of.items() if groups is None or group_id in groups)

    return LiveCountsView(
        running=total(counts.running),
        waiting=total(counts.waiting),
        failed_24h=total(counts.failed),
        late=total(counts.late),
        executors=total(counts.executors),
        nodes=counts.nodes,
        nodes_away=counts.nodes_away,
        paused_since_ms=counts.paused_since_ms,
    )
