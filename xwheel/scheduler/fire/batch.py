"""What the tick thread does with due runs once they are routed: place, fence, send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xwheel.model import GlueVersion, RunState
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


class Firing:
    """Turns due runs into requests. Everything here runs on the tick thread.

    Args:
        db: The database.
        route: Reads due runs and chooses who gets them.
        sources: Finds the sources of script jobs; never asked about others.
        pool: Places for requests.
        body_limits: How many bytes a request may have.
        limits: Knows which runs a limit or a cluster-wide block strategy holds back.
        deferred: Takes due runs that may not go yet.
        fence: Writes down who gets which run.
        lanes: Take parcels that have a place.
        finisher: Closes runs that will never go.
        job_cache: Jobs that need not be read.
    """

    def __init__(
        self,
        db: Database,
        route: Callable[[Sequence[Queued], int], Batch],
        sources: Sources,
        pool: TriggerPool,
        body_limits: BodyLimits,
        limits: RunLimits,
        deferred: DeferredRuns,
        fence: Fence,
        lanes: Lanes,
        finisher: Finisher,
        job_cache: JobCache,
    ) -> None:
        self._db = db
        self._route = route
        self._sources = sources
        self._pool = pool
        self._body_limits = body_limits
        self._limits = limits
        self._deferred = deferred
        self._fence = fence
        self._lanes = lanes
        self._finisher = finisher
        self._job_cache = job_cache

    def fire(self, queued: Sequence[Queued], now_ms: int) -> set[int]:
        """Send what can be sent now, defer what may not go; return the ids of runs that must wait for a place."""
        batch = self._route(queued, now_ms)
        placing = Placing(self._pool, self._body_limits, self._load_sources(batch))
        lanes = self._pool.choose({item.job.id for item in batch.routed})
        special = {item.run.id for item in self._limits.concerns(batch.routed)}
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
            fenced = self._fence.pass_through(placed, now_ms)
        except Exception:
            placing.give_back_all()
            raise
        if special:
            self._deferred.watch([shard for shard in fenced.shards if shard.run.id in special])
        for parcel in placing.fill(fenced.shards, lanes):
            self._lanes.send(parcel)
        self._settle(batch, fenced, now_ms)
        for item in placed if fenced.changed else ():
            if item.run.id in fenced.changed:
                self._job_cache.jobs.pop(item.job.id, None)  # the next try reads it again
        return batch.waiting | fenced.changed

    def _load_sources(self, batch: Batch) -> Mapping[int, GlueVersion]:
        """Return the sources of the script jobs in a batch; runs that no executor could run are closed."""
        scripts = {item.job.id: item.job for item in batch.routed if item.job.glue_type != BEAN}
        if not scripts:
            return {}
        found, left_out = self._sources.find(scripts.values())
        refusals = {
            job.id: why
            for job in scripts.values()
            if job.id not in left_out and (why := self._sources.refusal(job, found.get(job.id)))
        }
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
        ordered = sorted(
            (item for item in batch.routed if item.run.id in special),
            key=lambda item: (item.run.due_ms, item.run.id),
        )
        for item in ordered:
            queue = self._limits.queue_of(item)
            line = self._limits.line_of(item.job)
            if queue is not None:
                batch.deferred.append(Deferred(item.run, queue))
            elif line in short or not placing.admit(item, lanes[item.job.id]):
                short.add(line)
                batch.deferred.append(Deferred(item.run, line, soon=True))
            else:
                placed.append(item)
        return placed

    def _settle(self, batch: Batch, fenced: Batch, now_ms: int) -> None:
        """Defer and close what does not go."""
        closed = batch.closed + fenced.closed
        if batch.deferred or fenced.deferred:
            self._deferred.defer(batch.deferred + fenced.deferred, now_ms)
        if fenced.kills:
            self._db.transaction(lambda conn: open_runs.request_kills(conn, fenced.kills, now_ms))
        if closed:
            self._deferred.forget(outcome.run_id for outcome in closed)
            self._finisher.finish(closed)
