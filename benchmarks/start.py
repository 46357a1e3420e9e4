"""A node's start on a database with a long history: until it is ready, and the memory that it takes.

A million jobs and five million runs of the last month, most of them final, are written by the database itself, a
statement a table. Then a real ``xwheel server`` is started on them, again and again: from its exec to the first 200 of
``/readyz``, and the most memory that was resident until then and for some seconds afterwards, in which its loops
begin to work. What the database reads of its files lies in the page cache.
"""

from __future__ import annotations

import signal
import time
import urllib.request
from pathlib import Path

from sqlalchemy import update

from benchmarks._report import Report
from benchmarks._site import Site, cpu_s, site
from tests.support import million
from tests.support.databases import BACKENDS
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.schema.tables import run_id_block

GOAL_S = 5
GOAL_MB = 200
MONTH_MS = 29 * 86_400_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
POLL_S = 0.01
LIMIT_S = 120
FILL_MS = 1_800_000


def fill(db: Database, jobs: int, runs: int) -> None:
    """Write the history; nothing of it is due for the next hour but a few planned runs."""
    now_ms = int(time.time() * 1000)
    history = million.History(
        jobs=jobs,
        runs=runs,
        now_ms=now_ms,
        apart_ms=MONTH_MS // runs,
        first_fire_ms=now_ms + HOUR_MS,
        fires_apart_ms=max(1, DAY_MS // jobs),
    )
    with db.limited(statement_ms=FILL_MS):
        million.fill(db, history)
    db.transaction(lambda conn: _skip_run_ids(conn, runs))
    with db.limited(statement_ms=FILL_MS):
        million.analyze(db)


def _skip_run_ids(conn: Connection, runs: int) -> None:
    conn.execute(update(run_id_block).values(next_id=runs + 1))


def is_ready(port: int) -> bool:
    """Return whether the node says that it can work."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:  # an answer that is no 200 too
        return False


def resident_mb(pid: int) -> float:
    """Return the most memory that was ever resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def measure(place: Site, watch_s: float) -> dict[str, float]:
    """Start the node once more; return what that took."""
    place.stop_node()
    began = time.perf_counter()
    place.node.start()
    while not is_ready(place.port):
        if time.perf_counter() - began > LIMIT_S:
            raise SystemExit(f"the node is not ready:\n{place.node.tail()}")
        time.sleep(POLL_S)
    took = {"ready": time.perf_counter() - began, "CPU until ready": cpu_s(place.node.pid)}
    took["most resident, ready"] = resident_mb(place.node.pid)
    time.sleep(watch_s)
    took[f"most resident, {watch_s:g} s later"] = resident_mb(place.node.pid)
    return took


def measure_on(report: Report, backend: str, jobs: int, runs: int, watch_s: float) -> None:
    """Fill a database and start the node on it some times."""
    filling: list[float] = []

    def prepare(db: Database) -> None:
        began = time.perf_counter()
        fill(db, jobs, runs)
        filling.append(time.perf_counter() - began)

    with site(with_executor=False, prepare=prepare, backend=backend) as place:
        rounds = [measure(place, watch_s) for _ in range(report.args.repeats)]
    report.figure(f"{backend}, filling the database", filling, "s")
    for name in rounds[0]:
        unit, goal = ("MB", GOAL_MB) if "resident" in name else ("s", GOAL_S)
        samples = [one[name] for one in rounds]
        report.figure(f"{backend}, {name}", samples, unit)
        if "CPU" not in name:
            word = "held" if max(samples) < goal else "MISSED"
            report.note(f"{backend}, {name}", f"goal below {goal} {unit}: {word}")


def main() -> None:
    """Measure on each database."""
    report = Report(__doc__ or "", repeats=5)
    option = report.parser.add_argument
    option("--backend", action="append", choices=["sqlite", *sorted(BACKENDS)], help="again for more")
    option("--jobs", type=int, default=1_000_000)
    option("--runs", type=int, default=5_000_000)
    option("--watch", type=float, default=10, help="seconds after which memory is read again")
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    for backend in args.backend or ["sqlite", "mariadb", "postgresql"]:
        measure_on(report, backend, args.jobs, args.runs, args.watch)
    report.finish()


if __name__ == "__main__":
    main()
