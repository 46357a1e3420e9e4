"""Hold the partitions of this node, and know for how long it may act on them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xwheel.errors import LockError
from xwheel.model import PARTITIONS
from xwheel.runtime.file_lock import FileLock
from xwheel.scheduler.cluster.contract import Lease
from xwheel.storage import leases
from xwheel.storage.database.engine import Connection

logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class SqliteLease(Lease):
    """All partitions of a SQLite file: the operating system's lock says who the one scheduler is."""

    def __post_init__(self) -> None:
        self._file = FileLock(Path(f"{self.db.path}.lock"), "one scheduler per SQLite file")

    def acquire(self) -> None:
        """Take all partitions at once; raises LockError if another scheduler has the file."""
        self._file.acquire()
        sent_ms = self.clock.monotonic_ms()
        until_ms = self.clock.now_ms() + self.lease_ms
        self._epochs = self.db.transaction(lambda conn: self._take(conn, until_ms))
        self._valid_until_ms = sent_ms + self.lease_ms

    def step(self, now_ms: int) -> int:
        """Renew, counting from the moment the renewal was sent; return how long to wait in milliseconds."""
        halts = self._halts
        sent_ms = self.clock.monotonic_ms()
        until_ms = now_ms + self.lease_ms
        held = self.db.transaction(lambda conn: self._renew(conn, now_ms, until_ms))
        if held != self._epochs:
            self._valid_until_ms = 0
            raise LockError(f"node {self.owner} lost {len(self._epochs) - len(held)} of its leases")
        self._valid_until_ms = sent_ms + self.lease_ms
        self._halts_renewed = halts
        return self.renew_ms

    def lock(self, conn: Connection) -> Mapping[int, int]:
        """Lock our lease rows; return partition to epoch as the database has them."""
        return leases.lock_leases(conn, self.owner, range(PARTITIONS))

    def release(self) -> None:
        """Give all partitions and the file back."""
        self._valid_until_ms = 0
        try:
            self.db.transaction(self._leave)
        finally:
            self._file.release()

    def disown(self) -> None:
        """Let go in a forked child, and act no more there; the parent keeps the file and the leases."""
        self._valid_until_ms = 0
        self._file.release()

    def _take(self, conn: Connection, until_ms: int) -> dict[int, int]:
        leases.renew_node(conn, self.owner, until_ms - self.lease_ms, until_ms)
        return leases.take_all_leases(conn, self.owner)

    def _renew(self, conn: Connection, now_ms: int, until_ms: int) -> dict[int, int]:
        leases.renew_node(conn, self.owner, now_ms, until_ms)
        return leases.lock_leases(conn, self.owner, range(PARTITIONS))
