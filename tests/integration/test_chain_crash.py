"""A chain on real processes: the node is killed again and again, and the rows are what they would have been without."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support import databases
from tests.support.admins import APP_NAME, TOKEN
from tests.support.executors import ROOT, make_executor, wait_until
from tests.support.node import plugins
from tests.support.ports import free_port
from tests.support.rows import job_values
from xwheel.config import build_config
from xwheel.executor import Executor, JobContext, job
from xwheel.model import ChildLink, JoinMode, MisfirePolicy, Run, RunReason, RunState
from xwheel.node.loops import Scheduler
from xwheel.node.pipeline import Core
from xwheel.storage import executors as groups
from xwheel.storage import runs
from xwheel.storage.database.engine import Database

START, LEFT, RIGHT, JOINED = range(1, 5)
FIRES = 3
EVERY_S = 1
MOST_KILLS = 6
LEAST_KILLS = 1  # a node that waited for the lease of its predecessor may do all the rest in one go
LEASE_S = 4


class Admin:
    """Where executors find the node, whichever process it is."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"


def make_handlers(failed: set[str]) -> list[object]:
    """Return handlers; the flaky one fails the first time that it sees a parameter."""
    guard = threading.Lock()

    @job("shard")
    def shard(ctx: JobContext) -> str:
        return f"{ctx.shard_index}/{ctx.shard_total}"

    @job("flaky")
    def flaky(ctx: JobContext) -> str:
        with guard:
            is_first = ctx.param not in failed
            failed.add(ctx.param)
        if is_first:
            raise ValueError("not this time")
        return "left"

    @job("quick")
    def quick(ctx: JobContext) -> str:
        time.sleep(0.4)  # kills come between parents and children too
        return "right"

    return [shard, flaky, quick]


@contextmanager
def executors(admin: Admin, folder: Path) -> Iterator[list[Executor]]:
    failed: set[str] = set()
    with ExitStack() as stack:
        made = []
        for number in (1, 2):
            executor = make_executor(
                admin,  # type: ignore[arg-type]
                folder / f"executor-{number}",
                make_handlers(failed),
                beat_s=1,
            )
            executor.start()
            stack.callback(executor.stop)
            made.append(executor)
        yield made


