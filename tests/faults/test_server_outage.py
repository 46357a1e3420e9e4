"""A node and an executor work on while their database's connections die, it restarts, or it refuses to write."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.faults.injectors.database import plain_user, refusing_writes, stopping
from tests.support.admins import APP_NAME, TOKEN
from tests.support.databases import CleanDatabases
from tests.support.executors import wait_until
from tests.support.rows import job_values
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.config import build_config
from xwheel.executor import Executor, JobContext, job
from xwheel.model import MisfirePolicy, Run, RunState
from xwheel.node.node import Node
from xwheel.storage import executors, runs
from xwheel.storage.database.engine import Database

LEASE_S = 4
JOBS = 5
PATIENCE_S = 100  # an executor lets an outcome wait a minute if others were taken meanwhile


@dataclass
class Site:
    """A node, an executor, and what its handler saw."""

    node: Node
    admin: Database
    admin_url: str
    seen: list[int] = field(default_factory=list)
    planned: dict[int, list[int]] = field(default_factory=dict)

    def make_jobs(self, fires: int) -> None:
        first_ms = self.node.scheduler.core.clock.now_ms() // 1000 * 1000 + 2000
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
            made = self.node.scheduler.management.jobs.create(values, enabled=True)
            # a slow machine may be past the first due time already
            self.planned[made.id] = list(range(made.next_fire_ms or 0, last_ms + 1, 1000))

    def rows(self) -> list[Run]:
        with self.admin.read() as conn:
            return [run for run in runs.list_runs(conn, limit=1000) if run.job_id in self.planned]

    def check(self) -> None:
        """Wait for the end, then compare: every due time has one run, which was executed once and succeeded."""
        total = sum(map(len, self.planned.values()))
        wait_until(lambda: sum(run.state is RunState.SUCCEEDED for run in self.rows()) >= total, PATIENCE_S)
        rows = self.rows()
        expected = Counter((job_id, due_ms) for job_id, times in self.planned.items() for due_ms in times)
        assert Counter((run.job_id, run.planned_ms) for run in rows) == expected
        assert Counter(self.seen) == Counter(run.id for run in rows)
        wait_until(lambda: all(service.is_healthy() for service in self.node.scheduler.services), PATIENCE_S)

    def ready(self) -> list[str]:
        """Return what the readiness check finds missing."""
        url = f"http://127.0.0.1:{self.node.management.port}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                json.load(answer)
                return []
        except urllib.error.HTTPError as error:
            found: list[str] = json.load(error)["failing"]
            return found


def make_executor(site: Site, folder: Path) -> Executor:
    guard = threading.Lock()

    @job("seen")
    def seen(ctx: JobContext) -> str:
        with guard:
            site.seen.append(ctx.run_id)
        return "ok"

    return Executor(
        handlers=[seen],
        glue_types={"BEAN": BeanGlue()},
        app_name=APP_NAME,
        admin_addresses=[f"http://127.0.0.1:{site.node.executors.port}"],
        access_token=TOKEN,
        port=0,
        data_dir=folder / "executor",
        leave_s=0,
        beat_s=1,
    )


@pytest.fixture
def site(breakable: CleanDatabases, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Site]:
    caplog.set_level(logging.INFO)
    url = breakable.url(0)
    with site_on(plain_user(url), url, tmp_path) as made:
        yield made


@contextlib.contextmanager
def site_on(url: str, admin_url: str, folder: Path, **database: int) -> Iterator[Site]:
    """Run a node and an executor on a database, with further settings of it."""
    config = build_config(
        {
            "database": {"url": url, **database},
            "schedule": {"lease_s": LEASE_S, "lease_renew_s": 0.5},
            "trigger": {"send_timeout_ms": 1000},
            "api": {"port": 0, "executor_port": 0, "executor_token": TOKEN},
        }
    )
    admin = Database(admin_url, pool_size=1)
    made = Site(Node(config, announce=lambda _: None), admin, admin_url)
    made.node.start()
    scheduler = made.node.scheduler
    now_ms = scheduler.core.clock.now_ms()
    admin.transaction(lambda conn: executors.insert_group(conn, app_name=APP_NAME, title="t", now_ms=now_ms))
    executor = make_executor(made, folder)
    executor.start()
    try:
        wait_until(lambda: scheduler.core.registry.all(scheduler.core.clock.now_ms()), PATIENCE_S)
        yield made
    finally:
        executor.stop()
        made.node.stop()
        admin.close()


def kill_connections(db: Database) -> None:
    """End all other connections to a database once; those made meanwhile live on."""
    listing = {
        "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    }.get(db.backend, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
    command = "SELECT pg_terminate_backend({})" if db.backend == "postgresql" else "KILL {}"
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        for number in conn.execute(text(listing)).scalars().all():
            with contextlib.suppress(DBAPIError):  # it ended by itself
                conn.execute(text(command.format(number)))


def is_quiet(site: Site, seconds: float) -> bool:
    """Tell whether no handler begins for this long; jobs fire every second."""
    count = len(site.seen)
    threading.Event().wait(seconds)
    return len(site.seen) == count


def assert_few_lines(caplog: pytest.LogCaptureFixture, site: Site, outages: int) -> None:
    """Each loop says once that it fails and once that it works again; no one prints a traceback."""
    # the executor lives in this process too, and has its own to say
    records = [item for item in caplog.records if not item.name.startswith("xwheel.executor")]
    assert [item.getMessage() for item in records if item.exc_info] == []
    lines = Counter(
        (item.getMessage().split()[1], "works again" in item.getMessage())
        for item in records
        if item.name == "xwheel.runtime.loops"
    )
    assert set(lines.values()) <= set(range(1, outages + 1)), lines
    warnings = [item.getMessage() for item in records if item.levelno >= logging.WARNING]
    assert len(warnings) < outages * (len(site.node.scheduler.services) + 15), warnings


@pytest.mark.long
@pytest.mark.nightly_on("mariadb")
def test_connections_that_are_killed_again_and_again(site: Site) -> None:
    site.make_jobs(8)
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.3):
            kill_connections(site.admin)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        # those that no one used at that moment count for nothing
        db = site.node.scheduler.core.db
        wait_until(lambda: len(site.seen) >= 6 * JOBS and db.broken > 0, PATIENCE_S)
    finally:
        stop.set()
        killer.join()
    site.check()


@pytest.mark.long
@pytest.mark.nightly_on("postgresql")
def test_a_server_that_is_away_for_longer_than_the_lease_and_one_that_restarts(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    outage = stopping(site.admin_url)
    lease = site.node.scheduler.core.lease
    site.make_jobs(14)
    wait_until(lambda: len(site.seen) >= 2 * JOBS, PATIENCE_S)
    epochs = dict(lease.epochs)
    outage.begin()
    wait_until(lambda: not lease.may_act(), PATIENCE_S)
    assert site.ready() == ["leases", "database"]
    wait_until(lambda: is_quiet(site, 2), PATIENCE_S)  # what was sent before has arrived, and nothing follows
    assert "fails and is repeated" in caplog.text
    assert "works again" not in caplog.text  # R15: not while the database is away
    outage.end()
    wait_until(lease.may_act, PATIENCE_S)
    assert min(lease.epochs.values()) > max(epochs.values())

    count = len(site.seen)
    wait_until(lambda: len(site.seen) >= count + JOBS, PATIENCE_S)
    outage.begin()
    outage.end()
    site.check()
    wait_until(lambda: site.ready() == [], PATIENCE_S)
    assert_few_lines(caplog, site, 2)


@pytest.mark.long
@pytest.mark.nightly_on("mariadb")
def test_a_server_that_is_read_only_for_a_while(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.make_jobs(8)
    wait_until(lambda: len(site.seen) >= 2 * JOBS, PATIENCE_S)
    with refusing_writes(site.admin_url):
        wait_until(lambda: not site.node.scheduler.core.lease.may_act(), PATIENCE_S)
        assert "leases" in site.ready()
    site.check()
    assert_few_lines(caplog, site, 1)
    assert any("is read-only" in item.getMessage() for item in caplog.records)
