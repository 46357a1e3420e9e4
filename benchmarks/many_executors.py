"""What thousands of executors cost a node and its database: statements a second, by the server's own count.

A real node without executors, then with thousands that registered and beat every thirty seconds over HTTP. MariaDB
counts statements, ends of transactions among them; PostgreSQL counts transactions, of which a reading is one too.
"""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from collections.abc import Sequence

from sqlalchemy import text

from benchmarks._report import Report
from benchmarks._site import GROUP, Site, cpu_s, site
from tests.support.databases import BACKENDS
from xwheel.storage.database.engine import Database

GOAL = 5
BEAT_S = 30
CLIENTS = 8
FIRST_PORT = 10_000
SETTLE_S = 12
"""PostgreSQL counts what a connection did when that has been idle for ten seconds."""

COUNTERS = {
    "mysql": (
        "statements",
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'",
    ),
    "postgresql": (
        "transactions",
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()",
    ),
}


class Crowd:
    """Executors that are nothing but their registrations, over a few kept connections.

    Args:
        place: The node that they beat.
        count: How many there are.
    """

    def __init__(self, place: Site, count: int) -> None:
        self._place = place
        self._ports = range(FIRST_PORT, FIRST_PORT + count)

    def beat(self, over_s: float) -> None:
        """Let each beat once, evenly over some seconds."""
        threads = [
            threading.Thread(target=self._beat, args=(self._ports[number::CLIENTS], over_s))
            for number in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _beat(self, ports: Sequence[int], over_s: float) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._place.executor_port, timeout=30)
        began = time.monotonic()
        for number, port in enumerate(ports):
            time.sleep(max(0.0, began + over_s * number / len(ports) - time.monotonic()))
            body = {"registryGroup": "EXECUTOR", "registryKey": GROUP, "registryValue": f"http://127.0.0.1:{port}/"}
            head = {"XXL-JOB-ACCESS-TOKEN": self._place.executor_token, "Content-Type": "application/json"}
            connection.request("POST", "/api/registry", json.dumps(body), head)
            answer = json.loads(connection.getresponse().read())
            if answer["code"] != 200:
                raise SystemExit(f"a beat was answered with {answer}")
        connection.close()


def count(db: Database) -> int:
    """Return how much the server has done so far."""
    with db.read() as conn:
        return int(conn.execute(text(COUNTERS[db.backend][1])).scalar_one())


def measure(place: Site, crowd: Crowd | None, seconds: int) -> tuple[float, float]:
    """Return what the server does each second, and the CPU milliseconds that the node uses in it."""
    began, before, used_s = time.monotonic(), count(place.db), cpu_s(place.node.pid)
    if crowd is None:
        time.sleep(seconds)
    else:
        crowd.beat(seconds)
    took_s = time.monotonic() - began
    return (count(place.db) - before) / took_s, 1000 * (cpu_s(place.node.pid) - used_s) / took_s


def measure_on(report: Report, backend: str, executors: int) -> None:
    """Measure without and with executors, and put the difference into the table."""
    with site(with_executor=False, backend=backend) as place:
        kind = COUNTERS[place.db.backend][0]
        time.sleep(SETTLE_S)
        idle = [measure(place, None, BEAT_S) for _ in range(report.args.repeats)]
        crowd = Crowd(place, executors)
        began, before = time.monotonic(), count(place.db)
        crowd.beat(0)
        took_s = time.monotonic() - began
        report.figure(f"{backend}, registering, {kind} an executor", [(count(place.db) - before) / executors], "")
        report.figure(f"{backend}, registering", [executors / took_s], "1/s")
        time.sleep(SETTLE_S)
        busy = [measure(place, crowd, BEAT_S) for _ in range(report.args.repeats)]
    for number, (name, unit) in enumerate(((kind, "1/s"), ("CPU, node", "ms/s"))):
        without, beside = ([one[number] for one in some] for some in (idle, busy))
        report.figure(f"{backend}, {name}, no executors", without, unit)
        report.figure(f"{backend}, {name}, {executors} executors", beside, unit)
        more = [one - other for one, other in zip(beside, without, strict=True)]
        report.figure(f"{backend}, {name}, what they cost", more, unit)
        if not number:
            report.note(
                f"{backend}, {name}, what they cost",
                f"goal at most {GOAL}: {'held' if max(more) <= GOAL else 'MISSED'}",
            )


def main() -> None:
    """Measure on each server."""
    report = Report(__doc__ or "", repeats=2)
    option = report.parser.add_argument
    option("--backend", action="append", choices=sorted(BACKENDS), help="again for more; default: both")
    option("--executors", type=int, default=5000)
    args = report.parse()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    for backend in args.backend or sorted(BACKENDS):
        measure_on(report, backend, args.executors)
    report.finish()


if __name__ == "__main__":
    main()
