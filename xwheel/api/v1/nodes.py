"""Which nodes there are."""

from __future__ import annotations

from collections import defaultdict

import falcon

from xwheel import __version__
from xwheel.api.http.resource import Resource, reply
from xwheel.api.schema.views import NodesView, NodeView
from xwheel.plugin.resources import Operation
from xwheel.scheduler.cluster.contract import Lease
from xwheel.storage import leases


class Nodes(Resource):
    """``/nodes``."""

    lease: Lease | None

    @Operation({200: NodesView})
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """List the nodes, with the partitions that each of them holds."""
        now_ms = self.clock.now_ms()
        own_id = None if self.lease is None else self.lease.owner
        with self.db.read() as conn:
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
                version=__version__ if row.id == own_id else None,
                partitions=held[row.id],
                is_me=row.id == own_id,
                alive=row.id in living,
                draining=row.draining,
                last_seen_ms=row.until_ms - 1000 * self.config.schedule.lease_s,
                since_ms=row.started_ms,
            )
            for row in rows
        ]
        without = sum(len(found) for owner, found in held.items() if owner not in living)
        reply(resp, NodesView(items=items, next=None, partitions_without=without))
