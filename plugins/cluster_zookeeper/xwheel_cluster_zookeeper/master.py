"""What a master decides: which node has which job. It compares what is with what shall be; it counts nothing itself.

A node says of an attempt that failed and may do well elsewhere ``Retrying``, and of one that would fail everywhere
``Failed`` with ``is_permanent``; whether there is another attempt is decided here. Assignments that stay are not
written again and keep the epoch in which they were made. A job that failed has no node until its next operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from xwheel_cluster_zookeeper.backend import MasterChange
from xwheel_cluster_zookeeper.model import (
    Assignment,
    ClusterState,
    JobRecord,
    JobState,
    JobStatus,
    Mode,
    NodeRecord,
    Result,
    Stored,
    Wanted,
    may_have,
)

RETRIES_MS: Final = (5_000, 15_000, 45_000)
NO_NODE: Final = "no_eligible_node"
REBALANCE: Final = "rebalance"
"""Field in ``more``: a job's number differs from its assignment's while the job may be moved once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterSettings:
    """How a master decides.

    Attributes:
        mode: In a standby cluster only the master has jobs.
        retries_ms: How long each retry waits after the failure before it; as many retries as there are numbers.
    """

    mode: Mode = Mode.MASTER_SLAVE
    retries_ms: tuple[int, ...] = RETRIES_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a master writes.

    Attributes:
        changes: In the order in which they are written.
        next_ms: When the next retry is due; None without one.
    """

    changes: list[MasterChange]
    next_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A job that needs a node: the one with the fewest jobs; without any it stays at home, a drained node."""

    job: JobRecord
    before: Stored[Assignment] | None
    attempt: int = 1
    not_before_ms: int = 0
    excluded: tuple[str, ...] = ()
    is_at_home: bool = False


def reconcile(state: ClusterState, now_ms: int, settings: MasterSettings) -> Plan:
    """Return what is to be written so that each started job has one node that lives and may have it.

    What was read once and written gives nothing when it is read again. The caller is the master of ``state.epoch``.
    """
    work = _Reconciliation(state, now_ms, settings)
    for key in sorted(state.jobs.keys() | state.assignments.keys()):
        work.look_at(key)
    work.place_all()
    work.rebalance()
    due = [item.not_before_ms for item in work.present.values() if item.not_before_ms > now_ms]
    return Plan(changes=work.changes, next_ms=min(due, default=None))


def movable(state: ClusterState, settings: MasterSettings) -> list[str]:
    """Return the fewest jobs that have to move so that loads are even; those whose marks ask a master to move them."""
    nodes = _Nodes(state, settings)
    for stored in state.assignments.values():
        nodes.load[stored.value.node_path] += 1
    keys = []
    for key in sorted(state.assignments):
        item, job = state.assignments[key].value, state.jobs.get(key)
        if job is None or not _is_running(state, job.value, item):
            continue
        if (better := nodes.better(item.node_path, job.value)) is not None:
            nodes.move(item.node_path, better.path)
            keys.append(key)
    return keys


