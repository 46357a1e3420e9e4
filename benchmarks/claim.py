"""What a claim costs when many jobs are stored, and how long transactions take while many jobs or runs are old.

Two databases, one with few jobs and one with many, have the same number of due jobs; the claim loop's step is timed on
both in turn. Then every job of the large one is overdue, as after a day's outage, and the loop drains them: each
transaction is timed from its begin to the end of its commit. Last, the runs that this made are counted for the hourly
report, and deleted as a month later. SQLite, synced, one node that holds all partitions.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection
from xwheel_devtools.testing import ManualClock
from xwheel_reports.counting import ReportLoop

from benchmarks._report import Report, timed
from tests.support.databases import upgrade
from tests.support.rows import NOW, job_values
from tests.support.upkeep import GivenLease
from xwheel.config import build_config
from xwheel.plugin.discovery import load_plugins
from xwheel.runtime.foreign import PluginThreads
from xwheel.scheduler.cluster.sqlite_lease import SqliteLease
from xwheel.scheduler.fire.tick import Inbox
from xwheel.scheduler.job_cache import JobCache
from xwheel.scheduler.observers import Observers
from xwheel.scheduler.plan.batches import BatchPlanner
from xwheel.scheduler.plan.claim import ClaimLoop
from xwheel.scheduler.timetable import Timetable
from xwheel.scheduler.upkeep.retention import RetentionLoop
from xwheel.storage import jobs
from xwheel.storage.database.engine import Database
from xwheel.storage.run_ids import RunIds

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
LIMIT_MS = 200
GOAL = 2.5
# half of the jobs each; and half of these each
SCHEDULES = (("FIX_RATE", "1h"), ("CRON", "0 0 * * * ?"))
POLICIES = ("skip", "fire_once")


class TimedDatabase(Database):
    """A database that notes how long each writing transaction takes, from begin to commit, in milliseconds."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.took_ms: list[float] = []

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection inside a writing transaction, and time it."""
        began = 0.0
        try:
            with super().write() as conn:
                began = time.perf_counter()
                yield conn
        finally:
            if began:
                self.took_ms.append(1000 * (time.perf_counter() - began))


class WorkClock(ManualClock):
    """A clock whose shared time stands still while its monotonic time is the real one."""

    def monotonic_ms(self) -> int:
        """Return the machine's monotonic time."""
        return time.monotonic_ns() // 1_000_000


