"""Fires per second with XXL-JOB's own Java executor and with xwheel's, on the same node in turn.

Node and executors are processes of their own. Some thousand runs of some hundred jobs are due at once; the rate counts
from the first row written to the last outcome recorded. The Java executor is built from its published package as in
``tests/interop``; it gets one ``/run`` a fire and has a thread for each job.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks._report import Report
from benchmarks._site import GROUP, Site, cpu_s, site, until
from tests.interop.java_peers import JAVA
from tests.interop.peers import PeerProcess, Place
from tests.support.ports import free_port
from tests.support.rows import make_run
from xwheel.model import Origin, RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection
from xwheel.storage.run_ids import RunIds

HANDLER = "nothing"
LIMIT_S = 180


@dataclass(frozen=True, slots=True)
class Side:
    """An executor, its group and the jobs that fire on it."""

    name: str
    group_id: int
    pid: int
    jobs: list[int]


@dataclass(frozen=True, slots=True)
class Round:
    """What a round of fires took: final per second, and the CPU microseconds a fire."""

    rate: float
    node_us: float
    executor_us: float


@contextmanager
def java(place: Site, version: str) -> Iterator[tuple[int, PeerProcess]]:
    """Run the Java executor in a group of its own."""
    peer = next(peer for peer in JAVA if peer.name == version)
    group_id = place.client.call("POST", "/api/v1/groups", {"app_name": peer.name})["id"]
    folder = place.folder / peer.name
    folder.mkdir()
    url = f"http://127.0.0.1:{place.executor_port}"
    process = peer.start(
        Place(app_name=peer.name, admin_url=url, token=place.executor_token, port=free_port(), folder=folder)
    )
    try:
        path = f"/api/v1/groups/{group_id}/executors"
        until(lambda: place.client.call("GET", path)["items"][0])
        yield group_id, process
    finally:
        process.terminate()


def side(place: Site, name: str, group_id: int, pid: int, jobs: int) -> Side:
    """Create the jobs of one executor."""
    bodies = [{"group_id": group_id, "name": f"{name} {number}", "handler": HANDLER} for number in range(jobs)]
    return Side(name, group_id, pid, [place.client.call("POST", "/api/v1/jobs", body)["id"] for body in bodies])


def measure(place: Site, one: Side, fires: int) -> Round:
    """Make ``fires`` runs due at once and wait until all of them have ended."""
    ids = RunIds(place.db).reserve(fires)
    node_s, executor_s = cpu_s(place.node.pid), cpu_s(one.pid)
    now_ms = int(time.time() * 1000)
    rows = [
        make_run(
            run_id,
            job_id=(job_id := one.jobs[number % len(one.jobs)]),
            group_id=one.group_id,
            partition=job_id % 64,
            origin=Origin.API,
            due_ms=now_ms,
            planned_ms=now_ms,
            created_ms=now_ms,
        )
        for number, run_id in enumerate(ids)
    ]
    place.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    deadline = time.monotonic() + LIMIT_S
    while not (ended_ms := place.db.transaction(lambda conn: _ended_ms(conn, ids))):
        if time.monotonic() > deadline:
            raise SystemExit(f"{one.name}: not all of {fires} runs ended within {LIMIT_S} s")
        time.sleep(0.2)
    return Round(
        rate=1000 * fires / (ended_ms - now_ms),
        node_us=1e6 * (cpu_s(place.node.pid) - node_s) / fires,
        executor_us=1e6 * (cpu_s(one.pid) - executor_s) / fires,
    )


def _ended_ms(conn: Connection, ids: list[int]) -> int:
    """Return when the last of the runs ended, 0 while some are open; all must have succeeded."""
    words = f"FROM run_history WHERE id BETWEEN {min(ids)} AND {max(ids)}"
    query = f"SELECT count(*), max(finished_ms) {words}"
    count, last_ms = conn.exec_driver_sql(query).one()
    if count < len(ids):
        return 0
    states = set(conn.exec_driver_sql(f"SELECT DISTINCT state {words}").scalars())
    if states != {str(RunState.SUCCEEDED)}:
        raise SystemExit(f"runs ended as {sorted(states)}")
    return int(last_ms)


def main() -> None:
    """Measure both in turn."""
    report = Report(__doc__ or "", repeats=3)
    report.parser.add_argument("--fires", type=int, default=4000, help="runs due at once")
    report.parser.add_argument("--jobs", type=int, default=200, help="jobs that they belong to")
    report.parser.add_argument("--java", choices=[peer.name for peer in JAVA], default=JAVA[-1].name)
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with site() as place, java(place, args.java) as (group_id, process):
        sides = [
            side(place, GROUP, place.group_id, place.executor.pid, args.jobs),
            side(place, args.java, group_id, process.process.pid, args.jobs),
        ]
        for one in sides:
            measure(place, one, args.jobs)  # both compile, connect and start threads
        rounds = [[measure(place, one, args.fires) for one in sides] for _ in range(args.repeats)]
    ours, theirs = zip(*rounds, strict=True)
    for name, some in (("xwheel's executor", ours), (args.java, theirs)):
        report.figure(f"{name}, final", [one.rate for one in some], "fires/s")
        report.figure(f"{name}, CPU per fire, node", [one.node_us for one in some], "us")
        report.figure(f"{name}, CPU per fire, executor", [one.executor_us for one in some], "us")
    report.ratio(
        f"{args.java} / xwheel's, time per fire", [1 / one.rate for one in theirs], [1 / one.rate for one in ours]
    )
    report.finish()


if __name__ == "__main__":
    main()
