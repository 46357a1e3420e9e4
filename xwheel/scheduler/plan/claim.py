"""Claim due jobs: run rows and the jobs' next fire times are written in one transaction.

What they are is decided before it, on copies of the job rows, since schedule types are asked for that. The transaction
locks the leases and the rows, compares, and writes. If a job was changed meanwhile it is done again without that one,
which is planned again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from xwheel.clock import Clock
from xwheel.config.sections import ScheduleSection
from xwheel.errors import DuplicateError
from xwheel.model import Job, RunState
from xwheel.plugin.observers import Changes
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.fire.tick import Inbox
from xwheel.scheduler.job_cache import JobCache
from xwheel.scheduler.observers import Noted, Observers
from xwheel.scheduler.plan.batches import BatchPlanner
from xwheel.scheduler.plan.rules import Planned
from xwheel.storage import jobs, runs, settings
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.run_ids import RunIds

logger = logging.getLogger(__name__)

IDS_PER_CLAIM = 10_000
LONGEST_WAIT_MS = 1000
FULL_WAIT_MS = 0
RUNS_PER_JOB = 5
MOST_RUNS = 5000
# one costs as much as a fourth of a run or less
QUESTIONS_PER_RUN = 4
# others wait for a claim that writes; a quarter of the 200 ms allowed, since a busy machine varies as much
TARGET_MS: Final = 50
# to lock leases, to ask for the pause, to lock jobs, to update them, to insert runs, to commit
ROUND_TRIPS: Final = 6
# a database farther away than a continent is: claims get smaller, as if it were slow
MOST_TRAVEL_MS: Final = 300
TRIPS: Final = 8
# characters of the parameters that a claim reads; one that had more is followed by smaller ones
MOST_CHARS: Final = 8 * 1024 * 1024
FIRST_SHARE: Final = 0.1
LEAST_SHARE: Final = 0.05


class BatchLimit:
    """How much one claim takes, so that it stays short on any disk and with any schedule.

    Starts small, and follows the time that the last ones took to plan and to write; ``most`` jobs are in one
    transaction where the database is fast enough.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._share = FIRST_SHARE
        self._trips: deque[int] = deque(maxlen=TRIPS)

    @property
    def jobs(self) -> int:
        """Jobs that the next claim may take."""
        return max(1, round(self._most * self._share))

    @property
    def runs(self) -> int:
        """Runs that the next claim may insert."""
        return min(MOST_RUNS, self.jobs * RUNS_PER_JOB)

    @property
    def questions(self) -> int:
        """How often the next claim may ask for a fire's time."""
        return self.runs * QUESTIONS_PER_RUN

    def note(self, took_ms: int, trip_ms: int = 0, chars: int = 0, *, is_full: bool) -> None:
        """Learn from a claim; one that was not full says nothing about a larger one.

        What its statements spent on their way is no reason to claim less: a smaller claim has as many of them. The
        quickest of the last few says how far the database is; the others may have waited for something. ``trip_ms`` is
        how long its smallest statement took, ``chars`` how long the parameters of its jobs were together; with
        ``is_full`` there was more to claim.
        """
        self._trips.append(trip_ms)
        took_ms -= min(MOST_TRAVEL_MS, ROUND_TRIPS * min(self._trips))
        factor = min(1.5, max(0.25, min(TARGET_MS / max(1, took_ms), MOST_CHARS / max(1, chars))))
        if factor < 1 or is_full:
            self._share = min(1.0, max(LEAST_SHARE, self._share * factor))


@dataclass(slots=True)
class _Share:
    limit: BatchLimit
    jobs: Sequence[Job] = ()
    has_more: bool = False


@dataclass(slots=True)
class _Batch:
    jobs: Sequence[Job]  # copies of the rows
    stopped: Sequence[Job]  # those that are not started, and so should have no next fire
    epochs: Mapping[int, int]  # partition to epoch, as this node knew them
    plan: Planned  # what to write if nothing changed meanwhile


class _ChangedError(Exception):
    """A job is no longer as it was read."""


