"""Run ids: blocks of 10,000 from the database, handed out from memory.

On a server ids carry the day of their making, so that the runs of a day are a range of ids; see ``history_days``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from sqlalchemy import Connection, select, update

from xwheel.errors import StorageError
from xwheel.model import MAX_ID
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import run_id_block

BLOCK = 10_000
SPARE = 2_000
DAY_BITS = 32
DAY_MS = 86_400_000
LOST = 10_000_000
"""More ids than all nodes may have taken that the database does not know of: a day has 400 times as many."""


def first_id(day: int) -> int:
    """Return the first run id of a day, counted from 1970 in UTC: 53 bits last for 5000 years."""
    return day << DAY_BITS


def day_of(run_id: int) -> int:
    """Return the day on which an id was made, or the one before; ids of SQLite and of older versions say 0."""
    return run_id >> DAY_BITS


class IdsShortError(StorageError):
    """Fewer ids were ensured than ``count``, which are needed."""

    def __init__(self, count: int, found: int) -> None:
        super().__init__(f"{count} run ids were asked for, {found} were ensured")
        self.count = count


class RunIds:
    """Unused run ids; a crash loses at most the blocks in memory, never repeats one.

    :meth:`ensure` opens a transaction of its own and so must be called outside of any; :meth:`take` never does.
    ``now_ms`` gives the present time; without it, and on SQLite, ids carry no day.
    """

    def __init__(self, db: Database, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._db = db
        self._now_ms = now_ms if db.backend != "sqlite" else lambda: 0
        self._lock = threading.Lock()
        self._ranges: deque[range] = deque()
        self._restarts = 0

    def ensure(self, count: int) -> None:
        """Make sure that ``count`` ids can be taken without asking the database, and some for others meanwhile."""
        least = first_id(self._now_ms() // DAY_MS)
        with self._lock:
            missing = count + SPARE - sum(len(ids) for ids in self._ranges if ids.start >= least)
            restarts = self._restarts
        if missing > 0:
            blocks = -(-missing // BLOCK)
            fresh = self._db.transaction(lambda conn: claim_ids(conn, blocks * BLOCK, least))
            with self._lock:
                if restarts != self._restarts:
                    return  # it may be another node's, too
                # what is left of yesterday's stays until there are others: another thread may be about to take it
                self._ranges = deque([*(ids for ids in self._ranges if ids.start >= least), fresh])

    def reserve(self, count: int) -> list[int]:
        """Return ``count`` ids, asking the database if need be; outside of any transaction only."""
        while True:
            self.ensure(count)
            try:
                return self.take(count)
            except IdsShortError:
                continue  # another thread was faster between the two

    def restart(self) -> None:
        """Forget all ids, and leave those out that others may have, as the database may have lost who took which."""
        self._db.transaction(lambda conn: claim_ids(conn, LOST, first_id(self._now_ms() // DAY_MS)))
        with self._lock:
            self._ranges.clear()
            self._restarts += 1

    def take(self, count: int) -> list[int]:
        """Return ``count`` ids. Raises IdsShortError: fewer were ensured."""
        taken: list[int] = []
        with self._lock:
            found = sum(map(len, self._ranges))
            if found < count:
                raise IdsShortError(count, found)
            while len(taken) < count and self._ranges:
                first = self._ranges.popleft()
                missing = count - len(taken)
                taken.extend(first[:missing])
                if len(first) > missing:
                    self._ranges.appendleft(first[missing:])
        return taken


def claim_ids(conn: Connection, count: int, least: int = 1) -> range:
    """Take a range of ids, not below ``least``, out of the block row."""
    query = select(run_id_block.c.next_id).where(run_id_block.c.name == "run").with_for_update()
    first = conn.execute(query).scalar_one_or_none()
    if first is None:
        raise StorageError("run_id_block has no row 'run': the schema is damaged")
    first = max(first, least)
    if first + count > MAX_ID:
        raise StorageError("run ids are exhausted")
    conn.execute(update(run_id_block).where(run_id_block.c.name == "run").values(next_id=first + count))
    return range(first, first + count)
