"""Delete what is over: sessions, wrong passwords of yesterday, links; one short transaction at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from xwheel.clock import Clock
from xwheel.plugin import PluginPartitions
from xwheel.scheduler.upkeep.sweep import Sweeps
from xwheel.storage.database.engine import LONG_MS, Connection, Database
from xwheel.storage.retention import DAY_MS

from xwheel_accounts.storage import links, sessions

_KINDS: Final[tuple[tuple[Callable[[Connection, int, int], int], int], ...]] = (
    (sessions.delete_ended, 0),
    (sessions.delete_old_failures, DAY_MS),
    (links.delete_old_links, 0),
)
"""What deletes rows of before a time, and how long before now that is."""


class Sweep:
    """Deletes a batch a step; the holder of partition 0 does it.

    Args:
        db: The database.
        partitions: Those that this process holds.
        clock: Measures the work.
        interval_ms: From the end of one sweep to the next.
        batch: Rows in one transaction.
    """

    def __init__(
        self, db: Database, partitions: PluginPartitions, clock: Clock, *, interval_ms: int, batch: int
    ) -> None:
        self.deleted = 0
        self._db = db
        self._batch = batch
        self._sweeps = Sweeps(lambda: 0 in partitions.held(), clock, self._sweep_all, interval_ms=interval_ms)

    def step(self, now_ms: int) -> int:
        """Delete if it is time; return how long to wait in milliseconds."""
        with self._db.limited(statement_ms=LONG_MS):
            return self._sweeps.step(now_ms)

    def _sweep_all(self, now_ms: int) -> Iterator[None]:
        for delete, before_ms in _KINDS:
            while self._delete(delete, now_ms - before_ms) >= self._batch:
                yield

    def _delete(self, delete: Callable[[Connection, int, int], int], before_ms: int) -> int:
        count = self._db.transaction(lambda conn: delete(conn, before_ms, self._batch))
        self.deleted += count
        return count
