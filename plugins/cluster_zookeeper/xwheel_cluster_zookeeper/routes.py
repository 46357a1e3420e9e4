"""The cluster's calls below ``/api/v1/package-cluster``, and the scheduler node's part that works beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xwheel.plugin import Permission, PluginSite, Route, RouteCall, RouteRefusedError, RouteReply, RouteScope
from xwheel_job_package.distribution import present_distribution, set_distribution

from xwheel_cluster_zookeeper.mirror import Mirror


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
        """Answer from memory."""
        del call
        return RouteReply(value=self._mirror.summary(self._site.now_ms()))

    def rebalance(self, call: RouteCall) -> RouteReply:
        """Hand the wish on; the master moves the jobs."""
        del call
        if self._mirror.waiting_reason():
            text = "the cluster's store cannot be reached now: ask again when it can"
            raise RouteRefusedError(503, "store_unreachable", text)
        count = self._mirror.rebalance()
        self._site.database.transaction(
            lambda conn: self._site.record(
                conn, "package_cluster.rebalance", "cluster", 0, after={"jobs": count}
            )
        )
        return RouteReply(status=202, value={"jobs": count})
