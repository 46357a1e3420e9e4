"""Hold the partitions of this node, and know for how long it may act on them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from xwheel.clock import Clock
from xwheel.errors import LockError
from xwheel.model import PARTITIONS
from xwheel.runtime.file_lock import FileLock
from xwheel.storage import leases
from xwheel.storage.database.engine import Connection, Database

logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class SqliteLease:
    """All partitions of a SQLite file: the operating system's lock says who the one scheduler is."""

    db: Database
    owner: str  # id of this node
    clock: Clock
    _: KW_ONLY
    lease_ms: int  # how long a lease lasts
    renew_ms: int  # how often it is renewed

    def __post_init__(self) -> None:
        self._epochs: dict[int, int] = {}
        self._valid_until_ms = 0
        self._halts = 0
        self._halts_renewed = 0
        self._file = FileLock(Path(f"{self.db.path}.lock"), "one scheduler per SQLite file")

    @property
    def epochs(self) -> Mapping[int, int]:
        """Partition to epoch."""
        return self._epochs

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

    def may_act(self, margin_ms: int = 0) -> bool:
        """Return whether the lease outlasts ``margin_ms`` from now."""
        is_valid = self.clock.monotonic_ms() + margin_ms < self._valid_until_ms
        return is_valid and self._halts == self._halts_renewed

    def may_send(self, fenced_ms: int, margin_ms: int) -> bool:
        """Return whether what was fenced at this time may be sent still: no other node can have taken it."""
        del fenced_ms
        return self.may_act(margin_ms)

    def halt(self) -> None:
        """Act no more until the lease is renewed; from any thread, but one at a time."""
        self._halts += 1

    def drain(self) -> None:
        """Do nothing: there is no other scheduler that could take over."""

    def is_drained(self) -> bool:
        """Return True: there is no node to hand partitions to."""
        return True

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

    def _leave(self, conn: Connection) -> None:
        leases.release_leases(conn, self.owner)
        leases.delete_node(conn, self.owner)
