"""Time as an argument: the only module that reads the clock.

All times are integer milliseconds since the epoch, UTC. A node's clock is its monotonic clock plus an offset,
so a step of the machine's wall clock moves nothing by itself; :meth:`SystemClock.set_offset` moves it on purpose. Tests
give what they test a :class:`ManualClock`.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

STEP_MS: Final = 500  # a difference above this is a step
CONFIRMATIONS: Final = 3  # samples in a row that must agree before a step is believed


class Clock(Protocol):
    """Where a loop gets its time from."""

    def now_ms(self) -> int:
        """Return the time that all nodes share, in epoch milliseconds."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds from an arbitrary start; never steps back."""
        ...

    def wait(self, event: threading.Event, timeout_ms: int) -> bool:
        """Wait until the event is set or the time is over; return whether it is set."""
        ...


def has_come(at_ms: int, now_ms: int, interval_ms: int) -> bool:
    """Return whether an instant has come that was set at most so far ahead, or whether the time went back since."""
    return not 0 < at_ms - now_ms <= interval_ms


def wall_ms() -> int:
    """Return the machine's wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """The machine's monotonic clock plus an offset; starts as the wall clock."""

    def __init__(self) -> None:
        self._offset_ms = wall_ms() - self.monotonic_ms()

    def now_ms(self) -> int:
        """Return the shared time in epoch milliseconds."""
        return self.monotonic_ms() + self._offset_ms

    def monotonic_ms(self) -> int:
        """Return the monotonic clock in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def wait(self, event: threading.Event, timeout_ms: int) -> bool:
        """Wait for the event, at most ``timeout_ms``."""
        return event.wait(max(0, timeout_ms) / 1000)

    def set_offset(self, shared_ms: int, at_monotonic_ms: int) -> int:
        """Set what the shared time was at a monotonic instant; return the change in milliseconds."""
        offset_ms = shared_ms - at_monotonic_ms
        change_ms = offset_ms - self._offset_ms
        self._offset_ms = offset_ms
        return change_ms

    def drift_ms(self, shared_ms: int, at_monotonic_ms: int) -> int:
        """Return how far a sample of the shared time is ahead of this clock, in milliseconds."""
        return shared_ms - at_monotonic_ms - self._offset_ms


class ManualClock:
    """A clock that moves only when a test moves it; it begins with this shared time."""

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


class OffsetFilter:
    """Follows the database's clock: small drifts at once, steps only when seen three times in a row."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._suspicions: list[int] = []

    @property
    def is_suspicious(self) -> bool:
        """Whether the last sample showed a step that is not confirmed yet."""
        return bool(self._suspicions)

    def begin(self, shared_ms: int, sent_ms: int, received_ms: int) -> int:
        """Take the first sample as it is, since nothing is planned yet; return the change in milliseconds."""
        self._suspicions.clear()
        return self._clock.set_offset(shared_ms, (sent_ms + received_ms) // 2)

    def sample(self, shared_ms: int, sent_ms: int, received_ms: int) -> int | None:
        """Take one sample of the shared clock, asked for and answered at these monotonic times.

        Returns the size of a confirmed step in milliseconds, or None.
        """
        middle_ms = (sent_ms + received_ms) // 2
        drift_ms = self._clock.drift_ms(shared_ms, middle_ms)
        if abs(drift_ms) <= STEP_MS:
            self._suspicions.clear()
            # within the round trip the sample is no better than what we have
            if abs(drift_ms) > max(5, received_ms - sent_ms):
                self._clock.set_offset(shared_ms, middle_ms)
            return None
        agrees = not self._suspicions or abs(drift_ms - self._suspicions[-1]) <= STEP_MS
        self._suspicions = [*self._suspicions, drift_ms] if agrees else [drift_ms]
        if len(self._suspicions) < CONFIRMATIONS:
            return None
        self._suspicions.clear()
        return self._clock.set_offset(shared_ms, middle_ms)
