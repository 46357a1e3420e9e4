"""A scheduler node's side of a cluster: it brings operations to nodes, and takes back how they went.

The tables of ``xwheel_job_package`` are the outbox. One scheduler node at a time writes; a second one that thinks that
it does so changes nothing, as each write names the version that it replaces and an operation is closed once. All
scheduler nodes follow the state, and tell the scheduler which nodes are gone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from xwheel.plugin import NotFoundError, PluginSite
from xwheel_job_package.operations import JobOperations
from xwheel_job_package.outbox import Outbox, source_of

from xwheel_cluster_zookeeper.backend import ClusterBackend, Conflict, Disconnected, Link, NotAllowedError, SessionLost
from xwheel_cluster_zookeeper.master import REBALANCE, MasterSettings, movable
from xwheel_cluster_zookeeper.model import (
    ClusterState,
    Drain,
    JobRecord,
    JobStatus,
    Mode,
    Result,
    Stored,
    Wanted,
    drain_key,
    job_key,
)
from xwheel_cluster_zookeeper.router import NAME, tag_of
from xwheel_cluster_zookeeper.view import ClusterView

logger = logging.getLogger(__name__)

STEP_MS: Final = 200
REFUSED_MS: Final = 30_000
AWAY_MS: Final = 500
LOOK_MS: Final = 1_000
"""How long another scheduler node's operation waits at most until it is seen."""
COMPARE_MS: Final = 30_000
"""How often all jobs are compared, not only those with operations."""
TIMEOUT_MS: Final = 60_000
WAIT_S: Final = 60
"""How long runs of jobs that are made wait for a node: longer than a session and most preparations last."""
MOST_SOME: Final = 500
"""More jobs than this are read with all others."""
MOST_WRITES: Final = 200
"""How many records are written in one step."""

Row = Mapping[str, Any]


