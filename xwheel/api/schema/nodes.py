"""What clients of the management API get of nodes."""

from __future__ import annotations

from msgspec import Struct


class NodeView(Struct, frozen=True, kw_only=True):
    """A node; ``address`` and ``version`` are null where this node does not know them."""

    id: str
    name: str
    address: str | None
    version: str | None
    partitions: list[int]
    is_me: bool
    alive: bool
    draining: bool
    last_seen_ms: int
    since_ms: int


class NodesView(Struct, frozen=True, kw_only=True):
    """All nodes that did not leave, those that are away too; ``partitions_without`` are held by none that lives."""

    items: list[NodeView]
    next: None
    partitions_without: int
