"""What the audit costs a mutation over the management API, and how long filtered pages of a million rows take.

Run it with ``python -m benchmarks.audit [--json] [--backends sqlite,mariadb,postgresql]``. A node of this process
serves mutations over one kept connection, in turn with the audit and without: then what would record a row does
nothing, and all else is the same. The goal is a ratio of at least 0.95. Pages are asked of the storage functions, as
the API does, of the rows of ``tests/product/accounts/plan_audit.py``; the goal is 50 ms for each.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from xwheel_accounts.storage.audit_list import page_audit

from benchmarks._report import Report
from benchmarks.storage import database
from tests.product.accounts import plan_audit
from tests.support import million
from tests.support.databases import empty, server_database
from xwheel.config import build_config
from xwheel.node.node import Node
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage.database.engine import LONG_MS, Database

CALLS = 60
WARM_UP = 20

Call = Callable[[str, str, dict[str, Any]], dict[str, Any]]


@contextmanager
def node_on(url: str, folder: Path) -> Iterator[Call]:
    """Give what calls the management API of a node on a database."""
    said: list[str] = []
    settings = {
        "database": {"url": url},
        "api": {"port": 0, "executor_port": 0},
        "audit": {"anchor_file": str(folder / "anchors.jsonl")},
    }
    node = Node(build_config(settings), said.append)
    node.start()
    (token,) = [words.split()[-1] for words in said if words.startswith("management token")]
    connection = http.client.HTTPConnection("127.0.0.1", node.management.port)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection.request(method, f"/api/v1/{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        return dict(json.loads(text)) if text else {}

    try:
        yield call
    finally:
        connection.close()
        node.stop()


@contextmanager
def without_audit() -> Iterator[None]:
    """Record nothing within a block."""
    usual = AuditTrail.record_many
    AuditTrail.record_many = lambda *_args, **_options: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        AuditTrail.record_many = usual  # type: ignore[method-assign]


def mutations(call: Call) -> dict[str, Callable[[int], object]]:
    """Return mutations by name; each gets a number that it was not called with before."""
    group_id = call("POST", "groups", {"app_name": "bench"})["id"]
    job = {"group_id": group_id, "name": "job", "handler": "demo"}
    job_id = call("POST", "jobs", job)["id"]
    rule = {"kinds": ["failed"], "job_id": job_id, "name": "rule", "targets": []}
    rule_id = call("POST", "alarms/rules", rule)["id"]
    return {
        "edit_job": lambda n: call("PATCH", f"jobs/{job_id}", {"description": f"text {n}"}),
        "edit_group": lambda n: call("PATCH", f"groups/{group_id}", {"title": f"title {n}"}),
        "run_now": lambda n: call("POST", f"jobs/{job_id}/run", {"delay_ms": 3_600_000, "param": str(n)}),
        "edit_rule": lambda n: call("PATCH", f"alarms/rules/{rule_id}", {"window_s": 1 + n % 80_000}),
        "edit_calendar": lambda n: call("PUT", "calendars/feasts", {"dates": [f"2{n % 1000:03}-01-01"]}),
    }


def measure_mutations(report: Report, backend: str, repeats: int) -> None:
    """Measure each mutation with the audit and without, one after the other."""
    with tempfile.TemporaryDirectory() as name, _url(backend, Path(name)) as url, node_on(url, Path(name)) as call:
        number = 0
        for what, do in mutations(call).items():
            samples: dict[str, list[float]] = {"with": [], "without": []}
            for turn in range(-1, repeats):
                taken: dict[str, list[float]] = {"with": [], "without": []}
                # call by call in turn, so that what else the machine does hits both
                for place in range(2 * (WARM_UP if turn < 0 else CALLS)):
                    number += 1
                    way = "with" if place % 2 else "without"
                    with nullcontext() if way == "with" else without_audit():
                        begin = time.perf_counter()
                        do(number)
                        taken[way].append(time.perf_counter() - begin)
                for way, seconds in taken.items():
                    if turn >= 0:
                        samples[way].append(statistics.median(seconds) * 1000)
            report.figure(f"{backend}.{what}", samples["with"], "ms")
            report.ratio(f"{backend}.{what}.without_vs_with", samples["without"], samples["with"], goal=0.95)


@contextmanager
def _url(backend: str, folder: Path) -> Iterator[str]:
    if backend == "sqlite":
        yield f"sqlite:///{folder / 'xwheel.db'}"
        return
    with server_database(backend, durable=True) as url:
        db = Database(url)
        empty(db)
        db.close()
        yield url


def measure_pages(report: Report, backend: str, rows: int, repeats: int) -> None:
    """Measure a page of each filter over many rows."""
    with database(backend) as db, db.limited(statement_ms=LONG_MS):
        plan_audit.fill(db, rows)
        million.analyze(db)
        plan_audit.analyze(db)
        for words, wanted in {**plan_audit.FILTERS, **plan_audit.SEARCHES}.items():
            taken = []
            for _ in range(repeats):
                begin = time.perf_counter()
                with db.read() as conn:
                    page_audit(conn, wanted)
                taken.append((time.perf_counter() - begin) * 1000)
            report.figure(f"{backend}.page, {words}", taken, "ms")


def main() -> None:
    """Measure both on each database."""
    report = Report(__doc__.partition("\n")[0], repeats=15)
    report.parser.add_argument("--backends", default="sqlite,mariadb,postgresql")
    report.parser.add_argument("--rows", type=int, default=plan_audit.ROWS)
    args = report.parse()
    for backend in args.backends.split(","):
        measure_mutations(report, backend, args.repeats)
        if args.rows:
            measure_pages(report, backend, args.rows, args.repeats)
    report.finish()


if __name__ == "__main__":
    main()
