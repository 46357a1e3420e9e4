"""What the tick thread does with due runs once they are routed: place, fence, send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xwheel.model import BlockScope, GlueVersion, RunState
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.fire.fence import Fence
from xwheel.scheduler.fire.limits import RunLimits
from xwheel.scheduler.job_cache import JobCache
from xwheel.scheduler.records import Batch, Deferred, Line, Queued, Routed
from xwheel.scheduler.send.lane import Lanes
from xwheel.scheduler.send.parcels import BodyLimits, Placing
from xwheel.scheduler.send.pool import TriggerPool
from xwheel.scheduler.sources import Sources
from xwheel.storage import open_runs
from xwheel.storage.database.engine import Database

BEAN = "BEAN"


@dataclass(eq=False, repr=False)
class Firing:
    """Turns due runs into requests. Everything here runs on the tick thread."""

    db: Database
    # reads due runs and chooses who gets them: DueRouting.route
    route: Callable[[Sequence[Queued], int], Batch]
    sources: Sources  # finds the sources of script jobs; never asked about others
    pool: TriggerPool
    body_limits: BodyLimits
    limits: RunLimits
    deferred: DeferredRuns
    fence: Fence
    lanes: Lanes
    finisher: Finisher  # closes runs that will never go
    job_cache: JobCache
    registry: ExecutorRegistry

    def fire(self, queued: Sequence[Queued], now_ms: int) -> set[int]:
        """Send what can be sent now, defer what may not go; return the ids of runs that must wait for a place."""
        batch = self.route(queued, now_ms)
        placing = Placing(self.pool, self.body_limits, self._load_sources(batch), now_ms)
        lanes = self.pool.choose({item.job.id for item in batch.routed})
        special = {item.run.id for item in self.limits.concerns(batch.routed)}
        placed: list[Routed] = []
        for item in batch.routed:
            if special and item.run.id in special:
                continue
            if placing.admit(item, lanes[item.job.id]):
                placed.append(item)
            else:
                batch.waiting.add(item.run.id)
        if special:
            placed += self._place_special(batch, special, placing, lanes)
        try:
            fenced = self.fence.pass_through(placed, now_ms)
        except Exception:
            placing.give_back_all()
            raise
        if special:
            self.deferred.watch([shard for shard in fenced.shards if shard.run.id in special])
        for parcel in placing.fill(fenced.shards, lanes):
            self.lanes.send(parcel)
        self._settle(batch, fenced, now_ms)
        for item in placed if fenced.changed else ():
            if item.run.id in fenced.changed:
                self.job_cache.jobs.pop(item.job.id, None)  # the next try reads it again
        return batch.waiting | fenced.changed

    def may_leave_early(self, queued: Sequence[Queued], now_ms: int) -> set[int]:
        """Return the ids of those that may be fenced before they are due.

        Their executors start them on time. A limit, and a strategy for the whole cluster, decide by what is open when a
        run is due.
        """
        known, limited = self.job_cache.jobs, self.registry.limited_groups
        groups = {run.group_id for run in queued if run.due_ms > now_ms} - limited
        able = {group_id for group_id in groups if self.registry.takes_early(group_id, now_ms)}
        return {
            run.id
            for run in queued
            if run.group_id in able
            and run.due_ms > now_ms
            and (job := known.get(run.job_id)) is not None
            and job.block_scope is not BlockScope.CLUSTER
        }

    def _load_sources(self, batch: Batch) -> Mapping[int, GlueVersion]:
        """Return the sources of the script jobs in a batch; runs that no executor could run are closed."""
        scripts = {item.job.id: item.job for item in batch.routed if item.job.glue_type != BEAN}
        if not scripts:
            return {}
        found, left_out = self.sources.find(scripts.values())
        read = [job for job in scripts.values() if job.id not in left_out]
        refusals = {job.id: why for job in read if (why := self.sources.refusal(job, found.get(job.id)))}
        for item in batch.routed:
            if why := refusals.get(item.job.id):
                batch.close(item.run, RunState.REFUSED, *why)
            elif item.job.id in left_out:
                batch.waiting.add(item.run.id)
        gone = refusals.keys() | left_out
        batch.routed = [item for item in batch.routed if item.job.id not in gone]
        return found

    def _place_special(
        self, batch: Batch, special: set[int], placing: Placing, lanes: Mapping[int, int]
    ) -> list[Routed]:
        """Give room to runs that a limit applies to, oldest first; none overtakes one that finds no room."""
        placed: list[Routed] = []
        short: set[Line] = set()
        found = [item for item in batch.routed if item.run.id in special]
        for item in sorted(found, key=lambda item: (item.run.due_ms, item.run.id)):
            queue = self.limits.queue_of(item)
            line = self.limits.line_of(item.job)
            if queue is not None:
                batch.deferred.append(Deferred(item.run, queue))
            elif line in short or not placing.admit(item, lanes[item.job.id]):
                short.add(line)
                batch.deferred.append(Deferred(item.run, line, soon=True))
            else:
                placed.append(item)
        return placed

    def _settle(self, batch: Batch, fenced: Batch, now_ms: int) -> None:
        closed = batch.closed + fenced.closed
        if batch.deferred or fenced.deferred:
            self.deferred.defer(batch.deferred + fenced.deferred, now_ms)
        if fenced.kills:
            self.db.transaction(lambda conn: open_runs.request_kills(conn, fenced.kills, now_ms))
        if closed:
            self.deferred.forget(outcome.run_id for outcome in closed)
            self.finisher.finish(closed)
