"""Delete what is old: runs, arrivals of chains, versions of jobs, and deleted jobs.

The holder of partition 0 does it, one short transaction at a time. Nothing here needs the lease to be safe: two nodes
that sweep at the same time find less to do. Where the history has partitions, one goes as a whole once nothing of it is
needed any more; what is in one that cannot go is deleted row by row, a day later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import sub
from typing import Final

from xwheel.clock import Clock
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.upkeep.sweep import Sweeps
from xwheel.storage import history_days, job_versions, retention
from xwheel.storage.database.engine import LONG_MS, Database
from xwheel.storage.history_days import Days
from xwheel.storage.retention import DAY_MS, LEAST_DAYS, OldRun

logger = logging.getLogger(__name__)

JOBS_PER_LOOK: Final = 1000
RUNS_PER_LOOK: Final = 50_000
FOR_EVER: Final = 36_500  # days
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
        self.deleted_runs = self.deleted_rows = self.swept_jobs = 0
        self._version_place = self._full_at_ms = 0
        self._place = START
        self._rows_until_ms = 0  # rows due from here on go with their partition
        self._sweeps = Sweeps(self._is_ours, self.clock, self._sweep_all, interval_ms=self.interval_ms)

    def step(self, now_ms: int) -> int:
        """Do one piece of a sweep if it is time; return how long to wait in milliseconds."""
        with self.db.limited(statement_ms=LONG_MS):
            return self._sweeps.step(now_ms)

    def _is_ours(self) -> bool:
        return self.lease.may_act() and 0 in self.lease.epochs

    def _sweep_all(self, now_ms: int) -> Iterator[None]:
        before = (self.deleted_runs, self.deleted_rows, self.swept_jobs)
        yield from self._sweep_days(now_ms)
        if self.run_days:
            yield from self._sweep_runs(now_ms)
        yield from self._sweep_own(now_ms)
        if self.run_days:
            yield from self._sweep_arrivals(_cutoff_ms(now_ms, self.run_days))
        yield from self._sweep_versions()
        yield from self._sweep_tombstones()
        after = (self.deleted_runs, self.deleted_rows, self.swept_jobs)
        if before != after:
            gone = map(sub, after, before)
            logger.info("deleted %d old runs, %d arrival and version rows, %d jobs deleted before", *gone)

    def _sweep_days(self, now_ms: int) -> Iterator[None]:
        cutoff_ms = self._rows_until_ms = _cutoff_ms(now_ms, self.run_days)
        with self.db.read() as conn:
            longest = retention.find_longest(conn)
        every = history_days.add_days(self.db, now_ms // DAY_MS, max(longest, self.run_days or FOR_EVER))
        if longest <= self.run_days:  # else most partitions have rows that must stay
            waiting = [days.first for days in every if days.first and (days.end + 1) * DAY_MS > cutoff_ms]
            self._rows_until_ms = min([cutoff_ms, *(first * DAY_MS for first in waiting)])
        for days in every:
            if self.run_days and days.end * DAY_MS <= cutoff_ms:
                yield from self._sweep_partition(days, cutoff_ms, now_ms)

    def _sweep_partition(self, days: Days, before_ms: int, now_ms: int) -> Iterator[None]:
        """Drop a partition if all runs of its fires have ended and are old.

        First those go, row by row, that may change yet and those of fires that other days have runs of too. Where none
        of these is left and nothing is open, the rest is closed for ever, so that it can be read without a lock.
        """
        found: Sequence[OldRun] | None = None
        while found is None or found:
            with self.db.read() as conn:
                found = history_days.find_unsettled(conn, days, self.batch)
                own = retention.find_own_retention(conn, {item.job_id for item in found})
            before = {item.job_id: _cutoff_ms(now_ms, own.get(item.job_id, self.run_days)) for item in found}
            if found and self._delete(found, before) < len(found):
                return
            yield
        place: int | None = days.first_id - 1
        count = 0
        while place is not None:
            with self.db.read() as conn:
                runs, kept, place = history_days.count_kept(
                    conn, days, place, RUNS_PER_LOOK, before_ms=before_ms, now_ms=now_ms
                )
                if kept or history_days.has_open(conn, days):
                    return
            count += runs
            yield
        if history_days.drop_days(self.db, days):
            self.deleted_runs += count

    def _sweep_runs(self, now_ms: int) -> Iterator[None]:
        before_ms = self._rows_until_ms
        if now_ms >= self._full_at_ms:
            self._full_at_ms = now_ms + DAY_MS
            self._place = START
        while True:
            with self.db.read() as conn:
                found = retention.find_old_runs(conn, before_ms, self._place, self.batch)
                own = retention.find_own_retention(conn, {item.job_id for item in found})
            if found:
                self._place = found[-1][:2]
                chosen = [item for item in found if item.job_id not in own]
                self._delete(chosen, dict.fromkeys((item.job_id for item in chosen), before_ms))
                yield
            if len(found) < self.batch:
                return

    def _sweep_own(self, now_ms: int) -> Iterator[None]:
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
                place = found[-1][:2]
        if waiting:
            yield waiting

    def _sweep_arrivals(self, before_ms: int) -> Iterator[None]:
        gone = self.batch
        while gone >= self.batch:
            gone = self.db.transaction(lambda conn: retention.delete_arrivals(conn, before_ms, self.batch))
            self.deleted_rows += gone
            yield

    def _sweep_versions(self) -> Iterator[None]:
        """Delete the oldest versions of the jobs that got new ones since the last sweep, beyond those that are kept."""
        while True:
            with self.db.read() as conn:
                changed, last = job_versions.page_ids(conn, self._version_place, self.batch)
                many = job_versions.find_many(conn, changed, self.job_versions) if changed else {}
            if many:
                self.deleted_rows += self.db.transaction(partial(job_versions.delete_until, last=many))
            if last is None:
                return
            self._version_place = last
            yield

    def _sweep_tombstones(self) -> Iterator[None]:
        place = START
        while True:
            with self.db.read() as conn:
                page = retention.list_tombstones(conn, place, self.batch)
                empty = retention.find_empty_tombstones(conn, [job_id for _, job_id in page])
            if empty:
                self.swept_jobs += self.db.transaction(partial(retention.delete_tombstones, ids=empty))
            if len(page) < self.batch:
                return
            place = page[-1]
            yield

    def _delete(self, found: Sequence[OldRun], before: Mapping[int, int]) -> int:
        gone = self.db.transaction(lambda conn: retention.delete_closed(conn, found, before))
        self.deleted_runs += gone
        return gone


def _cutoff_ms(now_ms: int, days: int) -> int:
    return now_ms - max(LEAST_DAYS, days) * DAY_MS
