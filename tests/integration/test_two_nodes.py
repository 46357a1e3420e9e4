"""Nodes in processes of their own share one server's database: one is killed, one is frozen, one leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.admins import APP_NAME, TOKEN
from tests.support.databases import BACKENDS, CleanDatabases
from tests.support.executors import ROOT, wait_until
from tests.support.node import plugins
from tests.support.ports import free_port
from tests.support.rows import job_values
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.config import build_config
from xwheel.executor import Executor, JobContext, job
from xwheel.model import MisfirePolicy, Run, RunState
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.storage import executors, leases, runs
from xwheel.storage.database.engine import Database

LEASE_S = 4
JOBS = 8
PATIENCE_S = 120  # an executor lets an outcome wait a minute if others were taken meanwhile


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def shared(request: pytest.FixtureRequest) -> Iterator[CleanDatabases]:
    with BACKENDS[request.param]() as base:
        databases = CleanDatabases(base, request.param)
        yield databases
        databases.close()


@dataclass
class Cluster:
    """Nodes on one database, one executor that knows them all, and what its handler saw."""

    url: str
    folder: Path
    db: Database
    scheduler: Scheduler
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    planned: set[tuple[int, int]] = field(default_factory=set)

    def start(self, name: str) -> None:
        """Start a node in a process of its own."""
        settings = {
            "XWHEEL_API__EXECUTOR_TOKEN": TOKEN,
            "XWHEEL_SCHEDULE__LEASE_S": str(LEASE_S),
            "XWHEEL_SCHEDULE__LEASE_RENEW_S": "0.5",
            "XWHEEL_TRIGGER__SEND_TIMEOUT_MS": "1000",
            "PYTHONPATH": str(ROOT),
        }
        arguments = ["--database", self.url, "--port", str(free_port())]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.nodes[name] = subprocess.Popen(
                [
                    sys.executable, "-m", "xwheel", "server", *arguments,
                    "--executor-port", str(self.ports.setdefault(name, free_port())),
                ],
                cwd=self.folder,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )  # fmt: skip

    def sizes(self) -> list[int]:
        """Return how many partitions each holder has, the largest share first; epochs only rise meanwhile."""
        with self.db.read() as conn:
            rows = leases.list_leases(conn)
        for row in rows:
            assert row.epoch >= self.epochs.get(row.partition, 0)
            self.epochs[row.partition] = row.epoch
        return sorted(Counter(row.owner for row in rows if row.owner).values(), reverse=True)

    def wait_for(self, *sizes: int) -> None:
        """Wait until the shares are these."""
        wait_until(lambda: self.sizes() == list(sizes), PATIENCE_S)

    def owners(self) -> set[str | None]:
        with self.db.read() as conn:
            return {row.owner for row in leases.list_leases(conn)}

    def make_jobs(self, fires: int) -> None:
        """Make jobs in different partitions that fire every second."""
        first_ms = self.scheduler.core.clock.now_ms() // 1000 * 1000 + 2000
        last_ms = first_ms + (fires - 1) * 1000
        for number in range(JOBS):
            values = job_values(
                name=f"job {number}",
                handler="seen",
                schedule_conf="1",
                anchor_ms=first_ms,
                start_ms=first_ms,
                end_ms=last_ms,
                misfire_policy=MisfirePolicy.FIRE_ALL,
            )
            made = self.scheduler.management.jobs.create(values, enabled=True)
            # a slow machine may be past the first due time already
            self.planned.update((made.id, due) for due in range(made.next_fire_ms or 0, last_ms + 1, 1000))

    def rows(self) -> list[Run]:
        with self.db.read() as conn:
            return runs.list_runs(conn, limit=1000)

    def check(self) -> None:
        """Wait for the end, then compare: each due time has one run that was executed once."""
        total = len(self.planned)
        wait_until(lambda: sum(run.state is RunState.SUCCEEDED for run in self.rows()) >= total, PATIENCE_S)
        rows = self.rows()
        assert Counter((run.job_id, run.planned_ms) for run in rows) == Counter(self.planned)
        assert Counter(self.seen) == Counter(run.id for run in rows)


def make_executor(cluster: Cluster, names: list[str]) -> Executor:
    guard = threading.Lock()

    @job("seen")
    def seen(ctx: JobContext) -> str:
        with guard:
            cluster.seen.append(ctx.run_id)
        return "ok"

    return Executor(
        handlers=[seen],
        glue_types={"BEAN": BeanGlue()},
        app_name=APP_NAME,
        admin_addresses=[f"http://127.0.0.1:{cluster.ports[name]}" for name in names],
        access_token=TOKEN,
        port=0,
        data_dir=cluster.folder / "executor",
        leave_s=0,
        beat_s=1,
    )


@pytest.fixture
def cluster(shared: CleanDatabases, tmp_path: Path) -> Iterator[Cluster]:
    url = shared.url(0)
    db = Database(url)
    scheduler = Scheduler(Core(build_config({}), db, plugins(), TOKEN))
    now_ms = scheduler.core.clock.now_ms()
    db.transaction(lambda conn: executors.insert_group(conn, app_name=APP_NAME, title="t", now_ms=now_ms))
    made = Cluster(url, tmp_path, db, scheduler)
    made.ports = {name: free_port() for name in ("a", "b", "c")}
    executor = make_executor(made, ["a", "b", "c"])
    executor.start()
    try:
        yield made
    finally:
        for process in made.nodes.values():
            process.kill()
            process.wait()
        executor.stop()
        db.close()


def wait_for_executor(cluster: Cluster) -> None:
    def is_there() -> bool:
        cluster.scheduler.core.registry.step(cluster.scheduler.core.clock.now_ms())
        return bool(cluster.scheduler.core.registry.all(cluster.scheduler.core.clock.now_ms()))

    wait_until(is_there, PATIENCE_S)


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> Any:
    process.send_signal(number)
    return process.wait(PATIENCE_S)


@pytest.mark.long
def test_a_killed_and_a_leaving_node_are_taken_over(cluster: Cluster) -> None:
    cluster.start("a")
    cluster.wait_for(64)
    cluster.start("b")
    cluster.start("c")
    cluster.wait_for(22, 21, 21)
    wait_for_executor(cluster)
    cluster.make_jobs(12)
    wait_until(lambda: len(cluster.seen) >= 2 * JOBS, PATIENCE_S)
    end(cluster.nodes["c"], signal.SIGKILL)
    cluster.wait_for(32, 32)
    wait_until(lambda: len(cluster.seen) >= 6 * JOBS, PATIENCE_S)
    assert end(cluster.nodes["b"], signal.SIGTERM) == 0
    cluster.wait_for(64)
    cluster.check()


@pytest.mark.long
def test_a_node_that_was_frozen_for_longer_than_its_lease_sends_nothing_under_it(cluster: Cluster) -> None:
    cluster.start("a")
    cluster.start("b")
    cluster.wait_for(32, 32)
    wait_for_executor(cluster)
    cluster.make_jobs(14)
    wait_until(lambda: len(cluster.seen) >= 2 * JOBS, PATIENCE_S)
    before = cluster.owners()
    cluster.nodes["a"].send_signal(signal.SIGSTOP)
    cluster.wait_for(64)
    assert cluster.owners() < before
    epochs = dict(cluster.epochs)
    wait_until(lambda: len(cluster.seen) >= 8 * JOBS, PATIENCE_S)
    cluster.nodes["a"].send_signal(signal.SIGCONT)
    cluster.wait_for(32, 32)  # it has a share again, and of what moved every epoch rose
    moved = [part for part, epoch in cluster.epochs.items() if epoch > epochs[part]]
    assert len(moved) >= 32  # more if the other one was held up too
    cluster.check()
