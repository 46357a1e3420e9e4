"""Done-when 4: secrets are rotated while 50 fires a second go to two executors, and none is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.executors import wait_until
from tests.support.ports import free_port
from tests.support.rows import job_values
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.config import build_config
from xwheel.executor import Executor, JobContext, job
from xwheel.model import OPEN_STATES, RunState
from xwheel.node.node import Node
from xwheel.runtime.sealing import make_key
from xwheel.storage import executors, runs
from xwheel.storage.access import executor_secrets

SHARED = "shared-by-all-executors-7Qx2"
JOBS = 50
LONG_S = 180.0


@job("quick")
def quick(ctx: JobContext) -> str:
    return str(ctx.run_id)


class Site:
    """A node with a key file and a job for each fire of a second; executors in this process."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        key_file = folder / "key"
        key_file.write_text(make_key())
        key_file.chmod(0o600)
        settings = {
            "database": {"url": url},
            "api": {"port": 0, "executor_port": 0, "executor_token": SHARED},
            "security": {"key_file": str(key_file)},
        }
        self.node = Node(build_config(settings), lambda _: None)
        self.scheduler = self.node.scheduler
        self.db = self.scheduler.core.db
        now_ms = self.scheduler.core.clock.now_ms()
        self.group_id = self.db.transaction(
            lambda conn: executors.insert_group(conn, app_name="orders", title="", now_ms=now_ms).id
        )
        self.node.start()
        self.ports = [free_port(), free_port()]
        self.jobs: list[int] = []

    def make_secret(self, name: str) -> str:
        value = f"value-of-{name}-9fK3pQ"
        keys, now_ms = self.scheduler.core.secrets.keys, self.scheduler.core.clock.now_ms()
        self.db.transaction(
            lambda conn: executor_secrets.insert_secret(conn, name, value, keys, now_ms, group_id=self.group_id)
        )
        self.scheduler.core.secrets.look()
        return value

    def retire(self, name: str) -> None:
        now_ms = self.scheduler.core.clock.now_ms()
        self.db.transaction(lambda conn: executor_secrets.retire_secret(conn, name, now_ms))
        self.scheduler.core.secrets.look()

    def executor(self, place: int, token: str) -> Executor:
        executor = Executor(
            handlers=[quick],
            glue_types={"BEAN": BeanGlue()},
            app_name="orders",
            admin_addresses=[f"http://127.0.0.1:{self.node.executors.port}"],
            access_token=token,
            port=self.ports[place],
            data_dir=self.folder / f"executor-{place}",
        )
        executor.start()
        wait_until(lambda: self.port_names().get(self.ports[place]), LONG_S)
        return executor

    def port_names(self) -> dict[int, str | None]:
        """The secret that each live executor is called with."""
        registry = self.scheduler.core.registry
        return {
            int(item.address.rpartition(":")[2]): registry.secret_names(item)[0]
            for item in registry.live(self.group_id, self.scheduler.core.clock.now_ms())
        }

    def begin(self) -> None:
        now_ms = self.scheduler.core.clock.now_ms()
        for number in range(JOBS):
            values = job_values(
                group_id=self.group_id,
                name=f"job {number}",
                handler="quick",
                schedule_conf="1",
                route_strategy="ROUND",
                anchor_ms=now_ms + number * 1000 // JOBS,
            )
            self.jobs.append(self.scheduler.management.jobs.create(values, enabled=True).id)

    def counts(self) -> Counter[str]:
        with self.db.read() as conn:
            found = runs.list_runs(conn, limit=100_000)
        return Counter(str(run.state) for run in found)

    def more(self, count: int) -> None:
        """Wait until this many more runs succeeded."""
        until = self.counts()[RunState.SUCCEEDED] + count
        wait_until(lambda: self.counts()[RunState.SUCCEEDED] >= until, LONG_S)


@pytest.fixture
def site(tmp_path: Path, new_database: Any) -> Iterator[Site]:
    made = Site(tmp_path, new_database())
    yield made
    made.node.stop()


@pytest.mark.long
@pytest.mark.nightly  # tests/interop/test_rotation.py has a Java and a Go executor too
def test_s1_secrets_are_rotated_under_fire_and_no_run_is_refused(site: Site) -> None:
    with ExitStack() as ending:
        running = [site.executor(place, SHARED) for place in (0, 1)]
        for place in (0, 1):
            ending.callback(lambda place=place: running[place].stop())
        site.begin()
        site.more(JOBS)
        before = None
        # from the shared token to a secret of the group, and on to the next one
        for name in ("orders-1", "orders-2"):
            value = site.make_secret(name)
            for place in (0, 1):
                running[place].stop()
                running[place] = site.executor(place, value)
                wait_until(lambda name=name, place=place: site.port_names().get(site.ports[place]) == name, LONG_S)
                site.more(JOBS)
            assert site.port_names() == dict.fromkeys(site.ports, name)
            if before is not None:
                site.retire(before)
            site.more(JOBS)
            before = name
        for job_id in site.jobs:
            site.scheduler.management.jobs.stop(job_id)
        wait_until(lambda: not {str(state) for state in OPEN_STATES} & site.counts().keys(), LONG_S)
        with site.db.read() as conn:
            every = runs.list_runs(conn, limit=100_000)
    # cancelled, as the jobs were stopped
    assert [run.message for run in every if run.state not in (RunState.SUCCEEDED, RunState.CANCELLED)] == []