def serve(folder: Path, url: str, ports: tuple[int, int]) -> subprocess.Popen[bytes]:
    """Start a node in a process of its own."""
    settings = {
        "XWHEEL_API__EXECUTOR_TOKEN": TOKEN,
        "XWHEEL_SCHEDULE__LEASE_S": str(LEASE_S),
        "XWHEEL_SCHEDULE__LEASE_RENEW_S": "0.5",
        "XWHEEL_TRIGGER__SEND_TIMEOUT_MS": "1000",
        "PYTHONPATH": str(ROOT),
    }
    arguments = ["--database", url, "--port", str(ports[0]), "--executor-port", str(ports[1])]
    with (folder / "node.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "xwheel", "server", *arguments],
            cwd=folder,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def prepare(db: Database) -> Scheduler:
    """Make the group, and return a scheduler that does not run."""
    databases.upgrade(db)
    scheduler = Scheduler(Core(build_config({}), db, plugins(), TOKEN))
    now_ms = scheduler.core.clock.now_ms()
    db.transaction(lambda conn: groups.insert_group(conn, app_name=APP_NAME, title="t", now_ms=now_ms))
    return scheduler


def make_jobs(scheduler: Scheduler) -> None:
    """Make jobs and links; the first fire is some seconds away."""
    now_ms = scheduler.core.clock.now_ms()
    by_hand = {"schedule_type": "NONE", "schedule_conf": ""}
    first_ms = (now_ms // 1000 + 3) * 1000
    create = scheduler.management.jobs.create
    create(
        job_values(
            handler="shard",
            schedule_conf=str(EVERY_S),
            anchor_ms=first_ms,
            start_ms=first_ms,
            end_ms=first_ms + (FIRES - 1) * EVERY_S * 1000,
            misfire_policy=MisfirePolicy.FIRE_ALL,
            route_strategy="SHARDING_BROADCAST",
            max_retries=1,
        ),
        enabled=True,
    )
    create(job_values(handler="flaky", max_retries=3, **by_hand))
    create(job_values(handler="quick", max_retries=1, **by_hand))
    create(job_values(handler="quick", max_retries=1, join_mode=JoinMode.ALL, **by_hand))
    text = f"${{result.{LEFT}}} ${{result.{RIGHT}}}"
    for parent, links in (
        (START, [(LEFT, "${result} ${run_id}"), (RIGHT, None)]),
        (LEFT, [(JOINED, None)]),
        (RIGHT, [(JOINED, None)]),
        (LEFT, [(JOINED, text)]),
        (RIGHT, [(JOINED, text)]),
    ):
        rows = [ChildLink(parent_id=parent, child_id=child, param=param) for child, param in links]
        scheduler.management.dependencies.set_children(parent, rows)


def load(db: Database) -> list[Run]:
    with db.read() as conn:
        return runs.list_runs(conn, limit=1000)


def registered(scheduler: Scheduler) -> list[str]:
    """Return the executors that the database knows."""
    scheduler.core.registry.step(scheduler.core.clock.now_ms() + 10_000)
    return [item.address for item in scheduler.core.registry.all(scheduler.core.clock.now_ms())]


def progress(db: Database) -> int:
    """Return how many runs were planned and how many have ended, together."""
    rows = load(db)
    return len(rows) + sum(run.finished_ms is not None for run in rows)


def is_over(db: Database) -> bool:
    """Say whether the last run of each fire has ended well; an attempt before it may have been refused."""
    return [run.job_id for run in load(db) if run.state is RunState.SUCCEEDED].count(JOINED) == FIRES


@pytest.mark.long
@pytest.mark.nightly_on("postgresql")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_chain_survives_a_node_that_is_killed(tmp_path: Path, new_database: Callable[[], str], seed: int) -> None:
    url = new_database()
    ports = (free_port(), free_port())
    dice = random.Random(seed)
    db = Database(url)
    scheduler = prepare(db)
    with executors(Admin(ports[1]), tmp_path):
        process = serve(tmp_path, url, ports)
        try:
            wait_until(lambda: len(registered(scheduler)) == 2, 60)
            make_jobs(scheduler)
            kills = 0
            while kills < MOST_KILLS:
                seen = progress(db)
                wait_until(lambda seen=seen: progress(db) > seen or is_over(db), 60)
                time.sleep(dice.uniform(0, 0.1))
                if is_over(db):
                    break
                process.send_signal(signal.SIGKILL)
                process.wait(10)
                process = serve(tmp_path, url, ports)
                kills += 1
            wait_until(lambda: is_over(db), 120)
        finally:
            process.kill()
            process.wait(10)
    rows = load(db)
    db.close()

    assert kills >= LEAST_KILLS
    roots = sorted(run.id for run in rows if run.job_id == START and run.id == run.root_id)
    assert len(roots) == FIRES
    list_of_shards = '["0/2", "1/2"]'
    expected = Counter(
        item
        for root in roots
        for item in (
            (root, START, 0, "succeeded", None),
            (root, START, 1, "succeeded", None),
            (root, LEFT, 0, "failed", f"{list_of_shards} {root}"),
            (root, LEFT, 0, "succeeded", f"{list_of_shards} {root}"),
            (root, RIGHT, 0, "succeeded", None),
            (root, JOINED, 0, "succeeded", "left right"),
        )
    )
    # no one ran an attempt that was refused, or failed over: its executor was not reached in time; another one followed
    found = [run for run in rows if run.reason != RunReason.FAILED_OVER and run.state is not RunState.REFUSED]
    assert Counter((run.chain_id, run.job_id, run.shard_index, str(run.state), run.param) for run in found) == expected
