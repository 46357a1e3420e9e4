"""Delete old alarms, and rules of jobs that are gone: by the holder of partition 0, a batch a step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from xwheel.clock import Clock
from xwheel.config.sections import UpkeepSection
from xwheel.plugin import PluginPartitions
from xwheel.scheduler.upkeep.sweep import Sweeps
from xwheel.storage.database.engine import LONG_MS, Connection, Database
from xwheel.storage.retention import DAY_MS

from xwheel_alarms.storage import attempts, rules

logger = logging.getLogger(__name__)

LEAST_DAYS: Final = 3
"""No alarm is deleted younger than this: its notice may still be under way."""


class AlarmSweep:
    """Deletes what is old.

    Args:
        db: The database.
        partitions: Those that this process holds.
        clock: Measures the work.
        settings: How long alarms are kept, and how much is deleted at once.
    """

    def __init__(self, db: Database, partitions: PluginPartitions, clock: Clock, settings: UpkeepSection) -> None:
        self._db = db
        self._days = settings.run_retention_days
        self._batch = settings.sweep_batch
        self._sweeps = Sweeps(
            lambda: 0 in partitions.held(), clock, self._sweep_all, interval_ms=settings.sweep_interval_s * 1000
        )

    def step(self, now_ms: int) -> int:
        """Do one piece of work if it is time; return how long to wait in milliseconds."""
        with self._db.limited(statement_ms=LONG_MS):
            return self._sweeps.step(now_ms)

    def _sweep_all(self, now_ms: int) -> Iterator[None]:
        if self._days:
            before_ms = now_ms - max(LEAST_DAYS, self._days) * DAY_MS
            for delete in (attempts.delete_alarms, attempts.delete_episodes):
                yield from self._delete(delete, before_ms)
        self._db.transaction(rules.delete_orphans)

    def _delete(self, delete: Callable[[Connection, int, int], int], before_ms: int) -> Iterator[None]:
        """Delete until fewer than a batch were there."""
        while (count := self._db.transaction(lambda conn: delete(conn, before_ms, self._batch))) > 0:
            logger.info("deleted %d old rows of alarms", count)
            if count < self._batch:
                return
            yield
