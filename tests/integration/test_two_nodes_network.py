"""No thread has a connection to the database in use while it moves bytes to or from an executor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.support.admins import APP_NAME, TOKEN
from tests.support.executors import wait_until
from tests.support.rows import job_values
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.config import build_config
from xwheel.executor import Executor, JobContext, job
from xwheel.node.node import Node
from xwheel.scheduler.runs import logs as reading
from xwheel.storage import executors, runs
from xwheel.wire.http import MultiClient

GIVEN_BACK = "check" + "in"  # SQLAlchemy's word for it is a misspelt one elsewhere


class Watch:
    """Which threads have a connection in use, and what they did on the network meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.guilty: list[str] = []
        self._used = threading.local()
        for name in ("submit", "poll"):
            monkeypatch.setattr(MultiClient, name, self.asking(name, getattr(MultiClient, name)))
        monkeypatch.setattr(reading, "post", self.asking("post", reading.post))

    def listen(self, engine: object) -> None:
        event.listen(engine, "checkout", lambda *_: self._count(1))
        event.listen(engine, GIVEN_BACK, lambda *_: self._count(-1))

    def _count(self, by: int) -> None:
        self._used.count = getattr(self._used, "count", 0) + by

    def asking(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **kwargs: object) -> object:
            self.calls += 1
            if getattr(self._used, "count", 0):
                self.guilty.append(f"{name} in {threading.current_thread().name}")
            return call(*args, **kwargs)

        return wrapped


@job("quick")
def quick(ctx: JobContext) -> str:
    ctx.log("seen")
    return "ok"


def test_no_connection_is_in_use_while_an_executor_is_asked(
    new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    config = build_config(
        {
            "database": {"url": new_database()},
            "trigger": {"check_after_s": 1},
            "api": {"port": 0, "executor_port": 0, "executor_token": TOKEN},
        }
    )
    node = Node(config, announce=lambda _: None)
    scheduler = node.scheduler
    watch.listen(scheduler.core.db.engine)
    node.start()
    now_ms = scheduler.core.clock.now_ms()
    scheduler.core.db.transaction(
        lambda conn: executors.insert_group(conn, app_name=APP_NAME, title="t", now_ms=now_ms)
    )
    executor = Executor(
        handlers=[quick],
        glue_types={"BEAN": BeanGlue()},
        app_name=APP_NAME,
        admin_addresses=[f"http://127.0.0.1:{node.executors.port}"],
        access_token=TOKEN,
        port=0,
        data_dir=tmp_path / "executor",
        leave_s=0,
    )
    executor.start()
    try:
        wait_until(lambda: scheduler.core.registry.all(scheduler.core.clock.now_ms()), 30)
        made = scheduler.management.jobs.create(job_values(handler="quick"), enabled=False)
        for _ in range(5):
            scheduler.management.run_now.run(made.id)

        def ended() -> bool:
            with scheduler.core.db.read() as conn:
                found = runs.list_runs(conn, limit=10)
            return len(found) == 5 and all(run.finished_ms for run in found)

        wait_until(ended, 60)
    finally:
        executor.stop()
        node.stop()
    assert watch.calls > 5
    assert watch.guilty == []
