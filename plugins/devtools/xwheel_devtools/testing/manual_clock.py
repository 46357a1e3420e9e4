"""A clock for tests, in which no time passes by itself."""

from __future__ import annotations

import threading


class ManualClock:
    """A clock that moves only when a test moves it.

    Args:
        now_ms: The shared time to begin with.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 1_000_000

    def now_ms(self) -> int:
        """Return the shared time."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Return the monotonic time."""
        return self._monotonic_ms

    def wait(self, event: threading.Event, timeout_ms: int) -> bool:
        """Let the time pass at once unless the event is set."""
        if not event.is_set():
            self.advance(timeout_ms)
        return event.is_set()

    def advance(self, by_ms: int) -> int:
        """Move both times on and return the shared time."""
        self._now_ms += by_ms
        self._monotonic_ms += by_ms
        return self._now_ms

    def step_wall(self, by_ms: int) -> None:
        """Move only the shared time, as a correction of the database's clock does."""
        self._now_ms += by_ms