class _Nodes:
    """Living nodes that may have jobs, and how many each has."""

    def __init__(self, state: ClusterState, settings: MasterSettings) -> None:
        newest: dict[str, NodeRecord] = {}
        for path in sorted(state.nodes):  # a node that came back before its old session ended is there twice
            newest[state.nodes[path].node_id] = state.nodes[path]
        if settings.mode is Mode.STANDBY:
            newest = {name: node for name, node in newest.items() if name == state.epoch.value.node_id}
        drained = state.drained()
        self._nodes = [newest[name] for name in sorted(newest) if name not in drained]
        self._by_path = {node.path: node for node in newest.values()}
        self._drained = {node.path for node in newest.values() if node.node_id in drained}
        self._by_wish: dict[tuple[str, str], list[NodeRecord]] = {}
        self.load: Counter[str] = Counter()

    def fit_for(self, job: JobRecord) -> list[NodeRecord]:
        """Return nodes that may be given a job, by their ids; drained ones are not among them."""
        wish = _wish(job)
        if wish not in self._by_wish:
            self._by_wish[wish] = [node for node in self._nodes if may_have(node, job)]
        return self._by_wish[wish]

    def may_keep(self, path: str, job: JobRecord) -> bool:
        """Return whether a node lives and may have the job."""
        node = self._by_path.get(path)
        return node is not None and may_have(node, job)

    def is_drained(self, path: str) -> bool:
        """Return whether a node that lives is to have no jobs while others can have them."""
        return path in self._drained

    def choose(self, job: JobRecord, excluded: Sequence[str]) -> NodeRecord | None:
        """Return the node with the fewest jobs that has room; one of the excluded only if there is no other."""
        free = [node for node in self.fit_for(job) if not node.slots or self.load[node.path] < node.slots]
        preferred = [node for node in free if node.node_id not in excluded] if excluded else free
        return min(preferred or free, key=lambda node: self.load[node.path], default=None)

    def better(self, path: str, job: JobRecord) -> NodeRecord | None:
        """Return a node that would have fewer jobs even with this one than the node at ``path`` has now."""
        best = self.choose(job, ())
        return None if best is None or self.load[path] - self.load[best.path] < 2 else best  # noqa: PLR2004

    def move(self, path: str, to: str) -> None:
        """Count a job elsewhere."""
        self.load[path] -= 1
        self.load[to] += 1


