"""Routers that ask executors: off the tick thread, bounded, and one that fails harms its own runs only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW, make_executor, make_job, make_run
from xwheel.errors import RouteError
from xwheel.model import Job, RegisteredExecutor, Run, RunState
from xwheel.plugin import RouteContext
from xwheel.plugin.registry import Registry
from xwheel.scheduler import asking
from xwheel.scheduler.asking import Asker
from xwheel.scheduler.beats import Beats
from xwheel.scheduler.ports import Fate
from xwheel.scheduler.route import Chooser
from xwheel.scheduler.route import route as call_router
from xwheel.storage.engine import Database
from xwheel.testing import ManualClock
from xwheel.wire.http import HttpCall, HttpResult

PATIENCE_S = 60
ADDRESSES = [f"http://127.0.0.1:900{number}" for number in (1, 2, 3)]


class Wire:
    """Executors as a table: what each address answers to a path, or None for a refused connection."""

    def __init__(self, says: dict[str, bool | None]) -> None:
        self.says = says
        self.calls: list[tuple[str, str]] = []
        self._waiting: list[HttpCall] = []

    def submit(self, call: HttpCall) -> None:
        self._waiting.append(call)

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        del timeout_ms
        calls, self._waiting = self._waiting, []
        return [self._answer(call) for call in calls]

    def _answer(self, call: HttpCall) -> HttpResult:
        address, _, path = call.url.rpartition("/")
        self.calls.append((address[-1], path))
        said = self.says.get(address)
        if said is None:
            return HttpResult(key=call.key, status=0, body=b"", error="refused", sent=False, cost_ms=1)
        code = 200 if said else 500
        return HttpResult(
            key=call.key, status=200, body=b'{"code":%d}' % code, error="", sent=True, cost_ms=1
        )

    def wake(self) -> None: ...

    def close(self) -> None: ...


class FirstAlive:
    name = "ALIVE"
    asks = True

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        return [item for item in context.executors if context.beat(item.address)][:1]


class FirstIdle:
    name = "IDLE"
    asks = True

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        for item in context.executors:
            if context.idle_beat(item.address):
                return [item]
        return []


class Hanging:
    name = "HANGS"
    asks = True

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.inside = threading.Semaphore(0)

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        self.inside.release()
        self.go_on.wait(PATIENCE_S)
        return context.executors[:1]


class Desk:
    """An asker with real threads and a hand-moved clock and network."""

    def __init__(self, *routers: Any, says: dict[str, bool | None] | None = None, limit: int = 100) -> None:
        self.clock = ManualClock(NOW)
        self.wire = Wire(dict.fromkeys(ADDRESSES, True) if says is None else says)
        self.suspects: list[str] = []
        self.back: list[int] = []
        known = {router.name: router for router in routers}
        self.beats = Beats(
            self.wire,
            lambda _: "demo",
            lambda address, _: self.suspects.append(address[-1]),
            self.clock,
            timeout_ms=1000,
        )
        self.asker = Asker(
            lambda job, executors, **more: call_router(job, executors, known, **more),
            self.beats,
            lambda runs: self.back.extend(run.id for run in runs),
            self.clock,
            limit=limit,
        )
        self.executors = [make_executor(address, instance=address) for address in ADDRESSES]

    def choose(self, run: Run, job: Job) -> Sequence[RegisteredExecutor] | None:
        return self.asker.choose(run, job, self.executors, self.clock.now_ms())

    def settle(self, count: int) -> None:
        """Let executors answer until so many runs are back."""
        wait_for(lambda: self.beats.step(NOW) == 0 and len(self.back) >= count)

    def chosen(self, run: Run, job: Job) -> str:
        found = self.choose(run, job)
        assert found
        return found[0].address[-1]


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def cases(name: str, count: int, job_id: int = 1) -> tuple[Job, list[Run]]:
    job = make_job(id=job_id, route_strategy=name)
    return job, [make_run(1000 * job_id + number, job_id=job_id) for number in range(count)]


def test_a_run_leaves_and_comes_back_with_the_first_that_lives() -> None:
    desk = Desk(FirstAlive(), says={ADDRESSES[0]: None, ADDRESSES[1]: True, ADDRESSES[2]: True})
    job, (run,) = cases("ALIVE", 1)
    assert desk.choose(run, job) is None
    assert desk.asker.is_held(run.id)
    desk.settle(1)
    assert desk.back == [run.id]
    assert not desk.asker.is_held(run.id)
    assert desk.chosen(run, job) == "2"
    assert desk.suspects == ["1"]


def test_answers_are_kept_for_a_moment() -> None:
    desk = Desk(FirstAlive(), says={ADDRESSES[0]: False, ADDRESSES[1]: True, ADDRESSES[2]: False})
    job, runs = cases("ALIVE", 5)
    for number, run in enumerate(runs):
        desk.choose(run, job)
        desk.settle(number + 1)
    # the second and third were asked ahead, and once
    assert sorted(desk.wire.calls) == [("1", "beat"), ("2", "beat"), ("3", "beat")]
    desk.clock.advance(1000)
    again = make_run(99)
    desk.choose(again, job)
    desk.settle(6)
    assert len(desk.wire.calls) == 6


def test_what_an_address_said_is_forgotten_once_it_cannot_be_reached() -> None:
    desk = Desk(FirstAlive())
    job, (run, other) = cases("ALIVE", 2)
    desk.choose(run, job)
    desk.settle(1)
    desk.wire.says[ADDRESSES[0]] = None
    desk.beats.doubt(ADDRESSES[0])
    desk.clock.advance(1)
    desk.choose(other, job)
    desk.settle(2)
    assert desk.chosen(other, job) == "2"


def test_a_yes_to_an_idle_beat_counts_for_one_run() -> None:
    desk = Desk(FirstIdle())
    job, runs = cases("IDLE", 4)
    for run in runs:
        desk.choose(run, job)
    desk.settle(4)
    assert [desk.chosen(run, job) for run in runs[:3]] == ["1", "2", "3"]
    with pytest.raises(RouteError, match="chose none of 3"):
        desk.choose(runs[3], job)
    desk.clock.advance(200)
    again = make_run(99)
    desk.choose(again, job)
    desk.settle(5)
    assert desk.chosen(again, job) == "1"


def test_a_choice_is_asked_for_again_once_it_is_old_or_wrong() -> None:
    desk = Desk(FirstAlive())
    job, (run, other, third) = cases("ALIVE", 3)
    for item in (run, other, third):
        desk.choose(item, job)
    desk.settle(3)
    edited = make_job(route_strategy="ALIVE", revision=2)
    assert desk.choose(run, edited) is None
    del desk.executors[0]
    assert desk.choose(other, job) is None
    desk.clock.advance(5000)
    assert desk.choose(third, job) is None
    desk.settle(6)
    assert desk.chosen(other, job) == "2"
    desk.clock.advance(5000)
    desk.asker.step(desk.clock.now_ms())
    assert not desk.asker._choices


def test_no_more_than_the_limit_are_out() -> None:
    desk = Desk(FirstAlive(), limit=2)
    job, runs = cases("ALIVE", 3)
    assert [desk.choose(run, job) for run in runs] == [None, None, ()]
    desk.settle(2)
    assert desk.choose(runs[2], job) is None


def test_a_router_that_raises_or_returns_nonsense_fails_that_run_only() -> None:
    class Wild(FirstAlive):
        def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
            if context.job.id == 2:
                raise ValueError("not today")
            if context.job.id == 3:
                return ["http://elsewhere"]  # type: ignore[list-item]
            if context.job.id == 4:
                context.beat("http://127.0.0.1:1")
            return super().route(context)

    desk = Desk(Wild())
    made = [cases("ALIVE", 1, job_id) for job_id in (1, 2, 3, 4)]
    for job, (run,) in made:
        desk.choose(run, job)
    desk.settle(4)
    assert desk.chosen(made[0][1][0], made[0][0]) == "1"
    for (job, (run,)), words in zip(
        made[1:], ("not today", "AttributeError", "no live executor"), strict=True
    ):
        with pytest.raises(RouteError, match=words):
            desk.choose(run, job)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    router = Hanging()
    yield router
    router.go_on.set()


def test_a_router_that_hangs_fails_its_runs_and_holds_up_no_other(hanging: Hanging) -> None:
    desk = Desk(hanging, FirstAlive())
    stuck = [cases("HANGS", 1, job_id) for job_id in range(1, 8)]
    for job, (run,) in stuck:
        assert desk.choose(run, job) is None
    for _ in range(asking.CREW):
        assert hanging.inside.acquire(timeout=PATIENCE_S)
    job, (run,) = cases("ALIVE", 1, 50)
    desk.choose(run, job)
    desk.settle(1)
    assert desk.chosen(run, job) == "1"
    desk.clock.advance(asking.ROUTE_MS + 1)
    desk.asker.step(desk.clock.now_ms())
    messages = []
    for job, (run,) in stuck:
        with pytest.raises(RouteError) as caught:
            desk.choose(run, job)
        messages.append(str(caught.value))
    assert sum("did not choose within 30 s" in text for text in messages) == asking.CREW
    assert sum("hangs in 4 calls" in text for text in messages) == 3
    assert len(desk.asker) == 0
    # as soon as it comes back it is called again
    hanging.go_on.set()
    wait_for(lambda: desk.asker._crews["HANGS"].lost == 0)
    job, (run,) = cases("HANGS", 1, 60)
    assert desk.choose(run, job) is None
    desk.settle(9)
    assert desk.chosen(run, job) == "1"


def test_runs_of_a_job_do_not_overtake_each_other() -> None:
    desk = Desk(FirstAlive())
    job, runs = cases("ALIVE", 50)
    for run in runs:
        desk.choose(run, job)
    desk.settle(50)
    assert desk.back == [run.id for run in runs]


def test_stopping_lets_everybody_go_and_takes_nobody(hanging: Hanging) -> None:
    desk = Desk(hanging, FirstAlive(), says={})
    desk.wire.poll = lambda timeout_ms: []  # type: ignore[method-assign,assignment]
    for name in ("HANGS", "ALIVE"):
        job, (run,) = cases(name, 1, 1 + len(name))
        desk.choose(run, job)
    assert hanging.inside.acquire(timeout=PATIENCE_S)
    desk.asker.stop()
    desk.beats.stop()
    hanging.go_on.set()
    wait_for(lambda: not any(item.threads for item in desk.asker._crews.values()))
    assert desk.back == []
    assert desk.choose(make_run(7), make_job(route_strategy="ALIVE")) == ()


# in the pipeline


def asking_node(db: Database, *routers: Any, says: dict[str, bool | None]) -> HandNode:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register(*ADDRESSES)
    pipeline = node.scheduler
    known = {**pipeline.plugins.routers, **{router.name: router for router in routers}}
    pipeline.beats._client = Wire(says)
    registry: Any = Registry("router", known, {})
    pipeline.asker._route = lambda job, executors, **more: call_router(job, executors, registry, **more)
    pipeline.firing._choose = Chooser(registry, pipeline.asker, pipeline.loads).choose
    return node


def come_back(node: HandNode) -> None:
    wait_for(lambda: node.scheduler.beats.step(node.clock.now_ms()) == 0 and len(node.scheduler.asker) == 0)
    node.tick(20)


def ask_for(node: HandNode, name: str, **changes: Any) -> Job:
    job = node.job(enabled=False, **changes)
    with node.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE job SET route_strategy = '{name}' WHERE id = {job.id}")
    return node.load(job.id)


def test_a_run_goes_to_the_one_that_lives_and_others_do_not_wait(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says={ADDRESSES[1]: True, ADDRESSES[2]: True})
    job, plain = ask_for(node, "ALIVE"), node.job(enabled=False)
    for item in (job, plain):
        node.scheduler.manager.run_now(item.id)
    node.run_for(300)
    assert {shard.run.job_id for parcel in node.sent for shard in parcel.shards} == {plain.id}
    (asked,) = node.runs(job.id)
    assert asked.state is RunState.PLANNED
    assert node.scheduler._is_held(asked.id)
    come_back(node)
    node.answer()
    (run,) = node.runs(job.id)
    assert (run.state, run.address) == (RunState.RUNNING, ADDRESSES[1])


def test_what_is_cancelled_or_edited_meanwhile_follows_its_row(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says=dict.fromkeys(ADDRESSES, True))
    gone, edited = ask_for(node, "ALIVE"), ask_for(node, "ALIVE")
    planned = [node.scheduler.manager.run_now(item.id) for item in (gone, edited)]
    node.run_for(300)
    node.scheduler.manager.delete(gone.id)
    node.scheduler.manager.edit(edited.id, {"route_strategy": "LAST", "param": "new"})
    come_back(node)
    node.run_for(300)
    (sent,) = [shard for parcel in node.sent for shard in parcel.shards]
    assert (sent.run.id, sent.executor.address, sent.job.param) == (planned[1].id, ADDRESSES[2], "new")
    assert node.runs(gone.id)[0].state is RunState.CANCELLED


def test_an_old_lease_fences_nothing_that_comes_back(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says=dict.fromkeys(ADDRESSES, True))
    job = ask_for(node, "ALIVE")
    node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    heir = node.successor()
    come_back(node)
    assert node.sent == []
    assert node.runs(job.id)[0].state is RunState.PLANNED
    assert heir.scheduler.lease.may_act()


def test_when_nobody_answers_the_run_is_refused_with_the_reason(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says={})
    job = ask_for(node, "ALIVE", max_retries=1)
    node.scheduler.manager.run_now(job.id)
    node.run_for(300)
    come_back(node)
    first, second = node.runs(job.id)
    assert (first.state, first.reason) == (RunState.REFUSED, "no_route")
    assert "router ALIVE chose none of 3" in first.message
    assert second.attempt == 2
    live = node.scheduler.registry.live(1, node.clock.now_ms())
    assert all(item.suspect_until_ms for item in live)


def test_when_the_chosen_one_is_gone_at_the_send_the_next_gets_it(sqlite_db: Database) -> None:
    says: dict[str, bool | None] = dict.fromkeys(ADDRESSES, True)
    node = asking_node(sqlite_db, FirstAlive(), says=says)
    job, plain = ask_for(node, "ALIVE"), node.job(enabled=False)
    for item in (job, plain):
        node.scheduler.manager.run_now(item.id)
    node.run_for(300)
    come_back(node)
    says[ADDRESSES[0]] = None
    assert {run.address for run in node.answer(Fate.REFUSED)} == {ADDRESSES[0]}
    node.run_for(300)
    come_back(node)
    node.answer()
    first, second = node.runs(job.id)
    assert (first.state, first.reason) == (RunState.REFUSED, "failed_over")
    assert (second.state, second.address, second.attempt) == (RunState.RUNNING, ADDRESSES[1], 2)
    assert second.retries_left == first.retries_left == 0
    # a router that asks nobody leaves it to the job's retries
    assert [(run.state, run.reason) for run in node.runs(plain.id)] == [
        (RunState.REFUSED, "executor_refused")
    ]
