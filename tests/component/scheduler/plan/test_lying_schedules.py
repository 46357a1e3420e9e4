"""Schedule types that lie, raise or never answer stop the job they were asked about, outside of transactions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import RunState
from xwheel.plugin import ScheduleSpec
from xwheel.scheduler.jobs.jobs import BulkAction
from xwheel.storage.database.engine import Database


class Lying:
    """A schedule type that answers what a function makes of the time; where that is None, the next second."""

    name = "LYING"

    def __init__(self, answer: Callable[[int], Any] = lambda _: None) -> None:
        self.answer = answer
        self.threads: set[str] = set()

    def check(self, spec: ScheduleSpec) -> None:
        del spec

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> Any:
        self.threads.add(threading.current_thread().name)
        return self.answer(after_ms) if spec.conf == "lie" else after_ms + 1000


class Subclass(int):
    def __gt__(self, other: object) -> bool:
        raise AssertionError("asked")


class Sneaky:
    def __bool__(self) -> bool:
        raise SystemExit("asked for its truth")


def raising(error: BaseException, after_ms: int) -> Any:
    raise error


LIES: dict[str, tuple[Callable[[int], Any], str]] = {
    "a float": (lambda after: after + 1000.0, "returned "),
    "inf": (lambda after: float("inf"), "returned inf for the time after"),
    "nan": (lambda after: float("nan"), "returned nan"),
    "2**63": (lambda after: 2**63, "leads beyond the year 9999"),
    "a huge number": (lambda after: 10**5000, "leads beyond the year 9999"),
    "the year 10000": (lambda after: 253_402_300_800_000, "leads beyond the year 9999"),
    "the same time": (lambda after: after, "is an int of milliseconds later"),
    "an earlier time": (lambda after: after - 1, "is an int of milliseconds later"),
    "a negative number": (lambda after: -1, "returned -1"),
    "True": (lambda after: True, "returned True"),
    "a text": (str, "returned '"),
    "a subclass of int": (lambda after: Subclass(after + 1000), "returned an object of Subclass"),
    "what has no truth": (lambda after: Sneaky(), "returned an object of Sneaky"),
    "sys.exit()": (partial(raising, SystemExit(3)), "failed: SystemExit: 3"),
    "Ctrl-C": (partial(raising, KeyboardInterrupt()), "failed: KeyboardInterrupt"),
    "the end of a generator": (partial(raising, GeneratorExit()), "failed: GeneratorExit"),
}


def lying_node(db: Database, *types: Any, trusted: bool, **settings: Any) -> HandNode:
    node = HandNode(db, ManualClock(NOW), types=types, trusted=trusted, **settings)
    node.group()
    node.register("http://127.0.0.1:9001")
    return node


def let_lie(node: HandNode, *job_ids: int) -> None:
    """Give jobs a configuration that no check has seen."""
    with node.db.write() as conn:
        for job_id in job_ids:
            conn.exec_driver_sql(f"UPDATE job SET schedule_conf = 'lie' WHERE id = {job_id}")


@pytest.mark.parametrize("trusted", [True, False], ids=["at once", "on a thread"])
@pytest.mark.parametrize("lie", LIES)
def test_r4_a_schedule_type_that_lies_stops_its_own_job_by_name(sqlite_db: Database, lie: str, trusted: bool) -> None:
    answer, words = LIES[lie]
    kind = Lying(answer)
    node = lying_node(sqlite_db, kind, trusted=trusted)
    liar = node.job(schedule_type="LYING", schedule_conf="")
    twin = node.job(schedule_type="LYING", schedule_conf="")
    other = node.job(schedule_conf="1")
    let_lie(node, liar.id)
    kind.threads.clear()
    node.plan()
    stopped, honest = node.load(liar.id), node.load(twin.id)
    assert not stopped.enabled
    assert stopped.next_fire_ms is None
    assert words in stopped.schedule_error
    assert "schedule type LYING" in stopped.schedule_error
    # what was planned before it was asked stays
    assert [run.planned_ms for run in node.runs(liar.id)] == [liar.next_fire_ms]
    assert honest.enabled
    assert len(node.runs(twin.id)) == 5
    assert len(node.runs(other.id)) == 5
    here = threading.current_thread().name
    assert kind.threads == ({here} if trusted else {"xwheel-plugin-schedule type LYING"})


@pytest.mark.parametrize("trusted", [True, False], ids=["at once", "on a thread"])
def test_r5_no_transaction_is_open_while_a_schedule_type_is_asked(sqlite_db: Database, trusted: bool) -> None:
    held: list[bool] = []

    class Watching(Lying):
        awaits_completion = False

        def check(self, spec: ScheduleSpec) -> None:
            self.next_ms(spec, 0)

        def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int:
            held.append(sqlite_db.engine.pool.checkedout() > 0)  # type: ignore[attr-defined]
            return after_ms + 1000

    class Delayed(Watching):
        name = "DELAYED"
        awaits_completion = True

    def asked() -> int:
        """Return how often one was asked since the last call, never inside a transaction."""
        assert not any(held)
        count = len(held)
        held.clear()
        return count

    node = lying_node(sqlite_db, Watching(), Delayed(), trusted=trusted)
    node.plan()
    jobs = [node.job(schedule_type=name, schedule_conf="") for name in ("LYING", "DELAYED")]
    assert asked() == 4
    manager = node.scheduler.management.jobs
    manager.edit(jobs[0].id, {"timezone": "Asia/Tokyo"})
    assert asked() == 2
    manager.stop(jobs[0].id)
    manager.start(jobs[0].id)
    assert asked() == 1
    manager.stop(jobs[0].id)
    node.scheduler.management.jobs.change_many(BulkAction.START, [jobs[0].id])
    assert asked() == 1
    node.scheduler.management.schedules.save_calendar("feasts", {"dates": ["2031-01-01"]})
    manager.edit(jobs[0].id, {"calendar_exclude": ("feasts",)})
    asked()
    node.scheduler.management.schedules.save_calendar("feasts", {"dates": ["2031-01-02"]})
    assert asked() == 1
    node.plan()
    assert asked() == 5
    for _ in range(2):  # the first time it is learned inside a transaction that there is something to ask
        node.run_for(1500)
        held.clear()
        node.finish(node.answer())
        assert asked() == 1
        assert node.load(jobs[1].id).next_fire_ms == node.clock.now_ms() + 1000


@pytest.mark.parametrize("trusted", [True, False], ids=["at once", "on a thread"])
def test_r5_a_delay_that_changed_while_it_was_asked_is_asked_again(sqlite_db: Database, trusted: bool) -> None:
    class Delayed(Lying):
        name = "DELAYED"
        awaits_completion = True

        def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int:
            if edits:
                edits.pop()()
            return after_ms + int(spec.conf)

    edits: list[Callable[[], object]] = []
    node = lying_node(sqlite_db, Delayed(), trusted=trusted)
    job = node.job(schedule_type="DELAYED", schedule_conf="1000")
    node.run_for(1500)
    sent = node.answer()
    with node.db.write() as conn:
        conn.exec_driver_sql("UPDATE job SET schedule_conf = '7000'")
    edits.append(lambda: node.scheduler.management.jobs.edit(job.id, {"param": "edited meanwhile"}))
    node.finish(sent)
    after = node.load(job.id)
    assert not edits
    assert (after.param, after.awaits_root) == ("edited meanwhile", None)
    assert after.next_fire_ms == node.clock.now_ms() + 7000


def test_r5_a_schedule_type_that_hangs_stops_the_one_job_and_holds_nobody_up(
    sqlite_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    go_on, came = threading.Event(), threading.Semaphore(0)

    def hang(after_ms: int) -> int:
        go_on.wait(60)
        came.release()
        return after_ms + 1000

    node = lying_node(sqlite_db, Lying(hang), trusted=False, plugins={"call_timeout_s": 0.2})
    jobs = [node.job(schedule_type="LYING", schedule_conf="") for _ in range(5)]
    other = node.job(schedule_conf="1")
    let_lie(node, jobs[2].id)
    try:
        assert node.scheduler.planning.claim.step(node.clock.now_ms()) == 0
        assert len(node.runs(other.id)) == 5
        node.plan()
        stuck = node.load(jobs[2].id)
        assert not stuck.enabled
        assert stuck.schedule_error == "schedule type LYING did not answer within 0.2 s"
        assert [run.planned_ms for run in node.runs(stuck.id)] == [jobs[2].next_fire_ms]
        for job in (*jobs[:2], *jobs[3:]):
            assert node.load(job.id).enabled
            assert len(node.runs(job.id)) == 5
        assert node.scheduler.core.foreign.hanging() == {"schedule type LYING": 1}
    finally:
        go_on.set()
    assert came.acquire(timeout=60)


def test_r5_once_too_many_calls_hang_the_type_is_refused_by_name(
    sqlite_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    go_on = threading.Event()

    def hang(after_ms: int) -> int:
        go_on.wait(60)
        return after_ms + 1000

    node = lying_node(sqlite_db, Lying(hang), trusted=False, plugins={"call_timeout_s": 0.05})
    jobs = [node.job(schedule_type="LYING", schedule_conf="") for _ in range(7)]
    other = node.job(schedule_conf="1")
    let_lie(node, *(job.id for job in jobs))
    before = threading.active_count()
    try:
        node.plan()
        errors = [node.load(job.id).schedule_error for job in jobs]
        assert errors[:4] == ["schedule type LYING did not answer within 0.05 s"] * 4
        assert errors[4:] == ["schedule type LYING hangs in 4 calls: it is not called until one of them comes back"] * 3
        assert len(node.runs(other.id)) == 5
        assert threading.active_count() - before < 6
    finally:
        go_on.set()


def test_r5_what_changed_while_schedules_were_asked_is_planned_again(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lying_node(sqlite_db, trusted=True)
    job = node.job(schedule_conf="1")
    other = node.job(schedule_conf="1")
    claiming = node.scheduler.planning.claim
    real = claiming.planner.plan
    edits = [
        lambda: node.scheduler.management.jobs.edit(job.id, {"schedule_conf": "2"}),
        lambda: node.scheduler.management.jobs.stop(other.id),
    ]

    def plan(*args: Any, **options: Any) -> Any:
        planned = real(*args, **options)
        if edits:
            edits.pop(0)()
        return planned

    monkeypatch.setattr(claiming.planner, "plan", plan)
    assert claiming.step(NOW) == 0
    assert [run.job_id for run in node.runs()] == [other.id] * 5
    node.plan()
    edited = node.load(job.id)
    assert [run.planned_ms - edited.anchor_ms for run in node.runs(job.id)] == [2000, 4000]
    assert {run.state for run in node.runs(other.id)} == {RunState.CANCELLED}
