"""Delete what the report says of hours long ago: by the holder of partition 0, a batch a step."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

from xwheel.clock import Clock
from xwheel.config.sections import UpkeepSection
from xwheel.plugin import PluginPartitions
from xwheel.scheduler.upkeep.sweep import Sweeps
from xwheel.storage.database.engine import LONG_MS, Database
from xwheel.storage.retention import DAY_MS, LEAST_DAYS

from xwheel_reports import storage

logger = logging.getLogger(__name__)

LEAST_REPORT_DAYS: Final = LEAST_DAYS + 1
"""No hour is deleted that is still counted again."""


class ReportSweep:
    """Deletes what is old.

    Attributes:
        deleted: How many rows it deleted.

    Args:
        db: The database.
        partitions: Those that this process holds.
        clock: Measures the work.
        settings: How long the report is kept, and how much is deleted at once.
    """

    def __init__(self, db: Database, partitions: PluginPartitions, clock: Clock, settings: UpkeepSection) -> None:
        self.deleted = 0
        self._db = db
        self._days = settings.report_retention_days
        self._batch = settings.sweep_batch
        self._sweeps = Sweeps(
            lambda: 0 in partitions.held(), clock, self._sweep_all, interval_ms=settings.sweep_interval_s * 1000
        )

    def step(self, now_ms: int) -> int:
        """Delete a batch if it is time; return how long to wait in milliseconds."""
        with self._db.limited(statement_ms=LONG_MS):
            return self._sweeps.step(now_ms)

    def _sweep_all(self, now_ms: int) -> Iterator[None]:
        before = self.deleted
        before_ms = now_ms - max(LEAST_REPORT_DAYS, self._days) * DAY_MS
        gone = self._batch if self._days else 0
        while gone == self._batch:
            delete = partial(storage.delete_reports, before_ms=before_ms, limit=self._batch)
            gone = self._db.transaction(delete)
            self.deleted += gone
            yield
        if self.deleted != before:
            logger.info("deleted %d rows of the report", self.deleted - before)
