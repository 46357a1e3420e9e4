"""Measure what a log store costs: a handler that writes all it can, and callbacks while 200 runs write at once.

Nodes and executors are processes of their own; one pair keeps logs in a store, the other in files of the executor
alone, and what is measured is done with both in turn. Run it with ``python -m benchmarks.logs [--json] [--store sql]``.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from xwheel_devtools.testing import NodeProcess, XwheelProcess, wait_until

from benchmarks._report import Report
from xwheel.wire.codec import encode_callbacks
from xwheel.wire.http import post
from xwheel.wire.messages import CallbackItem

ROOT = Path(__file__).parents[1]
LINES = 500_000
AIM = 100_000
"""Lines a second that a handler writes without a store."""

RUNS = 200
SECONDS = 8
PER_SECOND = 50
"""Lines a second of each of the 200 runs."""


class Site:
    """A node and an executor; the node may have a log store."""

    def __init__(self, folder: Path, stack: ExitStack, store: str) -> None:
        folder.mkdir()
        paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        settings = {"XWHEEL_RUN_LOGS__STORE": store} if store else {}
        self.node = stack.enter_context(NodeProcess(folder / "node", **paths, **settings))
        group = self.node.call("POST", "groups", {"app_name": "bench", "title": ""})["id"]
        self.jobs = {
            name: self.node.call(
                "POST", "jobs", {"group_id": group, "name": name, "handler": name, "block_strategy": "SERIAL_EXECUTION"}
            )["id"]
            for name in ("writes", "paced")
        }
        executor = stack.enter_context(
            XwheelProcess(
                folder / "executor",
                "executor",
                "benchmarks.log_handlers",
                **paths,
                XWHEEL_EXECUTOR__APP_NAME="bench",
                XWHEEL_EXECUTOR__ADMIN_ADDRESSES=f'["{self.node.executor_url}"]',
                XWHEEL_EXECUTOR__ACCESS_TOKEN=self.node.executor_token,
                XWHEEL_EXECUTOR__PORT="0",
                XWHEEL_EXECUTOR__WORKERS=str(RUNS + 10),
            )
        )
        executor.find("the executor is registered()")
        self.pid = executor.pid

    def write(self, lines: int, work: int = 0) -> float:
        """Return for how long a handler wrote this many lines, in seconds, by its own clock."""
        run_id = self.node.start_run(self.jobs["writes"], param=f"{lines} {work}")
        took = float(self.node.wait_for_run(run_id)["message"])
        # what is shipped after its end must not slow down the next one
        wait_until(lambda: self.node.call("GET", f"runs/{run_id}/log?from_line={lines + 9}")["is_end"])
        return took

    def callbacks(self) -> list[float]:
        """Return how long callbacks take while 200 runs write, in milliseconds."""
        began = [self.node.start_run(self.jobs["paced"], param=f"{SECONDS} {PER_SECOND}") for _ in range(RUNS)]
        wait_until(lambda: self.node.call("GET", f"runs/{began[-1]}")["state"] == "running")
        item = CallbackItem(run_id=began[0] + 9999, job_id=1, created_ms=1, code=200)
        body = encode_callbacks([item], generation=3, instance="bench")
        took: list[float] = []
        end = time.monotonic() + SECONDS / 2
        while time.monotonic() < end:
            at = time.perf_counter()
            post(f"{self.node.executor_url}/api/callback", body, token=self.node.executor_token, timeout_s=20)
            took.append((time.perf_counter() - at) * 1000)
            time.sleep(0.01)
        for run_id in began:
            self.node.wait_for_run(run_id)
        return took


@contextmanager
def sites(store: str) -> Iterator[tuple[Site, Site]]:
    """Start both pairs."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        yield Site(Path(folder) / "plain", stack, ""), Site(Path(folder) / "stored", stack, store)


def percentile(values: list[float], share: float) -> float:
    """Return a percentile."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    report = Report(__doc__ or "", repeats=5)
    report.parser.add_argument("--store", default="file", help="log store: file, sql or s3 (default file)")
    options = report.parse()
    with sites(options.store) as (plain, stored):
        bare_s, working_s = (min(plain.write(LINES // 10, work) for _ in range(3)) for work in (0, 1000))
        stored.write(LINES // 10)
        work = max(0, round(1000 * (LINES / 10 / AIM - bare_s) / (working_s - bare_s)))
        for name, amount in (("at 100,000 a second", work), ("flat out", 0)):
            without, with_store = [], []
            for _ in range(options.repeats):
                without.append(plain.write(LINES, amount))
                with_store.append(stored.write(LINES, amount))
            report.figure(f"lines {name} without a store", [LINES / value for value in without], "1/s")
            report.figure(f"lines {name} with a store", [LINES / value for value in with_store], "1/s")
            report.ratio(f"lines.slowed {name}", with_store, without)
        quiet, busy = [], []
        for _ in range(options.repeats):
            quiet.append(plain.callbacks())
            busy.append(stored.callbacks())
        for name, samples in (("without", quiet), ("with", busy)):
            report.figure(f"callbacks p50 {name}", [statistics.median(took) for took in samples], "ms")
            report.figure(f"callbacks p99 {name}", [percentile(took, 0.99) for took in samples], "ms")
        report.ratio(
            "callbacks.p99", [percentile(took, 0.99) for took in busy], [percentile(took, 0.99) for took in quiet]
        )
    report.finish()


if __name__ == "__main__":
    main()
