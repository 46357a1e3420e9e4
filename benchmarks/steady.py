"""Memory, threads, descriptors and files of a node and an executor over hours of even work.

``xwheel server`` and one ``xwheel executor`` are processes of their own, with default settings. As many jobs as ten
seconds have fires, each every ten seconds, their due times spread evenly over these. Every ``--every`` seconds a
line says what both processes hold and what lies on the disk; the lines also go to ``--csv``, so that they can be drawn.

How to read it: what a process has to itself (``node_mb``, ``executor_mb``: ``Private_*`` of ``smaps_rollup``), its
threads, its open files and the WAL must stand still once caches are full; that takes ten minutes (``--settle``). The
end gives for each the least-squares slope after that, per hour, with twice its standard error, over means of minutes.
A column is *flat* if its slope is less than that or than ``ALLOWED`` of its mean. ``db_mb`` and ``journal_mb`` grow by
intent: rows of runs are kept for 30 days, and the executor knows a run's id for a day. ``open`` is how many runs are
planned and not ended; ``late_ms`` the 99th percentile from due to accepted over the newest runs.

With ``--day`` a day of the history has so many seconds, and runs are kept for three such days, the least that can be
chosen: so two hours show whether retention keeps up, and ``db_mb`` must stand still after the fourth. The hourly report
keeps its hours. A day has at least ``LEAST_DAY_S``: run ids hold the number of the day.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import re
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from sqlalchemy import text

from benchmarks._report import Report
from benchmarks._site import Site, site
from xwheel.runtime.sealing import make_key

HANDLER = "nothing"
PERIOD_S = 10
ALLOWED = 0.01
WITHIN = 0.05  # of what it was once settled: how much memory may be at the end
LEAST_DAY_S = 900  # ids of shorter ones would not fit into 53 bits
NEWEST = 1000
SETTLED_MS = 20_000
MB = 1024 * 1024
SHORT_DAYS = """
import sys
from xwheel.storage import run_ids
for module in list(sys.modules.values()):
    if getattr(module, "DAY_MS", None) == 86_400_000:
        module.DAY_MS = {day_ms}
