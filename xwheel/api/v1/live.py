"""What is going on now: what changed, and which nodes there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, cast

import falcon
import msgspec

from xwheel import __version__
from xwheel.api.http.body import take_query
from xwheel.api.http.resource import Resource, reply
from xwheel.api.schema.live import (
    EventQuery,
    EventsView,
    EventView,
    LiveCountsView,
    NodesView,
    NodeView,
)
from xwheel.model.access import current_actor
from xwheel.plugin.resources import Operation
from xwheel.scheduler.live.feed import LiveCounts, LiveScope
from xwheel.scheduler.live.reader import SharedAnswer
from xwheel.storage import leases

MOST_ENCODED: Final = 64


class Events(Resource):
    """``/events``: answered from memory."""

    @Operation({200: EventsView}, query=EventQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell what changed after a cursor, and how much there is; ask again with ``next``.

        With a cursor that is unknown here, as of another node or of a while ago, ``reset`` is true: then show again
        what you show, and go on from ``next``. Of a kind of which very much changed there is one event without an id.
        """
        query = take_query(req, EventQuery)
        answer = self._parts.live.ask(query.after, LiveScope.of(current_actor().grants))
        items, counts = _encoded(answer)
        view = EventsView(
            next=answer.news.cursor,
            reset=answer.news.events is None,
            now_ms=self._parts.clock.now_ms(),
            items=cast("list[EventView]", items),
            counts=cast(LiveCountsView, counts),
        )
        reply(resp, view)


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


class Nodes(Resource):
    """``/nodes``."""

    @Operation({200: NodesView})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the nodes, with the partitions that each of them holds."""
        del req
        now_ms, parts = self._parts.clock.now_ms(), self._parts
        with self._db.read() as conn:
            rows = leases.list_nodes(conn)
            held = defaultdict(list)
            for lease in leases.list_leases(conn):
                held[lease.owner].append(lease.partition)
        living = {row.id for row in rows if row.until_ms > now_ms}
        items = [
            NodeView(
                id=row.id,
                name=row.id,
                address=None,
                version=__version__ if row.id == parts.node_id else None,
                partitions=held[row.id],
                is_me=row.id == parts.node_id,
                alive=row.id in living,
                draining=row.draining,
                last_seen_ms=row.until_ms - parts.lease_ms,
                since_ms=row.started_ms,
            )
            for row in rows
        ]
        without = sum(len(found) for owner, found in held.items() if owner not in living)
        reply(resp, NodesView(items=items, next=None, partitions_without=without))
