"""Routers (route strategies) that choose without a call to an executor."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from xwheel.model import RegisteredExecutor
from xwheel.plugin import RouteContext, Router, hookimpl

COUNTED_JOBS = 100_000


class First:
    """The first executor by address."""

    name = "FIRST"
    asks = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the first one; executors whose last send failed come after all others."""
        return context.executors[:1]


class Last:
    """The last executor by address."""

    name = "LAST"
    asks = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the last one that is not suspect."""
        trusted = context.trusted
        return trusted[-1:]


class Random:
    """Any executor, with equal chance."""

    name = "RANDOM"
    asks = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return one at random."""
        return [random.choice(context.trusted)]  # noqa: S311 - spreads load, guards nothing


class Round:
    """Each executor in turn, counted for each job by itself.

    The count lives in this node's memory, which is right because one node holds a job's partition. It starts at a
    random place, so that many jobs do not begin with the same executor.
    """

    name = "ROUND"
    asks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[int, int] = {}

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the next one."""
        trusted = context.trusted
        with self._lock:
            if len(self._counts) > COUNTED_JOBS:
                self._counts.clear()
            count = self._counts.get(context.job.id, random.randrange(100)) + 1  # noqa: S311
            self._counts[context.job.id] = count
        return [trusted[count % len(trusted)]]


class ShardingBroadcast:
    """All executors, one shard each, in the order of their addresses."""

    name = "SHARDING_BROADCAST"
    asks = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return them all; a suspect keeps its place, since shard numbers follow addresses."""
        return sorted(context.executors, key=lambda item: item.address)


@hookimpl
def xwheel_register_routers() -> list[Router]:
    """Register the routers."""
    return [First(), Last(), Random(), Round(), ShardingBroadcast()]