class _Reconciliation:
    """One comparison of what is with what shall be."""

    def __init__(self, state: ClusterState, now_ms: int, settings: MasterSettings) -> None:
        self._state = state
        self._now_ms = now_ms
        self._settings = settings
        self._nodes = _Nodes(state, settings)
        self._open: list[_Open] = []
        self._epoch = state.epoch.value.number
        self.changes: list[MasterChange] = []
        self.present: dict[str, Assignment] = {}

    def look_at(self, key: str) -> None:
        """Decide whether a job's assignment stays, goes or is made again."""
        stored = self._state.jobs.get(key)
        before = self._state.assignments.get(key)
        if stored is None:
            self._remove(key, before)
        elif stored.value.wanted is Wanted.STOPPED:
            self._stop(stored.value, before)
        elif before is None:
            self._begin(stored.value)
        else:
            self._follow(stored.value, before)

    def _stop(self, job: JobRecord, before: Stored[Assignment] | None) -> None:
        """Row 11: a node that has the job says that it stopped it; where none has it, the master says so."""
        status = self._status(job.key)
        is_said = (
            status is not None
            and status.op_seq >= job.op_seq
            and status.job_state is not JobState.STARTUP
            and status.result in {Result.SUCCESS, Result.FAILED}
        )
        if before is not None and not is_said and self._lives(before.value):
            self._keep(before.value)
            return
        if not is_said:
            state, reason = _stopped_state(job, status), "" if before else "not_running"
            self._say(job, result=Result.SUCCESS, job_state=state, reason=reason)
        self._remove(job.key, before)

    def _begin(self, job: JobRecord) -> None:
        """Row 4: a started job without a node gets one, unless its last operation has failed."""
        status = self._status(job.key)
        if status is not None and status.op_seq >= job.op_seq:
            if status.result is Result.FAILED:
                return
            if status.result is Result.RETRYING and status.attempt > len(self._settings.retries_ms):
                self._give_up(job, status)
                return
        self._open.append(_Open(job=job, before=None))

    def _follow(self, job: JobRecord, before: Stored[Assignment]) -> None:
        """Rows 8, 9 and 12, and a newer operation, which ends what was pending of an older one."""
        item = before.value
        if item.op_seq != job.op_seq:
            self._renew(job, before)
        elif (status := self._failure(item)) is not None:
            self._retry(job, before, status)
        elif not self._nodes.may_keep(item.node_path, job):
            self._open.append(self._released(job, before))
        elif self._nodes.is_drained(item.node_path):
            self._open.append(replace(self._released(job, before), is_at_home=True))
        else:
            self._keep(item)

    def _renew(self, job: JobRecord, before: Stored[Assignment]) -> None:
        """Let the same node do the newer operation, if it may have the job still."""
        item = before.value
        if not self._nodes.may_keep(item.node_path, job):
            self._open.append(_Open(job=job, before=before))
            return
        if self._nodes.is_drained(item.node_path):
            self._open.append(_Open(job=job, before=before, is_at_home=True))
            return
        self._assign(_Open(job=job, before=before), item.node_id, item.node_path)

    def _retry(self, job: JobRecord, before: Stored[Assignment], status: JobStatus) -> None:
        item = before.value
        if status.is_permanent or item.attempt > len(self._settings.retries_ms):
            if status.result is Result.RETRYING:
                self._give_up(job, status)
            self._remove(job.key, before)
            return
        self._open.append(self._next_attempt(job, before))

    def _next_attempt(self, job: JobRecord, before: Stored[Assignment]) -> _Open:
        item = before.value
        most = len(self._settings.retries_ms)
        waits = self._settings.retries_ms[min(item.attempt, most) - 1] if most else 0
        return _Open(
            job=job,
            before=before,
            attempt=min(item.attempt, most) + 1,
            not_before_ms=self._now_ms + waits,
            excluded=tuple(dict.fromkeys((*item.excluded, item.node_id))),
        )

    def _released(self, job: JobRecord, before: Stored[Assignment]) -> _Open:
        """Row 12. A job that ran begins again, one that was being prepared is retried; losses never end it."""
        item, status = before.value, self._status(job.key)
        if status is None or status.op_seq < item.op_seq:
            is_begun = is_done = False
        else:
            is_begun = status.result is Result.EXECUTING and status.node_id == item.node_id
            is_done = status.result is Result.SUCCESS
        if is_done:
            return _Open(job=job, before=before)
        if is_begun and not self._lives(item):
            return self._next_attempt(job, before)
        return _Open(
            job=job, before=before, attempt=item.attempt, not_before_ms=item.not_before_ms, excluded=item.excluded
        )

    def place_all(self) -> None:
        """Give each job that needs one a node, those that have one last, those with the least choice first."""
        choice = {_wish(item.job): len(self._nodes.fit_for(item.job)) for item in self._open}
        for item in sorted(self._open, key=lambda one: (one.is_at_home, choice[_wish(one.job)], one.job.key)):
            node = self._nodes.choose(item.job, item.excluded)
            if node is not None:
                self._assign(item, node.node_id, node.path)
            elif item.is_at_home and item.before is not None:
                self._stay(item.job, item.before)
            else:
                self._wait(item)

    def _stay(self, job: JobRecord, before: Stored[Assignment]) -> None:
        """Leave a job at its drained node, as no other can have it; a newer operation is done there, too."""
        item = before.value
        if item.op_seq == job.op_seq:
            self._keep(item)
        else:
            self._assign(_Open(job=job, before=before), item.node_id, item.node_path)

    def _wait(self, item: _Open) -> None:
        """Row 5."""
        self._remove(item.job.key, item.before)
        status = self._status(item.job.key)
        is_said = (
            status is not None
            and status.op_seq == item.job.op_seq
            and (status.result, status.reason) == (Result.WAITING, NO_NODE)
        )
        if not is_said:
            state = status.job_state if status else JobState.SHUTDOWN
            text = f"no node with the tag {item.job.tag!r}" if item.job.tag else "no node"
            text += f" of the group {item.job.app_name}" if item.job.app_name else ""
            drained = " that is not drained" if self._state.drains else ""
            error = f"{text}{drained} has room for the job: it begins when there is one"
            self._say(item.job, result=Result.WAITING, job_state=state, reason=NO_NODE, error=error)

    def rebalance(self) -> None:
        """Move jobs that are marked for it to nodes with fewer, each once for each mark."""
        for key in sorted(self.present):
            item, stored = self.present[key], self._state.jobs.get(key)
            if stored is None or _mark(stored.value) == _mark(item):
                continue
            job, before = stored.value, self._state.assignments[key]
            better = self._nodes.better(item.node_path, job) if _is_running(self._state, job, item) else None
            changed = replace(item, more={**item.more, REBALANCE: _mark(job)})
            if better is not None:
                self._nodes.move(item.node_path, better.path)
                changed = replace(
                    changed, node_id=better.node_id, node_path=better.path, epoch=self._epoch, attempt=1, excluded=()
                )
            self.present[key] = changed
            self.changes.append(MasterChange(key=key, expected=before.version, assignment=changed))

    def _status(self, key: str) -> JobStatus | None:
        stored = self._state.statuses.get(key)
        return None if stored is None else stored.value

    def _failure(self, item: Assignment) -> JobStatus | None:
        """Return what the assigned node said of this very attempt, if it failed."""
        status = self._status(item.key)
        if status is None or status.result not in {Result.FAILED, Result.RETRYING}:
            return None
        same = (status.op_seq, status.attempt, status.node_id) == (item.op_seq, item.attempt, item.node_id)
        return status if same else None

    def _lives(self, item: Assignment) -> bool:
        return item.node_path in self._state.nodes

    def _keep(self, item: Assignment) -> None:
        self.present[item.key] = item
        self._nodes.load[item.node_path] += 1

    def _assign(self, item: _Open, node_id: str, path: str) -> None:
        before = item.before
        more: Mapping[str, Any] = before.value.more if before else {}
        if _mark(item.job):
            more = {**more, REBALANCE: _mark(item.job)}
        made = Assignment(
            key=item.job.key,
            job_id=item.job.job_id,
            node_id=node_id,
            node_path=path,
            epoch=self._epoch,
            op_seq=item.job.op_seq,
            attempt=item.attempt,
            not_before_ms=item.not_before_ms,
            excluded=item.excluded,
            more=more,
        )
        self._keep(made)
        expected = before.version if before else None
        self.changes.append(MasterChange(key=made.key, expected=expected, assignment=made))

    def _remove(self, key: str, before: Stored[Assignment] | None) -> None:
        if before is not None:
            self.changes.append(MasterChange(key=key, expected=before.version, assignment=None))

    def _give_up(self, job: JobRecord, status: JobStatus) -> None:
        """Row 9: what would be retried has failed, as no attempt is left."""
        stored = self._state.statuses[job.key]
        failed = replace(status, result=Result.FAILED, epoch=self._epoch, updated_ms=self._now_ms)
        self._write(failed, stored.version)

    def _say(self, job: JobRecord, *, result: Result, job_state: JobState, reason: str = "", error: str = "") -> None:
        """Write the status of a job that no living node has."""
        stored = self._state.statuses.get(job.key)
        status = JobStatus(
            key=job.key,
            job_state=job_state,
            result=result,
            op_seq=job.op_seq,
            epoch=self._epoch,
            node_id="",
            reason=reason,
            error=error,
            updated_ms=self._now_ms,
            more=stored.value.more if stored else {},
        )
        self._write(status, stored.version if stored else None)

    def _write(self, status: JobStatus, expected: int | None) -> None:
        self.changes.append(MasterChange(key=status.key, expected=expected, is_assignment=False, status=status))


def _stopped_state(job: JobRecord, status: JobStatus | None) -> JobState:
    """Return what a job is that no node has: paused only if it ran, or was asked to pause."""
    if status is None:
        return JobState.PAUSE if job.operation == "Pause" else JobState.SHUTDOWN
    return JobState.PAUSE if status.job_state is JobState.STARTUP else status.job_state


def _wish(job: JobRecord) -> tuple[str, str]:
    """Return what jobs have in common that the same nodes may have."""
    return job.app_name, job.tag


def _mark(item: JobRecord | Assignment) -> int:
    """Return the number of the last request to move jobs that this knows of."""
    mark = item.more.get(REBALANCE, 0)
    return mark if isinstance(mark, int) else 0


def _is_running(state: ClusterState, job: JobRecord, item: Assignment) -> bool:
    """Return whether a job is started, and its node has done its last operation."""
    stored = state.statuses.get(job.key)
    if stored is None or job.wanted is not Wanted.STARTED:
        return False
    status = stored.value
    return status.result is Result.SUCCESS and status.op_seq == item.op_seq == job.op_seq
