"""Adopt planned rows that no memory holds: the one path for restart, run-now, retries and rows of other processes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from xwheel.clock import has_come
from xwheel.config.sections import ScheduleSection
from xwheel.model import Job, Run, RunReason, RunState
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.fire.tick import Inbox, TickLoop
from xwheel.scheduler.plan.rules import recheck
from xwheel.scheduler.records import Outcome
from xwheel.scheduler.send.resend import Resender
from xwheel.scheduler.wakeups import Wakeups
from xwheel.storage import jobs, open_runs, runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.runs import QueuedRun

logger = logging.getLogger(__name__)

BATCH = 1000
OVERDUE_MS = 1000
PAGE = 10_000
PAGES = 20


class HoldsRuns(Protocol):
    """A place in memory where a planned or dispatching run may be."""

    def is_held(self, run_id: int) -> bool:
        """Return whether it has this run; from any thread."""


@dataclass(eq=False, repr=False)
class AdoptLoop:
    """Brings rows into memory, and looks for rows that memory lost."""

    db: Database
    lease: Lease
    inbox: Inbox
    holders: Sequence[HoldsRuns]  # all places that may have a run, in the order in which it passes them
    tick: TickLoop  # the first of them, which knows what it had no room for
    resender: Resender
    finisher: Finisher
    registry: ExecutorRegistry
    wakeups: Wakeups
    schedule: ScheduleSection

    def __post_init__(self) -> None:
        self.recovered = 0
        self._overflowed_before = self._reconcile_at_ms = self._failures_settled = 0
        self._taken_over: dict[int, int] = {}

    def step(self, now_ms: int) -> int:
        """Adopt one batch; return how long to wait in milliseconds, 0 if there is more."""
        if not self.lease.may_act():
            return self.schedule.adopt_interval_ms
        failures = self.wakeups.failures
        # what failed may have been committed: what it planned is in no memory
        has_failed = failures != self._failures_settled
        if has_failed or has_come(self._reconcile_at_ms, now_ms, self.schedule.reconcile_interval_ms):
            self.reconcile(now_ms, now_ms + self.schedule.pre_read_ms if has_failed else None)
            self._reconcile_at_ms = now_ms + self.schedule.reconcile_interval_ms
            self._failures_settled = failures
        epochs = self.lease.epochs
        came = {part: epoch for part, epoch in epochs.items() if self._taken_over.get(part) != epoch}
        with self.db.read() as conn:
            found, unfinished = runs.find_left(conn, came, BATCH) if came else ([], ())
            if not unfinished:
                found += runs.find_unadopted(conn, epochs.keys(), now_ms + self.schedule.pre_read_ms, BATCH)
            late = [run_id for run_id, due_ms in found if due_ms < now_ms - OVERDUE_MS]
            stale = runs.list_planned(conn, late) if late else []
            owners = jobs.get_jobs(conn, {run.job_id for run in stale})
        finished = {part: epoch for part, epoch in came.items() if part not in unfinished}
        if not found:
            self._taken_over |= finished
            return self.schedule.adopt_interval_ms
        ids = [run_id for run_id, _ in found]
        skipped = self._recheck(stale, owners, now_ms)
        if skipped:
            state = RunState.SKIPPED
            self.finisher.finish([Outcome(run_id=key, state=state, reason=why) for key, why in skipped.items()])
        self.inbox.put(self.db.transaction(lambda conn: self._adopt(conn, ids)))
        self._taken_over |= finished
        return 0 if unfinished or len(ids) >= BATCH else self.schedule.adopt_interval_ms

    def reconcile(self, now_ms: int, before_ms: int | None = None) -> None:
        """Find planned rows of ours that no memory holds, and sends without an answer.

        Looks at rows due before ``before_ms``, or, without it, at those that are overdue.
        """
        epochs = dict(self.lease.epochs)
        horizon_ms = now_ms - OVERDUE_MS if before_ms is None else before_ms
        missing: list[QueuedRun] = []
        with self.db.read() as conn:
            unanswered = runs.list_unanswered(conn, epochs.keys(), now_ms, BATCH)
            after: QueuedRun | None = None
            for _ in range(PAGES):  # rows that memory holds must not hide those it lost
                page = runs.find_overdue(conn, epochs, horizon_ms, PAGE, after)
                after = page[-1] if page else None
                missing += [run for run in page if self._is_missing(run, epochs)]
                if len(page) < PAGE or len(missing) >= PAGE:
                    break
        if missing:
            self._take_up(missing)
        waiting = [run for run in unanswered if not self._is_held(run.id)]
        if waiting:
            self.resender.settle(waiting, now_ms)

    def _is_held(self, run_id: int) -> bool:
        return any(place.is_held(run_id) for place in self.holders)

    def _recheck(self, stale: Sequence[Run], owners: Mapping[int, Job], now_ms: int) -> dict[int, RunReason]:
        limit_ms, limited = self.schedule.misfire_threshold_ms, self.registry.limited_groups

        def last_missed(job_ids: Collection[int], after_ms: int) -> dict[int, int]:
            with self.db.read() as conn:
                return open_runs.find_last_missed(conn, job_ids, now_ms, after_ms=after_ms, threshold_ms=limit_ms)

        return recheck(stale, owners, now_ms, threshold_ms=limit_ms, last_missed=last_missed, limited=limited)

    def _take_up(self, missing: Sequence[QueuedRun]) -> None:
        overflowed = self.tick.overflowed
        waited = min(len(missing), overflowed - self._overflowed_before)
        self._overflowed_before = overflowed
        lost, first = len(missing) - waited, missing[0].id
        self.recovered += lost
        if waited:
            text = (
                "%d due runs were over trigger.waiting_limit and waited as rows; they are taken in again, first run %d"
            )
            logger.info(text, waited, first)
        if lost:
            text = (
                "%d runs are planned and in no memory, as after a failed transaction; they are taken up again, "
                "first run %d"
            )
            logger.info(text, lost, first)
        self.inbox.put(missing)

    def _is_missing(self, run: QueuedRun, epochs: Mapping[int, int]) -> bool:
        is_ours = epochs.get(run.partition) == run.epoch
        return is_ours and not self._is_held(run.id) and not self.tick.deferred.has_no_room(run)

    def _adopt(self, conn: Connection, ids: Sequence[int]) -> list[QueuedRun]:
        epochs = self.lease.lock(conn)
        found = [run for run in runs.lock_planned_rows(conn, ids) if run.epoch < epochs.get(run.partition, 0)]
        runs.update_epochs(conn, [(run.id, epochs[run.partition]) for run in found])
        return [replace(run, epoch=epochs[run.partition]) for run in found]
