"""What the tick thread does with due runs: read, route, place, fence, send."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from xwheel.errors import PluginError, RouteError
from xwheel.model import GlueVersion, Job, Origin, RegisteredExecutor, Run, RunState
from xwheel.scheduler.ports import GateView, Parking, Places, SourceView
from xwheel.scheduler.records import Fenced, Line, Outcome, Parcel, Parked, Queued, Routed, Shard
from xwheel.storage import jobs, open_runs, runs
from xwheel.storage.database.engine import Connection, Database

logger = logging.getLogger(__name__)

CACHED_JOBS = 20_000
BEAN = "BEAN"

Choose = Callable[[Run, Job, Sequence[RegisteredExecutor], int], Sequence[RegisteredExecutor] | None]


class Placing(Protocol):
    """What firing asks of the parcels of one batch."""

    def admit(self, item: Routed, lane: int) -> bool:
        """Give every shard of a run room in a parcel, or none of them."""
        ...

    def fill(self, shards: Sequence[Shard], lanes: Mapping[int, int]) -> list[Parcel]:
        """Put fenced shards into the parcels that were opened for them; give unused places back."""
        ...

    def give_back_all(self) -> None:
        """Give every place back: nothing will be sent."""
        ...


@dataclass(slots=True)
class _Batch:
    """What becomes of due runs on their way to the fence."""

    routed: list[tuple[Routed, int]] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    closed: list[Outcome] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)


class Firing:
    """Turns due run ids into requests. Everything here runs on the tick thread.

    Args:
        db: The database.
        live: Live executors of a group at a time, suspects last.
        choose: Who shall get a run; None if it comes back once executors were asked, nobody if it must wait for that.
        places: The trigger pool.
        placing: Gives a batch room, told the sources of its script jobs.
        gate: Knows which runs a limit or a cluster-wide block strategy holds back.
        parking: Takes due runs that may not go yet.
        fence: Writes it down.
        send: Takes a parcel that has a place.
        finish: Closes runs that will never go.
        sources: Finds the sources of script jobs; never asked about others.
    """

    def __init__(
        self,
        db: Database,
        live: Callable[[int, int], Sequence[RegisteredExecutor]],
        choose: Choose,
        places: Places,
        placing: Callable[[Mapping[int, GlueVersion]], Placing],
        gate: GateView,
        parking: Parking,
        fence: Callable[[Sequence[tuple[Routed, int]], int], Fenced],
        send: Callable[[Parcel], None],
        finish: Callable[[Sequence[Outcome]], object],
        sources: SourceView,
    ) -> None:
        self._db = db
        self._live = live
        self._choose = choose
        self._places = places
        self._placing = placing
        self._gate = gate
        self._parking = parking
        self._fence = fence
        self._send = send
        self._finish = finish
        self._sources = sources
        self._jobs: dict[int, Job] = {}

    def fire(self, queued: Sequence[Queued], now_ms: int) -> set[int]:
        """Send what can be sent now, park what may not go; return the ids of runs that must wait for a place."""
        due, owners = self._read(queued)
        batch = self._route_all(due, owners, now_ms)
        placing = self._placing(self._load_sources(batch))
        lanes = self._places.choose({item.job.id for item, _ in batch.routed})
        special = {item.run.id for item in self._gate.concerns(item for item, _ in batch.routed)}
        placed: list[tuple[Routed, int]] = []
        waiting = batch.waiting
        for item, revision in batch.routed:
            if special and item.run.id in special:
                continue
            if placing.admit(item, lanes[item.job.id]):
                placed.append((item, revision))
            else:
                waiting.add(item.run.id)
        if special:
            placed += self._place_special(batch, special, placing, lanes)
        try:
            fenced = self._fence(placed, now_ms)
        except Exception:
            placing.give_back_all()
            raise
        if special:
            self._parking.watch([shard for shard in fenced.shards if shard.run.id in special])
        for parcel in placing.fill(fenced.shards, lanes):
            self._send(parcel)
        self._settle(batch, fenced, now_ms)
        for item, _ in placed if fenced.changed else ():
            if item.run.id in fenced.changed:
                self._jobs.pop(item.job.id, None)  # the next look reads it again
        return waiting | fenced.changed

    def _load_sources(self, batch: _Batch) -> Mapping[int, GlueVersion]:
        """Return the sources of the script jobs in a batch; runs that nobody could execute are closed."""
        scripts = {item.job.id: item.job for item, _ in batch.routed if item.job.glue_type != BEAN}
        if not scripts:
            return {}
        found = self._sources.find(scripts.values())
        refusals = {
            job.id: why for job in scripts.values() if (why := self._sources.refusal(job, found.get(job.id)))
        }
        for item, _ in batch.routed:
            if why := refusals.get(item.job.id):
                reason, text = why
                batch.closed.append(
                    Outcome(run_id=item.run.id, state=RunState.REFUSED, reason=reason, message=text)
                )
        batch.routed = [pair for pair in batch.routed if pair[0].job.id not in refusals]
        return found

    def _place_special(
        self, batch: _Batch, special: set[int], placing: Placing, lanes: Mapping[int, int]
    ) -> list[tuple[Routed, int]]:
        """Give room to runs that must pass the gate, oldest first; nobody overtakes one that finds none."""
        placed: list[tuple[Routed, int]] = []
        short: set[Line] = set()
        ordered = sorted(
            (pair for pair in batch.routed if pair[0].run.id in special),
            key=lambda pair: (pair[0].run.due_ms, pair[0].run.id),
        )
        for item, revision in ordered:
            queue = self._gate.queue_of(item)
            line = self._gate.line_of(item.job)
            if queue is not None:
                batch.parked.append(Parked(item.run, queue))
            elif line in short or not placing.admit(item, lanes[item.job.id]):
                short.add(line)
                batch.parked.append(Parked(item.run, line, soon=True))
            else:
                placed.append((item, revision))
        return placed

    def _settle(self, batch: _Batch, fenced: Fenced, now_ms: int) -> None:
        """Park and close what does not go."""
        closed = batch.closed + fenced.closed
        if batch.parked or fenced.parked:
            self._parking.park(batch.parked + fenced.parked, now_ms)
        if fenced.kills:
            self._db.transaction(lambda conn: open_runs.request_kills(conn, fenced.kills, now_ms))
        if closed:
            self._parking.forget(outcome.run_id for outcome in closed)
            self._finish(closed)

    def remember(self, claimed: Sequence[Job]) -> None:
        """Take jobs that were just read; from any thread. Their revision tells whether they are still right."""
        if len(self._jobs) + len(claimed) > CACHED_JOBS:
            self._jobs = dict(list(self._jobs.items())[CACHED_JOBS // 2 :])  # the older half goes
        self._jobs.update([(job.id, job) for job in claimed])

    def _read(self, queued: Sequence[Queued]) -> tuple[list[runs.DueRun], dict[int, Job]]:
        """Return due runs and their jobs, in the order asked for, from memory where it has both.

        Memory may be behind: the fence asks the rows whether the run is still planned and the job still the same.
        """
        known = self._jobs  # another thread may replace it meanwhile
        due: dict[int, runs.DueRun] = {}
        owners: dict[int, Job] = {}
        unread: list[int] = []
        for item in queued:
            job = known.get(item.job_id)
            if job is not None and isinstance(item, Run):
                due[item.id] = runs.DueRun(item, job.revision)
                owners[job.id] = job
            else:
                unread.append(item.id)
        if unread:
            with self._db.read() as conn:
                found = runs.load_due(conn, unread)
                owners.update(self._load_jobs(conn, found))
            due.update((item.run.id, item) for item in found)
        return [due[item.id] for item in queued if item.id in due], owners

    def _load_jobs(self, conn: Connection, due: Sequence[runs.DueRun]) -> Mapping[int, Job]:
        """Return the jobs of due runs; those whose revision stood still come from memory."""
        known = self._jobs  # another thread may replace it meanwhile
        owners: dict[int, Job] = {}
        stale: set[int] = set()
        for item in due:
            job = known.get(item.run.job_id)
            if job is not None and job.revision == item.job_revision:
                owners[job.id] = job
            else:
                stale.add(item.run.job_id)
        if stale:
            found = jobs.get_jobs(conn, stale)
            self.remember(list(found.values()))
            owners.update(found)
        return owners

    def _route_all(self, due: Sequence[runs.DueRun], owners: Mapping[int, Job], now_ms: int) -> _Batch:
        live: dict[int, Sequence[RegisteredExecutor]] = {}
        batch = _Batch()
        absent: list[tuple[Run, Job]] = []
        for run, revision in due:
            job = owners[run.job_id]
            if job.group_id not in live:
                live[job.group_id] = self._live(job.group_id, now_ms)
            able = live[job.group_id]
            if run.address is not None:
                able = [item for item in able if item.address == run.address]
            if not able:
                absent.append((run, job))
                continue
            try:
                chosen = able if run.address is not None else self._choose(run, job, able, now_ms)
            except (RouteError, PluginError) as error:
                batch.closed.append(
                    Outcome(run_id=run.id, state=RunState.REFUSED, reason="no_route", message=str(error))
                )
                continue
            if not chosen:
                if chosen is not None:
                    batch.waiting.add(run.id)
                continue
            batch.routed.append((Routed(run=run, job=job, executors=_one_shard(run, chosen)), revision))
        if absent:
            self._await_executors(batch, absent, now_ms)
        return batch

    def _await_executors(self, batch: _Batch, absent: list[tuple[Run, Job]], now_ms: int) -> None:
        """Let runs without a live executor wait if their job says so, one scheduled fire of a job at most."""
        with self._db.read() as conn:  # one that was cancelled meanwhile must not hold up those behind it
            planned = {run.id for run in runs.list_planned(conn, [run.id for run, _ in absent])}
        absent.sort(key=lambda pair: (pair[0].due_ms, pair[0].id))
        waiting: set[int] = set()
        for run, job in absent:
            if run.id not in planned:
                continue
            until_ms = run.due_ms + job.wait_for_executor_s * 1000
            if now_ms >= until_ms:
                message = _absence(run, job, now_ms)
                batch.closed.append(
                    Outcome(run_id=run.id, state=RunState.REFUSED, reason="no_executor", message=message)
                )
            elif run.origin is Origin.SCHEDULE and (
                job.id in waiting or self._parking.older(run, "executor")
            ):
                message = f"an earlier run of job {job.id} waits for an executor already"
                batch.closed.append(
                    Outcome(
                        run_id=run.id, state=RunState.SKIPPED, reason="waiting_for_executor", message=message
                    )
                )
            else:
                waiting.add(job.id)
                line = Line("executor", job.group_id, run.address or "")
                batch.parked.append(Parked(run, line, until_ms))


def _absence(run: Run, job: Job, now_ms: int) -> str:
    who = "no live executor" if run.address is None else f"executor {run.address} is not live"
    text = f"job {job.id}: {who} in group {job.group_id}"
    if job.wait_for_executor_s <= 0:
        return text
    return f"{text}, and none came in the {(now_ms - run.due_ms) / 1000:.1f} s since it was due"


def _one_shard(run: Run, chosen: Sequence[RegisteredExecutor]) -> Sequence[RegisteredExecutor]:
    """Return the executor of a shard that is tried again; a first attempt keeps all that were chosen."""
    return [chosen[run.shard_index % len(chosen)]] if run.attempt > 1 else chosen
