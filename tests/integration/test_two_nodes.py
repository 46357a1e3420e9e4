"""Nodes in processes of their own share one server's database: one is killed, one is frozen, one leaves."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
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
    api_port: int = 0
    config: Path | None = None

    def start(self, name: str, processes: int = 1) -> None:
        """Start a node in a process of its own, or several under a supervisor."""
        settings = {
            "XWHEEL_API__EXECUTOR_TOKEN": TOKEN,
            "XWHEEL_SCHEDULE__LEASE_S": str(LEASE_S),
            "XWHEEL_SCHEDULE__LEASE_RENEW_S": "0.5",
            "XWHEEL_TRIGGER__SEND_TIMEOUT_MS": "1000",
            "PYTHONPATH": str(ROOT),
        }
        self.api_port = free_port()
        database = ["--database", self.url] if self.config is None else ["--config", str(self.config)]
        arguments = [*database, "--port", str(self.api_port), "--processes", str(processes)]
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


def children(process: subprocess.Popen[bytes]) -> set[int]:
    """Return the processes that a process has started and that run."""
    return set(map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))


class Caller(threading.Thread):
    """Asks a node over and over, each time on a connection of its own, and keeps what goes wrong."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.url = f"http://127.0.0.1:{port}/healthz"
        self.problems: list[str] = []
        self.answers = 0
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(0.02):
            try:
                with urllib.request.urlopen(self.url, timeout=10):
                    self.answers += 1
            except OSError as error:
                self.problems.append(repr(error))

    def end(self) -> None:
        self.is_over.set()
        self.join()
        assert self.problems == []
        assert self.answers > 50


def wait_for_executor(cluster: Cluster) -> None:
    def is_there() -> bool:
        cluster.scheduler.core.registry.step(cluster.scheduler.core.clock.now_ms())
        return bool(cluster.scheduler.core.registry.all(cluster.scheduler.core.clock.now_ms()))

    wait_until(is_there, PATIENCE_S)


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> Any:
    process.send_signal(number)
    return process.wait(PATIENCE_S)


@pytest.mark.long(20)
@pytest.mark.nightly_on("postgresql")
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


@pytest.mark.long(20)
@pytest.mark.nightly_on("mariadb")
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


@pytest.mark.long(20)
@pytest.mark.nightly_on("postgresql")
def test_processes_of_one_machine_die_and_are_replaced_and_no_fire_is_missing(cluster: Cluster) -> None:
    cluster.start("a", processes=2)
    supervisor = cluster.nodes["a"]
    cluster.wait_for(32, 32)
    wait_for_executor(cluster)
    first = children(supervisor)
    assert len(first) == 2
    cluster.make_jobs(25)
    caller = Caller(cluster.api_port)
    caller.start()
    wait_until(lambda: len(cluster.seen) >= 2 * JOBS, PATIENCE_S)
    supervisor.send_signal(signal.SIGHUP)
    wait_until(lambda: len(children(supervisor)) == 2 and not children(supervisor) & first, PATIENCE_S)
    caller.end()  # what the one that is killed was doing breaks
    cluster.wait_for(32, 32)
    killed = children(supervisor).pop()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: len(children(supervisor) - {killed}) == 2, PATIENCE_S)
    cluster.wait_for(32, 32)
    cluster.check()
    assert end(supervisor, signal.SIGTERM) == 0


def test_processes_end_with_their_supervisor(cluster: Cluster) -> None:
    cluster.start("a", processes=2)
    cluster.wait_for(32, 32)
    nodes = children(cluster.nodes["a"])
    end(cluster.nodes["a"], signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in nodes), PATIENCE_S)
    assert cluster.owners() == {None}  # they drained, and left their partitions
    log = (cluster.folder / "a.log").read_text()
    assert log.count("the supervisor is gone: draining, then ending") == 2


@pytest.mark.nightly
def test_a_frozen_process_is_killed_and_started_again(cluster: Cluster) -> None:
    cluster.start("a", processes=4)
    cluster.wait_for(16, 16, 16, 16)
    wait_for_executor(cluster)
    cluster.make_jobs(40)
    frozen = children(cluster.nodes["a"]).pop()
    os.kill(frozen, signal.SIGSTOP)
    wait_until(lambda: not Path(f"/proc/{frozen}").exists(), PATIENCE_S)
    wait_until(lambda: len(children(cluster.nodes["a"])) == 4, PATIENCE_S)
    cluster.wait_for(16, 16, 16, 16)
    cluster.check()
    assert "is frozen and is killed" in (cluster.folder / "a.log").read_text()


@pytest.mark.parametrize("what", ["a port that is taken", "SQLite"])
def test_what_keeps_processes_from_starting_is_said_once(cluster: Cluster, what: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if "port" in what else free_port()
        url = cluster.url if "port" in what else f"sqlite:///{cluster.folder / 'x.db'}"
        command = [sys.executable, "-m", "xwheel", "server", "--processes", "2", "--port", str(port)]
        done = subprocess.run(
            [*command, "--executor-port", str(free_port()), "--database", url],
            cwd=cluster.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 2
    wanted = f"cannot listen on 127.0.0.1:{port}" if "port" in what else "--processes 2: SQLite has one node at a time"
    assert done.stderr.splitlines()[-1].startswith(f"xwheel: {wanted}")
    assert "Traceback" not in done.stderr


def test_a_roll_does_not_move_to_another_database(cluster: Cluster) -> None:
    cluster.config = cluster.folder / "xwheel.toml"
    cluster.config.write_text(f'[database]\nurl = "{cluster.url}"\n')
    cluster.start("a", processes=2)
    cluster.wait_for(32, 32)
    first = children(cluster.nodes["a"])
    cluster.config.write_text(f'[database]\nurl = "sqlite:///{cluster.folder / "x.db"}"\n')
    cluster.nodes["a"].send_signal(signal.SIGHUP)
    log = cluster.folder / "a.log"
    wait_until(lambda: "the old ones stay" in log.read_text(), PATIENCE_S)
    assert "database.url names another database than the other processes have" in log.read_text()
    assert children(cluster.nodes["a"]) == first
    assert not (cluster.folder / "x.db").exists()
    assert end(cluster.nodes["a"], signal.SIGTERM) == 0
