"""Real nodes and a real executor: what travels before it is due starts then, and another node's stop takes it back."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import BACKENDS, CleanDatabases
from tests.support.executors import wait_until
from tests.support.rows import job_values
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.clock import OffsetFilter
from xwheel.config import build_config
from xwheel.executor import Executor, JobContext, job
from xwheel.model import Run
from xwheel.node.node import Node
from xwheel.node.pipeline import Core
from xwheel.scheduler.fire import tick
from xwheel.scheduler.send import recall
from xwheel.storage import executors, runs
from xwheel.storage.open_runs import Holder

TOKEN = "shared-by-all-executors-7Qx2"
AHEAD_MS = 6000
started: dict[int, int] = {}
"""When the handler began, by run, in milliseconds of the monotonic clock; the machine's is not the nodes'."""


@job("note")
def note(ctx: JobContext) -> None:
    started[ctx.run_id] = time.monotonic_ns() // 1_000_000


class Site:
    """Nodes on one database and an executor that is registered with all of them."""

    def __init__(self, folder: Path, url: str, count: int) -> None:
        started.clear()
        self.nodes: list[Node] = []
        self.executor: Executor | None = None
        self.folder = folder
        for number in range(count):
            settings = {
                "database": {"url": url},
                "api": {"port": 0, "executor_port": 0, "executor_token": TOKEN},
                "schedule": {"arm_ms": 1000, "lock_dir": str(folder / f"node-{number}")},
            }
            self.nodes.append(Node(build_config(settings), lambda _: None))
            self.nodes[-1].start()
        self.core = self.nodes[0].scheduler.core
        now_ms = self.core.clock.now_ms()
        self.group_id = self.core.db.transaction(
            lambda conn: executors.insert_group(conn, app_name="orders", title="", now_ms=now_ms).id
        )

    def start(self) -> None:
        self.executor = Executor(
            handlers=[note],
            glue_types={"BEAN": BeanGlue()},
            app_name="orders",
            admin_addresses=[f"http://127.0.0.1:{node.executors.port}" for node in self.nodes],
            access_token=TOKEN,
            port=0,
            data_dir=self.folder / "executor",
        )
        self.executor.start()
        for node in self.nodes:
            core = node.scheduler.core
            wait_until(partial(self._knows, core))

    def _knows(self, core: Core) -> bool:
        return bool(core.registry.live(self.group_id, core.clock.now_ms()))

    def job(self, in_ms: int, schedule_conf: str = "3600") -> int:
        now_ms = self.core.clock.now_ms()
        values = job_values(
            group_id=self.group_id, handler="note", schedule_conf=schedule_conf, anchor_ms=now_ms + in_ms
        )
        return self.nodes[0].scheduler.management.jobs.create(values, enabled=True).id

    def started_ms(self, run_id: int) -> int:
        """Return when the handler began, by the clock of the first node."""
        clock = self.core.clock
        return started[run_id] + clock.now_ms() - clock.monotonic_ms()

    def runs(self, job_id: int) -> list[Run]:
        with self.core.db.read() as conn:
            return runs.list_runs(conn, job_id=job_id, limit=1000)

    def early(self, job_id: int) -> Run:
        """Return the run of a job that the executor has, before it is due."""
        sent: list[Run] = wait_until(lambda: [run for run in self.runs(job_id) if run.address is not None])
        assert self.executor is not None
        # a row is written first, and bytes leave then: what asks for a run before them finds none
        assert self.executor._parts is not None
        queues = self.executor._parts._workers.queues
        wait_until(lambda: queues.has(job_id))
        assert self.core.clock.now_ms() < sent[0].due_ms
        return sent[0]

    def close(self) -> None:
        if self.executor is not None:
            self.executor.stop()
        for node in self.nodes:
            node.stop()


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs leave so early that a test can change something in between."""
    monkeypatch.setattr(tick.TickLoop, "_leaves_ms", lambda _, due_ms: due_ms - AHEAD_MS)
    monkeypatch.setattr(recall, "CALL_S", 10.0)  # nodes and executor share one interpreter here