class Mirror:
    """Follows a cluster, and brings jobs of packages to it.

    Args:
        backend: The cluster's store.
        view: What is kept in memory of the state.
        mode: How the cluster's nodes share jobs.
        timeout_ms: After how long without a result an operation that was delivered is closed as failed.
    """

    job_fields: Mapping[str, Any] = {"route_strategy": NAME, "wait_for_executor_s": WAIT_S}

    def __init__(
        self,
        backend: ClusterBackend,
        view: ClusterView,
        *,
        mode: Mode = Mode.MASTER_SLAVE,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._backend = backend
        self._view = view
        self._settings = MasterSettings(mode=mode)
        self._timeout_ms = timeout_ms
        self._woken = threading.Event()
        self._to_rebalance = threading.Event()
        self._seen = -1
        self._session = -1
        self._look_ms = self._compare_ms = self._lock_ms = 0
        self._is_begun = self._is_writer = False
        self._stopped: frozenset[int] = frozenset()
        self._late: dict[str, int] = {}
        self._app_names: Mapping[int, str] = {}

    def open(self, site: PluginSite) -> None:
        """Work with this site from now on."""
        self._site = site
        self._operations = JobOperations(site)
        self._outbox = Outbox(site)

    def close(self) -> None:
        """End the session with the store."""
        self._backend.close()

    def wake(self) -> None:
        """Look at the tables in the next step."""
        self._woken.set()

    def waiting_reason(self) -> str:
        """Return ``queued`` while the store cannot be reached."""
        return "" if self._backend.connection().link is Link.CONNECTED else "queued"

    def describe(self, job_id: int) -> dict[str, Any] | None:
        """Return which node has a job and how its last operation went, from memory."""
        place = self._view.find(job_id)
        if place is None:
            return None
        given, status = place.assignment, place.status
        return {
            "node_id": given.node_id if given else None,
            "address": place.node.address if place.node else None,
            "attempt": given.attempt if given else None,
            "not_before_ms": given.not_before_ms if given else None,
            "state": status.job_state.value if status else None,
            "result": status.result.value if status else None,
            "reason": status.reason if status else "",
            "error": status.error if status else "",
        }

    def summary(self, now_ms: int, app_names: Collection[str] | None = None) -> dict[str, Any]:
        """Return what is known of the cluster, of some groups or of all, from memory."""
        link = self._backend.connection().link
        known = {"mode": self._settings.mode.value, "connection": link.value}
        return {**known, "is_reachable": link is Link.CONNECTED, **self._view.summary(now_ms, app_names)}

    def rebalance(self) -> int:
        """Ask the master to make loads even, in the next step; return how many jobs would move as it is known now."""
        self._to_rebalance.set()
        return len(movable(self._view.state, self._settings))

    def drain(self, node_id: str, by: str, now_ms: int) -> None:
        """Let a node's jobs go to others, and give it none until :meth:`resume`.

        Raises:
            NotFoundError: No one knows the node.
            Disconnected: The store does not answer, or :class:`SessionLost`.
        """
        if not self._view.knows(node_id):
            raise NotFoundError("package node", node_id)
        self._backend.put_drain(Drain(key=drain_key(node_id), node_id=node_id, since_ms=now_ms, by=by))

    def resume(self, node_id: str) -> None:
        """Let a node have jobs again.

        Raises:
            NotFoundError: No one knows the node, and it is not drained.
            Disconnected: The store does not answer, or :class:`SessionLost`.
        """
        if not self._view.knows(node_id) and node_id not in self._view.state.drained():
            raise NotFoundError("package node", node_id)
        self._backend.delete_drain(drain_key(node_id))

    def step(self, now_ms: int) -> int:
        """Do what is due, and return how long to wait in milliseconds."""
        if not self._is_begun:
            self._is_begun = True
            self._backend.open(0)
        if self._backend.connection().link is not Link.CONNECTED:
            self._is_writer = False
            return AWAY_MS
        try:
            self._begin_session()
            has_changed = self._follow(now_ms)
            if self._to_rebalance.is_set():
                self._mark(now_ms)
                self._to_rebalance.clear()
            if self._may_write(now_ms):
                self._write(now_ms, has_changed=has_changed)
        except (Disconnected, SessionLost) as error:
            logger.info("the cluster's store does not answer: %s", error)
            self._is_writer = False
            return AWAY_MS
        except NotAllowedError as error:
            logger.error("the cluster cannot be followed: %s", error)
            self._is_writer = False
            return REFUSED_MS
        return STEP_MS

    def _begin_session(self) -> None:
        """Look at everything again after a session was lost."""
        session = self._backend.connection().session
        if session != self._session:
            self._session = session
            self._look_ms = self._compare_ms = self._lock_ms = 0

    def _follow(self, now_ms: int) -> bool:
        """Read the state if it has changed, and return whether it has."""
        seen = self._backend.wait_for_change(self._seen, 0)
        if seen == self._seen:
            self._view.confirm(now_ms)
            return False
        state = self._backend.read()
        self._seen = seen
        for address in self._view.update(state, now_ms):
            logger.warning("the package node at %s is gone: its executor is asked about its runs", address)
            self._site.executors.note_death(address)
        return True

    def _may_write(self, now_ms: int) -> bool:
        """Return whether this scheduler node is the one that writes."""
        if now_ms >= self._lock_ms:
            was, self._is_writer = self._is_writer, self._backend.mirror_lock()
            self._lock_ms = now_ms + LOOK_MS
            if self._is_writer and not was:
                self._look_ms = self._compare_ms = 0
                self._remember_late()
        return self._is_writer

    def _write(self, now_ms: int, *, has_changed: bool) -> None:
        is_whole = now_ms >= self._compare_ms
        if not (has_changed or self._woken.is_set() or is_whole or now_ms >= self._look_ms):
            return
        self._woken.clear()
        self._look_ms = now_ms + LOOK_MS
        waiting = self._outbox.waiting()
        if is_whole:
            self._compare_ms = now_ms + COMPARE_MS
        stopped, before = _stopped(self._view.state), self._stopped
        self._stopped = stopped
        some = {row["job_id"] for row in waiting} | (stopped - before)
        rows = self._outbox.wanted(None if is_whole or len(some) > MOST_SOME else some)
        newest = {row["job_id"]: row for row in waiting}
        written = 0
        for row in rows.values():
            written += self._deliver(row, newest.get(row["job_id"]), now_ms)
            if written == MOST_WRITES:  # the rest in the next step, so that a node that stops need not wait
                self._woken.set()
                self._compare_ms = now_ms if is_whole else self._compare_ms
                return
        if is_whole:
            self._forget(rows)
        for operation in waiting:
            self._settle(operation, rows.get(operation["job_id"]), now_ms)
        self._note_late()

    def _deliver(self, row: Row, operation: Row | None, now_ms: int) -> bool:
        """Write a job's record if its version is behind, and return whether that was so.

        Nothing is written for a job that never was started.
        """
        if operation is not None and operation["version"] != row["version"]:
            operation = None
        if row["open_id"] not in {None, operation["id"] if operation else None}:
            return False  # one is being begun
        known = self._view.state.jobs.get(_key(row))
        if known is not None and known.value.op_seq >= row["version"]:
            self._take_what_is_ahead(row, operation, known.value)
            return False
        if known is None and row["state"] != "Startup" and operation is None:
            return False
        record = self._record(row, operation, now_ms)
        if record is None:
            return False
        if known is not None:
            record = replace(record, more=known.value.more)
        try:
            self._backend.put_job(record, known.version if known else None)
        except Conflict:
            self._seen = -1
        else:
            if operation and operation["reason"] == "queued":
                self._operations.progress(operation["id"], "")
        return True

    def _take_what_is_ahead(self, row: Row, operation: Row | None, known: JobRecord) -> None:
        """Follow the first node of an empty cluster, which stopped all jobs, or a store that knows more operations."""
        if known.wanted is Wanted.STOPPED and row["state"] == "Startup" and operation is None:
            logger.warning("job %d was stopped by the first node of the cluster", row["job_id"])
            self._outbox.take_reset(row["job_id"], row["version"], known.op_seq, known.updated_by)
        elif operation is not None and known.operation_id != operation["id"]:
            logger.warning("the cluster knows later operations of job %d than the tables", row["job_id"])
            self._outbox.catch_up(operation, known.op_seq + 1)

    def _record(self, row: Row, operation: Row | None, now_ms: int) -> JobRecord | None:
        """Return what nodes are told of a job; None if the job or its package is gone."""
        source = source_of(row)
        try:
            job = self._site.jobs.get(row["job_id"])
            tag = tag_of(job["route_options"])
        except NotFoundError:
            return None
        wanted = Wanted.STARTED if row["state"] == "Startup" else Wanted.STOPPED
        return (
            None
            if source is None
            else JobRecord(
                key=_key(row),
                job_id=row["job_id"],
                group_name=row["group_name"],
                job_name=row["name"],
                source=source,
                wanted=wanted,
                operation=operation["operation"] if operation else _OPERATIONS[wanted],
                op_seq=row["version"],
                operation_id=operation["id"] if operation else 0,
                tag=tag,
                app_name=self._app_name(job["group_id"]),
                updated_by=operation["actor"] if operation else "",
                updated_ms=now_ms,
            )
        )

    def _app_name(self, group_id: int) -> str:
        """Return the app name of a group; looked up once, since it stays."""
        if group_id not in self._app_names:
            self._app_names = {group.id: group.app_name for group in self._site.executors.groups()}
        return self._app_names.get(group_id, "")

    def _take_reset(self, row: Row, known: JobRecord) -> None:
        """Stop a job in the scheduler too, as the first node of an empty cluster has done with all."""
        logger.warning("job %d was stopped by the first node of the cluster", row["job_id"])
        self._outbox.take_reset(row["job_id"], row["version"], known.op_seq, known.updated_by)

    def _forget(self, rows: Mapping[int, Row]) -> None:
        """Remove records of jobs that are deleted."""
        keys = {_key(row) for row in rows.values()}
        for key, stored in self._view.state.jobs.items():
            if key not in keys:
                try:
                    self._backend.delete_job(key, stored.version)
                except Conflict:
                    self._seen = -1

    def _settle(self, operation: Row, row: Row | None, now_ms: int) -> None:
        """Close an operation whose result is known, or that no one answers."""
        number, version = operation["id"], operation["version"]
        if row is None:
            self._operations.settle(number, "Failed", "job_deleted", "the job was deleted before it was done")
            return
        if row["version"] > version:
            text = f"the job has had another operation since, which led to version {row['version']}"
            self._operations.settle(number, "Failed", "superseded", text)
            return
        known = self._view.state.jobs.get(_key(row))
        if known is None or known.value.operation_id != number:
            return  # not brought to the nodes yet
        status = self._status(_key(row), version)
        if status is not None and status.result is Result.SUCCESS:
            self._operations.settle(number, "Success", status.reason, "")
        elif status is not None and status.result is Result.FAILED:
            self._operations.settle(number, "Failed", status.reason, status.error)
        elif now_ms - known.value.updated_ms >= self._timeout_ms:
            self._time_out(operation, known, status)
        elif status is not None and (said := _said(status)) != operation["reason"]:
            self._operations.progress(number, said)

    def _time_out(self, operation: Row, known: Stored[JobRecord], status: JobStatus | None) -> None:
        said = f", the last word was {_said(status)}: {status.error}" if status else ""
        text = f"no node has done it within {self._timeout_ms // 1000} s{said}; it may still be done"
        self._operations.settle(operation["id"], "Failed", "timeout", text)
        self._late[known.value.key] = operation["id"]

    def _remember_late(self) -> None:
        """Know of operations that were closed by a timeout before this scheduler node began to write."""
        keys = {item.value.operation_id: key for key, item in self._view.state.jobs.items()}
        self._late |= {keys[number]: number for number in self._outbox.unanswered() if number in keys}

    def _note_late(self) -> None:
        """Add answers that came after the timeout to the log; they change no state."""
        for key, number in list(self._late.items()):
            known = self._view.state.jobs.get(key)
            if known is None or known.value.operation_id != number:
                del self._late[key]
                continue
            status = self._status(key, known.value.op_seq)
            if status is not None and status.result in {Result.SUCCESS, Result.FAILED}:
                self._operations.note_late(
                    number, status.result.value + (f"({status.reason})" if status.reason else "")
                )
                del self._late[key]

    def _status(self, key: str, version: int) -> JobStatus | None:
        """Return the status of an operation, if there is one already."""
        stored = self._view.state.statuses.get(key)
        return stored.value if stored is not None and stored.value.op_seq >= version else None

    def _mark(self, now_ms: int) -> None:
        """Mark jobs that have to move so that loads are even; the master moves them."""
        state = self._view.state
        for key in movable(state, self._settings):
            stored = state.jobs[key]
            more = {**stored.value.more, REBALANCE: now_ms}
            try:
                self._backend.put_job(replace(stored.value, more=more), stored.version)
            except Conflict:
                self._seen = -1


_OPERATIONS: Final = {Wanted.STARTED: "Start", Wanted.STOPPED: "Pause"}


def _key(row: Row) -> str:
    return job_key(row["job_id"], row["group_name"], row["name"])


def _stopped(state: ClusterState) -> frozenset[int]:
    """Return the jobs that nodes are told to stop."""
    stopped = (item.value for item in state.jobs.values() if item.value.wanted is Wanted.STOPPED)
    return frozenset(job.job_id for job in stopped)


def _said(status: JobStatus) -> str:
    """Return a word for why an operation still waits."""
    if status.result is Result.WAITING:
        return status.reason
    word = status.result.value.lower()
    return f"{word}_{status.attempt}" if status.result is Result.RETRYING else word
