"""From due to accepted and to final: fires per second and lateness of a real node, a real executor and SQLite.

The node and the executor are processes of their own, database and journal are synced, every run goes through claim,
fence, ``/runBatch``, the executor's journal, the handler and the callback. Times are read from the run rows: due,
accepted (the executor's yes arrived) and finished (the outcome was committed).
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._report import Report
from tests.support.rows import make_run
from xwheel.errors import XwheelError
from xwheel.model import Origin, Run, RunState
from xwheel.quickstart.processes import Child, free_port
from xwheel.storage import migrate, runs, tokens
from xwheel.storage.engine import Database
from xwheel.storage.ids import RunIds
from xwheel.wire.rest import RestClient

RATES = (1, 50, 200)
GROUP = "bench"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Site:
    """A running node with one executor."""

    folder: Path
    client: RestClient
    db: Database
    node: Child
    executor: Child
    group_id: int = 0
    job_ids: list[int] = field(default_factory=list)

    def cpu_s(self) -> dict[str, float]:
        """Return the processor seconds that node and executor have used."""
        return {child.name: _cpu_s(child.pid) for child in (self.node, self.executor)}


@contextmanager
def site() -> Iterator[Site]:
    """Start a node and an executor in a temporary folder; end them afterwards."""
    with tempfile.TemporaryDirectory(prefix="xwheel-bench-") as name:
        folder = Path(name)
        api, executor_api, token, executor_token = (
            free_port(),
            free_port(),
            secrets.token_hex(16),
            secrets.token_hex(16),
        )
        url = f"sqlite:///{folder / 'xwheel.db'}"
        db = Database(url)
        migrate.upgrade(db)
        db.transaction(lambda conn: tokens.replace_token(conn, GROUP, token, 0))
        config = {
            "database": {"url": url},
            "api": {"port": api, "executor_port": executor_api, "executor_token": executor_token},
            "executor": {
                "app_name": GROUP,
                "admin_addresses": [f"http://127.0.0.1:{executor_api}"],
                "access_token": executor_token,
                "port": 0,
                "data_dir": str(folder / "executor"),
                "queue_limit": 1_000_000,
            },
        }
        lines = [
            f"[{section}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in values.items())
            for section, values in config.items()
        ]
        (folder / "xwheel.toml").write_text("\n".join(lines))
        environment = {"XWHEEL_CONFIG": str(folder / "xwheel.toml")}
        node = Child("node", ["server"], folder / "node.log", environment)
        executor = Child(
            "executor", ["executor", "benchmarks.handlers"], folder / "executor.log", environment
        )
        made = Site(folder, RestClient(f"http://127.0.0.1:{api}", token), db, node, executor)
        try:
            node.start()
            made.group_id = _until(
                lambda: made.client.call("POST", "/api/v1/groups", {"app_name": GROUP, "title": GROUP})["id"]
            )
            executor.start()
            _until(lambda: made.client.call("GET", f"/api/v1/groups/{made.group_id}/executors")["items"][0])
            yield made
        finally:
            statuses = [child.stop(30) for child in (executor, node)]
            db.close()
            if any(statuses):
                print(node.tail(), executor.tail(), sep="\n")
                raise SystemExit(f"node and executor ended with {statuses}")


def measure_rate(place: Site, rate: int, seconds: int) -> tuple[list[int], list[int], dict[str, float]]:
    """Fire ``rate`` jobs each second, half on whole seconds and half spread; return the latenesses and the CPU."""
    start_ms = (int(time.time() * 1000) + 3000 + 10 * rate) // 1000 * 1000
    bodies = [
        _job(place.group_id, rate, number, start_ms, start_ms + seconds * 1000) for number in range(rate)
    ]
    ids = {place.client.call("POST", "/api/v1/jobs", body)["id"] for body in bodies}
    time.sleep(max(0.0, start_ms / 1000 - time.time()))
    before = place.cpu_s()
    _sleep_until_closed(
        place.db, ids, rate * (seconds + 1) - _late_starters(bodies, start_ms, seconds), seconds + 30
    )
    used = {name: value - before[name] for name, value in place.cpu_s().items()}
    rows = _rows(place.db, ids)
    assert all(run.state is RunState.SUCCEEDED for run in rows), {run.state for run in rows}
    accepted = [run.accepted_ms - run.due_ms for run in rows if run.accepted_ms is not None]
    final = [run.finished_ms - run.due_ms for run in rows if run.finished_ms is not None]
    return sorted(accepted), sorted(final), {name: 1e6 * value / len(rows) for name, value in used.items()}


def measure_flat_out(place: Site, fires: int) -> tuple[float, float, dict[str, float]]:
    """Let ``fires`` runs of 200 jobs fall due at once; return accepted and final per second, and the CPU."""
    bodies = [
        {
            **_job(place.group_id, 1, number, 0, 1),
            "schedule_type": "NONE",
            "schedule_conf": "",
            "enabled": False,
        }
        for number in range(200)
    ]
    bodies = [
        {key: value for key, value in body.items() if key not in {"start_ms", "end_ms", "anchor_ms"}}
        for body in bodies
    ]
    ids = [place.client.call("POST", "/api/v1/jobs", body)["id"] for body in bodies]
    source = RunIds(place.db)
    source.ensure(fires)
    due_ms = int(time.time() * 1000)
    rows = [
        make_run(
            run_id,
            job_id=ids[place_ % len(ids)],
            group_id=place.group_id,
            partition=ids[place_ % len(ids)] % 64,
            origin=Origin.API,
            root_id=run_id,
            due_ms=due_ms,
            planned_ms=due_ms,
            created_ms=due_ms,
        )
        for place_, run_id in enumerate(source.take(fires))
    ]
    before = place.cpu_s()
    place.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    _sleep_until_closed(place.db, set(ids), fires, 120)
    used = {name: value - before[name] for name, value in place.cpu_s().items()}
    done = _rows(place.db, set(ids))
    began = min(run.dispatched_ms or 0 for run in done)
    accepted = max(run.accepted_ms or 0 for run in done) - began
    final = max(run.finished_ms or 0 for run in done) - began
    return (
        1000 * fires / accepted,
        1000 * fires / final,
        {name: 1e6 * value / fires for name, value in used.items()},
    )


def _job(group_id: int, rate: int, number: int, start_ms: int, end_ms: int) -> dict[str, Any]:
    offset_ms = 0 if number % 2 else number * 1000 // rate
    return {
        "group_id": group_id,
        "name": f"bench {number} at {start_ms}",
        "handler": "nothing",
        "schedule_type": "FIX_RATE",
        "schedule_conf": "1s",
        "anchor_ms": start_ms + offset_ms,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "enabled": True,
    }


def _late_starters(bodies: Sequence[dict[str, Any]], start_ms: int, seconds: int) -> int:
    """How many jobs fire once less because they begin within a second."""
    return sum(body["anchor_ms"] + seconds * 1000 > start_ms + seconds * 1000 for body in bodies)


def _rows(db: Database, job_ids: set[int]) -> list[Run]:
    found: list[Run] = []
    with db.read() as conn:
        for job_id in job_ids:
            found += runs.list_runs(conn, job_id=job_id, limit=1_000_000)
    return found


def _sleep_until_closed(db: Database, job_ids: set[int], expected: int, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    low, high = min(job_ids), max(job_ids)
    while time.monotonic() < deadline:
        time.sleep(0.5)
        with db.read() as conn:
            query = (
                f"SELECT count(*) FROM run WHERE job_id BETWEEN {low} AND {high} AND finished_ms IS NOT NULL"
            )
            done = conn.exec_driver_sql(query).scalar_one()
        if done >= expected:
            return
    raise SystemExit(f"only {done} of {expected} runs ended within {limit_s} s")


def _until(call: Any, limit_s: float = 20) -> Any:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return call()
        except (XwheelError, IndexError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _percentile(values: Sequence[int], part: float) -> int:
    return values[min(len(values) - 1, int(part * len(values)))]


def main() -> None:
    """Measure every rate, then flat out."""
    report = Report(__doc__ or "", repeats=3)
    report.parser.add_argument("--seconds", type=int, default=10, help="length of each measured stretch")
    report.parser.add_argument(
        "--fires", type=int, default=20_000, help="runs that fall due at once, flat out"
    )
    report.parser.add_argument(
        "--profile-pause", action="store_true", help="wait for a profiler before flat out"
    )
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with site() as place:
        for rate in RATES:
            results = [measure_rate(place, rate, args.seconds) for _ in range(args.repeats)]
            for part, word in ((0.5, "p50"), (0.99, "p99")):
                report.figure(
                    f"due to accepted, {rate}/s, {word}", [_percentile(one[0], part) for one in results], "ms"
                )
                report.figure(
                    f"due to final, {rate}/s, {word}", [_percentile(one[1], part) for one in results], "ms"
                )
            for name in ("node", "executor"):
                report.figure(f"CPU per fire, {rate}/s, {name}", [one[2][name] for one in results], "us")
        if args.profile_pause:
            input(f"node {place.node.pid}, executor {place.executor.pid}: press Enter for flat out")
        flat = [measure_flat_out(place, args.fires) for _ in range(args.repeats)]
        report.figure("accepted, flat out", [one[0] for one in flat], "fires/s")
        report.figure("final, flat out", [one[1] for one in flat], "fires/s")
        for name in ("node", "executor"):
            report.figure(f"CPU per fire, flat out, {name}", [one[2][name] for one in flat], "us")
        report.note("final, flat out", f"median of {statistics.median(one[1] for one in flat):.0f}")
    report.finish()


if __name__ == "__main__":
    main()
