"""Delete what is over: sessions, wrong passwords of yesterday, links; one short transaction at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from xwheel.clock import Clock, has_come
from xwheel.plugin import PluginPartitions
from xwheel.runtime.loops import Rest
from xwheel.storage.database.engine import LONG_MS, Connection, Database
from xwheel.storage.reports import DAY_MS

from xwheel_accounts.storage import links, sessions

logger = logging.getLogger(__name__)

REST: Final = 4
"""Deleting takes at most a fifth of the time: others write, too."""

PAUSE_MS: Final = 50
LONGEST_NAP_MS: Final = 5000
_KINDS: Final[tuple[tuple[Callable[[Connection, int, int], int], int], ...]] = (
    (sessions.delete_ended, 0),
    (sessions.delete_old_failures, DAY_MS),
    (links.delete_old_links, 0),
)
"""What deletes rows of before a time, and how long before now that is."""


class Sweep:
    """Deletes a batch of each kind a step; the holder of partition 0 does it, and nothing needs that to be safe.

    Args:
        db: The database.
        partitions: Those that this process holds.
        clock: Measures the work.
        interval_ms: From the end of one sweep to the next.
        batch: Rows in one transaction.
    """

    def __init__(
        self,
        db: Database,
        partitions: PluginPartitions,
        clock: Clock,
        *,
        interval_ms: int,
        batch: int,
    ) -> None:
        self._rest = Rest(clock, REST)
        self.deleted = 0
        self._db = db
        self._partitions = partitions
        self._interval_ms = interval_ms
        self._batch = batch
        self._due_ms = 0

    def step(self, now_ms: int) -> int:
        """Delete if it is time; return how long to wait in milliseconds."""
        if 0 not in self._partitions.held():
            return LONGEST_NAP_MS
        left_ms = self._rest.left_ms()
        if not has_come(self._due_ms, now_ms, self._interval_ms):
            left_ms = max(left_ms, min(LONGEST_NAP_MS, self._due_ms - now_ms))
        if left_ms > 0:
            return left_ms
        with self._db.limited(statement_ms=LONG_MS):
            return self._rest.after(lambda: self._delete_batches(now_ms), PAUSE_MS)

    def _delete_batches(self, now_ms: int) -> None:
        counts = [self._delete(delete, now_ms - before_ms) for delete, before_ms in _KINDS]
        self.deleted += sum(counts)
        if max(counts) < self._batch:
            self._due_ms = now_ms + self._interval_ms

    def _delete(self, delete: Callable[[Connection, int, int], int], before_ms: int) -> int:
        return self._db.transaction(lambda conn: delete(conn, before_ms, self._batch))
