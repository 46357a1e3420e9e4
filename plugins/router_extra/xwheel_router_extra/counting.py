"""Routers that count the runs of each job on each executor; complete, since one node holds the job's partition."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from xwheel.plugin import RegisteredExecutor, RouteContext

from xwheel_router_extra.memory import JobMemory

RESTART = 1_000_000


class LeastFrequentlyUsed:
    """The executor that the job used least often, counted since this node started or took the job over.

    One that is new begins at a random small number, so that it does not get everything until it has caught up.
    Suspects are not chosen while there are others; their counts stay.
    """

    name = "LEAST_FREQUENTLY_USED"
    asks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: JobMemory[dict[str, int]] = JobMemory(dict)

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the one with the lowest count."""
        with self._lock:
            before = self._counts.take(context.job.id)
            counts = {}
            for item in context.executors:
                count = before.get(item.address)
                if count is None or count > RESTART:
                    count = random.randrange(len(context.executors))  # noqa: S311 - spreads load
                counts[item.address] = count
            chosen = min(context.trusted, key=lambda item: counts[item.address])
            counts[chosen.address] += 1
            self._counts.note(context.job.id, counts)
        return [chosen]


class LeastRecentlyUsed:
    """The executor that the job has not used for the longest time; new ones first, by address."""

    name = "LEAST_RECENTLY_USED"
    asks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: JobMemory[dict[str, None]] = JobMemory(dict)

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the one that was not used for longest."""
        live = {item.address: item for item in context.executors}
        with self._lock:
            before = self._used.take(context.job.id)
            order = {address: None for address in live if address not in before}
            order |= {address: None for address in before if address in live}
            trusted = {item.address for item in context.trusted}
            oldest = next(address for address in order if address in trusted)
            del order[oldest]
            order[oldest] = None
            self._used.note(context.job.id, order)
        return [live[oldest]]
