"""Nodes that share jobs of packages through ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import hookimpl

if TYPE_CHECKING:
    from xwheel.plugin import Commands

__all__ = ["xwheel_register_commands"]


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
