"""The store of a cluster in ZooKeeper.

The state is kept next to the connection: watches only note which znodes changed, :meth:`ZooKeeperBackend.read` reads
those again. A change of one job of thousands is one answer. The one who writes says which version it replaces.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from kazoo.client import KazooClient, KazooState  # type: ignore[import-untyped]
from kazoo.exceptions import (  # type: ignore[import-untyped]
    AuthFailedError,
    BadVersionError,
    KazooException,
    LockTimeout,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]
from kazoo.retry import KazooRetry  # type: ignore[import-untyped]
from kazoo.security import ACL, Permissions, make_digest_acl  # type: ignore[import-untyped]

from xwheel_cluster_zookeeper.backend import (
    Conflict,
    Connection,
    Disconnected,
    Link,
    MasterChange,
    NotAllowedError,
    SessionLost,
)
from xwheel_cluster_zookeeper.codec import BadZnodeError, decode, encode
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
from xwheel_cluster_zookeeper.paths import (
    ASSIGNMENTS,
    DRAINS,
    EPOCH,
    FOLDERS,
    INIT_LOCK,
    JOBS,
    MIRROR_LOCK,
    NODE_PREFIX,
    NODES,
    OFFER_PREFIX,
    OWNERS,
    SELECTOR,
    STATUSES,
    Paths,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

KINDS: Final = {
    NODES: NodeRecord,
    JOBS: JobRecord,
    ASSIGNMENTS: Assignment,
    STATUSES: JobStatus,
    OWNERS: Owner,
    DRAINS: Drain,
}
BATCH: Final = 500
"""Questions that are under way at a time."""

MOST_CHANGES: Final = 100
"""Writes in one transaction."""

ANSWER_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
_LINKS: Final = {KazooState.CONNECTED: Link.CONNECTED, KazooState.SUSPENDED: Link.SUSPENDED, KazooState.LOST: Link.LOST}


@dataclass(slots=True)
class _Seen:
    """What was read, and what has changed since; guarded by the condition.

    Attributes:
        children: Kinds whose children changed.
        values: Kind and name of znodes whose value changed.
    """

    changes: int = 0
    children: set[str] = field(default_factory=set)
    values: set[tuple[str, str]] = field(default_factory=set)


class ZooKeeperBackend:
    """One member's view of a cluster in ZooKeeper.

    Args:
        hosts: Addresses as ``host:port,host:port``, with a path behind them for a chroot.
        paths: Where the cluster is.
        session_s: How long ZooKeeper keeps a silent session; it may agree on more.
        user: Name and password of a digest user: what is written is for that user alone.
    """

    def __init__(self, hosts: str, paths: Paths, *, session_s: float, user: tuple[str, str] | None = None) -> None:
        self._paths = paths
        self._asked_ms = round(session_s * 1000)
        again = KazooRetry(max_tries=-1, delay=FIRST_PAUSE_S, backoff=2, max_delay=LONGEST_PAUSE_S)
        self._acl = make_digest_acl(*user, all=True) if user else None
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_s,
            connection_retry=again,
            command_retry=KazooRetry(max_tries=0),
            auth_data=[("digest", ":".join(user))] if user else None,
            default_acl=[self._acl] if self._acl else None,
        )
        self._changed = threading.Condition()
        self._seen = _Seen()
        self._reading = threading.Lock()
        self._link = Link.LOST
        self._session = 0
        self._since_ms = _monotonic_ms()
        self._is_new = True
        self._is_begun = False
        self._made = -1
        self._tables: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        self._offers: list[str] = []
        self._epoch = Stored(Epoch(), 0)
        self._node = ""
        self._offer = ""
        self._client.add_listener(self._on_state)

    # -- the connection

    def _on_state(self, state: str) -> None:
        """Note what the connection is; on a thread of the library, which must not wait."""
        with self._changed:
            self._link, self._since_ms = _LINKS[state], _monotonic_ms()
            if self._link is Link.LOST:
                self._is_new = True
                self._node = self._offer = ""
            elif self._link is Link.CONNECTED:
                if self._is_new:
                    self._session, self._is_new = self._session + 1, False
                # watches may have been missed
                self._seen.children |= {*KINDS, SELECTOR}
                self._seen.values |= {(EPOCH, "")}
                self._seen.values |= {(kind, name) for kind, table in self._tables.items() for name in table}
            self._note()

    def _note(self) -> None:
        self._seen.changes += 1
        self._changed.notify_all()

    def open(self, timeout_s: float) -> bool:
        """Begin to connect, and return whether that succeeded in time; it goes on by itself if not."""
        if not self._is_begun:
            self._is_begun = True
            self._client.start_async()
        with self._changed:
            return self._changed.wait_for(lambda: self._link is Link.CONNECTED, timeout_s)

    def close(self) -> None:
        """End the session; what is ephemeral goes at once."""
        if self._is_begun:
            self._client.stop()
            self._client.close()

    def connection(self) -> Connection:
        """Return what the connection is."""
        with self._changed:
            agreed = getattr(self._client, "_session_timeout", None) or self._asked_ms
            return Connection(link=self._link, session=self._session, since_ms=self._since_ms, timeout_ms=int(agreed))

    def wait_for_change(self, seen: int, timeout_s: float) -> int:
        """Return the number of changes seen until now, at once if it is not ``seen``."""
        with self._changed:
            self._changed.wait_for(lambda: self._seen.changes != seen, timeout_s)
            return self._seen.changes

    @contextmanager
    def _asking(self) -> Iterator[KazooClient]:
        """Give the client while it is connected; its errors become those of the contract."""
        connection = self.connection()
        if connection.link is Link.SUSPENDED:
            raise Disconnected("ZooKeeper does not answer")
        if connection.link is Link.LOST:
            raise SessionLost("the session with ZooKeeper is lost")
        try:
            self._make_folders()
            yield self._client
        except SessionExpiredError as error:
            raise SessionLost("the session with ZooKeeper is lost") from error
        except (NoAuthError, AuthFailedError) as error:
            text = f"{self._paths.tree} is of another user of ZooKeeper: check zookeeper_user and its password"
            raise NotAllowedError(text) from error
        except (BadVersionError, NodeExistsError, NoNodeError) as error:
            raise Conflict(f"what was read has changed meanwhile: {type(error).__name__}") from error
        except (KazooException, KazooTimeoutError, OSError) as error:
            raise Disconnected(f"ZooKeeper does not answer: {type(error).__name__} {error}".strip()) from error

    def _make_folders(self) -> None:
        """Make what the tree needs, once in each session."""
        if self._made == self._session:
            return
        session = self._session
        for folder in FOLDERS:
            _answer(self._client.ensure_path_async(self._paths.of(folder)))
        with suppress(NodeExistsError):
            _answer(self._client.create_async(self._paths.of(EPOCH), encode(Epoch())))
        if self._acl is not None:
            self._close_to_others(self._acl)
        self._made = session

    def _close_to_others(self, mine: ACL) -> None:
        """Keep others out of what was there already: made without a user, or by another.

        ``ensure_path`` leaves the ACL of what is there as it is. Where this user may change it, it is replaced, so that
        a cluster that gets a user later is closed by its first member; else this process takes no part.

        Raises:
            NotAllowedError: Something is open to others, and this user may not change that.
        """
        for path in (self._paths.tree, *(self._paths.of(name) for name in (*FOLDERS, EPOCH, INIT_LOCK))):
            with suppress(NoNodeError):
                self._close([path], mine)
        for folder in FOLDERS:  # whose parents no one else writes to from now on
            names = sorted(_answer(self._client.get_children_async(self._paths.of(folder))))
            for start in range(0, len(names), BATCH):
                self._close([self._paths.of(folder, name) for name in names[start : start + BATCH]], mine)

    def _close(self, paths: Sequence[str], mine: ACL) -> None:
        asked = [(path, self._client.get_acls_async(path)) for path in paths]
        for path, answer in asked:
            try:
                found, _ = _answer(answer)
            except NoNodeError:
                continue  # it ended with its session meanwhile
            if _is_closed(found, mine):
                continue
            shown = ", ".join(f"{one.id.scheme}:{one.id.id.partition(':')[0]}" for one in found)
            try:
                _answer(self._client.set_acls_async(path, [mine]))
            except NoAuthError:
                user = mine.id.id.partition(":")[0]
                text = (
                    f"{path} in ZooKeeper is open to others ({shown}), and the user {user} may not change that: let "
                    f"one who may give it to that user alone, in zkCli.sh 'setAcl -R {self._paths.tree} digest:{user}"
                    f":HASH:cdrwa', or name another root (plugins.options.cluster_zookeeper.root)"
                )
                raise NotAllowedError(text) from None
            logger.warning("%s was open to others (%s): it is the own user's alone from now on", path, shown)

    # -- reading

    def read(self) -> ClusterState:
        """Return the state; what changed since the last time is read again."""
        with self._reading, self._asking():
            with self._changed:
                children, values = self._seen.children, self._seen.values
                self._seen.children, self._seen.values = set(), set()
            try:
                self._refresh(children, values)
            except BaseException:
                with self._changed:
                    self._seen.children |= children
                    self._seen.values |= values
                raise
            return ClusterState(
                epoch=self._epoch,
                nodes={name: item.value for name, item in self._tables[NODES].items()},
                jobs=dict(self._tables[JOBS]),
                assignments=dict(self._tables[ASSIGNMENTS]),
                statuses=dict(self._tables[STATUSES]),
                owners={name: item.value for name, item in self._tables[OWNERS].items()},
                drains={name: item.value for name, item in self._tables[DRAINS].items()},
            )

    def _refresh(self, children: set[str], values: set[tuple[str, str]]) -> None:
        wanted = set(values)
        for kind in sorted(children):
            path = self._paths.of(kind)
            names = _answer(self._client.get_children_async(path, watch=self._children_watch(kind)))
            if kind == SELECTOR:
                self._offers = sorted(names)
                continue
            table = self._tables[kind]
            for gone in table.keys() - set(names):
                del table[gone]
            wanted |= {(kind, name) for name in names if name not in table}
        items = sorted(wanted)
        for start in range(0, len(items), BATCH):
            self._fetch(items[start : start + BATCH])

    def _fetch(self, items: Sequence[tuple[str, str]]) -> None:
        asked = [
            (kind, name, self._client.get_async(self._paths.of(kind, name), watch=self._value_watch(kind, name)))
            for kind, name in items
        ]
        for kind, name, answer in asked:
            try:
                data, stat = _answer(answer)
            except NoNodeError:
                self._tables.get(kind, {}).pop(name, None)
                continue
            try:
                if kind == EPOCH:
                    self._epoch = Stored(decode(Epoch, data, EPOCH), stat.version)
                else:
                    self._tables[kind][name] = Stored(decode(KINDS[kind], data, name), stat.version)
            except BadZnodeError as error:
                # the one who wrote it is asked to mend it; what was known before goes on
                logger.warning("%s is left out: %s", self._paths.of(kind, name), error)

    def _children_watch(self, kind: str) -> Callable[[object], None]:
        def changed(_: object) -> None:
            with self._changed:
                self._seen.children.add(kind)
                self._note()

        return changed

    def _value_watch(self, kind: str, name: str) -> Callable[[object], None]:
        def changed(_: object) -> None:
            with self._changed:
                self._seen.values.add((kind, name))
                self._note()

        return changed

    def _mark(self, *items: tuple[str, str]) -> None:
        """Have znodes read again that were written here: their watches may come after the answer to the write."""
        with self._changed:
            self._seen.children |= {kind for kind, name in items if name}
            self._seen.values |= {(kind, name) for kind, name in items if kind == EPOCH or name in self._tables[kind]}
            self._note()

    # -- nodes

    def init_lock(self, timeout_s: float) -> AbstractContextManager[None]:
        """Hold the lock of those that join."""
        return self._held(timeout_s)

    @contextmanager
    def _held(self, timeout_s: float) -> Iterator[None]:
        with self._asking() as client:
            lock = client.Lock(self._paths.of(INIT_LOCK))
            try:
                lock.acquire(timeout=timeout_s)
            except LockTimeout:
                raise Conflict(f"others held the lock of those that join for {timeout_s:g} s") from None
        try:
            yield
        finally:
            try:
                with self._asking():
                    lock.release()
            except (Disconnected, SessionLost, Conflict) as error:
                logger.info("the lock of those that join ends with the session: %s", error)

    def mirror_lock(self) -> bool:
        """Return whether this process writes jobs."""
        path = self._paths.of(MIRROR_LOCK)
        with self._asking() as client:
            try:
                _answer(client.create_async(path, b"", ephemeral=True))
            except NodeExistsError:
                return self._is_mine(path)
            return True

    def _is_mine(self, path: str) -> bool:
        """Return whether a znode is of the present session."""
        stat = _answer(self._client.exists_async(path))
        mine = self._client.client_id
        return stat is not None and mine is not None and stat.ephemeralOwner == mine[0]

    def _make_mine(self, folder: str, prefix: str, data: bytes) -> str:
        """Make this session's child with a number, or find it if an answer was lost before; return its name."""
        for name in _answer(self._client.get_children_async(self._paths.of(folder))):
            if self._is_mine(self._paths.of(folder, name)):
                return str(name)
        path = self._paths.of(folder, prefix)
        return str(_answer(self._client.create_async(path, data, ephemeral=True, sequence=True))).rsplit("/", 1)[1]

    def join(self, node: NodeRecord) -> NodeRecord:
        """Register a node for the length of the session."""
        session = self._session
        with self._asking():
            name = self._node or self._make_mine(NODES, NODE_PREFIX, encode(node))
        with self._changed:
            if session != self._session or self._is_new:
                raise SessionLost("the session was lost while the node joined")
            self._node = name
        self._mark((NODES, name))
        return replace(node, path=name)

    def update_node(self, node: NodeRecord) -> None:
        """Write this session's node again."""
        with self._asking() as client:
            if node.path != self._node:
                raise SessionLost(f"{node.path} is of an earlier session")
            _answer(client.set_async(self._paths.of(NODES, node.path), encode(node)))
        self._mark((NODES, node.path))

    def leave(self) -> None:
        """Remove this session's node, owners and offer."""
        self.withdraw()
        with self._asking():
            for name in list(self._tables[OWNERS]):
                self._delete_mine(self._paths.of(OWNERS, name))
            if self._node:
                self._delete_mine(self._paths.of(NODES, self._node))
            self._mark((NODES, self._node), *((OWNERS, name) for name in self._tables[OWNERS]))
            self._node = ""

    def _delete_mine(self, path: str) -> None:
        try:
            if self._is_mine(path):
                _answer(self._client.delete_async(path))
        except NoNodeError:
            pass

    def offer(self, node_id: str) -> None:
        """Stand for election in this session."""
        session = self._session
        with self._asking():
            name = self._offer or self._make_mine(SELECTOR, OFFER_PREFIX, node_id.encode())
        with self._changed:
            if session == self._session and not self._is_new:
                self._offer = name
                self._seen.children.add(SELECTOR)
                self._note()

    def withdraw(self) -> None:
        """Stand no longer."""
        with self._asking():
            if self._offer:
                self._delete_mine(self._paths.of(SELECTOR, self._offer))
            self._offer = ""

    def is_elected(self) -> bool:
        """Return whether this session stands first, as of the last :meth:`read`."""
        with self._changed:
            return bool(self._offer) and self._offers[:1] == [self._offer]

    def own(self, owner: Owner) -> None:
        """Write that this session takes a job's runs."""
        path = self._paths.of(OWNERS, owner.key)
        with self._asking() as client:
            try:
                _answer(client.create_async(path, encode(owner), ephemeral=True))
            except NodeExistsError:
                if not self._is_mine(path):
                    raise Conflict(f"{owner.key} is still owned by another session") from None
                _answer(client.set_async(path, encode(owner)))
        self._mark((OWNERS, owner.key))

    def disown(self, key: str) -> None:
        """Remove this session's owner of a job."""
        with self._asking():
            self._delete_mine(self._paths.of(OWNERS, key))
        self._mark((OWNERS, key))

    # -- masters

    def take_epoch(self, node_id: str, now_ms: int, expected: Stored[Epoch]) -> Stored[Epoch]:
        """Write the next epoch."""
        epoch = Epoch(number=expected.value.number + 1, node_id=node_id, since_ms=now_ms)
        with self._asking() as client:
            stat = _answer(client.set_async(self._paths.of(EPOCH), encode(epoch), version=expected.version))
        self._mark((EPOCH, ""))
        return Stored(epoch, stat.version)

    def commit(self, epoch: Stored[Epoch], changes: Sequence[MasterChange]) -> list[MasterChange]:
        """Write what a master decided, in transactions that hold only in its epoch."""
        left: list[MasterChange] = []
        for start in range(0, len(changes), MOST_CHANGES):
            part = list(changes[start : start + MOST_CHANGES])
            while part:
                failed = self._try(epoch, part)
                if failed is None:
                    self._mark(*(_place(change) for change in part))
                    break
                left.append(part.pop(failed))
        return left

    def _try(self, epoch: Stored[Epoch], changes: Sequence[MasterChange]) -> int | None:
        """Make changes, all or none; return the place of one that met another version, or None."""
        with self._asking() as client:
            request = client.transaction()
            request.check(self._paths.of(EPOCH), epoch.version)
            for change in changes:
                self._add(request, change)
            results = _answer(request.commit_async())
        for place, result in enumerate(results):
            if not isinstance(result, Exception) or isinstance(result, RolledBackError):
                continue
            if place == 0 or not isinstance(result, BadVersionError | NodeExistsError | NoNodeError):
                if place == 0:
                    raise Conflict("there is another master")
                raise Disconnected(f"ZooKeeper refuses a transaction: {type(result).__name__}")
            return place - 1
        return None

    def _add(self, request: Any, change: MasterChange) -> None:
        value = change.assignment if change.is_assignment else change.status
        path = self._paths.of(*_place(change))
        if value is None:
            request.delete(path, version=-1 if change.expected is None else change.expected)
        elif change.expected is None:
            request.create(path, encode(value))
        else:
            request.set_data(path, encode(value), version=change.expected)

    # -- what schedulers and nodes write

    def reset(self, jobs: Sequence[JobRecord]) -> None:
        """Write these jobs, and remove what nodes and masters wrote; only inside the init lock."""
        with self._asking() as client:
            for kind in (ASSIGNMENTS, STATUSES, OWNERS):
                names = _answer(client.get_children_async(self._paths.of(kind)))
                _gather([client.delete_async(self._paths.of(kind, name)) for name in names])
            for start in range(0, len(jobs), BATCH):
                part = jobs[start : start + BATCH]
                _gather([client.set_async(self._paths.of(JOBS, job.key), encode(job)) for job in part])
        self._mark(*((JOBS, job.key) for job in jobs))
        with self._changed:
            self._seen.children |= {ASSIGNMENTS, STATUSES, OWNERS}
            self._note()

    def put_job(self, job: JobRecord, expected: int | None) -> None:
        """Write a job at the version that was read."""
        self._put(JOBS, job.key, encode(job), expected)

    def put_status(self, status: JobStatus, expected: int | None) -> None:
        """Write a job's status at the version that was read."""
        self._put(STATUSES, status.key, encode(status), expected)

    def _put(self, kind: str, name: str, data: bytes, expected: int | None) -> None:
        path = self._paths.of(kind, name)
        with self._asking() as client:
            if expected is None:
                _answer(client.create_async(path, data))
            else:
                _answer(client.set_async(path, data, version=expected))
        self._mark((kind, name))

    def put_drain(self, drain: Drain) -> None:
        """Write that a node is drained."""
        path = self._paths.of(DRAINS, drain.key)
        with self._asking() as client:
            try:
                _answer(client.create_async(path, encode(drain)))
            except NodeExistsError:
                _answer(client.set_async(path, encode(drain)))
        self._mark((DRAINS, drain.key))

    def delete_drain(self, key: str) -> None:
        """Let a node have jobs again."""
        with self._asking() as client, suppress(NoNodeError):
            _answer(client.delete_async(self._paths.of(DRAINS, key)))
        self._mark((DRAINS, key))

    def delete_job(self, key: str, expected: int) -> None:
        """Remove a job and what belongs to it."""
        with self._asking() as client:
            _answer(client.delete_async(self._paths.of(JOBS, key), version=expected))
            _gather([client.delete_async(self._paths.of(kind, key)) for kind in (ASSIGNMENTS, STATUSES)])
        self._mark(*((kind, key) for kind in (JOBS, ASSIGNMENTS, STATUSES)))


def _is_closed(found: Sequence[ACL], mine: ACL) -> bool:
    """Return whether a znode is the own user's; somebody who is named may read it besides, such as a monitor."""
    others = [one for one in found if one.id != mine.id]
    is_ours = any(one.id == mine.id and one.perms & mine.perms == mine.perms for one in found)
    return is_ours and all(one.perms == Permissions.READ and one.id.scheme != "world" for one in others)


def _place(change: MasterChange) -> tuple[str, str]:
    return (ASSIGNMENTS if change.is_assignment else STATUSES, change.key)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _answer(asked: Any) -> Any:
    """Return an answer of ZooKeeper's, or raise what it is; no one waits for ever."""
    return asked.get(timeout=ANSWER_S)


def _gather(asked: Sequence[Any]) -> None:
    """Wait for all answers; znodes that are gone are none to complain of."""
    for one in asked:
        with suppress(NoNodeError):
            _answer(one)
