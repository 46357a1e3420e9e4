"""Follow the database's clock, and say when it jumped."""

from __future__ import annotations

import logging
from collections.abc import Callable

from xwheel.clock import Clock, OffsetFilter
from xwheel.storage.dbtime import database_now_ms
from xwheel.storage.engine import Database

logger = logging.getLogger(__name__)

SAMPLES = 3
INTERVAL_MS = 5000


class Timekeeper:
    """Samples the database's time and moves the node's clock along.

    Args:
        db: The database.
        clock: For its monotonic time.
        offset: What to do with a sample.
        on_step: Told the size in milliseconds when the clock jumped: leases must be renewed under the new time.
    """

    def __init__(
        self, db: Database, clock: Clock, offset: OffsetFilter, on_step: Callable[[int], None]
    ) -> None:
        self.steps = 0
        self._db = db
        self._clock = clock
        self._offset = offset
        self._on_step = on_step

    def step(self, now_ms: int) -> int:
        """Take the sample with the least round trip; return how long to wait in milliseconds."""
        del now_ms
        best: tuple[int, int, int] | None = None
        with self._db.read() as conn:
            for _ in range(SAMPLES):
                sent_ms = self._clock.monotonic_ms()
                shared_ms = database_now_ms(conn)
                received_ms = self._clock.monotonic_ms()
                if best is None or received_ms - sent_ms < best[2] - best[1]:
                    best = (shared_ms, sent_ms, received_ms)
        jump_ms = self._offset.sample(*best) if best else None
        if jump_ms is not None:
            self.steps += 1
            logger.warning("the database's clock jumped by %d ms", jump_ms)
            self._on_step(jump_ms)
        return INTERVAL_MS
