"""What the API of a whole node takes: outcomes per second, and how long lists take with many runs stored.

Outcomes go to the executor listener over kept connections, in requests of one and of a hundred, in turn; each closes
a running run, and its commit is synced before the answer. The lists are asked of two nodes in turn, one with few runs
and one with many, spread over the same twenty days, over one kept connection each. SQLite; nodes are processes of
their own.
"""

from __future__ import annotations

import http.client
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

from benchmarks._report import Report
from benchmarks._site import Site, site
from benchmarks.pipeline import percentile
from tests.support.rows import job_values, make_run
from xwheel.model import PARTITIONS, RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.jobs import insert_job
from xwheel.storage.run_ids import RunIds
from xwheel.wire.codec import decode_response, encode_callbacks
from xwheel.wire.contract import join_url
from xwheel.wire.http import HttpCall, MultiClient
from xwheel.wire.messages import CallbackItem

DAY_MS = 86_400_000
SPAN_MS = 20 * DAY_MS
GROUPS = 5
OPEN_RUNS = 200
BATCH = 100
CLIENTS = 8
ADDRESS = "http://127.0.0.1:9999"


def measure_callbacks(place: Site, job_id: int, count: int, batch: int) -> float:
    """Report the end of ``count`` running runs; return outcomes per second."""
    now_ms = int(time.time() * 1000)
    source = RunIds(place.db)
    source.ensure(count)
    ids = source.take(count)
    rows = [
        make_run(
            run_id,
            job_id=job_id,
            group_id=place.group_id,
            partition=job_id % PARTITIONS,
            state=RunState.RUNNING,
            epoch=1,
            address=ADDRESS,
            instance="instance",
            check_ms=now_ms + DAY_MS,
            **dict.fromkeys(("due_ms", "planned_ms", "created_ms", "dispatched_ms", "accepted_ms"), now_ms),
        )
        for run_id in ids
    ]
    place.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    url = join_url(f"http://127.0.0.1:{place.executor_port}", "api/callback")
    bodies = [
        encode_callbacks([_outcome(run_id, job_id, now_ms) for run_id in ids[start : start + batch]])
        for start in range(0, count, batch)
    ]
    client = MultiClient(max_in_flight=CLIENTS)
    begin = time.perf_counter()
    for body in bodies:
        client.submit(HttpCall(key=None, url=url, body=body, token=place.executor_token, timeout_ms=30_000))
    left = len(bodies)
    while left:
        results = client.poll(1000)
        assert all(decode_response(result.body).ok for result in results), results[0]
        left -= len(results)
    seconds = time.perf_counter() - begin
    client.close()
    with place.db.read() as conn:
        query = "SELECT count(*) FROM run_history WHERE id BETWEEN ? AND ? AND state = 'succeeded'"
        assert conn.exec_driver_sql(query, (ids[0], ids[-1])).scalar_one() == count
    return count / seconds


def _outcome(run_id: int, job_id: int, now_ms: int) -> CallbackItem:
    return CallbackItem(
        run_id=run_id, job_id=job_id, created_ms=now_ms, code=200, started_ms=now_ms, finished_ms=now_ms
    )


def add_job(conn: Connection, group_id: int) -> int:
    """Store a stopped job."""
    values = job_values(group_id=group_id, schedule_type="NONE", schedule_conf="")
    moving = {"enabled": False, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None, "revision": 1}
    return insert_job(conn, {**values, **moving, "schedule_error": "", "created_ms": 1, "updated_ms": 1}).id


def fill(db: Database, jobs: int, count: int) -> None:
    """Store jobs and runs as twenty days leave them: one run in a hundred failed, the latest ones still run."""
    now_ms = int(time.time() * 1000)
    with db.write() as conn:
        for number in range(1, GROUPS + 1):
            row = (number, f"group-{number}", f"group {number}", 0, 1, 1)
            conn.exec_driver_sql("INSERT INTO executor_group VALUES (?, ?, ?, ?, ?, ?)", row)
        add_job(conn, 1)
    conn = sqlite3.connect(str(db.path), isolation_level=None)
    for pragma in ("synchronous=OFF", "cache_size=-400000", "temp_store=MEMORY"):
        conn.execute(f"PRAGMA {pragma}")
    conn.execute("BEGIN")
    changed = {"id": "i", "partition": f"i % {PARTITIONS}", "group_id": f"1 + i % {GROUPS}", "name": "'job ' || i"}
    names = [row[1] for row in conn.execute("PRAGMA table_info(job)")]
    picked = ", ".join(changed.get(name, f'job."{name}"') for name in names)
    conn.execute(
        f"INSERT INTO job WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {jobs}) "
        f"SELECT {picked} FROM n JOIN job ON job.id = 1"
    )
    _fill_runs(conn, jobs, count, now_ms)
    conn.execute("UPDATE run_id_block SET next_id = ?", (count + 1,))
    conn.execute("COMMIT")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()


