"""Which nodes there are."""

from __future__ import annotations

from typing import Any

from tests.component.api.conftest import Api
from tests.support.rows import NOW
from xwheel import __version__
from xwheel.storage import leases


def test_nodes_and_their_partitions(api: Api) -> None:
    assert api.parts.lease is not None
    node_id, lease_ms = api.parts.lease.owner, 1000 * api.parts.config.schedule.lease_s

    def work(conn: Any) -> None:
        leases.renew_node(conn, "dead", NOW - 99_000, NOW - 5)
        leases.renew_node(conn, node_id, NOW - 7000, NOW + 9000)
        leases.take_all_leases(conn, node_id)
        leases.renew_node(conn, "dead", NOW - 99_000, NOW - 5)
        leases.renew_node(conn, "other", NOW - 1000, NOW + 9000, draining=True)
        leases.give_leases(conn, node_id, {1: "dead", 2: "other", 3: "other"}, dict.fromkeys(range(64), 1))

    api.db.transaction(work)
    found = api.call("GET", "nodes").json
    assert (found["next"], found["partitions_without"]) == (None, 1)
    nodes = {item["id"]: item for item in found["items"]}
    me = nodes[node_id]
    assert me == {
        "id": node_id,
        "name": node_id,
        "address": None,
        "version": __version__,
        "partitions": [0, *range(4, 64)],
        "is_me": True,
        "alive": True,
        "draining": False,
        "last_seen_ms": NOW + 9000 - lease_ms,
        "since_ms": NOW - 7000,
    }
    assert [nodes[name]["partitions"] for name in ("dead", "other")] == [[1], [2, 3]]
    assert [nodes[name]["alive"] for name in ("dead", "other")] == [False, True]
    assert (nodes["other"]["draining"], nodes["other"]["is_me"], nodes["other"]["version"]) == (True, False, None)
