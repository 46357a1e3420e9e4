"""Supervised threads: a loop is ``step(now_ms) -> wait_ms``, and a :class:`Service` repeats it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import OutageError

logger = logging.getLogger(__name__)

FIRST_PAUSE_MS: Final = 100
LONGEST_PAUSE_MS: Final = 5000
# how often a loop that goes on failing is logged again, and one that worked in between
REMIND_MS: Final = 600_000
AGAIN_MS: Final = 60_000
OUTAGE: Final = "outage"
STALLED_MS: Final = 10_000
WATCH_MS: Final = 1000


class Service:
    """One thread that repeats a step and survives its failures.

    A step that raises is repeated after a pause that doubles up to five seconds; the thread itself never ends before
    :meth:`stop`. The first of its failures is logged, then one line in ten minutes, and the end of it: a database that
    is away for a night fills no disk.
    """

    def __init__(
        self,
        name: str,  # of the thread, ``xwheel-`` is put before it
        step: Callable[[int], int],  # gets the shared time; returns the milliseconds until the next call
        clock: Clock,
        *,
        wakeup: threading.Event | None = None,  # set by others to get the next step at once
        stale_ms: int = 10_000,  # age above which the loop counts as unhealthy
        on_failure: Callable[[], None] = lambda: None,  # called after a step that failed
        interrupt: Callable[[], None] = lambda: None,  # ends a wait inside the step; called by ``stop``
    ) -> None:
        self.name = name
        self.stale_ms = stale_ms
        self.failures = 0
        self.last_error = ""
        self._step = step
        self._clock = clock
        self._on_failure = on_failure
        self._interrupt = interrupt
        self._log = FailureLog(name, clock)
        self._wake = wakeup or threading.Event()
        self._stopping = False
        self._began_ms: int | None = None
        self._done_ms = clock.monotonic_ms()
        self._thread = threading.Thread(target=self._run, name=f"xwheel-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._done_ms = self._clock.monotonic_ms()
        self._thread.start()

    def wake(self) -> None:
        """End the current wait."""
        self._wake.set()

    def stop(self, timeout_s: float | None = 10) -> bool:
        """Ask the thread to end and wait for it, with None not at all; return whether it has ended."""
        self._stopping = True
        self._wake.set()
        self._interrupt()
        if self._thread.ident is not None and timeout_s is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def age_ms(self) -> int:
        """Return milliseconds since a step last ended without an error."""
        return self._clock.monotonic_ms() - self._done_ms

    def step_ms(self) -> int:
        """Return for how long the present step has lasted, in milliseconds; 0 between steps."""
        began_ms = self._began_ms
        return 0 if began_ms is None else self._clock.monotonic_ms() - began_ms

    def is_healthy(self) -> bool:
        """Return whether the thread lives and its last good step is recent."""
        return self._thread.is_alive() and self.age_ms() <= self.stale_ms

    def _run(self) -> None:
        pause_ms = FIRST_PAUSE_MS
        while not self._stopping:
            # cleared before the step: a wake during the step must not be lost
            self._wake.clear()
            self._began_ms = self._clock.monotonic_ms()
            try:
                wait_ms = self._step(self._clock.now_ms())
            except BaseException as error:
                # without the thread, a node would renew leases and do no work for them
                self.failures += 1
                self.last_error = f"{type(error).__name__}: {error}"
                self._log.failed(error)
                self._on_failure()
                wait_ms, pause_ms = pause_ms, min(pause_ms * 2, LONGEST_PAUSE_MS)
            else:
                self._done_ms = self._clock.monotonic_ms()
                pause_ms = FIRST_PAUSE_MS
                self._log.worked()
            self._began_ms = None
            if not self._stopping and wait_ms > 0:
                self._clock.wait(self._wake, wait_ms)


class FailureLog:
    """Logs that a loop fails, and that it works again, in few lines.

    An outage of the database is one line without a traceback, whatever its steps raise meanwhile.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._kind = ""
        self._failures = 0
        self._since_ms = 0
        self._said_ms: int | None = None
        self._is_open = False
        self._is_over: Callable[[], bool] = lambda: True

    def failed(self, error: BaseException) -> None:
        """Note a failure; inside its ``except`` block."""
        now_ms = self._clock.monotonic_ms()
        is_outage = isinstance(error, OutageError)
        self._is_over = error.is_over if isinstance(error, OutageError) else lambda: True
        kind = OUTAGE if is_outage else f"{type(error).__name__}: {error}"
        if not self._failures:
            self._since_ms = now_ms
        self._failures += 1
        wait_ms = REMIND_MS if self._is_open else AGAIN_MS
        if kind == self._kind and self._said_ms is not None and now_ms - self._said_ms < wait_ms:
            return
        self._kind, self._said_ms, self._is_open = kind, now_ms, True
        text = "loop %s fails and is repeated until it works (%d failures by now): %s"
        if is_outage:
            logger.warning(text, self._name, self._failures, error)
        else:
            logger.exception(text, self._name, self._failures, error)

    def worked(self) -> None:
        """Note a step that ended well; during an outage, only one that used the database counts."""
        if self._failures and not self._is_over():
            return
        if self._failures and self._is_open:
            lasted_ms = self._clock.monotonic_ms() - self._since_ms
            logger.info("loop %s works again after %d failures in %d ms", self._name, self._failures, lasted_ms)
        self._failures, self._is_open = 0, False