from xwheel_reports import counting
counting.DAY_MS = 86_400_000
"""
LOUD = re.compile(r"(\S+ ){1,2}(WARNING|ERROR|CRITICAL) ")


@dataclass(frozen=True, slots=True)
class Sample:
    """What there was at one moment; sizes in MiB."""

    second: int
    runs: int
    open: int
    late_ms: int
    node_rss_mb: float
    node_mb: float
    node_threads: int
    node_files: int
    executor_rss_mb: float
    executor_mb: float
    executor_threads: int
    executor_files: int
    wal_mb: float
    journal_wal_mb: float
    db_mb: float
    journal_mb: float


FLAT = (
    "node_mb",
    "node_rss_mb",
    "node_threads",
    "node_files",
    "executor_mb",
    "executor_rss_mb",
    "executor_threads",
    "executor_files",
    "wal_mb",
    "journal_wal_mb",
    "open",
)
GROWING = ("db_mb", "journal_mb")


def memory_mb(pid: int) -> tuple[float, float]:
    """Return what of a process is in memory, and how much of that belongs to it alone."""
    resident = private = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, amount = line.split()[:2]
        if name == "Rss:":
            resident = int(amount)
        elif name.startswith("Private_"):
            private += int(amount)
    return round(resident / 1024, 2), round(private / 1024, 2)


def threads(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def size_mb(path: Path) -> float:
    return round(path.stat().st_size / MB, 2) if path.exists() else 0.0


def database_mb(place: Site) -> float:
    """Return what the database has on the disk, without the WAL."""
    query = {
        "postgresql": "SELECT pg_database_size(current_database())",
        "mariadb": "SELECT sum(data_length + index_length) FROM information_schema.tables"
        " WHERE table_schema = DATABASE()",
    }.get(place.db.backend)
    if query is None:
        return size_mb(place.folder / "xwheel.db")
    with place.db.read() as conn:
        return round(int(conn.execute(text(query)).scalar_one()) / MB, 2)


def pending(place: Site) -> tuple[int, int]:
    """Return how many runs have not ended, and the 99th percentile of the newest from due to accepted."""
    with place.db.read() as conn:
        waiting = conn.execute(text("SELECT count(*) FROM open_run")).scalar_one()
        query = "SELECT coalesce(accepted_ms, finished_ms) - due_ms FROM run_history ORDER BY id DESC LIMIT :newest"
        newest = conn.execute(text(query), {"newest": NEWEST}).scalars().all()
    late = sorted(int(value) for value in newest if value is not None)
    return waiting, late[min(len(late) - 1, int(0.99 * len(late)))] if late else 0


def sample(place: Site, began: float) -> Sample:
    """Return what there is now."""
    database, journal = place.folder / "xwheel.db", place.folder / "executor" / "journal.db"
    node_rss_mb, node_mb = memory_mb(place.node.pid)
    executor_rss_mb, executor_mb = memory_mb(place.executor.pid)
    left, late_ms = pending(place)
    return Sample(
        second=round(time.monotonic() - began),
        runs=place.executed(),
        open=left,
        late_ms=late_ms,
        node_rss_mb=node_rss_mb,
        node_mb=node_mb,
        node_threads=threads(place.node.pid),
        node_files=open_files(place.node.pid),
        executor_rss_mb=executor_rss_mb,
        executor_mb=executor_mb,
        executor_threads=threads(place.executor.pid),
        executor_files=open_files(place.executor.pid),
        wal_mb=size_mb(database.with_name("xwheel.db-wal")),
        journal_wal_mb=size_mb(journal.with_name("journal.db-wal")),
        db_mb=database_mb(place),
        journal_mb=size_mb(journal),
    )


def make_jobs(place: Site, rate: int) -> int:
    """Make as many jobs as ten seconds have fires, and spread them over these; return when the first is due."""
    count = rate * PERIOD_S
    start_ms = (int(time.time()) + 5 + count // 100) * 1000
    for number in range(count):
        body: dict[str, Any] = {
            "group_id": place.group_id,
            "name": f"steady {number}",
            "handler": HANDLER,
            "schedule_type": "FIX_RATE",
            "schedule_conf": f"{PERIOD_S}s",
            "anchor_ms": start_ms + number * 1000 // rate,
            "start_ms": start_ms,
            "enabled": True,
        }
        place.client.call("POST", "/api/v1/jobs", body)
    time.sleep(max(0.0, start_ms / 1000 - time.time()))
    return start_ms


class Account:
    """Counts what became of due fires while their rows are there: retention takes them away."""

    def __init__(self, place: Site, start_ms: int, rate: int) -> None:
        self._place = place
        self._rate = rate
        self._until_ms = start_ms
        self.due = 0
        self.states: Counter[str] = Counter()

    def count(self, now_ms: int) -> None:
        """Count the fires of whole seconds that were due until twenty seconds ago and are not counted yet."""
        until_ms = (now_ms - SETTLED_MS) // 1000 * 1000
        if until_ms <= self._until_ms:
            return
        window = {"from": self._until_ms, "until": until_ms}
        with self._place.db.read() as conn:
            for table in ("open_run", "run_history"):
                query = f"SELECT state, count(*) FROM {table} WHERE due_ms >= :from AND due_ms < :until GROUP BY state"
                self.states.update({str(state): number for state, number in conn.execute(text(query), window)})
        self.due += self._rate * (until_ms - self._until_ms) // 1000
        self._until_ms = until_ms


def slope(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """Return the growth per hour of a column, and twice the standard error of that, over means of minutes."""
    minutes: dict[int, list[float]] = {}
    for one in samples:
        minutes.setdefault(one.second // 60, []).append(float(getattr(one, name)))
    points = [(minute / 60, statistics.fmean(values)) for minute, values in minutes.items()]
    if len(points) < 3:
        return 0.0, math.inf
    times, values = zip(*points, strict=True)
    found = statistics.linear_regression(times, values)
    middle = statistics.fmean(times)
    spread = sum((at - middle) ** 2 for at in times)
    left = sum((value - found.slope * at - found.intercept) ** 2 for at, value in points)
    return found.slope, 2 * math.sqrt(left / (len(points) - 2) / spread)


def judge(samples: Sequence[Sample], settle_s: int) -> Iterable[str]:
    """Return a line for each column: its first and last value after settling, its slope, and what that means."""
    settled = [one for one in samples if one.second >= settle_s]
    if len(settled) < 3:
        yield f"fewer than three samples after {settle_s} s: nothing to judge"
        return
    yield f"{'after ' + str(settle_s) + ' s':18} {'first':>10} {'last':>10} {'most':>10} {'per hour':>10} {'+-':>8}"
    for name in (*FLAT, *GROWING):
        values = [float(getattr(one, name)) for one in settled]
        rise, error = slope(settled, name)
        is_flat = abs(rise) <= max(error, ALLOWED * statistics.fmean(values))
        words = "grows by intent" if name in GROWING else "flat" if is_flat else "NOT FLAT"
        if not math.isfinite(error):
            words = "too short to judge"
        yield (f"{name:18} {values[0]:10.2f} {values[-1]:10.2f} {max(values):10.2f} {rise:10.2f} {error:8.2f}  {words}")


def remains(samples: Sequence[Sample], settle_s: int) -> Iterable[str]:
    """Say how much memory there was in the first and the last tenth after settling, and whether that is the same."""
    settled = [one for one in samples if one.second >= settle_s]
    tenth = max(1, len(settled) // 10)
    for name in ("node_mb", "executor_mb") if settled else ():
        values = [float(getattr(one, name)) for one in settled]
        first, last = statistics.fmean(values[:tenth]), statistics.fmean(values[-tenth:])
        word = "within" if last <= (1 + WITHIN) * first else "NOT within"
        yield f"{name}: {first:.1f} to {last:.1f} MiB, {word} {WITHIN:.0%}"


def measure(place: Site, seconds: int, every: int, table: Path | None, account: Account) -> list[Sample]:
    """Sample until the time is over, the processes are gone, or SIGTERM or Ctrl-C ends it."""
    names = [one.name for one in fields(Sample)]
    began = time.monotonic()
    samples: list[Sample] = []
    print(" ".join(f"{name:>10}" for name in names), flush=True)
    with (table or Path(os.devnull)).open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        try:
            while (at := time.monotonic() - began) <= seconds:
                samples.append(sample(place, began))
                account.count(int(time.time() * 1000))
                row = asdict(samples[-1])
                writer.writerow(row)
                file.flush()
                print(" ".join(f"{row[name]:{max(10, len(name))}}" for name in names), flush=True)
                time.sleep(max(0.0, every - (time.monotonic() - began - at)))
        except KeyboardInterrupt:
            print("ended early", flush=True)
        except FileNotFoundError as error:
            print(f"a process is gone: {error}", file=sys.stderr)
    return samples


def main() -> None:
    """Read the options and run."""
    report = Report(__doc__ or "", repeats=1)
    option = report.parser.add_argument
    option("--seconds", type=int, default=900, help="how long to sample; two hours are 7200")
    option("--rate", type=int, default=150, help="fires per second")
    option("--every", type=int, default=10, help="seconds between two samples")
    option("--settle", type=int, default=600, help="seconds until caches count as full")
    option("--backend", choices=("sqlite", "mariadb", "postgresql"), default="sqlite", help="kind of database")
    option("--csv", type=Path, help="write the samples there")
    option("--day", type=int, default=0, help="seconds of a day of the history; 0 for a real one")
    args = report.parse()
    if 0 < args.day < LEAST_DAY_S:
        report.parser.error(f"--day: at least {LEAST_DAY_S}, or 0 for a real day")
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    first = SHORT_DAYS.format(day_ms=args.day * 1000) if args.day else ""
    upkeep = {"run_retention_days": 3, "sweep_interval_s": 60} if args.day else {}
    with NamedTemporaryFile("w") as keys:
        keys.write(make_key())  # without one, a node warns
        keys.flush()
        settings: dict[str, dict[str, object]] = {"security": {"key_file": keys.name}, "upkeep": upkeep}
        run(args, first, settings, report)


def run(args: argparse.Namespace, first: str, settings: dict[str, dict[str, object]], report: Report) -> None:
    """Start the site, sample it, judge."""
    with site(backend=args.backend, first=first, settings=settings) as place:
        start_ms = make_jobs(place, args.rate)
        before = place.cpu_s()
        # a slow machine makes the last of the jobs later than that
        account = Account(place, max(start_ms, (int(time.time()) + 1) * 1000), args.rate)
        samples = measure(place, args.seconds, args.every, args.csv, account)
        used = {name: value - before[name] for name, value in place.cpu_s().items()}
        logs = [(place.folder / f"{name}.log").read_text() for name in ("node", "executor")]
    print(f"{account.due:,} fires were due until twenty seconds ago; runs of these: {dict(account.states) or 'none'}")
    loud = [line for log in logs for line in log.splitlines() if LOUD.match(line)]
    print(f"{len(loud)} log lines above INFO", *loud[:10], sep="\n")
    for line in (*judge(samples, args.settle), *remains(samples, args.settle)):
        print(line)
    settled = [one for one in samples if one.second >= args.settle]
    for name in (*FLAT, *GROWING, "late_ms"):
        if settled:
            report.figure(name, [float(getattr(one, name)) for one in settled], name.rpartition("_")[2])
    for name, value in used.items():
        runs = samples[-1].runs - samples[0].runs if len(samples) > 1 else 0
        report.figure(f"CPU per fire, {name}", [1e6 * value / max(1, runs)], "us")
    report.finish()


if __name__ == "__main__":
    main()