class Place:
    """A node's claim loop on a database of its own.

    Args:
        folder: Where the file is put.
        count: How many jobs are stored, none of them due.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.db = TimedDatabase(f"sqlite:///{folder / f'{count}.db'}")
        upgrade(self.db)
        self.db.transaction(self._fill)
        self.planned = 0
        config = build_config({})
        clock = WorkClock(NOW)
        # no one renews here; a whole day is enough for the measurement
        self.lease = SqliteLease(self.db, "bench", clock, lease_ms=DAY_MS, renew_ms=DAY_MS)
        self.lease.acquire()
        schedule, kinds, run_ids = config.schedule, load_plugins(config).schedule_types, RunIds(self.db)
        planner = BatchPlanner(Timetable(kinds), kinds, PluginThreads(config.plugins.call_timeout_s), run_ids, schedule)
        self.inbox = Inbox(lambda: None)
        self.loop = ClaimLoop(
            self.db, self.lease, run_ids, planner, self.inbox, JobCache(), clock, Observers((), self.db), schedule
        )

    def make_due(self, ids: list[int], now_ms: int) -> None:
        """Let jobs be due."""
        places = ", ".join(map(str, ids))
        query = f"UPDATE job SET next_fire_ms = {now_ms} WHERE id IN ({places})"
        self.db.transaction(lambda conn: conn.exec_driver_sql(query))

    def make_all_overdue(self) -> None:
        """Let every job have missed its fires for up to a day."""
        query = f"UPDATE job SET next_fire_ms = {NOW} - {HOUR_MS} * (1 + abs(random()) % 24)"
        self.db.transaction(lambda conn: conn.exec_driver_sql(query))

    def claim(self, now_ms: int) -> None:
        """Claim until nothing is due."""
        while self.loop.step(now_ms) == 0:
            while runs := self.inbox.take():
                self.planned += len(runs)
        while runs := self.inbox.take():
            self.planned += len(runs)

    def _fill(self, conn: Connection) -> None:
        """Write one job through the ordinary door, then copies of it that fire later, at random hours."""
        values = {"enabled": True, "next_fire_ms": NOW + DAY_MS, "last_fire_ms": None, "awaits_root": None}
        values |= {"revision": 1, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW}
        model = jobs.insert_job(conn, job_values(description="d" * 60, param="p" * 60) | values)
        names = [row[1] for row in conn.exec_driver_sql("PRAGMA table_info(job)")]
        different = {
            "id": "n",
            "partition": "n % 64",
            "name": "'job number ' || n",
            "group_id": "1 + n % 100",
            "schedule_type": f"CASE n / 64 % 2 WHEN 0 THEN '{SCHEDULES[0][0]}' ELSE '{SCHEDULES[1][0]}' END",
            "schedule_conf": f"CASE n / 64 % 2 WHEN 0 THEN '{SCHEDULES[0][1]}' ELSE '{SCHEDULES[1][1]}' END",
            "misfire_policy": f"CASE n / 128 % 2 WHEN 0 THEN '{POLICIES[0]}' ELSE '{POLICIES[1]}' END",
            "next_fire_ms": f"{NOW} + {HOUR_MS} * (24 + abs(random()) % 24)",
        }
        columns = ", ".join(f'"{name}"' for name in names)
        sources = ", ".join(different.get(name, f'model."{name}"') for name in names)
        conn.exec_driver_sql(
            f"WITH RECURSIVE number(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM number WHERE n < {self.count}) "
            f"INSERT INTO job ({columns}) SELECT {sources} FROM number, job AS model WHERE model.id = {model.id}"
        )


def measure_claims(report: Report, small: Place, large: Place, due: int) -> None:
    """Time the claim of the same number of due jobs on both, in turn, on other jobs each time."""
    choose = random.Random(1)
    costs: dict[int, list[float]] = {small.count: [], large.count: []}
    for round_ in range(report.args.repeats + 1):
        for place in (small, large):
            now_ms = NOW + MINUTE_MS * (1 + round_)  # no fire is planned twice
            place.make_due(choose.sample(range(1, place.count + 1), due), now_ms)
            took = timed(partial(place.claim, now_ms))
            if round_:  # the first one builds statements and warms caches
                costs[place.count].append(took)
    for place in (small, large):
        report.figure(f"claim of {due:,} due of {place.count:,}", [1000 * s for s in costs[place.count]], "ms")
    name = f"claim cost, {large.count:,} / {small.count:,} jobs"
    report.ratio(name, costs[large.count], costs[small.count])
    report.note(name, f"goal at most {GOAL:g}: {'held' if report.ratios[name] <= GOAL else 'MISSED'}")


def note_transactions(report: Report, place: Place, what: str) -> None:
    """Report how long the transactions of a measurement took."""
    took_ms = sorted(place.db.took_ms)
    report.figure(f"{what}: transactions", [len(took_ms)], "")
    report.figure(f"{what}: transaction, median", [took_ms[len(took_ms) // 2]], "ms")
    report.figure(f"{what}: transaction, p99", [took_ms[int(0.99 * (len(took_ms) - 1))]], "ms")
    report.figure(f"{what}: transaction, longest", [took_ms[-1]], "ms")
    over = sum(one > LIMIT_MS for one in took_ms)
    verdict = f"MISSED by {over}" if over else "held"
    report.note(f"{what}: transaction, longest", f"goal {LIMIT_MS} ms: {verdict}")


def measure_drain(report: Report, place: Place) -> None:
    """Let everything be overdue and time every transaction until nothing is."""
    place.make_all_overdue()
    place.db.took_ms.clear()
    place.planned = 0
    took_s = timed(partial(place.claim, NOW))
    note_transactions(report, place, "drain")
    report.figure("drain: all", [took_s], "s")
    report.figure("drain: jobs", [place.count / took_s], "jobs/s")
    report.note("drain: jobs", f"{place.planned:,} fires planned")


def measure_report(report: Report, place: Place) -> None:
    """Count the hours in which the drained runs were due, first into an empty report, then again."""
    loop = ReportLoop(place.db, place.lease, ManualClock(NOW), interval_ms=MINUTE_MS)
    hours = range(NOW - DAY_MS, NOW, HOUR_MS)
    place.db.took_ms.clear()
    rows = [0]

    def count(hour_ms: int) -> None:
        rows[0] += loop.refresh(hour_ms, NOW)

    first_s = [timed(partial(count, hour_ms)) for hour_ms in hours]
    note_transactions(report, place, "report")
    report.figure("report: an hour, all rows new", first_s, "s")
    report.note("report: an hour, all rows new", f"{rows[0] // len(hours):,} rows each")
    report.figure("report: an hour, again", [timed(partial(count, hour_ms)) for hour_ms in hours], "s")


def measure_sweep(report: Report, place: Place, batches: int) -> None:
    """Delete skip rows a month later, among planned runs that must stay; the rests between are not waited for."""
    clock = ManualClock(NOW + 31 * DAY_MS)
    loop = RetentionLoop(
        place.db,
        GivenLease(),
        clock,
        run_days=30,
        job_versions=100,
        interval_ms=HOUR_MS,
        batch=build_config({}).upkeep.sweep_batch,
    )
    place.db.took_ms.clear()

    def sweep() -> None:
        while len(place.db.took_ms) < batches and clock.now_ms() < NOW + 32 * DAY_MS:
            clock.advance(loop.step(clock.now_ms()))

    took_s = timed(sweep)
    note_transactions(report, place, "sweep")
    report.figure("sweep: runs deleted", [loop.deleted_runs / took_s], "runs/s")
    report.note("sweep: runs deleted", f"{loop.deleted_runs:,} runs")


def main() -> None:
    """Build both databases, then measure."""
    report = Report(__doc__ or "", repeats=9)
    report.parser.add_argument("--jobs", type=int, default=1_000_000, help="jobs of the large database")
    report.parser.add_argument("--due", type=int, default=500, help="due jobs in a measured claim")
    report.parser.add_argument("--batches", type=int, default=400, help="transactions of the measured sweep")
    args = report.parse()
    with tempfile.TemporaryDirectory(prefix="xwheel-bench-") as name:
        small, large = (Place(Path(name), count) for count in (max(1000, args.due), args.jobs))
        measure_claims(report, small, large, args.due)
        measure_drain(report, large)
        measure_report(report, large)
        measure_sweep(report, large, args.batches)
        for place in (small, large):
            place.db.close()
    report.finish()


if __name__ == "__main__":
    main()