class StallMonitor:
    """Logs which loops exceed their ``stale_ms`` in a step, as when a database hangs: they cannot do it themselves."""

    def __init__(self, services: Callable[[], Sequence[Service]], clock: Clock) -> None:
        self._services = services
        self._clock = clock
        self._noted: dict[str, int] = {}
        self._said: frozenset[str] = frozenset()

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Watch a piece of work outside of loops too."""
        self._noted[name] = self._clock.monotonic_ms()
        try:
            yield
        finally:
            del self._noted[name]

    def step(self, now_ms: int) -> int:
        """Log which loops began or ceased to stand still; return how long to wait in milliseconds."""
        now_ms = self._clock.monotonic_ms()
        stalled = {item.name: ms for item in self._services() if (ms := item.step_ms()) > item.stale_ms}
        for name, began_ms in list(self._noted.items()):
            if now_ms - began_ms > STALLED_MS:
                stalled[name] = now_ms - began_ms
        if stalled.keys() - self._said:
            logger.warning(
                "%s: no step forward for %d s; what they wait for answers nothing, such as a database that hangs, or "
                "waits for room on its disk",
                ", ".join(sorted(stalled)),
                max(stalled.values()) // 1000,
            )
        elif self._said and not stalled:
            logger.info("%s: in motion again", ", ".join(sorted(self._said)))
        self._said = self._said | stalled.keys() if stalled else frozenset()
        return WATCH_MS


@dataclass(slots=True, eq=False)
class Rest:
    """Lets a loop whose work is never urgent give way: it rests a multiple of the time that each piece of work took.

    The rest is at least ``factor`` times as long as the work; no wait is longer than ``nap_ms``, so that the loop stays
    healthy.
    """

    clock: Clock
    factor: int
    nap_ms: int = 5000
    _until_ms: int = field(default=0, init=False)

    def left_ms(self) -> int:
        """Return how long to wait now; 0 if it is time to work."""
        return min(self.nap_ms, max(0, self._until_ms - self.clock.monotonic_ms()))

    def after(self, work: Callable[[], object], least_ms: int) -> int:
        """Work, then begin to rest, even if the work failed; return how long to wait now.

        From its beginning to that of the next piece of work there are at least ``least_ms``.
        """
        began_ms = self.clock.monotonic_ms()
        try:
            work()
        finally:
            ended_ms = self.clock.monotonic_ms()
            self._until_ms = max(began_ms + least_ms, ended_ms + self.factor * (ended_ms - began_ms))
        return self.left_ms()
