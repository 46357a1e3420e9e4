"""Claim due jobs: run rows and the jobs' next fire times are written in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import DuplicateError
from xwheel.model import Job, Run, RunState
from xwheel.scheduler.alarm.ports import Alarms, NoAlarms
from xwheel.scheduler.handover import Planned
from xwheel.scheduler.ports import LeaseView
from xwheel.storage import alarms, jobs, runs, settings
from xwheel.storage.alarms import NewAlarm
from xwheel.storage.engine import Connection, Database
from xwheel.storage.ids import RunIds

logger = logging.getLogger(__name__)

IDS_PER_CLAIM = 10_000
LONGEST_WAIT_MS = 1000
FULL_WAIT_MS = 0
RUNS_PER_JOB = 5
MOST_RUNS = 5000
# one costs as much as a fourth of a run or less
LOOKS_PER_RUN = 4
# others wait for a claim that writes; a quarter of the 200 ms allowed, since a busy machine varies as much
TARGET_MS: Final = 50
FIRST_SHARE: Final = 0.1
LEAST_SHARE: Final = 0.05
NO_ALARMS: Final = NoAlarms()

Planner = Callable[..., Planned]
"""``plan(jobs, now_ms, pre_read_ms=…, take_ids=…, epochs=…, max_runs=…, max_looks=…)``: the pure decision, with
the schedule types bound."""


class BatchLimit:
    """How much one transaction takes, so that it stays short on any disk and with any schedule.

    Starts small, and follows the time that the last transactions took.

    Args:
        most: Jobs in one transaction where the database is fast enough.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._share = FIRST_SHARE

    @property
    def jobs(self) -> int:
        """Jobs that the next transaction may take."""
        return max(1, round(self._most * self._share))

    @property
    def runs(self) -> int:
        """Runs that the next transaction may insert."""
        return min(MOST_RUNS, self.jobs * RUNS_PER_JOB)

    @property
    def looks(self) -> int:
        """How often the next transaction may ask for a fire's time."""
        return self.runs * LOOKS_PER_RUN

    def note(self, took_ms: int, *, is_full: bool) -> None:
        """Learn from a transaction; one that was not full says nothing about a larger one."""
        factor = min(1.5, max(0.25, TARGET_MS / max(1, took_ms)))
        if factor < 1 or is_full:
            self._share = min(1.0, max(LEAST_SHARE, self._share * factor))


class ClaimLoop:
    """Plans what falls due within the pre-read window.

    Args:
        db: The database.
        lease: Our partitions.
        run_ids: Source of run ids.
        planner: The pure decision.
        enqueue: Gets the planned runs once they are committed.
        clock: Measures the transactions.
        remember: Gets the jobs as they were claimed, so that nobody need read them again soon.
        pre_read_ms: How far ahead fires are planned.
        batch: Jobs in one transaction, at most; fewer where it would take long.
        alarms: Says what rules ask for of skipped fires and of schedules that fail.
    """

    def __init__(
        self,
        db: Database,
        lease: LeaseView,
        run_ids: RunIds,
        planner: Planner,
        enqueue: Callable[[Sequence[Run]], None],
        clock: Clock,
        *,
        remember: Callable[[Sequence[Job]], None] = lambda _: None,
        pre_read_ms: int,
        batch: int,
        alarms: Alarms = NO_ALARMS,
    ) -> None:
        self.duplicates = 0
        self._db = db
        self._lease = lease
        self._run_ids = run_ids
        self._planner = planner
        self._enqueue = enqueue
        self._clock = clock
        self._remember = remember
        self._due: Sequence[Job] = ()
        self._alarms = alarms
        self._raised: Sequence[NewAlarm] = ()
        self._pre_read_ms = pre_read_ms
        self._limit = BatchLimit(batch)
        self._began_ms = 0

    def step(self, now_ms: int) -> int:
        """Claim one batch; return how long to wait in milliseconds, 0 if there is more."""
        if not self._lease.may_act():
            return LONGEST_WAIT_MS
        horizon_ms = now_ms + self._pre_read_ms
        with self._db.read() as conn:
            if settings.find_setting(conn, settings.PAUSED) is not None:
                return LONGEST_WAIT_MS
            ids, has_more = jobs.find_due_jobs(conn, sorted(self._lease.epochs), horizon_ms, self._limit.jobs)
        if not ids:
            # half of the window is early enough, and a second keeps new jobs prompt
            return min(LONGEST_WAIT_MS, self._pre_read_ms // 2)
        self._run_ids.ensure(IDS_PER_CLAIM)
        try:
            plan = self._db.transaction(lambda conn: self._claim(conn, ids, now_ms, known=False))
        except DuplicateError:
            # somebody planned one of these fires before: a restored backup, or a cursor set back by hand
            plan = self._db.transaction(lambda conn: self._claim(conn, ids, now_ms, known=True))
        self._remember(self._due)
        self._alarms.committed(self._raised)
        is_full = plan.unfinished or has_more
        self._limit.note(self._clock.monotonic_ms() - self._began_ms, is_full=is_full)
        self._enqueue([run for run in plan.runs if run.state is RunState.PLANNED and run.epoch])
        return FULL_WAIT_MS if is_full else min(LONGEST_WAIT_MS, self._pre_read_ms // 2)

    def _claim(self, conn: Connection, ids: Sequence[int], now_ms: int, *, known: bool) -> Planned:
        self._began_ms = self._clock.monotonic_ms()  # not before: waiting for our turn is no cost of ours
        epochs = self._lease.lock(conn)
        if settings.find_setting(conn, settings.PAUSED) is not None:
            self._raised = ()
            return Planned()  # whoever pauses locks the leases first, so this answer holds until we commit
        due = [
            job
            for job in jobs.lock_due_jobs(conn, ids, now_ms + self._pre_read_ms)
            if job.partition in epochs
        ]
        self._due = due
        plan = self._planner(
            due,
            now_ms,
            pre_read_ms=self._pre_read_ms,
            take_ids=self._run_ids.take,
            epochs=epochs,
            max_runs=self._limit.runs,
            max_looks=self._limit.looks,
        )
        if known:
            self._drop_known(conn, plan, now_ms)
        runs.insert_runs(conn, plan.runs)
        jobs.update_fires(conn, plan.job_updates)
        self._raise(conn, plan, now_ms)
        return plan

    def _raise(self, conn: Connection, plan: Planned, now_ms: int) -> None:
        """Write what rules ask for of fires that are skipped and of jobs that are stopped."""
        broken = {cursor.id: cursor.schedule_error for cursor in plan.job_updates if cursor.schedule_error}
        stops = [(job, broken[job.id]) for job in self._due if job.id in broken] if broken else []
        self._raised = [
            *self._alarms.of_skips(plan.runs, now_ms),
            *self._alarms.of_stops(stops, now_ms),
        ]
        alarms.insert_alarms(conn, self._raised)

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
