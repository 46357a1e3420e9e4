"""From due to accepted and to final: lateness and fires per second of a real node, a real executor and a database.

The node and the executor are processes of their own, database and journal are synced, every run goes through claim,
fence, ``/runBatch``, the executor's journal, the handler and the callback. Times are read from the run rows: due,
accepted (the executor's yes arrived) and finished (the outcome was committed).

Flat out, thousands of jobs are due at once; the rate counts from the first row written to the last outcome recorded.
In turn with it, on the same executor process and the same port, ``benchmarks.baseline`` fires jobs one by one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, select, update

from benchmarks._report import Report
from benchmarks._site import GROUP, Site, site
from tests.support.rows import job_values
from xwheel.model import PARTITIONS, Run, RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.jobs import insert_job
from xwheel.storage.schema.tables import job

RATES = (1, 50, 200)
HANDLER = "nothing"
GOAL = 5
GOAL_FOREIGN = 2
SPARE_IDS = 1_000_000
LATENESS_MS = 50
ROUND_LIMIT_S = 180


@dataclass(slots=True)
class Stretch:
    """What came of the fires of some seconds: sorted times in milliseconds after due."""

    accepted: list[int]
    final: list[int]


def measure_rate(place: Site, rate: int, seconds: int, windows: int) -> tuple[list[Stretch], dict[str, float]]:
    """Fire ``rate`` jobs each second, half of them on whole seconds and half spread over it.

    Returns:
        One stretch for each window of ``seconds``, and the CPU microseconds a fire.
    """
    start_ms = (int(time.time() * 1000) + 3000 + 10 * rate) // 1000 * 1000
    end_ms = start_ms + windows * seconds * 1000
    bodies = [_steady_job(place.group_id, rate, number, start_ms, end_ms) for number in range(rate)]
    ids = {place.client.call("POST", "/api/v1/jobs", body)["id"] for body in bodies}
    time.sleep(max(0.0, start_ms / 1000 - time.time()))
    before = place.cpu_s()
    # those on whole seconds fire at the end too
    on_second = sum(body["anchor_ms"] == start_ms for body in bodies)
    _wait_until_closed(place.db, ids, rate * windows * seconds + on_second, windows * seconds + 30)
    used = {name: value - before[name] for name, value in place.cpu_s().items()}
    rows = [run for run in _rows(place.db, ids) if run.due_ms < end_ms]
    assert all(run.state is RunState.SUCCEEDED for run in rows), {run.state for run in rows}
    assert len(rows) == rate * windows * seconds
    return [_stretch(rows, start_ms, seconds, window) for window in range(windows)], {
        name: 1e6 * value / len(rows) for name, value in used.items()
    }


def measure_flat_out(place: Site, fires: int) -> tuple[float, float, dict[str, float]]:
    """Make ``fires`` jobs due at once; return accepted and final per second, and the CPU microseconds a fire.

    These are by process; ``server`` is PostgreSQL, without what our own connection costs it.
    """
    due_ms = int(time.time() * 1000)
    before, executed = {**place.cpu_s(), "server": place.server_s()}, place.executed()
    ids = place.db.transaction(lambda conn: _add_due_jobs(conn, place.group_id, fires, due_ms))
    _wait_until_closed(place.db, ids, fires, ROUND_LIMIT_S)
    after = {**place.cpu_s(), "server": place.server_s()}
    used = {name: value - before[name] for name, value in after.items()}
    place.db.transaction(lambda conn: _stop_jobs(conn, ids))
    done = _rows(place.db, ids)
    began_runs = place.executed() - executed
    counts = f"{fires} jobs, {len(done)} runs, {began_runs} begun"
    assert len({run.job_id for run in done}) == len(done) == fires == began_runs, counts
    assert all(run.state is RunState.SUCCEEDED for run in done), {run.state for run in done}
    began = min(run.created_ms for run in done)
    accepted = max(run.accepted_ms or 0 for run in done) - began
    final = max(run.finished_ms or 0 for run in done) - began
    return (1000 * fires / accepted, 1000 * fires / final, {k: 1e6 * value / fires for k, value in used.items()})


def measure_baseline(place: Site, fires: int, workers: int) -> dict[str, Any]:
    """Let the baseline fire in place of the node, which stands still; return what it prints."""
    place.stop_node()
    executed, executor_s = place.executed(), place.cpu_s()["executor"]
    orders = {
        "database": _fresh_database(place, f"baseline_{time.time_ns()}"),
        "url": place.address,
        "port": place.executor_port,
        "token": place.executor_token,
        "app_name": GROUP,
        "count": fires,
        "handler": HANDLER,
        "workers": workers,
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.baseline"],
        input=json.dumps(orders).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=ROUND_LIMIT_S,
    )
    executor_s = place.cpu_s()["executor"] - executor_s
    place.start_node()
    result: dict[str, Any] = {**json.loads(done.stdout), "executor_us": 1e6 * executor_s / fires}
    assert not result["problems"], result["problems"]
    assert place.executed() - executed == fires
    return result


def _steady_job(group_id: int, rate: int, number: int, start_ms: int, end_ms: int) -> dict[str, Any]:
    # odd ones on the second, the others in the middle of their share of it, which is never a whole second
    offset_ms = 0 if number % 2 else (2 * number + 1) * 500 // rate
    return {
        "group_id": group_id,
        "name": f"bench {number} at {start_ms}",
        "handler": HANDLER,
        "schedule_type": "FIX_RATE",
        "schedule_conf": "1s",
        "anchor_ms": start_ms + offset_ms,
        "start_ms": start_ms,
        "end_ms": end_ms,
        # named, so that versions with other defaults measure the same
        "misfire_policy": "skip",
        "misfire_threshold_ms": 5000,
        "enabled": True,
    }


def _add_due_jobs(conn: Connection, group_id: int, count: int, due_ms: int) -> set[int]:
    values = job_values(
        group_id=group_id,
        handler=HANDLER,
        schedule_conf="1h",
        anchor_ms=due_ms,
        misfire_threshold_ms=3_600_000,
        param="parameter",
    )
    moving = {"enabled": True, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None, "revision": 1}
    stamps = {"schedule_error": "", "created_ms": due_ms, "updated_ms": due_ms}
    pattern = insert_job(conn, {**values, **moving, **stamps, "enabled": False}).id
    row = dict(conn.execute(select(job).where(job.c.id == pattern)).mappings().one())
    row |= {"enabled": True, "next_fire_ms": due_ms}
    # far above the ids that the database gives by itself
    first = (conn.execute(select(func.max(job.c.id))).scalar_one() // SPARE_IDS + 1) * SPARE_IDS
    ids = range(first, first + count)
    rows = [{**row, "id": item, "partition": item % PARTITIONS, "name": f"flat {item}"} for item in ids]
    conn.execute(insert(job), rows)
    return set(ids)


def _stop_jobs(conn: Connection, ids: set[int]) -> None:
    stopped = {"enabled": False, "next_fire_ms": None}
    conn.execute(update(job).where(job.c.id.between(min(ids), max(ids))).values(stopped))


def _fresh_database(place: Site, name: str) -> str:
    """Return the URL of an empty database next to the node's."""
    url = place.db.engine.url
    if place.db.backend == "sqlite":
        return f"sqlite:///{place.folder / name}.db"
    with place.db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.exec_driver_sql(f"CREATE DATABASE {name}")
    return url.set(database=name).render_as_string(hide_password=False)


