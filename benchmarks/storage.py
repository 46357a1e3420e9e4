"""Measure rows per second of what the pipeline writes, on each database, and our bulk updates against ``executemany``.

Run it with ``python -m benchmarks.storage [--json] [--backends sqlite,mariadb,postgresql]``. The servers are Debian's,
with their own defaults of durability, on this machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import bindparam, update

from benchmarks._report import Report, timed
from tests.support.databases import empty, server_database, upgrade
from tests.support.rows import NOW, job_values, make_run
from xwheel.model import PARTITIONS, SHARED_SECRET, Run, RunState
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.runs import FencedRow
from xwheel.storage.schema.tables import open_run

BATCH = 1000
OUTCOMES = 500

Work = Callable[[Connection, Sequence[int]], object]


@contextmanager
def database(backend: str) -> Iterator[Database]:
    """Give an empty database at this version's schema."""
    if backend == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            db = Database(f"sqlite:///{Path(folder) / 'xwheel.db'}")
            upgrade(db)
            yield db
            db.close()
        return
    with server_database(backend, durable=True) as url:
        db = Database(url)
        empty(db)
        yield db
        db.close()


def in_batches(
    db: Database, ids: Sequence[int], size: int, work: Callable[[Connection, Sequence[int]], object]
) -> None:
    """Do the work for this many ids a transaction."""
    for start in range(0, len(ids), size):
        part = ids[start : start + size]
        db.transaction(lambda conn, part=part: work(conn, part))


def fence(conn: Connection, ids: Sequence[int]) -> None:
    planned = runs.lock_planned(conn, ids)
    rows = [FencedRow(run_id, "http://127.0.0.1:9999", "instance", 1, SHARED_SECRET) for run_id in planned]
    assert runs.update_fenced(conn, rows, now_ms=NOW, check_ms=NOW) == len(ids)


def outcome(conn: Connection, ids: Sequence[int]) -> None:
    locked = runs.lock_runs(conn, ids)
    rows = [(run_id, RunState.SUCCEEDED, "", 200, "done", NOW, NOW, NOW) for run_id in locked]
    assert runs.close_runs(conn, rows) == len(ids)


def outcome_row_by_row(conn: Connection, ids: Sequence[int]) -> None:
    """The same as one statement a row, as a plain ``executemany`` does it."""
    runs.lock_runs(conn, ids)
    columns = ("state", "reason", "result_code", "message", "finished_ms", "check_ms")
    plain = update(open_run).where(open_run.c.id == bindparam("_id"))
    values = ("succeeded", "", 200, "done", NOW, None)
    rows = [{"_id": run_id, **dict(zip(columns, values, strict=True))} for run_id in ids]
    conn.execute(plain.values({name: bindparam(name) for name in columns}), rows)


def steps_of(db: Database, job_id: int, ids: Sequence[int], *, slow: bool) -> dict[str, Callable[[], object]]:
    """Return the life of these runs, stage by stage."""
    made: dict[int, Run] = {item: make_run(item, job_id=job_id, epoch=1) for item in ids}

    def insert(conn: Connection, part: Sequence[int]) -> None:
        runs.insert_runs(conn, [made[item] for item in part])

    def accept(conn: Connection, part: Sequence[int]) -> None:
        runs.update_accepted(conn, dict.fromkeys(part, runs.AcceptedRow(NOW, NOW)), NOW)

    def claim(conn: Connection, part: Sequence[int]) -> None:
        """What a claim does with jobs that are due, one run each, but for the leases."""
        found, _ = jobs.find_due_jobs(conn, range(PARTITIONS), NOW, len(part))
        claimed = jobs.get_jobs(conn, found[: len(part)]).values()
        jobs.lock_fires(conn, [item.id for item in claimed])
        insert(conn, part)
        cursors = [jobs.JobCursor(item.id, NOW, NOW, None, True, "") for item in claimed]
        assert jobs.update_fires(conn, cursors) == len(part)

    last = ("row_by_row", outcome_row_by_row) if slow else ("outcome", outcome)
    return {
        "claim": lambda: in_batches(db, ids, BATCH, claim),
        "fence": lambda: in_batches(db, ids, BATCH, fence),
        "accepted": lambda: in_batches(db, ids, BATCH, accept),
        last[0]: lambda: in_batches(db, ids, OUTCOMES, last[1]),
    }


def measure(report: Report, backend: str, rows: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in ("claim", "fence", "accepted", "outcome", "row_by_row")}
    with database(backend) as db:
        values = {**job_values(), "enabled": True, "next_fire_ms": NOW, "last_fire_ms": None, "awaits_root": None}
        times = {"revision": 1, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW}
        one = {**values, **times}
        # as many in each partition
        count = -(-BATCH // PARTITIONS) * PARTITIONS
        due = db.transaction(lambda conn: [jobs.insert_job(conn, one) for _ in range(count)])
        for number in range(report.args.repeats):
            for slow in (True, False):
                first = 1 + (2 * number + slow) * rows
                ids = list(range(first, first + rows))
                for name, step in steps_of(db, due[0].id, ids, slow=slow).items():
                    seconds[name].append(timed(step))
    for name, samples in seconds.items():
        report.figure(f"{backend}.{name}", [rows / sample for sample in samples], "rows/s")
    report.ratio(f"{backend}.outcome_vs_row_by_row", seconds["row_by_row"], seconds["outcome"])


def main() -> None:
    report = Report("Rows per second of what the pipeline writes.", repeats=5)
    report.parser.add_argument("--backends", default="sqlite,mariadb,postgresql")
    report.parser.add_argument("--rows", type=int, default=5000)
    args = report.parse()
    for backend in args.backends.split(","):
        measure(report, backend, args.rows)
    report.finish()


if __name__ == "__main__":
    main()
