"""Nodes that share jobs of packages through ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from xwheel.plugin import hookimpl

if TYPE_CHECKING:
    from xwheel import Config
    from xwheel.plugin import Commands, Pages, Router, Routes

__all__ = ["xwheel_register_commands", "xwheel_register_pages", "xwheel_register_routers", "xwheel_register_routes"]


class NodeCommand:
    """``xwheel node``."""

    name = "node"
    help = "Run a node of a package cluster until SIGTERM, SIGHUP or Ctrl-C, then drain and leave."
    module = "xwheel_cluster_zookeeper.command"
    is_one = True


@hookimpl
def xwheel_register_commands() -> Iterable[Commands]:
    """Register ``xwheel node``."""
    return [NodeCommand()]


@hookimpl
def xwheel_register_routers(config: Config) -> Iterable[Router]:
    """Register the router ``ASSIGNED``, where ZooKeeper is named."""
    from xwheel_cluster_zookeeper.options import read_options

    if not read_options(config).hosts:
        return []
    from xwheel_cluster_zookeeper.router import Assigned
    from xwheel_cluster_zookeeper.scheduler import shared_view

    return [Assigned(shared_view(config))]


@hookimpl
def xwheel_register_routes(config: Config) -> Iterable[Routes]:
    """Register the cluster's calls, and with them the part that follows it, where there is a store of packages."""
    if not _follows(config):
        return []
    from xwheel_cluster_zookeeper.options import read_options
    from xwheel_cluster_zookeeper.routes import ClusterRoutes
    from xwheel_cluster_zookeeper.scheduler import make_mirror, shared_view

    options, view = read_options(config), shared_view(config)
    return [ClusterRoutes(lambda: make_mirror(options, view))]


@hookimpl
def xwheel_register_pages(config: Config) -> Iterable[Pages]:
    """Register the console's page of the cluster, where its calls are."""
    if not _follows(config):
        return []
    from xwheel_cluster_zookeeper.pages import ClusterPages

    return [ClusterPages()]


def _follows(config: Config) -> bool:
    """Return whether this process is a scheduler node with a store of packages, and of a cluster."""
    from xwheel_cluster_zookeeper.options import read_options

    # as it stands there: that plugin checks it
    store = config.plugin("job_package").get("store")
    return bool(read_options(config).hosts) and isinstance(store, Mapping) and bool(store.get("directory"))
