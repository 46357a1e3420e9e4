"""Supervised threads: a loop is ``step(now_ms) -> wait_ms``, and this repeats it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from xwheel.clock import Clock

logger = logging.getLogger(__name__)

FIRST_PAUSE_MS = 100
LONGEST_PAUSE_MS = 5000


class Service:
    """One thread that repeats a step and survives its failures.

    A step that raises is logged and repeated after a pause that doubles up to five seconds; the thread itself
    never ends before :meth:`stop`. :meth:`age_ms` tells how long ago a step last ended well, for health checks.

    Args:
        name: Thread name, ``xwheel-`` is put before it.
        step: Gets the shared time, returns how long to wait before the next call, in milliseconds.
        clock: Where time comes from.
        bell: Set by whoever wants the next step at once; None for one of its own.
        stale_ms: Age above which the loop counts as unhealthy.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[int], int],
        clock: Clock,
        *,
        bell: threading.Event | None = None,
        stale_ms: int = 10_000,
    ) -> None:
        self.name = name
        self.stale_ms = stale_ms
        self.failures = 0
        self.last_error = ""
        self._step = step
        self._clock = clock
        self._wake = bell or threading.Event()
        self._stopping = False
        self._done_ms = clock.monotonic_ms()
        self._thread = threading.Thread(target=self._run, name=f"xwheel-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._done_ms = self._clock.monotonic_ms()
        self._thread.start()

    def wake(self) -> None:
        """End the current wait."""
        self._wake.set()

    def stop(self, timeout_s: float = 10) -> bool:
        """Ask the thread to end and wait for it; tell whether it ended in time."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def age_ms(self) -> int:
        """Return milliseconds since a step last ended without an error."""
        return self._clock.monotonic_ms() - self._done_ms

    def is_healthy(self) -> bool:
        """Tell whether the thread lives and its last good step is recent."""
        return self._thread.is_alive() and self.age_ms() <= self.stale_ms

    def _run(self) -> None:
        pause_ms = FIRST_PAUSE_MS
        while not self._stopping:
            # cleared before the step: a wake during the step must not be lost
            self._wake.clear()
            try:
                wait_ms = self._step(self._clock.now_ms())
            except Exception as error:
                self.failures += 1
                self.last_error = f"{type(error).__name__}: {error}"
                logger.exception("loop %s failed, next try in %d ms", self.name, pause_ms)
                wait_ms, pause_ms = pause_ms, min(pause_ms * 2, LONGEST_PAUSE_MS)
            else:
                self._done_ms = self._clock.monotonic_ms()
                pause_ms = FIRST_PAUSE_MS
            if not self._stopping and wait_ms > 0:
                self._clock.wait(self._wake, wait_ms)


class Rest:
    """Lets a loop whose work is never urgent give way: it rests a multiple of the time that each piece of work took.

    Args:
        clock: Where time comes from.
        factor: How many times as long as the work the rest is, at least.
        nap_ms: No single wait is longer, so that the loop's health shows and it can look around.
    """

    def __init__(self, clock: Clock, factor: int, nap_ms: int = 5000) -> None:
        self._clock = clock
        self._factor = factor
        self._nap_ms = nap_ms
        self._until_ms = 0

    def left_ms(self) -> int:
        """Return how long to wait now; 0 if it is time to work."""
        return min(self._nap_ms, max(0, self._until_ms - self._clock.monotonic_ms()))

    def after(self, work: Callable[[], object], least_ms: int) -> int:
        """Work, then begin to rest, even if the work failed; return how long to wait now.

        Args:
            work: What to do.
            least_ms: From the beginning of this piece of work to the next, at least.
        """
        began_ms = self._clock.monotonic_ms()
        try:
            work()
        finally:
            ended_ms = self._clock.monotonic_ms()
            self._until_ms = max(began_ms + least_ms, ended_ms + self._factor * (ended_ms - began_ms))
        return self.left_ms()
