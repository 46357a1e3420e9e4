"""How many calls a second one caller may make."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from xwheel.clock import Clock

MAX_CALLERS: Final = 2000
"""Twice as many as there may be tokens; the one that called longest ago is forgotten first."""


class RateLimiter:
    """A bucket of permits for each caller: full at first, filled up evenly; a caller without one is refused at once.

    Thread-safety: any thread may ask.

    Args:
        clock: Where time comes from.
        per_second: Permits a second, and how many a bucket holds.
    """

    def __init__(self, clock: Clock, per_second: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._full = per_second * 1000
        self._lock = threading.Lock()
        # thousandths of a permit, and when they were counted: whole numbers lose no time to rounding
        self._buckets: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def allow(self, caller: str) -> bool:
        """Take a permit; return whether there was one."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            left, since_ms = self._buckets.pop(caller, (self._full, now_ms))
            left = min(self._full, left + (now_ms - since_ms) * self._per_second)
            is_allowed = left >= 1000  # noqa: PLR2004 - one permit
            self._buckets[caller] = (left - 1000 if is_allowed else left, now_ms)
            if len(self._buckets) > MAX_CALLERS:
                self._buckets.popitem(last=False)
        return is_allowed
