"""Sweeps of what is old: one short piece of work a step, by the holder of partition 0, with rests between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.runtime.loops import Rest

LONGEST_NAP_MS: Final = 30_000
SWEEP_REST: Final = 4  # deleting takes at most a fifth of the time, writers that wait included
SHORTEST_PAUSE_MS: Final = 50


@dataclass(eq=False, repr=False)
class Sweeps:
    """Goes through a sweep step by step, and begins another one after a while.

    Nothing here needs the lease to be safe: two nodes that sweep at the same time find less to do.
    """

    is_ours: Callable[[], bool]  # whether this node may sweep now
    clock: Clock
    # gives a sweep that begins at an instant; each of its items is one piece of work that was done
    sweep: Callable[[int], Iterator[None]]
    _: KW_ONLY
    interval_ms: int  # from the end of one sweep to the next

    def __post_init__(self) -> None:
        self._rest = Rest(self.clock, SWEEP_REST)
        self._sweep: Iterator[None] | None = None
        self._sweep_at_ms = 0

    def step(self, now_ms: int) -> int:
        """Do one piece of a sweep if it is time; return how long to wait in milliseconds."""
        if not self.is_ours():
            self._sweep = None
            return LONGEST_NAP_MS
        left_ms = self._rest.left_ms()
        if self._sweep is None:
            left_ms = max(left_ms, min(LONGEST_NAP_MS, self._sweep_at_ms - now_ms))
        if left_ms > 0:
            return left_ms
        return self._rest.after(lambda: self._do_next(now_ms), SHORTEST_PAUSE_MS)

    def _do_next(self, now_ms: int) -> None:
        # a sweep that fails is over; the next one goes on behind the batch that failed
        sweep, self._sweep = self._sweep or self.sweep(now_ms), None
        self._sweep_at_ms = now_ms + self.interval_ms
        for _ in sweep:
            self._sweep = sweep
            return
