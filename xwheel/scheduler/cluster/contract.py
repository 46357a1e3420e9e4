"""What the stages ask of the lease, whichever cluster the node is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from xwheel.storage.database.engine import Connection


class Lease(Protocol):
    """The timed right of this node to its partitions."""

    @property
    def owner(self) -> str:
        """Id of this node."""

    @property
    def epochs(self) -> Mapping[int, int]:
        """Partition to epoch, for the partitions that this node holds; replaced, never changed."""

    def acquire(self) -> None:
        """Join the cluster, or raise a LockError."""

    def step(self, now_ms: int) -> int:
        """Renew, take and hand over; return how long to wait in milliseconds."""

    def lock(self, conn: Connection) -> Mapping[int, int]:
        """Lock our lease rows and return partition to epoch as the database has them."""

    def may_act(self, margin_ms: int = 0) -> bool:
        """Return whether the lease outlasts ``margin_ms`` from now."""

    def may_send(self, fenced_ms: int, margin_ms: int) -> bool:
        """Return whether what was fenced at this time may be sent still."""

    def halt(self) -> None:
        """Act no more until the lease is renewed."""

    def drain(self) -> None:
        """Let the next steps hand everything to other nodes."""

    def is_drained(self) -> bool:
        """Return whether nothing is left that another node could take over."""

    def release(self) -> None:
        """Give everything back."""

    def disown(self) -> None:
        """Act no more and close what this process has open, without the database."""
