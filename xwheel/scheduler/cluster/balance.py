"""Which partitions a node takes and hands over: a pure function of what all nodes see in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Moves(NamedTuple):
    """What a node does next."""

    take: Sequence[int]  # free partitions to take, in the order in which to try
    give: Mapping[int, str]  # held partitions to hand over, each with the node that gets it
    is_short: bool  # others hold what is this node's share


def decide_moves(
    owners: Mapping[int, str | None], live: Collection[str], me: str, draining: Collection[str] = ()
) -> Moves:
    """Decide what a node takes and hands over so that all live nodes end with fair shares.

    Every node comes to the same shares by itself: the partitions are divided evenly among those that stay, and what is
    left over goes to the nodes that hold most already, so that a join or a leave moves only what must move. Whose
    surplus goes to which node is the same list for all, so that two givers do not fill one taker twice. ``owners`` has
    every partition, with None for a free one. Live nodes that are draining hand over all they hold and get nothing.
    """
    nodes = sorted({*live, me})
    held = {name: sorted(part for part, owner in owners.items() if owner == name) for name in nodes}
    free = sorted(part for part, owner in owners.items() if owner not in held)
    targets = _targets(len(owners), held, [name for name in nodes if name not in draining])
    short = {name: targets[name] - len(held[name]) for name in targets if targets[name] > len(held[name])}
    if not targets:  # the last one keeps what it has
        return Moves(take=(), give={}, is_short=False)
    # nodes begin at different places, so that two of them seldom reach for the same partition
    start = nodes.index(me) * len(free) // len(nodes)
    wanted = [*free[start:], *free[:start]][: short.get(me, 0)]
    takers = [name for name in sorted(short) for _ in range(short[name])][len(free) :]
    surplus = [(name, part) for name in nodes for part in held[name][targets.get(name, 0) :]]
    give = {part: taker for (giver, part), taker in zip(surplus, takers, strict=False) if giver == me}
    return Moves(take=wanted, give=give, is_short=short.get(me, 0) > len(wanted))


def _targets(count: int, held: Mapping[str, Collection[int]], staying: Collection[str]) -> dict[str, int]:
    if not staying:
        return {}
    base, extra = divmod(count, len(staying))
    fullest = sorted(staying, key=lambda name: (-len(held[name]), name))
    return {name: base + (rank < extra) for rank, name in enumerate(fullest)}
