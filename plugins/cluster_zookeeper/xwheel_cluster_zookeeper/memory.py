"""A cluster's store in memory, for tests: the same contract without ZooKeeper, and faults on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from xwheel_cluster_zookeeper.backend import Conflict, Connection, Disconnected, Link, MasterChange, SessionLost
from xwheel_cluster_zookeeper.codec import decode, encode
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


class MemoryStore:
    """What all members of a cluster see; give it to each member's :class:`MemoryBackend`."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.changes = 0
        self.next_number = 0
        self.epoch = Stored(Epoch(), 0)
        self.nodes: dict[str, tuple[NodeRecord, object]] = {}
        self.jobs: dict[str, Stored[JobRecord]] = {}
        self.assignments: dict[str, Stored[Assignment]] = {}
        self.statuses: dict[str, Stored[JobStatus]] = {}
        self.owners: dict[str, tuple[Owner, object]] = {}
        self.drains: dict[str, Drain] = {}
        self.offers: list[object] = []
        self.mirror: object | None = None
        self.lock = threading.Lock()

    def note(self) -> None:
        """Count a change; with ``changed`` held."""
        self.changes += 1
        self.changed.notify_all()

    def forget(self, session: object) -> None:
        """Remove what is ephemeral of a session; with ``changed`` held."""
        self.nodes = {path: item for path, item in self.nodes.items() if item[1] is not session}
        self.owners = {key: item for key, item in self.owners.items() if item[1] is not session}
        self.offers = [item for item in self.offers if item is not session]
        if self.mirror is session:
            self.mirror = None
        self.note()


