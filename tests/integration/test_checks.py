"""Open runs of real executor processes: killed, restarted, stopped in their tracks, told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.admins import APP_NAME, TOKEN
from tests.support.executors import ROOT, wait_until
from tests.support.ports import free_port
from tests.support.rows import job_values, make_run
from xwheel.config import build_config
from xwheel.model import Job, RegisteredExecutor, Run, RunState
from xwheel.node.node import Node
from xwheel.scheduler.records import Outcome
from xwheel.storage import executors, runs


class Cluster:
    """A node in this process, with times that suit a test, and executors in processes of their own."""

    def __init__(self, folder: Path, url: str, **trigger: Any) -> None:
        self.folder = folder
        times = {"send_timeout_ms": 500, "idle_grace_s": 2, "deadline_grace_s": 1, **trigger}
        api = {"port": 0, "executor_port": 0, "executor_token": TOKEN}
        self.node = Node(build_config({"database": {"url": url}, "api": api, "trigger": times}), lambda _: None)
        self.scheduler = self.node.scheduler
        now_ms = self.scheduler.core.clock.now_ms()
        self.db = self.scheduler.core.db
        self.db.transaction(lambda conn: executors.insert_group(conn, app_name=APP_NAME, title="t", now_ms=now_ms))
        self.node.start()

    def job(self, handler: str, param: str = "", **changes: Any) -> Job:
        now_ms = self.scheduler.core.clock.now_ms()
        values = job_values(handler=handler, param=param, anchor_ms=now_ms, **changes)
        return self.scheduler.management.jobs.create(values, enabled=False)

    def run(self, job: Job) -> int:
        return self.scheduler.management.run_now.run(job.id).id

    def load(self, run_id: int) -> Run:
        with self.db.read() as conn:
            return runs.get_run(conn, run_id)

    def wait_for(self, run_id: int, what: Callable[[Run], Any], deadline_s: float = 60) -> Run:
        """Wait until a run is as it should be, and return it."""

        def look() -> Run | None:
            run = self.load(run_id)
            return run if what(run) else None

        found: Run = wait_until(look, deadline_s)
        return found

    def ended(self, run_id: int, deadline_s: float = 60) -> tuple[RunState, str]:
        run = self.wait_for(run_id, lambda run: run.finished_ms, deadline_s)
        return run.state, run.reason

    def live(self) -> list[RegisteredExecutor]:
        return self.scheduler.core.registry.all(self.scheduler.core.clock.now_ms())

    @contextmanager
    def process(self, module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run an executor and wait until it registered."""
        known = {(item.address, item.boot) for item in self.live()}
        with (self.folder / "executor.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "EXECUTOR_APP_FOLDER": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(lambda: {(item.address, item.boot) for item in self.live()} - known, 60)
            yield process
        finally:
            process.kill()
            process.wait(10)

    def executor(self) -> Any:
        """Run our own executor on this folder's journal."""
        url = f"http://127.0.0.1:{self.node.executors.port}"
        return self.process("tests.support.executor_app", url, str(self.folder / "journal"), "beat_s=1")

    def pyxxl(self) -> Any:
        url = f"http://127.0.0.1:{self.node.executors.port}/xxl-job-admin/api/"
        return self.process("tests.support.pyxxl_app", url, str(free_port()), TOKEN)

    def executed(self, run_id: int) -> bool:
        path = self.folder / "executed"
        return path.exists() and f"start {run_id}\n" in path.read_text()


@pytest.fixture
def clusters(tmp_path: Path, new_database: Callable[[], str]) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(**trigger: Any) -> Cluster:
        made.append(Cluster(tmp_path, new_database(), **trigger))
        return made[-1]

    yield make
    for cluster in made:
        assert cluster.node.stop()


def test_an_executor_that_never_comes_back_loses_its_runs(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(dead_after_s=8)
    with cluster.executor() as process:
        run_id = cluster.run(cluster.job("slow"))
        wait_until(lambda: cluster.executed(run_id))
        process.kill()
        assert cluster.ended(run_id) == (RunState.LOST, "instance_gone")


def test_an_executor_that_restarts_tells_at_once_what_became_of_its_runs(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(dead_after_s=30)
    with cluster.executor() as process:
        job = cluster.job("slow")
        running = cluster.run(job)
        wait_until(lambda: cluster.executed(running))
        queued = cluster.run(job)  # of two that are sent next to each other, either may come first
        cluster.wait_for(queued, lambda run: run.state is RunState.RUNNING)
        process.kill()
        # whatever it reports by itself is thrown away: only the check may tell
        finish = cluster.scheduler.finishing.finisher.finish
        cluster.scheduler.finishing.check.finisher = SimpleNamespace(finish=finish)  # type: ignore[assignment]
        cluster.scheduler.finishing.finisher.finish = lambda outcomes: {  # type: ignore[method-assign]
            outcome.run_id: "dropped" for outcome in outcomes
        }
        with cluster.executor():
            # its new boot is the reason to ask: the rows themselves would wait for ten minutes
            assert cluster.ended(running) == (RunState.FAILED, "interrupted")
            assert cluster.ended(queued) == (RunState.FAILED, "not_started")


def test_a_run_that_waits_on_its_executor_is_shown_so_and_began_when_it_did(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(check_after_s=1)
    with cluster.executor():
        job = cluster.job("waits")
        ids = [cluster.run(job) for _ in range(2)]  # of two that are sent next to each other, either may come first
        (waiting,) = wait_until(lambda: [run for run in map(cluster.load, ids) if run.reason.startswith("waits:")])
        (first,) = set(ids) - {waiting.id}
        assert (waiting.state, waiting.began_ms) == (RunState.RUNNING, None)
        begun = cluster.wait_for(first, lambda run: run.started_ms is not None)
        assert begun.reason == ""
        go_ms = cluster.scheduler.core.clock.now_ms()
        (cluster.folder / "go").touch()
        assert [cluster.ended(run_id)[0] for run_id in ids] == [RunState.SUCCEEDED] * 2
    begun, waiting = cluster.load(first), cluster.load(waiting.id)
    assert begun.began_ms is not None
    assert waiting.began_ms is not None
    # the node's clock follows the database's, the executor's is the machine's: they are the same but for some time
    assert begun.began_ms < go_ms < waiting.began_ms + 100


def test_a_handler_is_killed(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters()
    with cluster.executor():
        job = cluster.job("process", "60", max_retries=3)
        running = cluster.run(job)
        wait_until(lambda: cluster.executed(running))
        queued = cluster.run(job)  # of two that are sent next to each other, either may come first
        cluster.wait_for(queued, lambda run: run.state is RunState.RUNNING)
        cluster.scheduler.management.killer.kill(queued)
        assert cluster.ended(queued)[0] is RunState.KILLED
        assert cluster.load(running).state is RunState.RUNNING
        assert not cluster.executed(queued)
        assert cluster.load(queued).began_ms is None
        cluster.scheduler.management.killer.kill(running)
        assert cluster.ended(running)[0] is RunState.KILLED
    with cluster.db.read() as conn:
        assert len(runs.list_runs(conn)) == 2


def test_an_executor_that_stands_still_keeps_no_run_past_its_limit(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(dead_after_s=60)
    with cluster.executor() as process:
        run_id = cluster.run(cluster.job("slow", timeout_s=6))
        wait_until(lambda: cluster.executed(run_id))
        process.send_signal(signal.SIGSTOP)
        assert cluster.ended(run_id) == (RunState.TIMED_OUT, "deadline")
        process.send_signal(signal.SIGCONT)
        # what it reports now comes too late, and it does not report it for ever
        second = cluster.run(cluster.job("quick"))
        assert cluster.ended(second)[0] is RunState.SUCCEEDED
        assert cluster.load(run_id).state is RunState.TIMED_OUT


def test_pyxxl_ends_a_job_and_forgets_its_queue_without_a_word(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters()
    with cluster.pyxxl():
        job = cluster.job("sleeps")
        running, beside = cluster.run(job), cluster.run(job)
        for run_id in (running, beside):
            cluster.wait_for(run_id, lambda run: run.state is RunState.RUNNING)
        cluster.scheduler.management.killer.kill(running)
        assert cluster.ended(running)[0] is RunState.KILLED
        assert cluster.ended(beside) == (RunState.LOST, "no_report")
        after = cluster.run(cluster.job("hello"))
        assert cluster.ended(after)[0] is RunState.SUCCEEDED


def test_pyxxl_is_believed_to_be_busy_and_idle(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(check_after_s=1)
    with cluster.pyxxl():
        busy = cluster.run(cluster.job("sleeps"))
        cluster.wait_for(busy, lambda run: run.state is RunState.RUNNING)
        row = cluster.load(busy)
        job = cluster.job("hello")
        forgotten = make_run(
            10**12,
            job_id=job.id,
            partition=job.partition,
            state=RunState.RUNNING,
            address=row.address,
            instance="",
            dispatched_ms=row.dispatched_ms,
            accepted_ms=row.accepted_ms,
            check_ms=row.check_ms,
        )
        cluster.db.transaction(lambda conn: runs.insert_runs(conn, [forgotten]))
        cluster.wait_for(forgotten.id, lambda run: run.reason.startswith("idle:") or run.finished_ms)
        assert cluster.ended(forgotten.id) == (RunState.LOST, "no_report")
        assert (cluster.load(busy).state, cluster.load(busy).reason) == (RunState.RUNNING, "")
        cluster.scheduler.finishing.finisher.finish([Outcome(run_id=busy, state=RunState.FAILED)])