@dataclass(eq=False, repr=False)
class ClaimLoop:
    """Plans what falls due within the pre-read window.

    Jobs that are on time or a little late are claimed first. Those that are further behind cost many questions each:
    they follow with a limit of their own, so that the others never wait for more than one bounded claim of them.
    """

    db: Database
    lease: Lease
    run_ids: RunIds
    planner: BatchPlanner
    inbox: Inbox
    job_cache: JobCache  # gets the jobs as they were claimed, so that the tick need not read them again soon
    clock: Clock
    observers: Observers
    schedule: ScheduleSection  # jobs that are later than its misfire threshold are claimed after the others

    def __post_init__(self) -> None:
        self.duplicates = 0
        self._noted: Noted = ()
        self._on_time = _Share(BatchLimit(self.schedule.claim_batch))
        self._behind = _Share(BatchLimit(self.schedule.claim_batch))
        self._began_ms = self._trip_ms = 0

    def step(self, now_ms: int) -> int:
        """Claim a batch of the jobs on time and one of those behind; return how long to wait, 0 if there is more."""
        # half of the window is early enough, and a second keeps new jobs prompt
        wait_ms = min(LONGEST_WAIT_MS, self.schedule.pre_read_ms // 2)
        if not self.lease.may_act():
            return LONGEST_WAIT_MS
        epochs = dict(self.lease.epochs)
        with self.db.read() as conn:
            if settings.find_setting(conn, settings.PAUSED) is not None:
                return LONGEST_WAIT_MS
            self._find(conn, sorted(epochs), now_ms)
        for share in (self._on_time, self._behind):
            is_full = share.has_more
            for jobs_ in self.planner.split(share.jobs):
                is_full |= self._claim(jobs_, epochs, now_ms, share)
            if is_full:
                wait_ms = FULL_WAIT_MS
        return wait_ms

    def _find(self, conn: Connection, partitions: Sequence[int], now_ms: int) -> None:
        on_time, behind = self._on_time, self._behind
        horizon_ms, edge_ms = now_ms + self.schedule.pre_read_ms, now_ms - self.schedule.misfire_threshold_ms
        due: list[Job] = []
        is_split = behind.has_more  # as it was a moment ago, so one question for all would be in vain
        on_time.has_more = behind.has_more = False
        if not is_split:
            ids, on_time.has_more = jobs.find_due_jobs(conn, partitions, horizon_ms, on_time.limit.jobs)
            due = _load(conn, ids)
            # each partition gives its oldest first: without one behind there is none, however many are due
            is_split = on_time.has_more and any(_due(job) <= edge_ms for job in due)
        if is_split:  # the oldest may have left no room for those on time
            most = on_time.limit.jobs
            ids, on_time.has_more = jobs.find_due_jobs(conn, partitions, horizon_ms, most, after_ms=edge_ms)
            late, behind.has_more = jobs.find_due_jobs(conn, partitions, edge_ms, behind.limit.jobs)
            due = _load(conn, [*ids, *late])
        # in the order of ids, but if time runs out, not at the cost of those that are on time still
        in_time = [job for job in due if _due(job) > edge_ms]
        on_time.jobs = sorted(in_time, key=lambda job: _due(job) <= now_ms)
        behind.jobs = [job for job in due if _due(job) <= edge_ms]

    def _claim(self, found: Sequence[Job], epochs: Mapping[int, int], now_ms: int, share: _Share) -> bool:
        """Plan a batch and write it; return whether there is more to plan at once."""
        planning_ms = self.clock.monotonic_ms()
        batch = self._plan(found, epochs, now_ms, share.limit)
        planning_ms = self.clock.monotonic_ms() - planning_ms
        recheck = known = False
        while True:
            write = partial(self._write, batch=batch, now_ms=now_ms, recheck=recheck, known=known)
            try:
                plan, claimed = self.db.transaction(write)
                break
            except _ChangedError:
                recheck = True
            except DuplicateError:
                if known:
                    raise
                # these fires were planned before: a restored backup, or a cursor set back by hand
                known = True
        self.job_cache.remember(claimed)
        self.observers.committed(self._noted)
        took_ms = planning_ms + self.clock.monotonic_ms() - self._began_ms
        chars = sum([len(job.param) for job in found])
        share.limit.note(took_ms, self._trip_ms, chars, is_full=plan.unfinished or share.has_more)
        self.inbox.put([run for run in plan.runs if run.state is RunState.PLANNED and run.epoch])
        return plan.unfinished

    def _plan(self, read: Sequence[Job], epochs: Mapping[int, int], now_ms: int, limit: BatchLimit) -> _Batch:
        batch = _Batch(read, [job for job in read if not job.enabled], epochs, Planned())
        if started := [job for job in read if job.enabled]:
            self.run_ids.ensure(IDS_PER_CLAIM)
            batch.plan = self.planner.plan(started, now_ms, epochs, max_runs=limit.runs, max_questions=limit.questions)
        return batch

    def _write(
        self, conn: Connection, batch: _Batch, now_ms: int, *, recheck: bool, known: bool
    ) -> tuple[Planned, Sequence[Job]]:
        """Write what was decided about jobs that are as they were read; return it, and these jobs.

        Raises _ChangedError if some are not, and without ``recheck`` nothing says which.
        """
        self._began_ms = self.clock.monotonic_ms()  # not before: waiting for our turn is no cost of ours
        self._noted = ()
        epochs = self.lease.lock(conn)
        asked_ms = self.clock.monotonic_ms()
        paused = settings.find_setting(conn, settings.PAUSED)
        self._trip_ms = self.clock.monotonic_ms() - asked_ms
        if paused is not None:
            return Planned(), ()  # who pauses locks the leases first, so this answer holds until we commit
        ours = [
            job
            for job in batch.jobs
            if job.partition in epochs and epochs[job.partition] == batch.epochs[job.partition]
        ]
        recheck = recheck or len(ours) < len(batch.jobs)
        same = _unchanged(conn, ours) if recheck else ours
        ids = None if len(same) == len(batch.jobs) else {job.id for job in same}
        plan = _part(batch.plan, ids)
        plan.unfinished |= len(same) < len(ours)
        if known:
            self._drop_known(conn, plan, now_ms)
        # one that is not started has no next fire
        stops = [
            jobs.JobCursor(job.id, None, job.last_fire_ms, None, False, job.schedule_error)
            for job in batch.stopped
            if ids is None or job.id in ids
        ]
        cursors = [*plan.job_updates, *stops]
        if recheck:
            jobs.update_fires(conn, cursors)
        elif not jobs.update_seen_fires(conn, cursors, {job.id: job for job in same}):
            raise _ChangedError
        runs.insert_runs(conn, plan.runs)
        self._note(conn, plan, same, now_ms)
        return plan, same

    def _note(self, conn: Connection, plan: Planned, claimed: Sequence[Job], now_ms: int) -> None:
        broken = {cursor.id: cursor.schedule_error for cursor in plan.job_updates if cursor.schedule_error}
        stops = [(job, broken[job.id]) for job in claimed if job.id in broken] if broken else []
        self._noted = self.observers.record(conn, Changes(now_ms=now_ms, inserted=plan.runs, stopped=stops))

    def _drop_known(self, conn: Connection, plan: Planned, now_ms: int) -> None:
        """Take out what has a row already; a fixed delay that would await a dropped run goes on from now."""
        existing = runs.find_existing(conn, plan.runs)
        fresh = [run for run in plan.runs if runs.identity_of(run) not in existing]
        ids = {run.id for run in fresh}
        self.duplicates += len(plan.runs) - len(fresh)
        logger.warning("%d fires were planned before and are not planned again", len(plan.runs) - len(fresh))
        plan.runs = fresh
        plan.job_updates = [
            cursor
            if cursor.awaits_root is None or cursor.awaits_root in ids
            else cursor._replace(awaits_root=None, next_fire_ms=now_ms)
            for cursor in plan.job_updates
        ]


def _load(conn: Connection, ids: Sequence[int]) -> list[Job]:
    found = jobs.get_jobs(conn, ids) if ids else {}
    return [found[job_id] for job_id in sorted(found)]


def _unchanged(conn: Connection, found: Sequence[Job]) -> list[Job]:
    now = jobs.lock_fires(conn, [job.id for job in found])
    return [job for job in found if now.get(job.id) == (job.revision, job.next_fire_ms, job.enabled)]


def _due(job: Job) -> int:
    return job.next_fire_ms or 0


def _part(plan: Planned, ids: Collection[int] | None) -> Planned:
    """Return what a plan says of some jobs, or of all; a copy, since the transaction may be done again."""
    if ids is None:
        return Planned(list(plan.runs), list(plan.job_updates), plan.unfinished)
    kept = [run for run in plan.runs if run.job_id in ids]
    return Planned(kept, [cursor for cursor in plan.job_updates if cursor.id in ids], plan.unfinished)
