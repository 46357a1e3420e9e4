"""Keep the hourly report: count runs again, hour by hour, so that no outcome has to write it.

The holder of partition 0 does it. Nothing here needs the lease to be safe: two nodes that count at the same time write
the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from xwheel.clock import Clock
from xwheel.model import MAX_ID
from xwheel.plugin import PluginPartitions
from xwheel.runtime.loops import Rest
from xwheel.scheduler.upkeep.sweep import LONGEST_NAP_MS
from xwheel.storage.database.engine import LONG_MS, Database
from xwheel.storage.database.rows import chunks
from xwheel.storage.retention import DAY_MS, LEAST_DAYS

from xwheel_reports import storage
from xwheel_reports.storage import HOUR_MS, JobHour

REPORT_REST: Final = 20
JOBS_PER_PAGE: Final = 50_000
ROWS_PER_WRITE: Final = 500
# SQLite sorts what one question counts in memory, and while it reads, its log of writes cannot be emptied
RUNS_PER_READ: Final = 20_000
# the current hour, the one before, and two older ones: seventy older ones are seen within forty passes
STEPS_PER_PASS: Final = 4
MOST_LATE_HOURS: Final = 1000


class ReportLoop:
    """Keeps the hourly report right by counting runs again: one hour a step.

    The current hour and the one before are counted once an interval; in the same time two older ones, in turn, so that
    every hour of the last three days is seen again within forty intervals: late outcomes, long runs and skip rows of
    an outage arrive there. Only rows that differ are written. From older hours runs may be deleted already, so there
    a row is replaced only if no fewer fires are counted; such hours are counted if the report says that runs are open
    there, once a day, or if no node was there to count them.

    Args:
        db: The database.
        partitions: Those that this process holds.
        clock: Measures the work.
        interval_ms: How often the current hour is counted, if that takes no longer than a twentieth of it.
    """

    def __init__(self, db: Database, partitions: PluginPartitions, clock: Clock, *, interval_ms: int) -> None:
        self.counted_hours = 0
        self.written_rows = 0
        self._db = db
        self._partitions = partitions
        self._rest = Rest(clock, REPORT_REST)
        self._pause_ms = interval_ms // STEPS_PER_PASS
        self._older: deque[int] | None = None
        self._look_back_at_ms = 0
        self._step = 0

    def step(self, now_ms: int) -> int:
        """Count one hour; return how long to wait in milliseconds."""
        if 0 not in self._partitions.held():
            self._older = None  # the next holder looks back again
            return LONGEST_NAP_MS
        with self._db.limited(statement_ms=LONG_MS):
            return self._rest.left_ms() or self._rest.after(lambda: self._count_next(now_ms), self._pause_ms)

    def refresh(self, hour_ms: int, now_ms: int) -> int:
        """Count one hour again and write what differs; return how many rows were written or taken out."""
        # an hour more than the least age of what is deleted, since clocks differ
        is_whole = hour_ms >= now_ms - LEAST_DAYS * DAY_MS + HOUR_MS
        written, after_job = 0, 0
        while True:
            counted, last_job = self._count(hour_ms, after_job)
            with self._db.read() as conn:
                known = storage.list_hour(conn, hour_ms, after_job, last_job)
            gone, rows = compare(counted, known, is_whole=is_whole)
            for part in chunks(rows, ROWS_PER_WRITE):
                self._write(hour_ms, (), part)
            for ids in chunks(gone, ROWS_PER_WRITE):
                self._write(hour_ms, ids, ())
            written += len(rows) + len(gone)
            if last_job == MAX_ID:
                self.counted_hours += 1
                self.written_rows += written
                return written
            after_job = last_job

    def _count(self, hour_ms: int, after_job: int) -> tuple[list[JobHour], int]:
        """Count a page of jobs, part by part of the hour; return it, and the last job that it speaks for."""
        found: dict[int, JobHour] = {}
        last_job = MAX_ID
        from_ms, end_ms = hour_ms, hour_ms + HOUR_MS
        while from_ms < end_ms:
            with self._db.read(much=True) as conn:
                to_ms = storage.find_part_end(conn, from_ms, end_ms, RUNS_PER_READ)
                part = storage.count_part(conn, from_ms, to_ms, after_job, last_job, JOBS_PER_PAGE)
            for row in part:
                known = found.get(row.job_id)
                found[row.job_id] = row if known is None else storage.add(known, row)
            if len(part) == JOBS_PER_PAGE:
                last_job = part[-1].job_id
            last_job = min([last_job, *sorted(found)[JOBS_PER_PAGE - 1 : JOBS_PER_PAGE]])
            found = {job_id: row for job_id, row in found.items() if job_id <= last_job}
            from_ms = to_ms
        return [found[job_id] for job_id in sorted(found)], last_job

    def _write(self, hour_ms: int, gone: Sequence[int], rows: Sequence[JobHour]) -> None:
        self._db.transaction(lambda conn: storage.replace_hour(conn, hour_ms, gone, rows))

    def _count_next(self, now_ms: int) -> None:
        hour_ms = now_ms - now_ms % HOUR_MS
        if self._older is None:
            self._look_back_at_ms = 0
            self._step = 0
            self._older = deque(self._list_older(hour_ms, now_ms))
        self._step += 1
        match self._step % STEPS_PER_PASS:
            case 1:
                self.refresh(hour_ms, now_ms)
            case 2:
                self.refresh(hour_ms - HOUR_MS, now_ms)
            case _:
                if not self._older:
                    self._older.extend(self._list_older(hour_ms, now_ms))
                self.refresh(self._older.popleft(), now_ms)

    def _list_older(self, hour_ms: int, now_ms: int) -> list[int]:
        """Return the hours of one round, youngest first; once a day also those before the last three days."""
        oldest_ms = hour_ms - LEAST_DAYS * DAY_MS
        hours = list(range(hour_ms - 2 * HOUR_MS, oldest_ms - 1, -HOUR_MS))
        if now_ms < self._look_back_at_ms:
            return hours
        is_takeover = self._look_back_at_ms == 0
        self._look_back_at_ms = now_ms + DAY_MS
        with self._db.read() as conn:
            late = storage.find_open_hours(conn, oldest_ms, MOST_LATE_HOURS)
            last_ms = storage.find_last_hour(conn) if is_takeover else None
        if last_ms is not None and last_ms < oldest_ms:
            missed = range(oldest_ms - HOUR_MS, last_ms - 1, -HOUR_MS)
            late = sorted({*late, *missed[:MOST_LATE_HOURS]}, reverse=True)
        return hours + late


def compare(counted: Sequence[JobHour], known: Sequence[JobHour], *, is_whole: bool) -> tuple[list[int], list[JobHour]]:
    """Decide what to write so that the report says what was counted.

    Args:
        counted: What the runs say.
        known: What the report says.
        is_whole: Whether all runs of the hour are still there; if not, a row that knows of more fires stays.

    Returns:
        Jobs whose rows go, and rows to write.
    """
    old: Mapping[int, JobHour] = {row.job_id: row for row in known}
    rows = [row for row in counted if old.get(row.job_id) != row]
    if not is_whole:
        return [], [row for row in rows if row.job_id not in old or row.counts.fires >= old[row.job_id].counts.fires]
    seen = {row.job_id for row in counted}
    return [job_id for job_id in old if job_id not in seen], rows
