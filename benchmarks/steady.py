"""Memory, threads, descriptors and files of a node and an executor over hours of even work.

``xwheel server`` on SQLite and one ``xwheel executor`` are processes of their own, with default settings. As many jobs
as ten seconds have fires, each every ten seconds, their due times spread evenly over these. Every ``--every`` seconds a
line says what both processes hold and what lies on the disk; the lines also go to ``--csv``, so that they can be drawn.

How to read it: what a process has to itself (``node_mb``, ``executor_mb``: ``Private_*`` of ``smaps_rollup``), its
threads, its open files and the WAL must stand still once caches are full; that takes ten minutes (``--settle``). The
end gives for each the least-squares slope after that, per hour, with twice its standard error, over means of minutes.
A column is *flat* if its slope is less than that or than ``ALLOWED`` of its mean. ``db_mb`` and ``journal_mb`` grow by
intent: rows of runs are kept for 30 days, and the executor knows a run's id for a day. ``open`` is how many runs are
planned and not ended; ``late_ms`` the 99th percentile from due to accepted over the newest runs.
"""

from __future__ import annotations

import csv
import math
import os
import signal
import sqlite3
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks._report import Report
from benchmarks._site import Site, site

HANDLER = "nothing"
PERIOD_S = 10
ALLOWED = 0.01
NEWEST = 1000
MB = 1024 * 1024


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


def pending(database: Path) -> tuple[int, int]:
    """Return how many runs have not ended, and the 99th percentile of the newest from due to accepted."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)) as conn:
        planned = conn.execute("SELECT count(*) FROM run WHERE open_partition >= 0").fetchone()[0]
        sent = conn.execute("SELECT count(*) FROM run WHERE check_ms > 0").fetchone()[0]
        query = "SELECT coalesce(accepted_ms, finished_ms) - due_ms FROM run ORDER BY id DESC LIMIT ?"
        newest = conn.execute(query, (NEWEST,)).fetchall()
    late = sorted(int(value) for (value,) in newest if value is not None)
    return planned + sent, late[min(len(late) - 1, int(0.99 * len(late)))] if late else 0


def sample(place: Site, began: float) -> Sample:
    """Return what there is now."""
    database, journal = place.folder / "xwheel.db", place.folder / "executor" / "journal.db"
    node_rss_mb, node_mb = memory_mb(place.node.pid)
    executor_rss_mb, executor_mb = memory_mb(place.executor.pid)
    left, late_ms = pending(database)
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
        db_mb=size_mb(database),
        journal_mb=size_mb(journal),
    )


def make_jobs(place: Site, rate: int) -> None:
    """Make as many jobs as ten seconds have fires, and spread them over these."""
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
        yield (
            f"{name:18} {values[0]:10.2f} {values[-1]:10.2f} {max(values):10.2f} {rise:10.2f} {error:8.2f}  {words}"
        )


def measure(place: Site, seconds: int, every: int, table: Path | None) -> list[Sample]:
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
    """Run, sample, judge."""
    report = Report(__doc__ or "", repeats=1)
    option = report.parser.add_argument
    option("--seconds", type=int, default=900, help="how long to sample; two hours are 7200")
    option("--rate", type=int, default=150, help="fires per second")
    option("--every", type=int, default=10, help="seconds between two samples")
    option("--settle", type=int, default=600, help="seconds until caches count as full")
    option("--csv", type=Path, help="write the samples there")
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with site() as place:
        make_jobs(place, args.rate)
        before = place.cpu_s()
        samples = measure(place, args.seconds, args.every, args.csv)
        used = {name: value - before[name] for name, value in place.cpu_s().items()}
    for line in judge(samples, args.settle):
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
