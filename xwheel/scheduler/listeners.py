"""Tell run listeners how runs fare: a bounded queue and a thread for each, beside the pipeline.

Whoever commits a change appends it and goes on; see :mod:`xwheel.storage.database.changes`. A listener that
sleeps, hangs or raises costs itself what its queue cannot hold, and nobody else anything.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import PluginError
from xwheel.plugin.contracts import RunChange, RunListener
from xwheel.plugin.validation import error_words
from xwheel.runtime.loops import Service

logger = logging.getLogger(__name__)

BATCH: Final = 1000
IDLE_MS: Final = 1000
REMIND_MS: Final = 60_000
DRAIN_MS: Final = 2000
PAUSE_MS: Final = 10
ERROR_LENGTH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerHealth:
    """How a listener fares.

    Attributes:
        queued: Changes that wait for it.
        told: Changes it was told since the start.
        dropped: Changes that its queue could not hold since the start.
        failures: Calls that raised since the start.
        last_error: What the last of them raised, or empty.
        busy_ms: How long it has been at its present call; 0 if it is at none.
    """

    name: str
    queued: int
    told: int
    dropped: int
    failures: int
    last_error: str
    busy_ms: int


class RunFeed:
    """Hands changes to all listeners.

    Args:
        listeners: By name.
        clock: Where time comes from.
        limit: Changes that may wait for one listener; beyond that the oldest are dropped.
    """

    def __init__(self, listeners: Mapping[str, RunListener], clock: Clock, *, limit: int) -> None:
        self._clock = clock
        self._queues = [ListenerQueue(name, item, clock, limit) for name, item in sorted(listeners.items())]
        self._services = [Service(f"listen-{q.name}", q.step, clock, bell=q.bell) for q in self._queues]

    def put(self, changes: Sequence[RunChange]) -> None:
        """Take committed changes; from any thread, and at once."""
        for queue in self._queues:
            queue.put(changes)

    def start(self) -> None:
        """Start the threads."""
        for service in self._services:
            service.start()

    def stop(self) -> None:
        """Give the listeners two seconds, in all, for what still waits; one that hangs is left behind."""
        end_ms = self._clock.monotonic_ms() + DRAIN_MS
        pause = threading.Event()
        while any(queue.is_busy() for queue in self._queues) and self._clock.monotonic_ms() < end_ms:
            self._clock.wait(pause, PAUSE_MS)
        for queue, service in zip(self._queues, self._services, strict=True):
            ended = service.stop(0.1)
            if queue.is_busy() or not ended:
                logger.warning(
                    "run listener %s did not finish in %d ms: %d changes are not told",
                    queue.name,
                    DRAIN_MS,
                    queue.health().queued,
                )

    def health(self) -> list[ListenerHealth]:
        """Return how each listener fares."""
        return [queue.health() for queue in self._queues]


class ListenerQueue:
    """What waits for one listener.

    Args:
        name: Its name.
        listener: The plugin's object.
        clock: Where time comes from.
        limit: Changes that may wait.
    """

    def __init__(self, name: str, listener: RunListener, clock: Clock, limit: int) -> None:
        self.name = name
        self.bell = threading.Event()
        self._listener = listener
        self._clock = clock
        self._limit = limit
        self._waiting: deque[RunChange] = deque()
        self._lock = threading.Lock()
        self._told = 0
        self._dropped = 0
        self._failures = 0
        self._last_error = ""
        self._began_ms: int | None = None
        self._said_ms: int | None = None
        self._said_dropped = 0

    def put(self, changes: Sequence[RunChange]) -> None:
        """Append changes, in place of the oldest ones if there are too many."""
        with self._lock:
            self._waiting.extend(changes)
            lost = [self._waiting.popleft() for _ in range(len(self._waiting) - self._limit)]
            self._dropped += len(lost)
        if lost:
            self._tell_of(lost[-1])
        if not self.bell.is_set():
            self.bell.set()

    def step(self, now_ms: int) -> int:
        """Hand over one batch; return how long to wait in milliseconds.

        Raises:
            PluginError: The listener raised something; its thread logs it, rests and goes on with the next batch.
        """
        del now_ms
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            self._began_ms = self._clock.monotonic_ms() if batch else None
        if not batch:
            return IDLE_MS
        try:
            self._listener.on_change(batch)
        except BaseException as error:  # whatever a plugin raises, its thread must go on
            self._failures += 1
            self._last_error = error_words(error)[:ERROR_LENGTH]
            raise PluginError(f"run listener {self.name} raised {self._last_error}") from error
        else:
            self._told += len(batch)
        finally:
            self._began_ms = None
        return 0

    def is_busy(self) -> bool:
        """Tell whether something waits or is being told."""
        with self._lock:
            return bool(self._waiting) or self._began_ms is not None

    def health(self) -> ListenerHealth:
        """Return how the listener fares."""
        began_ms = self._began_ms
        return ListenerHealth(
            name=self.name,
            queued=len(self._waiting),
            told=self._told,
            dropped=self._dropped,
            failures=self._failures,
            last_error=self._last_error,
            busy_ms=0 if began_ms is None else self._clock.monotonic_ms() - began_ms,
        )

    def _tell_of(self, last: RunChange) -> None:
        """Say that changes are dropped, at most once a minute."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if self._said_ms is not None and now_ms - self._said_ms < REMIND_MS:
                return
            count = self._dropped - self._said_dropped
            self._said_ms, self._said_dropped = now_ms, self._dropped
        logger.warning(
            "run listener %s is too slow: %d changes were dropped, the last one of run %d of job %d (%s)",
            self.name,
            count,
            last.run_id,
            last.job_id,
            last.state,
        )