class MemoryBackend:
    """One member's view of a :class:`MemoryStore`.

    Args:
        store: The store.
        timeout_ms: How long a session is said to be kept.
        monotonic_ms: Where the time of ``since_ms`` comes from.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        timeout_ms: int = 3000,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._clock = monotonic_ms
        self._link = Link.LOST
        self._session = object()
        self._number = 0
        self._since_ms = monotonic_ms()
        self._timeout_ms = timeout_ms
        self._lock_held = False

    # -- what tests do to it

    def suspend(self) -> None:
        """Cut the connection; the session stays."""
        self._move(Link.SUSPENDED)

    def resume(self) -> None:
        """Connect again; in a new session if the old one was lost."""
        if self._link is Link.LOST:
            self._session, self._number = object(), self._number + 1
        self._move(Link.CONNECTED)

    def lose(self) -> None:
        """End the session, as ZooKeeper does with one that is silent for too long."""
        with self._store.changed:
            self._store.forget(self._session)
        self._move(Link.LOST)

    def _move(self, link: Link) -> None:
        with self._store.changed:
            self._link, self._since_ms = link, self._clock()
            self._store.note()

    # -- the contract

    def open(self, timeout_s: float) -> bool:
        """Connect at once."""
        del timeout_s
        self.resume()
        return True

    def close(self) -> None:
        """End the session."""
        self.lose()

    def connection(self) -> Connection:
        """Return what the connection is."""
        return Connection(link=self._link, session=self._number, since_ms=self._since_ms, timeout_ms=self._timeout_ms)

    def wait_for_change(self, seen: int, timeout_s: float) -> int:
        """Return the number of changes seen until now."""
        with self._store.changed:
            self._store.changed.wait_for(lambda: self._store.changes != seen, timeout_s)
            return self._store.changes

    def read(self) -> ClusterState:
        """Return the state."""
        with self._used() as store:
            return ClusterState(
                epoch=store.epoch,
                nodes={path: node for path, (node, _) in store.nodes.items()},
                jobs=dict(store.jobs),
                assignments=dict(store.assignments),
                statuses=dict(store.statuses),
                owners={key: owner for key, (owner, _) in store.owners.items()},
                drains=dict(store.drains),
            )

    @contextmanager
    def _used(self) -> Iterator[MemoryStore]:
        with self._store.changed:
            if self._link is Link.SUSPENDED:
                raise Disconnected("the connection is suspended")
            if self._link is Link.LOST:
                raise SessionLost("the session is lost")
            yield self._store

    def init_lock(self, timeout_s: float) -> AbstractContextManager[None]:
        """Hold the lock of those that join."""
        return self._held(timeout_s)

    @contextmanager
    def _held(self, timeout_s: float) -> Iterator[None]:
        with self._used():
            pass
        if not self._store.lock.acquire(timeout=timeout_s):
            raise Conflict(f"others held the lock of those that join for {timeout_s:g} s")
        try:
            yield
        finally:
            self._store.lock.release()

    def mirror_lock(self) -> bool:
        """Return whether this process writes jobs."""
        with self._used() as store:
            if store.mirror is None:
                store.mirror = self._session
            return store.mirror is self._session

    def join(self, node: NodeRecord) -> NodeRecord:
        """Register a node."""
        with self._used() as store:
            for path, (known, session) in store.nodes.items():
                if session is self._session:
                    return replace(known, path=path)
            path = f"node-{store.next_number:010d}"
            store.next_number += 1
            joined = decode(NodeRecord, encode(node), path)
            store.nodes[path] = (joined, self._session)
            store.note()
            return joined

    def update_node(self, node: NodeRecord) -> None:
        """Write this session's node again."""
        with self._used() as store:
            if store.nodes.get(node.path, (None, None))[1] is not self._session:
                raise SessionLost(f"{node.path} is gone")
            store.nodes[node.path] = (decode(NodeRecord, encode(node), node.path), self._session)
            store.note()

    def leave(self) -> None:
        """Remove this session's node, owners and offer."""
        with self._used() as store:
            store.forget(self._session)

    def offer(self, node_id: str) -> None:
        """Stand for election."""
        del node_id
        with self._used() as store:
            if self._session not in store.offers:
                store.offers.append(self._session)
                store.note()

    def withdraw(self) -> None:
        """Stand no longer."""
        with self._used() as store:
            if self._session in store.offers:
                store.offers.remove(self._session)
                store.note()

    def is_elected(self) -> bool:
        """Return whether this session stands first."""
        with self._store.changed:
            return bool(self._store.offers) and self._store.offers[0] is self._session

    def take_epoch(self, node_id: str, now_ms: int, expected: Stored[Epoch]) -> Stored[Epoch]:
        """Write the next epoch."""
        with self._used() as store:
            if store.epoch.version != expected.version:
                raise Conflict("another master took the next epoch")
            number = expected.value.number + 1
            epoch = Epoch(number=number, node_id=node_id, since_ms=now_ms)
            store.epoch = Stored(epoch, expected.version + 1)
            store.note()
            return store.epoch

    def commit(self, epoch: Stored[Epoch], changes: Sequence[MasterChange]) -> list[MasterChange]:
        """Write what a master decided."""
        left = []
        with self._used() as store:
            if store.epoch.version != epoch.version:
                raise Conflict("there is another master")
            for change in changes:
                table: dict[str, Stored[Any]] = store.assignments if change.is_assignment else store.statuses
                value = change.assignment if change.is_assignment else change.status
                try:
                    _put(table, change.key, value, change.expected)
                except Conflict:
                    left.append(change)
            store.note()
        return left

    def reset(self, jobs: Sequence[JobRecord]) -> None:
        """Write these jobs, and remove what nodes and masters wrote."""
        with self._used() as store:
            for job in jobs:
                known = store.jobs.get(job.key)
                store.jobs[job.key] = Stored(job, 0 if known is None else known.version + 1)
            store.assignments, store.statuses, store.owners = {}, {}, {}
            store.note()

    def put_job(self, job: JobRecord, expected: int | None) -> None:
        """Write a job."""
        with self._used() as store:
            _put(store.jobs, job.key, decode(JobRecord, encode(job), job.key), expected)
            store.note()

    def delete_job(self, key: str, expected: int) -> None:
        """Remove a job and what belongs to it."""
        with self._used() as store:
            _put(store.jobs, key, None, expected)
            store.assignments.pop(key, None)
            store.statuses.pop(key, None)
            store.note()

    def put_status(self, status: JobStatus, expected: int | None) -> None:
        """Write a job's status."""
        with self._used() as store:
            _put(store.statuses, status.key, decode(JobStatus, encode(status), status.key), expected)
            store.note()

    def put_drain(self, drain: Drain) -> None:
        """Write that a node is drained."""
        with self._used() as store:
            store.drains[drain.key] = decode(Drain, encode(drain), drain.key)
            store.note()

    def delete_drain(self, key: str) -> None:
        """Let a node have jobs again."""
        with self._used() as store:
            store.drains.pop(key, None)
            store.note()

    def own(self, owner: Owner) -> None:
        """Write that this session takes a job's runs."""
        with self._used() as store:
            known = store.owners.get(owner.key)
            if known is not None and known[1] is not self._session:
                raise Conflict(f"{owner.key} is owned by {known[0].node_id}")
            store.owners[owner.key] = (owner, self._session)
            store.note()

    def disown(self, key: str) -> None:
        """Remove this session's owner of a job."""
        with self._used() as store:
            if store.owners.get(key, (None, None))[1] is self._session:
                del store.owners[key]
                store.note()


def _put(table: dict[str, Stored[Any]], key: str, value: Any, expected: int | None) -> None:
    """Replace, make or remove an entry at the version that was read."""
    known = table.get(key)
    if (None if known is None else known.version) != expected:
        raise Conflict(f"{key} has changed meanwhile")
    if value is None:
        table.pop(key, None)
    else:
        table[key] = Stored(value, 0 if known is None else known.version + 1)
