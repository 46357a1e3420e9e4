"""Delete what is old: runs, arrivals of chains, versions of jobs, and deleted jobs.

The holder of partition 0 does it, one short transaction at a time. Nothing here needs the lease to be safe: two nodes
that sweep at the same time find less to do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from xwheel.clock import Clock
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.upkeep.sweep import Sweeps
from xwheel.storage import job_versions, retention
from xwheel.storage.database.engine import LONG_MS, Database
from xwheel.storage.retention import DAY_MS, LEAST_DAYS, OldRun

logger = logging.getLogger(__name__)

JOBS_PER_LOOK: Final = 1000
START: Final = (0, 0)


@dataclass(eq=False, repr=False)
class RetentionLoop:
    """Deletes what is old, one short transaction a step.

    Runs of jobs without a retention of their own are walked in the order of their due times. The place where the last
    sweep ended is kept, so that a sweep does not see again what had to stay; once a day one begins at the start.
    """

    db: Database
    lease: Lease
    clock: Clock
    _: KW_ONLY
    run_days: int  # retention of finished runs in days, 0 to keep them; never less than three
    job_versions: int  # versions of each job that are kept
    interval_ms: int  # from the end of one sweep to the next
    batch: int  # rows in one transaction

    def __post_init__(self) -> None:
        self.deleted_runs = 0
        self.deleted_rows = 0
        self.swept_jobs = 0
        lease = self.lease
        self._sweeps = Sweeps(
            lambda: lease.may_act() and 0 in lease.epochs,
            self.clock,
            self._sweep_all,
            interval_ms=self.interval_ms,
        )
        self._version_place = 0
        self._full_at_ms = 0
        self._place = START

    def step(self, now_ms: int) -> int:
        """Do one piece of a sweep if it is time; return how long to wait in milliseconds."""
        with self.db.limited(statement_ms=LONG_MS):
            return self._sweeps.step(now_ms)

    def _sweep_all(self, now_ms: int) -> Iterator[None]:
        before = (self.deleted_runs, self.deleted_rows, self.swept_jobs)
        if self.run_days:
            yield from self._sweep_runs(now_ms)
        yield from self._sweep_own(now_ms)
        if self.run_days:
            old_ms = _cutoff_ms(now_ms, self.run_days)
            yield from self._sweep_arrivals(old_ms)
        yield from self._sweep_versions()
        yield from self._sweep_tombstones()
        after = (self.deleted_runs, self.deleted_rows, self.swept_jobs)
        if before != after:
            gone = [new - old for new, old in zip(after, before, strict=True)]
            logger.info("deleted %d old runs, %d arrival and version rows, %d jobs deleted before", *gone)

    def _sweep_runs(self, now_ms: int) -> Iterator[None]:
        """Delete old runs of jobs without a retention of their own, in the order of due times."""
        before_ms = _cutoff_ms(now_ms, self.run_days)
        if now_ms >= self._full_at_ms:
            self._full_at_ms = now_ms + DAY_MS
            self._place = START
        while True:
            with self.db.read() as conn:
                found = retention.find_old_runs(conn, before_ms, self._place, self.batch)
                own = retention.find_own_retention(conn, {item.job_id for item in found})
            if found:
                self._place = found[-1].place
                chosen = [item for item in found if item.job_id not in own]
                self._delete(chosen, dict.fromkeys((item.job_id for item in chosen), before_ms))
                yield
            if len(found) < self.batch:
                return

    def _sweep_own(self, now_ms: int) -> Iterator[None]:
        """Delete old runs of jobs with a retention of their own, longer or shorter, job by job."""
        after_id = 0
        while True:
            with self.db.read() as conn:
                page = retention.list_retentions(conn, after_id, JOBS_PER_LOOK)
                days = {job_id: own for job_id, own in page if own}
                due = retention.find_jobs_with_old_runs(conn, days, now_ms) if days else []
            before = {job_id: _cutoff_ms(now_ms, days[job_id]) for job_id in due}
            for part in self._collect(before):
                self._delete(part, before)
                yield
            if len(page) < JOBS_PER_LOOK:
                return
            after_id = page[-1][0]
            yield

    def _collect(self, before: Mapping[int, int]) -> Iterator[list[OldRun]]:
        """Give the old runs of jobs in full batches, so that many jobs with few runs are few transactions."""
        waiting: list[OldRun] = []
        for job_id, before_ms in before.items():
            place = START
            while True:
                with self.db.read() as conn:
                    found = retention.find_old_runs(conn, before_ms, place, self.batch, job_id)
                waiting += found
                while len(waiting) >= self.batch:
                    yield waiting[: self.batch]
                    waiting = waiting[self.batch :]
                if len(found) < self.batch:
                    break
                place = found[-1].place
        if waiting:
            yield waiting

    def _sweep_arrivals(self, before_ms: int) -> Iterator[None]:
        """Delete arrivals of chains until fewer than a batch were there."""
        while True:
            gone = self.db.transaction(lambda conn: retention.delete_arrivals(conn, before_ms, self.batch))
            self.deleted_rows += gone
            yield
            if gone < self.batch:
                return

    def _sweep_versions(self) -> Iterator[None]:
        """Delete the oldest versions of the jobs that got new ones since the last sweep, beyond those that are kept."""
        while True:
            with self.db.read() as conn:
                changed, last = job_versions.page_ids(conn, self._version_place, self.batch)
                many = job_versions.find_many(conn, changed, self.job_versions) if changed else {}
            if many:
                gone = partial(job_versions.delete_until, last=many)
                self.deleted_rows += self.db.transaction(gone)
            if last is None:
                return
            self._version_place = last
            yield

    def _sweep_tombstones(self) -> Iterator[None]:
        """Remove deleted jobs whose last run is gone."""
        place = START
        while True:
            with self.db.read() as conn:
                page = retention.list_tombstones(conn, place, self.batch)
                empty = retention.find_empty_tombstones(conn, [job_id for _, job_id in page])
            if empty:
                gone = partial(retention.delete_tombstones, ids=empty)
                self.swept_jobs += self.db.transaction(gone)
            if len(page) < self.batch:
                return
            place = page[-1]
            yield

    def _delete(self, found: Sequence[OldRun], before: Mapping[int, int]) -> None:
        self.deleted_runs += self.db.transaction(lambda conn: retention.delete_closed(conn, found, before))


def _cutoff_ms(now_ms: int, days: int) -> int:
    return now_ms - max(LEAST_DAYS, days) * DAY_MS
