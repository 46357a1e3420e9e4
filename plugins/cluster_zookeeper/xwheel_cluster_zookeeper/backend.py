"""What nodes, masters and schedulers ask of the store of a cluster: ZooKeeper, or memory in tests.

Nothing calls back: who wants to know waits for a change, reads the state, compares and acts. All waits end at their
timeouts, and an error of the library never leaves a backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from xwheel.plugin import XwheelError

from xwheel_cluster_zookeeper.model import (
    Assignment,
    ClusterState,
    Drain,
    Epoch,
    JobRecord,
    JobStatus,
    NodeRecord,
    Owner,
    Stored,
)


class Conflict(XwheelError):  # noqa: N818 -- the contract's name
    """What was read has changed meanwhile, or is somebody else's; read again."""


class Disconnected(XwheelError):  # noqa: N818 -- the contract's name
    """The store does not answer now; whether a write happened is not known."""


class SessionLost(XwheelError):  # noqa: N818 -- the contract's name
    """The session ended, and with it this node's registration, its owners and its leadership."""


class NotAllowedError(XwheelError):
    """The store refuses this user, or is open to others; people have to mend it."""


class Link(StrEnum):
    """What a connection is."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The connection as it is known now.

    Attributes:
        link: ``suspended`` has no answer from the store but may still have its session.
        session: Number of the session: one more after each loss. 0 before the first.
        since_ms: Since when ``link`` is what it is, by the monotonic clock.
        timeout_ms: How long the store keeps a silent session, as it was agreed.
    """

    link: Link
    session: int
    since_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterChange:
    """One write of a master: a job's assignment, its removal, or the status of a job that no living node has.

    Attributes:
        key: The job's.
        assignment: The new assignment; None removes it, if ``is_assignment``.
        expected: Version of what is replaced or removed; None where there must be nothing.
    """

    key: str
    expected: int | None
    is_assignment: bool = True
    assignment: Assignment | None = None
    status: JobStatus | None = None


class ClusterBackend(Protocol):
    """The store of one cluster, seen by one process. All methods may be called on several threads.

    Every method but ``connection``, ``wait_for_change`` and ``close`` may raise :class:`Disconnected`; those for nodes
    and masters also :class:`SessionLost`.
    """

    def open(self, timeout_s: float) -> bool:
        """Begin to connect, and return whether that succeeded in time; it goes on by itself if not."""
        ...

    def close(self) -> None:
        """End the session; what is ephemeral goes at once."""
        ...

    def connection(self) -> Connection:
        """Return what the connection is."""
        ...

    def wait_for_change(self, seen: int, timeout_s: float) -> int:
        """Return the number of changes seen until now, at once if it is not ``seen``, or when the time is over.

        Connections that change count too, and so does everything after a connection came back.
        """
        ...

    def read(self) -> ClusterState:
        """Return the state; at least as new as the change that was waited for, in parts as old as the connection."""
        ...

    def init_lock(self, timeout_s: float) -> AbstractContextManager[None]:
        """Hold the lock of those that join; :class:`Conflict` if others hold it for this long."""
        ...

    def mirror_lock(self) -> bool:
        """Return whether this process is the scheduler that writes jobs and settles operations; tries to become it."""
        ...

    def join(self, node: NodeRecord) -> NodeRecord:
        """Register a node for the length of the session, and return it with its ``path``."""
        ...

    def update_node(self, node: NodeRecord) -> None:
        """Write this session's node again, such as with another role."""
        ...

    def leave(self) -> None:
        """Remove this session's node and owners, and withdraw from the election."""
        ...

    def offer(self, node_id: str) -> None:
        """Stand for election in this session; nothing happens if it stands already."""
        ...

    def withdraw(self) -> None:
        """Stand no longer; who is elected next may be this node again only after another ``offer``."""
        ...

    def is_elected(self) -> bool:
        """Return whether this session stands first; false once the session is lost."""
        ...

    def take_epoch(self, node_id: str, now_ms: int, expected: Stored[Epoch]) -> Stored[Epoch]:
        """Write the next epoch, and return it; :class:`Conflict` if somebody else did."""
        ...

    def commit(self, epoch: Stored[Epoch], changes: Sequence[MasterChange]) -> list[MasterChange]:
        """Write what a master decided, in few transactions that each hold only while ``epoch`` is the present one.

        Returns:
            Changes that met another version and were not made.

        Raises:
            Conflict: There is another epoch: nothing of the rest was written.
        """
        ...

    def reset(self, jobs: Sequence[JobRecord]) -> None:
        """Write these jobs, and remove all assignments, statuses and owners; only inside the init lock."""
        ...

    def put_job(self, job: JobRecord, expected: int | None) -> None:
        """Write a job at the version that was read; None where there must be none. :class:`Conflict` otherwise."""
        ...

    def delete_job(self, key: str, expected: int) -> None:
        """Remove a job, its status and its assignment; :class:`Conflict` at another version."""
        ...

    def put_status(self, status: JobStatus, expected: int | None) -> None:
        """Write a job's status at the version that was read; None where there must be none."""
        ...

    def put_drain(self, drain: Drain) -> None:
        """Write that a node is drained, over what is there."""
        ...

    def delete_drain(self, key: str) -> None:
        """Let a node have jobs again; nothing happens if it may."""
        ...

    def own(self, owner: Owner) -> None:
        """Write that this session takes a job's runs; :class:`Conflict` while another living session does."""
        ...

    def disown(self, key: str) -> None:
        """Remove this session's owner of a job; nothing happens if there is none."""
        ...
