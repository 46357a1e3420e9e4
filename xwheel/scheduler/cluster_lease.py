"""Share the partitions with other nodes: renew, take what is free, give what is too much."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from xwheel.clock import Clock
from xwheel.model import PARTITIONS
from xwheel.scheduler.handover import Moves
from xwheel.storage import partitions
from xwheel.storage.dbtime import database_now_ms
from xwheel.storage.engine import Connection, Database
from xwheel.storage.partitions import LeaseRow, NodeRow

logger = logging.getLogger(__name__)

FORGET_TERMS = 60

Decide = Callable[[Mapping[int, "str | None"], Collection[str], str], Moves]
"""``decide(owners, live nodes, this node)``."""


class _Seen(NamedTuple):
    """Since when, on our monotonic clock, another node's renewal counter shows this number."""

    renewal: int
    since_ms: int


class ClusterLease:
    """The partitions of one node among several, on database time.

    A node acts only while its lease outlasts the work, counted on its monotonic clock from when the renewal was sent.
    A partition to be given away is fenced no more at once, and released when sends under it must have ended. A lease
    that ran out before it was renewed is lost, even if nobody took it: its partitions get new epochs, and what memory
    held is adopted anew and passes the misfire rule again.

    Thread-safety: :attr:`epochs` is replaced, never changed; :meth:`step` belongs to one thread.

    Args:
        db: The database.
        owner: Id of this node.
        clock: Where time comes from.
        decide: The pure decision about what to take and give.
        lease_ms: How long a lease lasts.
        renew_ms: How often it is renewed.
        settle_ms: How long after the last fence every send has ended.
        shared_now: The database's time.
    """

    def __init__(
        self,
        db: Database,
        owner: str,
        clock: Clock,
        decide: Decide,
        *,
        lease_ms: int,
        renew_ms: int,
        settle_ms: int,
        shared_now: Callable[[Connection], int] = database_now_ms,
    ) -> None:
        self.owner = owner
        self._db = db
        self._clock = clock
        self._decide = decide
        self._lease_ms = lease_ms
        self._renew_ms = renew_ms
        self._settle_ms = settle_ms
        self._shared_now = shared_now
        self._epochs: Mapping[int, int] = {}
        self._leaving: dict[int, int] = {}
        self._seen: dict[str, _Seen] = {}
        self._valid_until_ms = 0
        self._halts = 0
        self._halts_renewed = 0

    @property
    def epochs(self) -> Mapping[int, int]:
        """Partition to epoch, without those that are being given away."""
        return self._epochs

    def acquire(self) -> None:
        """Join: make this node known and take what is free.

        Raises:
            LockError: The lease table is damaged.
        """
        self.step(self._clock.now_ms())

    def step(self, now_ms: int) -> int:
        """Renew, take and give; return how long to wait in milliseconds."""
        del now_ms  # the database's time counts here
        halts = self._halts
        sent_ms = self._clock.monotonic_ms()
        leases, live = self._db.transaction(lambda conn: self._renew(conn, sent_ms))
        mine = {row.partition: row.epoch for row in leases if row.owner == self.owner}
        self._leaving = {part: since_ms for part, since_ms in self._leaving.items() if part in mine}
        owners = {row.partition: row.owner if row.owner in live else None for row in leases}
        for part in self._decide(owners, live, self.owner).give:
            self._leaving.setdefault(part, self._clock.monotonic_ms())
        self._note(mine)
        self._epochs = {part: epoch for part, epoch in mine.items() if part not in self._leaving}
        self._valid_until_ms = sent_ms + self._lease_ms
        self._halts_renewed = halts
        return min(self._renew_ms, self._settle_ms) if self._leaving else self._renew_ms

    def lock(self, conn: Connection) -> Mapping[int, int]:
        """Hold our lease rows; return partition to epoch as the database has them, without those we give away."""
        held = partitions.lock_leases(conn, self.owner)
        ours = self._epochs
        return {part: epoch for part, epoch in held.items() if ours.get(part) == epoch}

    def may_act(self, margin_ms: int = 0) -> bool:
        """Tell whether the lease outlasts ``margin_ms`` from now."""
        is_valid = self._clock.monotonic_ms() + margin_ms < self._valid_until_ms
        return is_valid and self._halts == self._halts_renewed

    def halt(self) -> None:
        """Act no more until the lease is renewed; from any thread, but one at a time."""
        self._halts += 1

    def release(self) -> None:
        """Give everything back, so that the others need not wait for the lease to end."""
        self._valid_until_ms = 0
        self._epochs = {}

        def work(conn: Connection) -> None:
            partitions.release_leases(conn, self.owner, range(PARTITIONS))
            partitions.delete_node(conn, self.owner)

        self._db.transaction(work)

    def _renew(self, conn: Connection, sent_ms: int) -> tuple[list[LeaseRow], set[str]]:
        """Renew our row, release what has settled, take what is ours to take.

        Returns:
            The leases as they are then, and who lives, this node included.
        """
        shared_ms = self._shared_now(conn)
        partitions.renew_node(conn, self.owner, shared_ms, shared_ms + self._lease_ms)
        others = [row for row in partitions.list_nodes(conn) if row.id != self.owner]
        live = self._live(others, shared_ms, sent_ms) | {self.owner}
        partitions.forget_nodes(conn, shared_ms - FORGET_TERMS * self._lease_ms)
        leases = self._retake(conn, partitions.list_leases(conn), sent_ms)
        settled = {part for part, since_ms in self._leaving.items() if sent_ms - since_ms >= self._settle_ms}
        if settled:
            partitions.release_leases(conn, self.owner, settled)
        owners = {row.partition: None if row.partition in settled else row.owner for row in leases}
        wanted = self._decide(
            {part: owner if owner in live else None for part, owner in owners.items()}, live, self.owner
        ).take
        chosen = {part: owners[part] for part in wanted if part not in settled}
        if chosen:
            dead = {row.id: row for row in others if row.id not in live}
            self._take(conn, chosen, dead)
        if settled or chosen:
            leases = partitions.list_leases(conn)
        return leases, live

    def _retake(self, conn: Connection, leases: list[LeaseRow], sent_ms: int) -> list[LeaseRow]:
        """Take what is still ours under new epochs if our lease ran out; return the leases as they are then."""
        late_ms = sent_ms - self._valid_until_ms
        mine = {row.partition: row.owner for row in leases if row.owner == self.owner}
        if late_ms < 0 or not mine or not self._valid_until_ms:
            return leases
        partitions.take_leases(conn, self.owner, mine)
        logger.warning(
            "node %s could not renew its lease, which ended %d ms ago: it takes %d partitions anew",
            self.owner,
            late_ms,
            len(mine),
        )
        return partitions.list_leases(conn)

    def _take(self, conn: Connection, chosen: Mapping[int, str | None], dead: Mapping[str, NodeRow]) -> None:
        """Take partitions of nobody and of dead nodes, unless one of those renewed a moment ago."""
        locked = partitions.lock_nodes(conn, {owner for owner in chosen.values() if owner is not None})
        revived = {
            name for name, row in locked.items() if name not in dead or row.renewal != dead[name].renewal
        }
        wanted = {part: owner for part, owner in chosen.items() if owner not in revived}
        partitions.take_leases(conn, self.owner, wanted)

    def _live(self, others: list[NodeRow], shared_ms: int, sent_ms: int) -> set[str]:
        """Return who lives: within the lease on database time, and with a counter that moved within a term of ours."""
        self._seen = {
            row.id: seen
            if (seen := self._seen.get(row.id)) is not None and seen.renewal == row.renewal
            else _Seen(row.renewal, sent_ms)
            for row in others
        }
        live: set[str] = set()
        for row in others:
            still_ms = sent_ms - self._seen[row.id].since_ms
            if row.until_ms > shared_ms and still_ms <= self._lease_ms:
                live.add(row.id)
        return live

    def _note(self, mine: Mapping[int, int]) -> None:
        before, now = set(self._epochs), set(mine) - set(self._leaving)
        if before != now:
            logger.info(
                "node %s holds %d partitions: %d came, %d went",
                self.owner,
                len(now),
                len(now - before),
                len(before - now),
            )
