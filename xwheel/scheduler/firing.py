"""What the tick thread does with due runs: read, route, place, fence, send."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from xwheel.errors import PluginError, RouteError
from xwheel.model import Job, RegisteredExecutor, Run, RunState
from xwheel.scheduler.ports import Outcome, Parcel, Places, Routed, Shard
from xwheel.storage import jobs, runs
from xwheel.storage.engine import Connection, Database

logger = logging.getLogger(__name__)

CACHED_JOBS = 10_000

Route = Callable[[Job, Sequence[RegisteredExecutor]], Sequence[RegisteredExecutor]]


class Firing:
    """Turns due run ids into requests. Everything here runs on the tick thread.

    Args:
        db: The database.
        live: Live executors of a group at a time, suspects last.
        route: Who shall get a run.
        places: The trigger pool.
        fence: Writes it down; returns the shards to send and the ids to read anew.
        send: Takes a parcel that has a place.
        finish: Closes runs that nobody can take.
        parcel_runs: Runs that travel in one request, for executors that take several.
    """

    def __init__(
        self,
        db: Database,
        live: Callable[[int, int], Sequence[RegisteredExecutor]],
        route: Route,
        places: Places,
        fence: Callable[[Sequence[tuple[Routed, int]], int], tuple[list[Shard], set[int]]],
        send: Callable[[Parcel], None],
        finish: Callable[[Sequence[Outcome]], object],
        *,
        parcel_runs: int = 200,
    ) -> None:
        self._db = db
        self._live = live
        self._route = route
        self._places = places
        self._fence = fence
        self._send = send
        self._finish = finish
        self._parcel_runs = parcel_runs
        self._jobs: dict[int, Job] = {}

    def fire(self, ids: Sequence[int], now_ms: int) -> set[int]:
        """Send what can be sent now; return the ids of runs that must wait for a place."""
        with self._db.read() as conn:
            due = runs.load_due(conn, ids)
            owners = self._load_jobs(conn, due)
        routed, refused = self._route_all(due, owners, now_ms)
        placing = _Placing(self._places, self._parcel_runs)
        lanes = self._places.choose({item.job.id for item, _ in routed})
        placed: list[tuple[Routed, int]] = []
        waiting: set[int] = set()
        for item, revision in routed:
            if placing.admit(item, lanes[item.job.id]):
                placed.append((item, revision))
            else:
                waiting.add(item.run.id)
        try:
            shards, changed = self._fence(placed, now_ms)
        except Exception:
            placing.give_back_all()
            raise
        for parcel in placing.fill(shards, lanes):
            self._send(parcel)
        if refused:
            self._finish(refused)
        return waiting | changed

    def _load_jobs(self, conn: Connection, due: Sequence[runs.DueRun]) -> Mapping[int, Job]:
        """Return the jobs of due runs; those whose revision stood still come from memory."""
        stale = {item.run.job_id for item in due if self._revision(item.run.job_id) != item.job_revision}
        if stale:
            if len(self._jobs) > CACHED_JOBS:
                self._jobs.clear()
            self._jobs.update(jobs.get_jobs(conn, stale))
        return self._jobs

    def _revision(self, job_id: int) -> int:
        known = self._jobs.get(job_id)
        return -1 if known is None else known.revision

    def _route_all(
        self, due: Sequence[runs.DueRun], owners: Mapping[int, Job], now_ms: int
    ) -> tuple[list[tuple[Routed, int]], list[Outcome]]:
        live: dict[int, Sequence[RegisteredExecutor]] = {}
        routed: list[tuple[Routed, int]] = []
        refused: list[Outcome] = []
        for run, revision in due:
            job = owners[run.job_id]
            if job.group_id not in live:
                live[job.group_id] = self._live(job.group_id, now_ms)
            try:
                chosen = self._route(job, live[job.group_id])
            except (RouteError, PluginError) as error:
                reason = "no_route" if live[job.group_id] else "no_executor"
                refused.append(
                    Outcome(run_id=run.id, state=RunState.REFUSED, reason=reason, message=str(error))
                )
                continue
            routed.append((Routed(run=run, job=job, executors=_one_shard(run, chosen)), revision))
        return routed, refused


def _one_shard(run: Run, chosen: Sequence[RegisteredExecutor]) -> Sequence[RegisteredExecutor]:
    """Return the executor of a single shard that is tried again; a first attempt keeps all that were chosen."""
    is_retried_shard = run.shard_total > 1
    return [chosen[run.shard_index % len(chosen)]] if is_retried_shard else chosen


class _Placing:
    """The parcels of one batch while it is being placed."""

    def __init__(self, places: Places, parcel_runs: int) -> None:
        self._places = places
        self._parcel_runs = parcel_runs
        self._open: dict[tuple[int, str], list[Parcel]] = {}

    def admit(self, item: Routed, lane: int) -> bool:
        """Give every shard of a run room in a parcel, or none of them."""
        opened: list[Parcel] = []
        counted: list[Parcel] = []
        for executor in item.executors:
            parcel = self._parcel(lane, executor)
            if parcel is None:
                for used in counted:
                    used.expected -= 1
                for unused in opened:
                    self._give_back(unused)
                return False
            if parcel.expected == 0:
                opened.append(parcel)
            parcel.expected += 1
            counted.append(parcel)
        return True

    def fill(self, shards: Sequence[Shard], lanes: Mapping[int, int]) -> list[Parcel]:
        """Put fenced shards into the parcels that were opened for them; give unused places back."""
        parcels = {key: list(group) for key, group in self._open.items()}
        for shard in shards:
            group = parcels[lanes[shard.job.id], shard.executor.address]
            while len(group[0].shards) >= group[0].expected:
                group.pop(0)
            group[0].shards.append(shard)
        full = [parcel for group in self._open.values() for parcel in group]
        for parcel in full:
            if not parcel.shards:
                self._places.release(parcel.lane, parcel.executor.address)
        return [parcel for parcel in full if parcel.shards]

    def give_back_all(self) -> None:
        """Give every place back: nothing will be sent."""
        for group in self._open.values():
            for parcel in group:
                self._places.release(parcel.lane, parcel.executor.address)

    def _parcel(self, lane: int, executor: RegisteredExecutor) -> Parcel | None:
        group = self._open.setdefault((lane, executor.address), [])
        is_batch = executor.kind == "xwheel"
        if group and is_batch and group[-1].expected < self._parcel_runs:
            return group[-1]
        if not self._places.acquire(lane, executor.address, batch=is_batch):
            return None
        group.append(Parcel(lane=lane, executor=executor))
        return group[-1]

    def _give_back(self, parcel: Parcel) -> None:
        self._open[parcel.lane, parcel.executor.address].remove(parcel)
        self._places.release(parcel.lane, parcel.executor.address)
