"""Which partitions a node should take or give back: a pure function of what all nodes see in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xwheel.scheduler.handover import Moves


def decide_moves(owners: Mapping[int, str | None], live: Collection[str], me: str) -> Moves:
    """Decide what a node takes and gives so that all live nodes end with fair shares.

    Every node comes to the same shares by itself: the partitions are divided evenly, and what is left over goes to the
    nodes that hold most already, so that a join or a leave moves only what must move.

    Args:
        owners: Every partition and who holds it; None for nobody.
        live: The nodes that are alive, this one among them.
        me: This node.
    """
    nodes = sorted({*live, me})
    held = {name: sorted(part for part, owner in owners.items() if owner == name) for name in nodes}
    base, extra = divmod(len(owners), len(nodes))
    fullest = sorted(nodes, key=lambda name: (-len(held[name]), name))
    target = base + (fullest.index(me) < extra)
    mine = held[me]
    free = sorted(part for part, owner in owners.items() if owner not in held)
    # nodes begin at different places, so that two of them seldom reach for the same partition
    start = nodes.index(me) * len(free) // len(nodes)
    wanted = [*free[start:], *free[:start]]
    return Moves(take=wanted[: max(0, target - len(mine))], give=mine[target:])
