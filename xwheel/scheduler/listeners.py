"""Give run listeners the changes of runs: a bounded queue and a thread for each, next to the pipeline.

What commits a change appends it and goes on; see :mod:`xwheel.storage.database.changes`. A listener that sleeps, hangs
or raises misses what its queue cannot hold, and delays nothing else.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import PluginError
from xwheel.plugin.contracts import RunChange, RunListener
from xwheel.plugin.validation import error_words
from xwheel.runtime.foreign import PluginThreads, PluginWorker
from xwheel.runtime.loops import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, FailureLog

logger = logging.getLogger(__name__)

BATCH: Final = 1000
REMIND_MS: Final = 60_000
DRAIN_MS: Final = 2000
PAUSE_MS: Final = 10
ERROR_LENGTH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerHealth:
    """How a listener fares."""

    name: str
    queued: int  # changes that wait for it
    delivered: int  # changes that it took since the start
    dropped: int  # changes that its queue could not hold since the start
    failures: int  # calls that raised since the start
    last_error: str  # what the last of them raised, or empty
    busy_ms: int  # how long it has been at its present call; 0 if it is at none


class RunFeed:
    """Hands changes to all listeners; beyond the limit of changes that wait for one, the oldest are dropped."""

    def __init__(self, listeners: Mapping[str, RunListener], clock: Clock, *, limit: int) -> None:
        self._clock = clock
        self._queues = [ListenerQueue(name, item, clock, limit) for name, item in sorted(listeners.items())]

    def put(self, changes: Sequence[RunChange]) -> None:
        """Take committed changes; from any thread, and at once."""
        for queue in self._queues:
            queue.put(changes)

    def stop(self) -> None:
        """Give the listeners two seconds, in all, for what still waits; one that hangs is left behind."""
        end_ms = self._clock.monotonic_ms() + DRAIN_MS
        pause = threading.Event()
        while any(queue.is_busy() for queue in self._queues) and self._clock.monotonic_ms() < end_ms:
            self._clock.wait(pause, PAUSE_MS)
        for queue in self._queues:
            queue.close()
            if queue.is_busy():
                text = "run listener %s did not finish in %d ms: %d changes are not delivered"
                logger.warning(text, queue.name, DRAIN_MS, queue.health().queued)

    def health(self) -> list[ListenerHealth]:
        """Return how each listener fares."""
        return [queue.health() for queue in self._queues]


@dataclass(eq=False, repr=False)
class ListenerQueue:
    """What waits for one listener, and how it fares."""

    name: str
    listener: RunListener
    clock: Clock
    limit: int  # changes that may wait

    def __post_init__(self) -> None:
        self._log = FailureLog(f"listen-{self.name}", self.clock)
        self._lock = threading.Lock()
        self._delivered = self._dropped = self._failures = 0
        self._last_error = ""
        self._pause_ms = FIRST_PAUSE_MS
        self._warned_ms: int | None = None
        self._warned_dropped = 0
        self._worker = PluginWorker(
            f"run listener {self.name}",
            f"xwheel-listen-{self.name}",
            self._call,
            self._ended,
            PluginThreads(math.inf),
            self.clock,
            limit=self.limit,
            batch=BATCH,
            drops_oldest=True,
        )

    def put(self, changes: Sequence[RunChange]) -> None:
        """Append changes, in place of the oldest ones if there are too many."""
        lost = self._worker.put(changes)
        if lost and not self._worker.is_closed:
            self._warn(len(lost), lost[-1])

    def is_busy(self) -> bool:
        """Return whether something waits or is being handed over."""
        return self._worker.queued() > 0 or self._worker.busy_ms() is not None

    def close(self) -> None:
        """Begin no further call."""
        self._worker.close()

    def health(self) -> ListenerHealth:
        """Return how the listener fares."""
        return ListenerHealth(
            name=self.name,
            queued=self._worker.queued(),
            delivered=self._delivered,
            dropped=self._dropped,
            failures=self._failures,
            last_error=self._last_error,
            busy_ms=self._worker.busy_ms() or 0,
        )

    def _call(self, changes: Sequence[RunChange]) -> bool:
        try:
            self.listener.on_change(changes)
        except BaseException as error:  # whatever a plugin raises, its thread must go on
            self._last_error = error_words(error)[:ERROR_LENGTH]
            self._log.failed(PluginError(f"run listener {self.name} raised {self._last_error}"))
            return False
        return True

    def _ended(self, changes: Sequence[RunChange], ok: bool) -> None:
        if ok:
            self._delivered += len(changes)
            self._pause_ms = FIRST_PAUSE_MS
            self._log.worked()
        else:
            self._failures += 1
            self._worker.rest(self._pause_ms / 1000)
            self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)

    def _warn(self, count: int, last: RunChange) -> None:
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            self._dropped += count
            if self._warned_ms is not None and now_ms - self._warned_ms < REMIND_MS:
                return
            count = self._dropped - self._warned_dropped
            self._warned_ms, self._warned_dropped = now_ms, self._dropped
        text = "run listener %s is too slow: %d changes were dropped, the last one of run %d of job %d (%s)"
        logger.warning(text, self.name, count, last.run_id, last.job_id, last.state)
