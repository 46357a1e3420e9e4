"""The cluster's calls below ``/api/v1/package-cluster``, and the scheduler node's part that works next to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from xwheel.plugin import (
    FieldError,
    Permission,
    PluginSite,
    Route,
    RouteCall,
    RouteRefusedError,
    RouteReply,
    RouteScope,
)
from xwheel_job_package.distribution import present_distribution, set_distribution

from xwheel_cluster_zookeeper.backend import Disconnected, SessionLost
from xwheel_cluster_zookeeper.mirror import Mirror

MOST_NAME: Final = 255


class ClusterRoutes:
    """What is known of the cluster, from memory; and a wish for even loads.

    Args:
        make_mirror: Makes the part that follows the cluster; it connects in its first step.
    """

    name = "package-cluster"

    def __init__(self, make_mirror: Callable[[], Mirror]) -> None:
        self._make_mirror = make_mirror

    def routes(self, site: PluginSite) -> Sequence[Route]:
        """Return the routes; operations on jobs of packages wait for the cluster from now on."""
        self._site = site
        self._mirror = self._make_mirror()
        self._mirror.open(site)
        set_distribution(self._mirror)
        return [
            Route(
                method="GET",
                path="",
                answer=self.show,
                summary="Return the nodes of the package cluster, as this node knows them.",
                permission=Permission.READ,
            ),
            Route(
                method="POST",
                path="/rebalance",
                answer=self.rebalance,
                summary="Move as few jobs of packages as it takes to make the nodes' loads even.",
                permission=Permission.ADMIN,
                scope=RouteScope.ALL,
            ),
            Route(
                method="POST",
                path="/drain",
                answer=self.drain,
                summary="Move the jobs of a package node to others, and give it none until it is resumed.",
                permission=Permission.ADMIN,
                scope=RouteScope.ALL,
            ),
            Route(
                method="POST",
                path="/resume",
                answer=self.resume,
                summary="Let a package node that was drained have jobs again.",
                permission=Permission.ADMIN,
                scope=RouteScope.ALL,
            ),
        ]

    def step(self, now_ms: int) -> int:
        """Follow the cluster."""
        return self._mirror.step(now_ms)

    def end(self) -> None:
        """Leave the cluster."""
        if present_distribution() is self._mirror:
            set_distribution(None)
        self._mirror.close()

    def show(self, call: RouteCall) -> RouteReply:
        """Answer from memory, of the groups that the caller may read."""
        reach = call.actor.grants.groups_with(Permission.READ)
        names = None
        if reach is not None:
            names = {group.app_name for group in self._site.executors.groups() if group.id in reach}
        return RouteReply(value=self._mirror.summary(self._site.now_ms(), names))

    def rebalance(self, call: RouteCall) -> RouteReply:
        """Hand the wish on; the master moves the jobs."""
        del call
        if self._mirror.waiting_reason():
            raise _unreachable()
        count = self._mirror.rebalance()
        self._site.database.transaction(
            lambda conn: self._site.record(conn, "package_cluster.rebalance", "cluster", 0, after={"jobs": count})
        )
        return RouteReply(status=202, value={"jobs": count})

    def drain(self, call: RouteCall) -> RouteReply:
        """Write it for the master, who moves the jobs."""
        node_id = _node_id(call)
        return self._change("drain", node_id, lambda: self._mirror.drain(node_id, call.actor.name, self._site.now_ms()))

    def resume(self, call: RouteCall) -> RouteReply:
        """Write it for the master."""
        node_id = _node_id(call)
        return self._change("resume", node_id, lambda: self._mirror.resume(node_id))

    def _change(self, what: str, node_id: str, change: Callable[[], None]) -> RouteReply:
        try:
            change()
        except (Disconnected, SessionLost):
            raise _unreachable() from None
        self._site.database.transaction(
            lambda conn: self._site.record(conn, f"package_cluster.{what}", "package_node", node_id)
        )
        return RouteReply(status=202, value={"node_id": node_id})


def _unreachable() -> RouteRefusedError:
    text = "the cluster's store cannot be reached now: ask again when it can"
    return RouteRefusedError(503, "store_unreachable", text)


def _node_id(call: RouteCall) -> str:
    found = call.json().get("node_id")
    if not isinstance(found, str) or not 1 <= len(found) <= MOST_NAME:
        raise FieldError("node_id", f"must be the name of a package node, 1 to {MOST_NAME} characters")
    return found
