"""What a plugin does between calls stands in the audit as a deed of the node, and the audit is sealed in a node."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from xwheel_devtools.testing import NodeSite, wait_until

from tests.integration.test_plugin_work import Follower


def test_a_step_acts_as_the_node_and_its_deeds_are_sealed(tmp_path: Path) -> None:
    made: list[int] = []

    def step(one: Follower, now_ms: int) -> int:
        group_id = one.site.jobs.group_id("demo")
        if group_id is not None and not made:
            job = one.site.jobs.create({"group_id": group_id, "name": f"at {now_ms}", "handler": "hello"})
            made.append(job["id"])
        return 20

    with closing(NodeSite(tmp_path / "node", Follower(step))) as node:
        wait_until(lambda: made)
        path = f"audit?object_kind=job&object_id={made[0]}"
        (entry,) = node.call("GET", path)["items"]
        assert (entry["actor_kind"], entry["actor"]) == ("node", "plugin follower")
        wait_until(lambda: node.call("GET", path)["items"][0]["position"])
