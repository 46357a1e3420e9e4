"""Hold back messages to a number that had its messages of a window."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

MAX_NUMBERS: Final = 10_000


class Throttle:
    """Lets this many messages through to each number in any window; in memory, so a restart begins again.

    *Thread-safety:* all methods may be called from any thread.

    Args:
        limit: How many messages.
        window_s: In how many seconds.
        monotonic: Gives seconds that only rise.
    """

    def __init__(self, limit: int, window_s: float, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._window_s = window_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sent: OrderedDict[str, deque[float]] = OrderedDict()

    def is_full(self, number: str) -> bool:
        """Return whether a number had all its messages of this window."""
        now = self._monotonic()
        with self._lock:
            times = self._sent.get(number, ())
            return sum(1 for time in times if now - time < self._window_s) >= self._limit

    def note(self, number: str) -> None:
        """Count a message that was sent."""
        now = self._monotonic()
        with self._lock:
            self._sent.setdefault(number, deque(maxlen=self._limit)).append(now)
            self._sent.move_to_end(number)
            while len(self._sent) > MAX_NUMBERS:
                self._sent.popitem(last=False)

    def __str__(self) -> str:
        """Return the limit in words."""
        return f"{self._limit} in {self._window_s:g} s"
