"""Delete old alarms, and rules of jobs that are gone: by the holder of partition 0, a batch a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from xwheel.config.sections import UpkeepSection
from xwheel.plugin import PluginDatabase, PluginPartitions

from xwheel_alarms.storage import attempts, rules

DAY_MS: Final = 86_400_000
LEAST_DAYS: Final = 3
"""No alarm is deleted younger than this: its notice may still be under way."""

NAP_MS: Final = 5000
"""How often it is asked whether it is time."""

PAUSE_MS: Final = 200
"""Between two batches, so that others can write."""


class AlarmSweep:
    """Deletes what is old.

    Args:
        db: The database.
        partitions: Those that this process holds.
        settings: How long alarms are kept, and how much is deleted at once.
    """

    def __init__(self, db: PluginDatabase, partitions: PluginPartitions, settings: UpkeepSection) -> None:
        self._db = db
        self._partitions = partitions
        self._days = settings.run_retention_days
        self._batch = settings.sweep_batch
        self._interval_ms = settings.sweep_interval_s * 1000
        self._sweep: Iterator[None] | None = None
        self._sweep_at_ms = 0

    def step(self, now_ms: int) -> int:
        """Do one piece of work if it is time; return how long to wait in milliseconds."""
        if 0 not in self._partitions.held():
            self._sweep = None
            return NAP_MS
        if self._sweep is None and now_ms >= self._sweep_at_ms:
            self._sweep = self._sweep_all(now_ms)
        if self._sweep is None:
            return NAP_MS
        # one that fails is over; the next one begins where it is found to be needed
        sweep, self._sweep = self._sweep, None
        self._sweep_at_ms = now_ms + self._interval_ms
        for _ in sweep:
            self._sweep = sweep
            return PAUSE_MS
        return NAP_MS

    def _sweep_all(self, now_ms: int) -> Iterator[None]:
        if self._days:
            before_ms = now_ms - max(LEAST_DAYS, self._days) * DAY_MS
            for delete in (attempts.delete_alarms, attempts.delete_episodes):
                yield from self._delete(delete, before_ms)
        self._db.transaction(rules.delete_orphans)
        yield

    def _delete(self, delete: Callable[[Any, int, int], int], before_ms: int) -> Iterator[None]:
        """Delete until fewer than a batch were there."""
        while self._db.transaction(lambda conn: delete(conn, before_ms, self._batch)) >= self._batch:
            yield
