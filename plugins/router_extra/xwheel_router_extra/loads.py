"""Routers that choose by the load of executors, or by their capacity."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence

from xwheel.plugin import RegisteredExecutor, RouteContext

from xwheel_router_extra.memory import JobMemory

logger = logging.getLogger(__name__)

LABEL = "weight"
MAX_WEIGHT = 1000
MAX_WARNED = 1000


class LeastLoaded:
    """The executor with the fewest runs, of all jobs and sent from any node; one of several at random."""

    name = "LEAST_LOADED"
    asks = False

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return one with the fewest runs."""
        trusted = context.trusted
        loads = [context.load(item.address) for item in trusted]
        least = min(loads)
        few = [item for item, load in zip(trusted, loads, strict=True) if load == least]
        return [random.choice(few)]  # noqa: S311 - spreads load, guards nothing


class Weighted:
    """Executors in turn, as often as the label ``weight`` of each says, and evenly mixed.

    With weights 5, 1 and 1 the turns are a a b a c a a. The label is a whole number from 0 to 1000, 1 where it is
    missing; one with 0 gets nothing while others have more. What is no such number counts as 1 and is logged once.
    """

    name = "WEIGHTED"
    asks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: JobMemory[dict[str, int]] = JobMemory(dict)
        self._warned: set[tuple[str, str]] = set()

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the executor whose turn it is: all gain their weight, and the first one pays what all gained."""
        trusted = context.trusted
        weights = [self._weight(item) for item in trusted]
        total = sum(weights)
        if not total:
            weights, total = [1] * len(trusted), len(trusted)
        with self._lock:
            before = self._turns.take(context.job.id)
            turns = {
                item.address: before.get(item.address, 0) + weight
                for item, weight in zip(trusted, weights, strict=True)
            }
            able = (item for item, weight in zip(trusted, weights, strict=True) if weight)
            chosen = max(able, key=lambda item: turns[item.address])
            turns[chosen.address] -= total
            self._turns.note(context.job.id, turns)
        return [chosen]

    def _weight(self, executor: RegisteredExecutor) -> int:
        text = executor.labels.get(LABEL)
        if text is None:
            return 1
        if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_WEIGHT)) and int(text) <= MAX_WEIGHT:
            return int(text)
        key = (executor.address, text)
        if key not in self._warned and len(self._warned) < MAX_WARNED:
            self._warned.add(key)
            logger.warning(
                "executor %s has the label weight %r, which counts as 1: a whole number from 0 to %d is needed",
                executor.address,
                text,
                MAX_WEIGHT,
            )
        return 1
