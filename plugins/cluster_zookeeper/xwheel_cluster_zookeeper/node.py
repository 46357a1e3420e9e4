"""A node of a cluster: it joins, stands for election, decides while it is master, and has the jobs it was given.

Everything is compared again in each :meth:`ClusterNode.step`; nothing counts events. What is known ends with the
session: before anything else, the node takes no run any more.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from xwheel_cluster_zookeeper.backend import ClusterBackend, Conflict, Connection, Disconnected, Link, SessionLost
from xwheel_cluster_zookeeper.master import MasterSettings, reconcile
from xwheel_cluster_zookeeper.model import (
    Assignment,
    ClusterState,
    Epoch,
    JobRecord,
    JobState,
    JobStatus,
    Mode,
    NodeRecord,
    Owner,
    Result,
    Role,
    Stored,
    Wanted,
)
from xwheel_cluster_zookeeper.preparations import Preparations, Prepared

logger = logging.getLogger(__name__)

WAIT_MS: Final = 1000
LOCK_S: Final = 5.0
SAY_MS: Final = 10_000
FIRST_PAUSE_MS: Final = 1000
LONGEST_PAUSE_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node is, and how it behaves.

    Attributes:
        me: Its record; ``path`` and ``role`` are filled in here.
        reconcile_ms: How often the master compares all, whatever changed.
        is_reset: Whether the first node of a cluster stops all jobs.
        hosts: Where ZooKeeper is, for the log.
    """

    me: NodeRecord
    master: MasterSettings
    reconcile_ms: int = 10_000
    is_reset: bool = False
    hosts: str = ""


@dataclass(frozen=True, slots=True)
class _Had:
    """A job that this node has."""

    job_id: int
    op_seq: int
    node_path: str