@pytest.fixture(params=["mariadb", pytest.param("postgresql", marks=pytest.mark.nightly)])
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    with BACKENDS[request.param]() as base:
        databases = CleanDatabases(base, request.param)
        site = Site(tmp_path, databases.url(0), 2)
        yield site
        site.close()
        databases.close()


@pytest.fixture
def one(tmp_path: Path, new_database: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    # the node's clock stays as it was set at the start: what it says of a run is what it said when that was sent
    monkeypatch.setattr(OffsetFilter, "sample", lambda *_: None)
    site = Site(tmp_path, new_database(), 1)
    yield site
    site.close()


def test_none_starts_before_it_is_due(one: Site) -> None:
    one.start()
    ids = [one.job(2000 + 50 * number, schedule_conf="1") for number in range(20)]
    ended = wait_until(lambda: [run for job_id in ids for run in one.runs(job_id) if run.state == "succeeded"][59:])
    assert ended
    done = [run for job_id in ids for run in one.runs(job_id) if run.id in started]
    assert any(run.dispatched_ms is not None and run.dispatched_ms < run.due_ms for run in done)
    assert [run.id for run in done if one.started_ms(run.id) < run.due_ms] == []
    assert [run.id for run in done if run.accepted_ms is not None and run.accepted_ms < run.due_ms] == []


@pytest.mark.long
@pytest.mark.usefixtures("ahead")
def test_a_stop_on_any_node_takes_back_what_is_not_due(two: Site) -> None:
    two.start()
    ids = [two.job(AHEAD_MS + 1000) for _ in range(8)]  # of partitions of both nodes
    sent = [two.early(job_id) for job_id in ids]
    for number, job_id in enumerate(ids):
        two.nodes[number // 2 % 2].scheduler.management.jobs.stop(job_id)
    assert two.core.clock.now_ms() < sent[0].due_ms
    time.sleep((sent[-1].due_ms - two.core.clock.now_ms()) / 1000 + 0.5)
    assert {run.id for run in sent} & started.keys() == set()
    assert {(str(run.state), run.reason) for job_id in ids for run in two.runs(job_id)} == {("cancelled", "stopped")}


@pytest.mark.usefixtures("ahead")
def test_an_edit_that_keeps_the_due_time_fires_it_once(one: Site) -> None:
    one.start()
    job_id = one.job(AHEAD_MS)
    first = one.early(job_id)
    one.nodes[0].scheduler.management.jobs.edit(job_id, {"end_ms": first.due_ms + 60_000})
    other = wait_until(lambda: [run for run in one.runs(job_id) if run.state == "succeeded"])
    assert [run.planned_ms for run in other] == [first.due_ms]
    # it is taken back and planned again, or kept if the executor was slow to say that it is not started
    assert [run.id for run in other] == list(started)
    assert one.started_ms(other[0].id) >= first.due_ms


@pytest.mark.usefixtures("ahead")
def test_a_kill_ends_it_before_it_starts(one: Site) -> None:
    one.start()
    job_id = one.job(AHEAD_MS)
    first = one.early(job_id)
    one.nodes[0].scheduler.management.killer.kill(first.id)
    (run,) = one.runs(job_id)
    assert (run.id, str(run.state), run.reason) == (first.id, "cancelled", "killed_by_user")
    time.sleep((first.due_ms - one.core.clock.now_ms()) / 1000 + 0.5)
    assert first.id not in started


def test_an_executor_that_does_not_answer_holds_a_change_up_no_longer_than_a_second(one: Site) -> None:
    early = one.nodes[0].scheduler.management.jobs.early
    run = Run(**dict.fromkeys(Run.__struct_fields__, 0) | {"id": 7, "due_ms": 2**50})  # type: ignore[arg-type]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(one.core.registry, "is_live", lambda *_: True)
            assert early._ask(Holder(one.group_id, address, "instance"), [run]) == set()
        listener.settimeout(5)
        listener.accept()[0].close()
