"""Run ids: blocks of 10,000 from the database, handed out from memory."""

from __future__ import annotations

import threading
from collections import deque

from sqlalchemy import Connection, select, update

from xwheel.errors import StorageError
from xwheel.model import MAX_ID
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import run_id_block

BLOCK = 10_000
SPARE = 2_000


class IdsShortError(StorageError):
    """Fewer ids were ensured than are needed.

    Attributes:
        count: How many are needed.
    """

    def __init__(self, count: int, found: int) -> None:
        super().__init__(f"{count} run ids were asked for, {found} were ensured")
        self.count = count


class RunIds:
    """Unused run ids; a crash loses at most the blocks in memory, never repeats one.

    :meth:`ensure` opens a transaction of its own and so must be called outside of any; :meth:`take` never does.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._ranges: deque[range] = deque()

    def ensure(self, count: int) -> None:
        """Make sure that ``count`` ids can be taken without asking the database, and some for others meanwhile."""
        with self._lock:
            missing = count + SPARE - sum(map(len, self._ranges))
        if missing > 0:
            blocks = -(-missing // BLOCK)
            fresh = self._db.transaction(lambda conn: claim_ids(conn, blocks * BLOCK))
            with self._lock:
                self._ranges.append(fresh)

    def reserve(self, count: int) -> list[int]:
        """Return ``count`` ids, asking the database if need be; outside of any transaction only."""
        while True:
            self.ensure(count)
            try:
                return self.take(count)
            except IdsShortError:
                continue  # another thread was faster between the two

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


def claim_ids(conn: Connection, count: int) -> range:
    """Take a range of ids out of the block row."""
    query = select(run_id_block.c.next_id).where(run_id_block.c.name == "run").with_for_update()
    first = conn.execute(query).scalar_one_or_none()
    if first is None:
        raise StorageError("run_id_block has no row 'run': the schema is damaged")
    if first + count > MAX_ID:
        raise StorageError("run ids are exhausted")
    conn.execute(update(run_id_block).where(run_id_block.c.name == "run").values(next_id=first + count))
    return range(first, first + count)
