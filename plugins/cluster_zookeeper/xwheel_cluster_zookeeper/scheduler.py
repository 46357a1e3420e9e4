"""What a scheduler node has of a cluster: one view in memory, which the router, the routes and the mirror share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xwheel_cluster_zookeeper.options import Options
from xwheel_cluster_zookeeper.view import ClusterView

if TYPE_CHECKING:
    from xwheel import Config

    from xwheel_cluster_zookeeper.mirror import Mirror

_made: tuple[Config, ClusterView] | None = None


def shared_view(config: Config) -> ClusterView:
    """Return the view of the process's scheduler node; the same one for the same settings."""
    global _made  # noqa: PLW0603 -- hooks are functions, called one after the other when a node starts
    if _made is None or _made[0] is not config:
        _made = config, ClusterView()
    return _made[1]


def make_mirror(options: Options, view: ClusterView) -> Mirror:
    """Return the part that follows the cluster in ZooKeeper; it connects in its first step."""
    from xwheel_cluster_zookeeper.mirror import Mirror
    from xwheel_cluster_zookeeper.zookeeper import ZooKeeperBackend

    backend = ZooKeeperBackend(options.hosts, options.paths, session_s=options.session_s, user=options.digest)
    return Mirror(backend, view, mode=options.paths.mode, timeout_ms=round(1000 * options.operation_timeout_s))