class ClusterNode:
    """Membership in a cluster.

    Thread-safety: :meth:`step` and :meth:`leave` belong to one thread; :meth:`refuse` is asked by many.

    Args:
        backend: The cluster's store.
        settings: What the node is.
        preparations: Fetch packages and build environments, next to the steps.
        monotonic_ms: The clock that ``Connection.since_ms`` is of.
        on_lost: Called when the session was lost, once what the node had is forgotten.
    """

    def __init__(
        self,
        backend: ClusterBackend,
        settings: NodeSettings,
        preparations: Preparations,
        monotonic_ms: Callable[[], int],
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._preparations = preparations
        self._monotonic_ms = monotonic_ms
        self._on_lost = on_lost
        self._session = 0
        self._me: NodeRecord | None = None
        self._epoch: Stored[Epoch] | None = None
        self._had: Mapping[str, _Had] = {}
        self._by_id: Mapping[int, _Had] = {}
        self._elsewhere: frozenset[int] | None = None
        self._is_draining = False
        self._last_epochs: dict[str, int] = {}
        self._seen = -1
        self._compare_ms = 0
        self._said_ms: int | None = None
        self._pause_ms = FIRST_PAUSE_MS
        self._again_ms = 0
        self.failures = 0

    # -- what others ask

    @property
    def is_healthy(self) -> bool:
        """Whether the node is connected, has joined, and its last attempt to lead or join did not fail."""
        return self._me is not None and not self.failures and self._backend.connection().link is Link.CONNECTED

    @property
    def role(self) -> Role | None:
        """What the node is; None before it joined."""
        return None if self._me is None else self._me.role

    @property
    def jobs(self) -> frozenset[int]:
        """Ids of the jobs that this node has."""
        return frozenset(self._by_id)

    def refuse(self, job_id: int) -> str:
        """Return why this node does not take a run of the job, or an empty text."""
        if self._is_draining:
            return "this node is being stopped and takes no runs"
        if reason := self._outside():
            return reason
        if job_id in self._by_id:
            return ""
        elsewhere = self._elsewhere
        if elsewhere is None or job_id in elsewhere:
            return f"job {job_id} is not this node's: its cluster gives it to another, or it is being prepared here"
        if self._settings.master.mode is Mode.STANDBY and self.role is not Role.MASTER:
            return "this node is a backup: the master runs the jobs of a standby cluster"
        return ""

    def _outside(self) -> str:
        """Return why this node cannot know what its cluster decides, or an empty text."""
        connection = self._backend.connection()
        if self._me is None or connection.session != self._session or connection.link is Link.LOST:
            return "this node is in no cluster now: it has no session with ZooKeeper"
        silent_ms = self._monotonic_ms() - connection.since_ms
        if connection.link is Link.SUSPENDED and 3 * silent_ms >= 2 * connection.timeout_ms:
            return f"ZooKeeper has not answered this node for {silent_ms} ms: others may have its jobs"
        return ""

    # -- the loop

    def wait(self) -> None:
        """Wait for a change, a second at most."""
        self._seen = self._backend.wait_for_change(self._seen, WAIT_MS / 1000)

    def step(self, now_ms: int) -> None:
        """Compare, and do what is due; what fails because of the connection is done again later."""
        connection = self._backend.connection()
        if connection.session != self._session or connection.link is Link.LOST:
            self._forget(connection)
        if connection.link is not Link.CONNECTED:
            self._say_away(now_ms, connection)
            return
        self._said_ms = None
        if now_ms < self._again_ms:
            return
        try:
            self._work(now_ms)
        except SessionLost:
            self._forget(self._backend.connection())
        except (Conflict, Disconnected) as error:
            self._back_off(now_ms, error)
        else:
            self._pause_ms, self.failures = FIRST_PAUSE_MS, 0

    def drain(self) -> None:
        """Take no run any more."""
        self._is_draining = True

    def leave(self) -> None:
        """Leave the cluster, so that others get the jobs at once."""
        self.drain()
        self._preparations.close()
        try:
            self._backend.leave()
        except (Conflict, Disconnected, SessionLost) as error:
            logger.warning("the node leaves with the end of its session: %s", error)
        self._forget(self._backend.connection())

    def _forget(self, connection: Connection) -> None:
        """Have no job and lead no one any more; what runs goes on."""
        was_member = self._me is not None
        self._by_id, self._had, self._elsewhere = {}, {}, None
        self._me = self._epoch = None
        self._last_epochs.clear()
        self._session = connection.session
        if was_member and not self._is_draining:
            logger.warning("the session with ZooKeeper is lost: this node has no job until it has joined again")
            self._on_lost()

    def _say_away(self, now_ms: int, connection: Connection) -> None:
        if self._said_ms is None or now_ms - self._said_ms >= SAY_MS:
            self._said_ms = now_ms
            logger.warning("waiting for ZooKeeper at %s (%s)", self._settings.hosts, connection.link)

    def _back_off(self, now_ms: int, error: Exception) -> None:
        """Try again later, ever later; let others lead meanwhile."""
        self.failures += 1
        logger.warning("%s; again in %d ms", error, self._pause_ms)
        # by chance, so that nodes that meet do not meet again
        self._again_ms = now_ms + round(self._pause_ms * random.uniform(0.5, 1.0))  # noqa: S311 -- no secret
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        if self._epoch is not None or self._backend.is_elected():
            self._epoch = None
            try:
                self._backend.withdraw()
                self._show_role(self._follower)
            except (Conflict, Disconnected, SessionLost) as failure:
                logger.info("still stands for election: %s", failure)

    def _work(self, now_ms: int) -> None:
        if self._me is None:
            self._join()
        assert self._me is not None  # noqa: S101 -- it has just joined
        self._backend.offer(self._me.node_id)
        state = self._backend.read()
        if self._me.path not in state.nodes:
            raise SessionLost(f"{self._me.path} is gone")
        self._lead(state, now_ms)
        try:
            self._compare(self._backend.read(), now_ms)
        except Conflict as error:  # of one job: no reason to lead no more
            logger.info("%s: compared again", error)

    @property
    def _follower(self) -> Role:
        """What the node is while it is not master."""
        return Role.BACKUP if self._settings.master.mode is Mode.STANDBY else Role.SLAVE

    # -- joining

    def _join(self) -> None:
        """Register; the first one of a cluster stops its jobs before, if it shall."""
        with self._backend.init_lock(LOCK_S):
            state = self._backend.read()
            if self._settings.is_reset and not state.nodes:
                stopped = [
                    replace(stored.value, wanted=Wanted.STOPPED)
                    for stored in state.jobs.values()
                    if stored.value.wanted is Wanted.STARTED
                ]
                self._backend.reset(stopped)
                logger.warning("the first node of the cluster: %d jobs are stopped", len(stopped))
            self._me = self._backend.join(replace(self._settings.me, role=self._follower))
        self._session = self._backend.connection().session
        logger.info("joined as %s, %s", self._me.path, self._me.role)

    # -- leading

    def _lead(self, state: ClusterState, now_ms: int) -> None:
        """Decide, if this node is master."""
        assert self._me is not None  # noqa: S101 -- called by members
        if self._hands_over(state):
            self._backend.withdraw()
        if not self._backend.is_elected():
            if self._epoch is not None:
                logger.warning("this node is master no more")
            self._epoch = None
            self._show_role(self._follower)
            return
        if self._epoch is None:
            self._epoch = self._backend.take_epoch(self._me.node_id, now_ms, state.epoch)
            self._compare_ms = 0
            logger.info("this node is master, epoch %d", self._epoch.value.number)
            state = self._backend.read()
        self._show_role(Role.MASTER)
        if state.epoch.version != self._epoch.version:
            raise Conflict("there is another master")
        plan = reconcile(state, now_ms, self._settings.master)
        if plan.changes:
            left = self._backend.commit(self._epoch, plan.changes)
            logger.info("%d decisions written, %d met a change and are made again", len(plan.changes), len(left))

    def _hands_over(self, state: ClusterState) -> bool:
        """Return whether another node of a standby cluster shall be master, as this one is drained and it is not."""
        assert self._me is not None  # noqa: S101 -- called by members
        drained = state.drained()
        return (
            self._settings.master.mode is Mode.STANDBY
            and self._me.node_id in drained
            and self._backend.is_elected()
            and any(node.node_id not in drained for node in state.nodes.values())
        )

    def _show_role(self, role: Role) -> None:
        if self._me is not None and self._me.role is not role:
            changed = replace(self._me, role=role)
            self._backend.update_node(changed)
            self._me = changed

    # -- its own jobs

    def _compare(self, state: ClusterState, now_ms: int) -> None:
        """Take what was given to this node, let go of what was not."""
        assert self._me is not None  # noqa: S101 -- called by members
        mine = {
            key: stored.value
            for key, stored in state.assignments.items()
            if stored.value.node_path == self._me.path and self._is_current(stored.value)
        }
        for key in [key for key in self._had if key not in mine]:
            self._let_go(key)
        self._preparations.keep(set(mine))
        for key, assignment in sorted(mine.items()):
            stored_job = state.jobs.get(key)
            if stored_job is None:
                self._let_go(key)
            elif stored_job.value.wanted is Wanted.STOPPED:
                self._stop(stored_job.value, assignment, state, now_ms)
            elif assignment.op_seq == stored_job.value.op_seq:
                self._start(stored_job.value, assignment, state, now_ms)
        started = {item.value.job_id for item in state.jobs.values() if item.value.wanted is Wanted.STARTED}
        self._elsewhere = frozenset(started - self._by_id.keys())

    def _is_current(self, item: Assignment) -> bool:
        """Whether a decision is not of an earlier master than the last one that decided about the job."""
        last = self._last_epochs.get(item.key, 0)
        if item.epoch < last:
            logger.warning("%s: a decision of epoch %d is ignored, %d was seen", item.key, item.epoch, last)
            return False
        self._last_epochs[item.key] = item.epoch
        return True

    def _let_go(self, key: str) -> None:
        had = dict(self._had)
        if had.pop(key, None) is not None:
            self._set(had)
            logger.info("%s is this node's no more", key)
        self._backend.disown(key)

    def _set(self, had: Mapping[str, _Had]) -> None:
        self._had = had
        self._by_id = {item.job_id: item for item in had.values()}

    def _stop(self, job: JobRecord, item: Assignment, state: ClusterState, now_ms: int) -> None:
        """Row 10."""
        self._let_go(job.key)
        self._write(state, item, now_ms, job_state=JobState.PAUSE, result=Result.SUCCESS, op_seq=job.op_seq)

    def _start(self, job: JobRecord, item: Assignment, state: ClusterState, now_ms: int) -> None:
        """Rows 6 to 9."""
        had = self._had.get(job.key)
        if had is not None and (had.op_seq, had.node_path) == (item.op_seq, item.node_path):
            self._say_ready(job, item, state, now_ms)  # the last time may have met another writer
            return
        status = state.statuses.get(job.key)
        if status is not None and _is_failure_of(status.value, item):
            return  # the master decides what comes next
        if now_ms < item.not_before_ms:
            return
        prepared = self._preparations.get(job.key, (item.op_seq, item.attempt), job.source)
        if prepared is None:
            self._write(state, item, now_ms, job_state=_before(status), result=Result.EXECUTING, op_seq=job.op_seq)
        elif prepared.reason:
            self._fail(state, item, prepared, now_ms)
        else:
            self._take(job, item, state, now_ms)

    def _take(self, job: JobRecord, item: Assignment, state: ClusterState, now_ms: int) -> None:
        """Row 7: own it, then take its runs, then say so."""
        try:
            self._backend.own(Owner(key=job.key, node_id=item.node_id, epoch=item.epoch))
        except Conflict:
            return  # its last owner's session has not ended yet
        self._set({**self._had, job.key: _Had(job.job_id, item.op_seq, item.node_path)})
        self._say_ready(job, item, state, now_ms)

    def _say_ready(self, job: JobRecord, item: Assignment, state: ClusterState, now_ms: int) -> None:
        self._write(state, item, now_ms, job_state=JobState.STARTUP, result=Result.SUCCESS, op_seq=job.op_seq)

    def _fail(self, state: ClusterState, item: Assignment, prepared: Prepared, now_ms: int) -> None:
        """Rows 8 and 9."""
        self._preparations.forget(item.key)
        self._write(
            state,
            item,
            now_ms,
            job_state=_before(state.statuses.get(item.key)),
            result=Result.FAILED if prepared.is_permanent else Result.RETRYING,
            op_seq=item.op_seq,
            reason=prepared.reason,
            error=prepared.error,
            is_permanent=prepared.is_permanent,
        )

    def _write(
        self,
        state: ClusterState,
        item: Assignment,
        now_ms: int,
        *,
        job_state: JobState,
        result: Result,
        op_seq: int,
        reason: str = "",
        error: str = "",
        is_permanent: bool = False,
    ) -> None:
        """Say how an operation goes, unless that is said already."""
        before = state.statuses.get(item.key)
        status = JobStatus(
            key=item.key,
            job_state=job_state,
            result=result,
            op_seq=op_seq,
            epoch=item.epoch,
            node_id=item.node_id,
            reason=reason,
            error=error,
            attempt=item.attempt,
            is_permanent=is_permanent,
            updated_ms=now_ms,
            more={} if before is None else before.value.more,
        )
        if before is not None and replace(before.value, updated_ms=now_ms) == status:
            return
        self._backend.put_status(status, None if before is None else before.version)


def _before(status: Stored[JobStatus] | None) -> JobState:
    """Return what a job was before its present operation."""
    return JobState.SHUTDOWN if status is None else status.value.job_state


def _is_failure_of(status: JobStatus, item: Assignment) -> bool:
    """Whether a status says that this very attempt failed."""
    return status.result in {Result.FAILED, Result.RETRYING} and (status.op_seq, status.attempt, status.node_id) == (
        item.op_seq,
        item.attempt,
        item.node_id,
    )