def _stretch(rows: Sequence[Run], start_ms: int, seconds: int, window: int) -> Stretch:
    low = start_ms + window * seconds * 1000
    part = [run for run in rows if low <= run.due_ms < low + seconds * 1000]
    return Stretch(
        sorted((run.accepted_ms or run.finished_ms or 0) - run.due_ms for run in part),
        sorted((run.finished_ms or 0) - run.due_ms for run in part),
    )


def _rows(db: Database, job_ids: set[int]) -> list[Run]:
    with db.read() as conn:
        query = f"SELECT id FROM run_history WHERE job_id BETWEEN {min(job_ids)} AND {max(job_ids)}"
        ids = list(conn.exec_driver_sql(query).scalars())
        found = [
            run for at in range(0, len(ids), 10_000) for run in runs.lock_runs(conn, ids[at : at + 10_000]).values()
        ]
    return [run for run in found if run.job_id in job_ids]


def _wait_until_closed(db: Database, job_ids: set[int], expected: int, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    low, high = min(job_ids), max(job_ids)
    query = f"SELECT count(*) FROM run_history WHERE job_id BETWEEN {low} AND {high}"
    while time.monotonic() < deadline:
        time.sleep(0.5)
        with db.read() as conn:
            done = conn.exec_driver_sql(query).scalar_one()
        if done >= expected:
            return
    raise SystemExit(f"only {done} of {expected} runs ended within {limit_s} s")


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which ``part`` of the sorted values lie."""
    return values[min(len(values) - 1, int(part * len(values)))]


def report_rate(report: Report, place: Site, rate: int, seconds: int, windows: int) -> None:
    """Measure one rate and put it into the table."""
    stretches, used = measure_rate(place, rate, seconds, windows)
    for name in ("accepted", "final"):
        for part, word in ((0.5, "p50"), (0.99, "p99")):
            late = [percentile(getattr(stretch, name), part) for stretch in stretches]
            report.figure(f"due to {name}, {rate}/s, {word}", late, "ms")
    for name, value in used.items():
        report.figure(f"CPU per fire, {rate}/s, {name}", [value], "us")
    if rate == max(RATES):
        name = f"due to accepted, {rate}/s, p99"
        held = float(report.figures[name]["median"]) <= LATENESS_MS
        report.note(name, f"goal at most {LATENESS_MS} ms: {'held' if held else 'MISSED'}")


def report_flat_out(report: Report, place: Site, fires: int, repeats: int, workers: int, goal: float) -> None:
    """Measure flat out and the baseline in turn."""
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(measure_flat_out(place, fires))
        theirs.append(measure_baseline(place, max(100, fires // 5), workers))
    report.figure("accepted, flat out", [one[0] for one in ours], "fires/s")
    report.figure("final, flat out", [one[1] for one in ours], "fires/s")
    for name in ("node", "executor", *(["server"] if place.db.backend == "postgresql" else [])):
        report.figure(f"CPU per fire, flat out, {name}", [one[2][name] for one in ours], "us")
    report.figure("baseline, final", [one["rate"] for one in theirs], "fires/s")
    report.figure("CPU per fire, baseline", [one["cpu_us"] for one in theirs], "us")
    report.figure("CPU per fire, baseline, executor", [one["executor_us"] for one in theirs], "us")
    slow, fast = [1 / one["rate"] for one in theirs], [1 / one[1] for one in ours]
    report.ratio("baseline / xwheel, time per fire", slow, fast, goal=goal)
    # what else the machine does hardly shows in this one
    slow = [one["cpu_us"] + one["executor_us"] for one in theirs]
    report.ratio("baseline / xwheel, CPU per fire", slow, [one[2]["node"] + one[2]["executor"] for one in ours])


def main() -> None:
    """Measure every rate, then flat out with the baseline in turn."""
    report = Report(__doc__ or "", repeats=3)
    option = report.parser.add_argument
    option("--seconds", type=int, default=8, help="length of each measured window")
    option("--windows", type=int, default=5, help="windows at the highest rate")
    option("--rates", type=int, nargs="*", default=RATES, help="fires per second")
    option("--fires", type=int, default=20_000, help="jobs due at once, flat out; the baseline gets a fifth")
    option("--workers", type=int, default=200, help="threads of the baseline")
    option("--backend", choices=("sqlite", "mariadb", "postgresql"), default="sqlite", help="kind of database")
    option("--foreign", action="store_true", help="an executor that knows /run only")
    option("--profile-pause", action="store_true", help="wait for a profiler before flat out")
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with site(backend=args.backend, is_foreign=args.foreign) as place:
        for rate in args.rates:
            report_rate(report, place, rate, args.seconds, args.windows if rate == max(RATES) else 1)
        if args.profile_pause:
            input(f"node {place.node.pid}, executor {place.executor.pid}: press Enter for flat out")
        if args.fires:
            goal = GOAL_FOREIGN if args.foreign else GOAL
            report_flat_out(report, place, args.fires, args.repeats, args.workers, goal)
    report.finish()


if __name__ == "__main__":
    main()
