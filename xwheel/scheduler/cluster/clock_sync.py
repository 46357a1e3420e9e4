"""Follow the database's clock, and say when it jumped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from xwheel.clock import Clock, OffsetFilter
from xwheel.storage.database.engine import Database
from xwheel.storage.database.rows import database_now_ms

logger = logging.getLogger(__name__)

SAMPLES = 5  # at most, until one was quick
QUICK_MS = 5  # no other would move the clock by more than this
INTERVAL_MS = 5000
CONFIRM_MS = 200  # how soon a sample that speaks of a step is followed by the next
NOTABLE_MS = 1000


@dataclass(eq=False, repr=False)
class ClockSync:
    """Samples the database's time and moves the node's clock along."""

    db: Database
    clock: Clock
    offset: OffsetFilter
    # called with the size in milliseconds when the clock jumped: nothing may be claimed or sent before leases are
    # renewed under the new time
    on_step: Callable[[int], None]

    def __post_init__(self) -> None:
        self.steps = 0  # how often the clock jumped

    def begin(self) -> None:
        """Take the database's time as it is, before anything is planned: this machine's may be hours off."""
        change_ms = self.offset.begin(*self._sample())
        if abs(change_ms) > NOTABLE_MS:
            logger.warning("this machine's clock is %d ms behind the database's, which counts", change_ms)

    def step(self, now_ms: int) -> int:
        """Follow the sample with the least round trip; return how long to wait in milliseconds."""
        del now_ms
        jump_ms = self.offset.sample(*self._sample())
        if jump_ms is not None:
            self.steps += 1
            logger.warning("the database's clock jumped by %d ms: leases are renewed first", jump_ms)
            self.on_step(jump_ms)
        return CONFIRM_MS if self.offset.is_suspicious else INTERVAL_MS

    def _sample(self) -> tuple[int, int, int]:
        """Return the shared time, and our monotonic times before the question and after the answer."""
        samples: list[tuple[int, int, int]] = []
        with self.db.read() as conn:
            for _ in range(SAMPLES):
                sent_ms = self.clock.monotonic_ms()
                shared_ms = database_now_ms(conn)
                samples.append((shared_ms, sent_ms, self.clock.monotonic_ms()))
                if samples[-1][2] - sent_ms <= QUICK_MS:
                    break
        return min(samples, key=lambda sample: sample[2] - sample[1])