def _fill_runs(conn: sqlite3.Connection, jobs: int, count: int, now_ms: int) -> None:
    is_open = f"i > {count - OPEN_RUNS}"
    job_id = f"(1 + i * 7919 % {jobs})"
    due = f"({now_ms - SPAN_MS} + i * {SPAN_MS} / {count})"
    state = (
        f"CASE WHEN {is_open} THEN 'running' WHEN i % 100 = 0 THEN 'failed' WHEN i % 1000 = 500 THEN 'timed_out' "
        "ELSE 'succeeded' END"
    )
    values = {
        "id": "i",
        "job_id": job_id,
        "group_id": f"CASE WHEN {job_id} = 1 THEN 1 ELSE 1 + {job_id} % {GROUPS} END",
        "partition": f"{job_id} % {PARTITIONS}",
        "origin": "'schedule'",
        "origin_key": due,
        "shard_total": "1",
        "root_id": "i",
        "chain_id": "i",
        "attempt": "1",
        "state": state,
        "epoch": "1",
        **dict.fromkeys(("due_ms", "planned_ms", "created_ms"), due),
        **dict.fromkeys(("dispatched_ms", "accepted_ms"), f"{due} + 5"),
        "address": f"'{ADDRESS}'",
        "instance": "'instance'",
        "finished_ms": f"CASE WHEN {is_open} THEN NULL ELSE {due} + 30 END",
        "check_ms": f"CASE WHEN {is_open} THEN {now_ms + DAY_MS} END",
        "result_code": f"CASE WHEN {is_open} THEN NULL WHEN i % 100 = 0 THEN 500 ELSE 200 END",
        "message": "'done'",
        "reason": "''",
        **dict.fromkeys(("shard_index", "chain_depth", "retries_left", "kill_requested", "skip_count"), "0"),
    }
    for table, where in (("open_run", is_open), ("run_history", f"NOT ({is_open})")):
        columns = {name: value for name, value in values.items() if table == "open_run" or name != "check_ms"}
        conn.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) "
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
            f"SELECT {', '.join(columns.values())} FROM n WHERE {where}"
        )


Asking = Callable[[random.Random, int], tuple[str, dict[str, Any]]]


