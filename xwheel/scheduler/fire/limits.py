"""What may go while a group has a limit or a job blocks for the whole cluster.

The decision falls inside the fence's transaction. A job's partition is held by one node, so its lease is lock enough
for the block strategy; a group's runs belong to all nodes, so its row is locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xwheel.model import BlockScope, BlockStrategy, Job, Run, RunReason, RunState
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.records import Batch, Deferred, Line, Routed
from xwheel.storage import open_runs
from xwheel.storage.database.engine import Connection
from xwheel.storage.open_runs import SentRun


class RunLimits:
    """Asks the database what is open and decides what may go; tick thread only."""

    def __init__(self, registry: ExecutorRegistry, deferred: DeferredRuns) -> None:
        self._registry, self._deferred = registry, deferred

    def concerns(self, items: Iterable[Routed]) -> list[Routed]:
        """Return the runs that a limit or a cluster-wide strategy applies to; empty costs no SQL."""
        limited = self._registry.limited_groups
        scope = BlockScope.CLUSTER
        return [item for item in items if item.job.block_scope is scope or item.job.group_id in limited]

    def line_of(self, job: Job) -> Line:
        """Return the line in which a run that must pass waits for a place."""
        is_limited = job.group_id in self._registry.limited_groups
        return Line("group", job.group_id) if is_limited else Line("job", job.id)

    def queue_of(self, item: Routed) -> Line | None:
        """Return the line in which an older run waits already; asking the database for this one would be in vain."""
        run, job = item.run, item.job
        if _covers(job):
            return None  # it takes the place of the older one
        line = Line("job", job.id)
        is_first = run.root_id == run.id  # others may belong to the fire that is open
        if job.block_scope is BlockScope.CLUSTER and is_first and self._deferred.is_behind(line, run):
            return line
        line = Line("group", job.group_id)
        if job.group_id in self._registry.limited_groups and self._deferred.is_behind(line, run):
            return line
        return None

    def lock(self, conn: Connection, items: Sequence[Routed]) -> dict[int, int]:
        """Lock the groups with a limit among those of the runs, before any run is locked; return the limits."""
        groups = {item.job.group_id for item in items}
        return open_runs.lock_limits(conn, groups & self._registry.limited_groups)

    def decide(
        self, conn: Connection, items: Sequence[Routed], limits: Mapping[int, int], batch: Batch
    ) -> list[Routed]:
        """Return what may go of runs that are still planned and ours, with the groups locked; see :func:`decide`."""
        cluster = {item.job.id for item in items if item.job.block_scope is BlockScope.CLUSTER}
        opened = open_runs.list_open(conn, cluster) if cluster else []
        counts = open_runs.count_open(conn, limits.keys())
        return decide(items, limits, counts, opened, self._deferred, batch)


def decide(
    items: Sequence[Routed],
    limits: Mapping[int, int],
    counts: Mapping[int, int],
    opened: Sequence[SentRun],
    deferred: DeferredRuns,
    batch: Batch,
) -> list[Routed]:
    """Return what may go, oldest due first; what may not is noted in the batch.

    ``limits`` and ``counts`` are, by group, how many of its runs may be open and how many are; ``opened`` are the open
    runs of all jobs here that block for the whole cluster. An older run that is deferred already goes first.
    """
    draft = _Draft(limits, counts, opened, deferred, batch)
    ordered = sorted(items, key=lambda item: (item.run.due_ms, item.run.id))
    # a retry of an older fire replaces no other
    newest = {item.job.id: item.run for item in ordered if _covers(item.job) and item.run.id == item.run.root_id}
    return [item for item in ordered if draft.may_go(item, newest.get(item.job.id))]


@dataclass(eq=False, repr=False)
class _Draft:
    limits: Mapping[int, int]
    counts: Mapping[int, int]
    opened: Sequence[SentRun]
    deferred: DeferredRuns
    batch: Batch

    def __post_init__(self) -> None:
        self._room = {group: limit - self.counts.get(group, 0) for group, limit in self.limits.items()}
        self._full: set[int] = set()
        self._covered: set[int] = set()
        self._open: dict[int, dict[int, list[SentRun]]] = {}
        for item in self.opened:
            self._open.setdefault(item.job_id, {}).setdefault(item.root_id, []).append(item)

    def may_go(self, item: Routed, newest: Run | None) -> bool:
        """Decide about the next run in due order."""
        if item.job.block_scope is BlockScope.CLUSTER and self._is_blocked(item, newest):
            return False
        if not self._has_room(item):
            return False
        self._open.setdefault(item.job.id, {}).setdefault(item.run.root_id, [])
        return True

    def _is_blocked(self, item: Routed, newest: Run | None) -> bool:
        run, job = item.run, item.job
        roots = self._open.get(job.id, {})
        if run.root_id in roots:
            return False  # shards, retries and recovery runs of one fire do not block each other
        if _covers(job) and newest is not None:
            return self._covers(run, newest, roots)
        if not roots:
            is_behind = self.deferred.is_behind(Line("job", job.id), run)
        elif job.block_strategy == BlockStrategy.DISCARD_LATER:
            text = f"run {_first(roots)} of job {job.id} is open"
            self.batch.close(run, RunState.SKIPPED, RunReason.BLOCKED, text)
            return True
        else:
            is_behind = True
        if is_behind:
            self.batch.deferred.append(Deferred(run, Line("job", job.id)))
        return is_behind

    def _covers(self, run: Run, newest: Run, roots: Mapping[int, Sequence[SentRun]]) -> bool:
        """Let only the newest run of a job live: what runs is killed, what waits is cancelled."""
        if newest.root_id != run.root_id or self.deferred.has_newer(run):
            text = f"a newer run of job {run.job_id} is due"
            self.batch.close(run, RunState.CANCELLED, RunReason.COVERED, text)
            return True
        for older in self.deferred.older(run):
            if older not in self._covered:
                self._covered.add(older)
                self.batch.cover(older, run)
        if roots:
            killed = [item for part in roots.values() for item in part if not item.kill_requested]
            self.batch.kills += [item.id for item in killed]
            self.batch.deferred.append(Deferred(run, Line("job", run.job_id)))
        return bool(roots)

    def _has_room(self, item: Routed) -> bool:
        run, group, need = item.run, item.job.group_id, len(item.executors)
        limit = self.limits.get(group)
        if limit is None:
            return True
        if need > limit:
            text = f"job {item.job.id}: {need} shards never fit group {group}, whose max_running is {limit}: "
            text += "raise it or choose a router that takes fewer executors"
            self.batch.close(run, RunState.REFUSED, RunReason.OVER_LIMIT, text)
            return False
        line = Line("group", group)
        if group in self._full or need > self._room[group] or self.deferred.is_behind(line, run):
            self._full.add(group)
            self.batch.deferred.append(Deferred(run, line))
            return False
        self._room[group] -= need
        return True


def _covers(job: Job) -> bool:
    return job.block_scope is BlockScope.CLUSTER and job.block_strategy == BlockStrategy.COVER_EARLY


def _first(roots: Mapping[int, Sequence[SentRun]]) -> int:
    return next((item.id for part in roots.values() for item in part), next(iter(roots)))
