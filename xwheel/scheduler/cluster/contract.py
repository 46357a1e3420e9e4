"""What the stages ask of the lease, whichever cluster the node is in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from xwheel.clock import Clock
from xwheel.storage import leases
from xwheel.storage.database.engine import Connection, Database


@dataclass(eq=False, repr=False)
class Lease(ABC):
    """The timed right of this node to its partitions, counted on the monotonic clock from when its renewal was sent."""

    db: Database
    owner: str  # id of this node
    clock: Clock
    _: KW_ONLY
    lease_ms: int  # how long a lease lasts
    renew_ms: int  # how often it is renewed
    _epochs: Mapping[int, int] = field(default_factory=dict, init=False)
    _valid_until_ms: int = field(default=0, init=False)
    _halts: int = field(default=0, init=False)
    _halts_renewed: int = field(default=0, init=False)

    @property
    def epochs(self) -> Mapping[int, int]:
        """Partition to epoch, for those held and not being handed over; replaced, never changed."""
        return self._epochs

    @abstractmethod
    def acquire(self) -> None:
        """Join the cluster, or raise a LockError."""

    @abstractmethod
    def step(self, now_ms: int) -> int:
        """Renew, take and hand over; return how long to wait in milliseconds."""

    @abstractmethod
    def lock(self, conn: Connection) -> Mapping[int, int]:
        """Lock our lease rows and return partition to epoch as the database has them."""

    def may_act(self, margin_ms: int = 0) -> bool:
        """Return whether the lease outlasts ``margin_ms`` from now."""
        is_valid = self.clock.monotonic_ms() + margin_ms < self._valid_until_ms
        return is_valid and self._halts == self._halts_renewed

    def may_send(self, fenced_ms: int, margin_ms: int) -> bool:
        """Return whether what was fenced at this time may be sent still."""
        del fenced_ms  # without other nodes none can have taken it since
        return self.may_act(margin_ms)

    def halt(self) -> None:
        """Act no more until the lease is renewed; from any thread, but one at a time."""
        self._halts += 1

    def drain(self) -> None:  # noqa: B027 - there need be no other node
        """Let the next steps hand everything to other nodes, if there are any."""

    def is_drained(self) -> bool:
        """Return whether nothing is left that another node could take over."""
        return True

    @abstractmethod
    def release(self) -> None:
        """Give everything back."""

    @abstractmethod
    def disown(self) -> None:
        """Act no more and close what this process has open, without the database."""

    def _leave(self, conn: Connection) -> None:
        leases.release_leases(conn, self.owner)
        leases.delete_node(conn, self.owner)