def lists(jobs: int, runs_of: Callable[[int], int]) -> dict[str, Asking]:
    """Return what is asked: each makes a path and a query for a node, again for every request.

    Args:
        jobs: How many are stored.
        runs_of: Turns a node's number into how many runs it has.
    """
    now_ms = int(time.time() * 1000)

    def of_runs(*fields: str) -> Asking:
        def ask(rng: random.Random, node: int) -> tuple[str, dict[str, Any]]:
            day_ms = now_ms - rng.randrange(2, 19) * DAY_MS
            place = rng.randrange(runs_of(node) // 10, runs_of(node) * 9 // 10)
            known: dict[str, dict[str, Any]] = {
                "job": {"job_id": rng.randrange(1, jobs + 1)},
                "group": {"group_id": rng.randrange(1, GROUPS + 1)},
                "day": {"from_ms": day_ms, "to_ms": day_ms + DAY_MS},
                "deep": {"after": f"{now_ms - SPAN_MS + place * SPAN_MS // runs_of(node)}-{place}"},
                "address": {"address": ADDRESS},
                "origin": {"origin": "schedule"},
                "chain": {"chain_id": place},
                "root": {"root_id": place},
            }
            query: dict[str, Any] = {}
            for name in fields:
                query |= known.get(name) or {"state": name}
            return "/api/v1/runs", query

        return ask

    def of_jobs(**query: Any) -> Asking:
        return lambda _rng, _node: ("/api/v1/jobs", query)

    every: dict[str, Asking] = {
        "jobs": of_jobs(),
        "jobs, deep": of_jobs(after=jobs * 9 // 10),
        "jobs of a group": of_jobs(group_id=2),
        "jobs by part of name": of_jobs(name_contains=str(jobs)[:3]),
        "one run": lambda rng, node: (f"/api/v1/runs/{rng.randrange(1, runs_of(node))}", {}),
        "overview": lambda _rng, _node: ("/api/v1/overview", {}),
        "report of a day": lambda _rng, _node: ("/api/v1/reports", {}),
    }
    for fields in (
        "", "deep", "job", "job deep", "job failed", "job succeeded", "job running", "job day", "group", "group deep",
        "group failed", "group succeeded", "group running", "group day", "failed", "failed deep", "failed day",
        "timed_out", "succeeded", "succeeded deep", "running", "day", "day succeeded", "address", "address deep",
        "origin", "root", "chain",
    ):  # fmt: skip
        every[f"runs {fields.replace(' ', ', ')}".strip()] = of_runs(*fields.split())
    return every


class Asker:
    """One kept connection to a node's management API."""

    def __init__(self, place: Site) -> None:
        self._conn = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
        self._headers = {"Authorization": f"Bearer {place.token}"}

    def ask(self, path: str, query: dict[str, Any]) -> float:
        """Return how many milliseconds an answer takes."""
        begin = time.perf_counter()
        self._conn.request("GET", f"{path}?{urlencode(query)}" if query else path, headers=self._headers)
        answer = self._conn.getresponse()
        body = answer.read()
        took_ms = 1000 * (time.perf_counter() - begin)
        assert answer.status == 200, (path, query, answer.status, body[:300])
        return took_ms


def report_callbacks(report: Report, repeats: int, singles: int) -> None:
    """Measure outcomes one by one and in batches, in turn."""
    with site(with_executor=False) as place:
        job_id = place.db.transaction(lambda conn: add_job(conn, place.group_id))
        measure_callbacks(place, job_id, 200, 1)
        ones, many = [], []
        for _ in range(repeats):
            ones.append(measure_callbacks(place, job_id, singles, 1))
            many.append(measure_callbacks(place, job_id, 10 * singles, BATCH))
    report.figure("outcomes, 1 a request", ones, "1/s")
    report.figure(f"outcomes, {BATCH} a request", many, "1/s")
    report.ratio(f"outcomes, {BATCH} / 1 a request", [1 / one for one in ones], [1 / one for one in many])


def report_lists(report: Report, sizes: tuple[int, int], jobs: int, repeats: int, requests: int) -> None:
    """Measure all lists on a node with few and one with many runs, in turn."""
    rng = random.Random(5)
    with ExitStack() as stack:
        askers = [
            Asker(stack.enter_context(site(with_executor=False, prepare=lambda db, size=size: fill(db, jobs, size))))
            for size in sizes
        ]
        every = lists(jobs, sizes.__getitem__)
        took: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in every}
        for _ in range(repeats + 1):
            for name, asking in every.items():
                samples: tuple[list[float], list[float]] = ([], [])
                for _ in range(requests):
                    for node in (0, 1):
                        samples[node].append(askers[node].ask(*asking(rng, node)))
                for node in (0, 1):
                    took[name][node].append(percentile(sorted(samples[node]), 0.95))
    for name, (_, many) in took.items():
        report.figure(f"{name}, p95", many[1:], "ms")  # the first round warms up
    for name, (few, many) in took.items():
        report.ratio(f"{name}, {sizes[1]:,} / {sizes[0]:,} runs", many[1:], few[1:])


def main() -> None:
    """Measure outcomes, then lists."""
    report = Report(__doc__ or "", repeats=3)
    option = report.parser.add_argument
    option("--outcomes", type=int, default=4000, help="outcomes one by one; ten times as many in batches")
    option("--runs", type=int, default=1_000_000, help="runs that the large node has")
    option("--few", type=int, default=10_000, help="runs that the small node has")
    option("--jobs", type=int, default=5000, help="jobs that each has")
    option("--requests", type=int, default=40, help="requests to each list and node in a round")
    args = report.parse()
    if args.outcomes:
        report_callbacks(report, args.repeats, args.outcomes)
    if args.runs:
        report_lists(report, (args.few, args.runs), args.jobs, args.repeats, args.requests)
    report.finish()


if __name__ == "__main__":
    main()
