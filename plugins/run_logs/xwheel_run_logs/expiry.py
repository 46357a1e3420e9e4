"""Deletes logs whose time is over from their stores, and those whose run is deleted."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from sqlalchemy import Connection
from xwheel.clock import Clock
from xwheel.errors import LogStoreError
from xwheel.model import FINAL_STATES
from xwheel.plugin import PluginDatabase, PluginPartitions
from xwheel.scheduler.upkeep.sweep import Sweeps

from xwheel_run_logs import storage
from xwheel_run_logs.contract import LogKey
from xwheel_run_logs.storage import OldLog, RunLogRow
from xwheel_run_logs.stores import CheckedStore, LogStores

logger = logging.getLogger(__name__)

BATCH: Final = 500
WALKED: Final = 2000
"""Rows of logs that are read at once to find those without a run."""

AGAIN_MS: Final = 600_000
"""A store that could not delete is asked again after this long."""


class LogExpiry:
    """Deletes old logs, one batch a step; the holder of partition 0 does it.

    A store deletes first, and the rows go then: what fails in between is done again.

    Args:
        db: The database.
        partitions: Those of this node.
        clock: Measures the work.
        stores: Where the logs are.
        interval_ms: From the end of one sweep to the next.
    """

    def __init__(
        self, db: PluginDatabase, partitions: PluginPartitions, clock: Clock, stores: LogStores, *, interval_ms: int
    ) -> None:
        self.deleted = 0
        self._db = db
        self._sweeps = Sweeps(lambda: 0 in partitions.held(), clock, self._sweep_all, interval_ms=interval_ms)
        self._stores = stores

    def step(self, now_ms: int) -> int:
        """Delete one batch if it is time; return how long to wait in milliseconds."""
        return self._sweeps.step(now_ms)

    def _sweep_all(self, now_ms: int) -> Iterator[None]:
        before = self.deleted
        yield from self._let_go()
        yield from self._shorten(now_ms)
        while True:
            with self._db.read() as conn:
                found = storage.list_old(conn, now_ms, BATCH)
            due = {item.row.id: self._due_ms(item, now_ms) for item in found}
            later = [(run_id, due_ms) for run_id, due_ms in due.items() if due_ms > now_ms]
            self._delete([item.row for item in found if due[item.row.id] <= now_ms], later, now_ms)
            yield
            if len(found) < BATCH:
                break
        if self.deleted != before:
            logger.info("deleted %d old logs", self.deleted - before)

    def _due_ms(self, item: OldLog, now_ms: int) -> int:
        """Return when a log may go by the present retention of its job; at once if its run is deleted.

        That of an open run stays: more would come of it.
        """
        if item.state is None:
            return 0
        due_ms = self._stores.delete_ms(item.row.created_ms, item.days)
        return due_ms if item.state in FINAL_STATES else max(due_ms, now_ms + AGAIN_MS)

    def _let_go(self) -> Iterator[None]:
        """Let logs go whose run is deleted; all of them are walked, by their keys."""
        after_id: int | None = 0
        while after_id is not None:
            with self._db.read() as conn:
                gone, after_id = storage.find_left(conn, after_id, WALKED)
            if gone:
                self._db.transaction(partial(storage.let_go, ids=gone))
            yield

    def _shorten(self, now_ms: int) -> Iterator[None]:
        """Let logs go that began when their job kept them for longer."""
        after_id = 0
        while True:
            with self._db.read() as conn:
                page = storage.list_retentions(conn, after_id, BATCH)
            for job_id, days in page:
                while days:
                    shorten = partial(storage.shorten, job_id=job_id, days=days, now_ms=now_ms, limit=BATCH)
                    gone = self._db.transaction(shorten)
                    if gone:
                        yield
                    if gone < BATCH:
                        break
            if len(page) < BATCH:
                return
            after_id = page[-1][0]
            yield

    def _delete(self, rows: Sequence[RunLogRow], later: list[tuple[int, int]], now_ms: int) -> None:
        """Delete logs, and put off what must stay for now: ``(id, delete_ms)``."""
        by_store: dict[str, list[RunLogRow]] = defaultdict(list)
        for row in rows:
            by_store[row.store].append(row)
        gone: list[int] = []
        for name, found in by_store.items():
            store = self._stores.find(name)
            if store is not None and _delete_in(store, found):
                gone += [row.id for row in found]
                continue
            later += [(row.id, now_ms + AGAIN_MS) for row in found]
            if store is None:
                logger.warning("%d old logs stay: their log store %r is not there any more", len(found), name)
        if not gone and not later:
            return

        def write(conn: Connection) -> None:
            storage.delete_logs(conn, gone)
            storage.postpone(conn, later)

        self._db.transaction(write)
        self.deleted += len(gone)


def _delete_in(store: CheckedStore, rows: Sequence[RunLogRow]) -> bool:
    """Delete logs in their store; return False if it failed, which it logged."""
    try:
        store.delete([LogKey(row.id, row.created_ms) for row in rows])
    except LogStoreError:
        return False
    return True
