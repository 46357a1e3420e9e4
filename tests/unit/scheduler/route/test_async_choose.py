"""Routers that ask executors: off the tick thread, bounded, and one that fails harms its own runs only."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.asking import ADDRESSES, PATIENCE_S, FirstAlive, FirstIdle, Hanging, Wire, wait_for
from tests.support.rows import NOW, make_executor, make_job, make_run
from tests.support.stubs import StubLoads, StubRegistry
from xwheel.clock import ManualClock
from xwheel.errors import RouteError
from xwheel.model import Job, RegisteredExecutor, Run
from xwheel.plugin import RouteContext
from xwheel.scheduler.executors.calls import ExecutorClient
from xwheel.scheduler.route import async_choose
from xwheel.scheduler.route.async_choose import AsyncChooser
from xwheel.scheduler.route.probes import Probes
from xwheel.wire.http import HttpResult


class RoutingNode:
    """A chooser with real threads and a hand-moved clock and network."""

    def __init__(self, *routers: Any, says: dict[str, bool | None] | None = None, limit: int = 100) -> None:
        self._others = set(threading.enumerate())
        self.clock = ManualClock(NOW)
        self.wire = Wire(dict.fromkeys(ADDRESSES, True) if says is None else says)
        self.back: list[int] = []
        registry: Any = StubRegistry()
        self.suspects: list[str] = registry.suspects
        self.probes = Probes(ExecutorClient(self.wire, registry, timeout_ms=1000), registry, self.clock)
        loads: Any = StubLoads()
        self.chooser = AsyncChooser(
            {router.name: router for router in routers},
            loads,
            self.probes,
            lambda runs: self.back.extend(run.id for run in runs),
            self.clock,
            limit=limit,
        )
        self.executors = [make_executor(address, instance=address) for address in ADDRESSES]

    def threads(self, router: str = "HANGS") -> list[threading.Thread]:
        """Return the threads in which a router of this node works or waits for work."""
        alive = set(threading.enumerate()) - self._others
        return [item for item in alive if item.name == f"xwheel-route-{router}"]

    def choose(self, run: Run, job: Job) -> Sequence[RegisteredExecutor] | None:
        return self.chooser.choose(run, job, self.executors, self.clock.now_ms())

    def settle(self, count: int) -> None:
        """Let executors answer until this many runs are back."""
        wait_for(lambda: self.probes.step(NOW) == 0 and len(self.back) >= count)

    def chosen(self, run: Run, job: Job) -> str:
        found = self.choose(run, job)
        assert found
        return found[0].address[-1]


def cases(name: str, count: int, job_id: int = 1) -> tuple[Job, list[Run]]:
    job = make_job(id=job_id, route_strategy=name)
    return job, [make_run(1000 * job_id + number, job_id=job_id) for number in range(count)]


def test_a_run_leaves_and_comes_back_with_the_first_that_lives() -> None:
    node = RoutingNode(FirstAlive(), says={ADDRESSES[0]: None, ADDRESSES[1]: True, ADDRESSES[2]: True})
    job, (run,) = cases("ALIVE", 1)
    assert node.choose(run, job) is None
    assert node.chooser.is_held(run.id)
    node.settle(1)
    assert node.back == [run.id]
    assert not node.chooser.is_held(run.id)
    assert node.chosen(run, job) == "2"
    assert node.suspects == ["1"]


def test_answers_are_kept_for_a_moment() -> None:
    node = RoutingNode(FirstAlive(), says={ADDRESSES[0]: False, ADDRESSES[1]: True, ADDRESSES[2]: False})
    job, runs = cases("ALIVE", 5)
    for number, run in enumerate(runs):
        node.choose(run, job)
        node.settle(number + 1)
    # the second and third were asked ahead, and once
    assert sorted(node.wire.calls) == [("1", "beat"), ("2", "beat"), ("3", "beat")]
    node.clock.advance(1000)
    again = make_run(99)
    node.choose(again, job)
    node.settle(6)
    assert len(node.wire.calls) == 6


def test_what_an_address_said_is_forgotten_once_it_cannot_be_reached() -> None:
    node = RoutingNode(FirstAlive())
    job, (run, other) = cases("ALIVE", 2)
    node.choose(run, job)
    node.settle(1)
    node.wire.says[ADDRESSES[0]] = None
    node.probes.discard(ADDRESSES[0])
    node.clock.advance(1)
    node.choose(other, job)
    node.settle(2)
    assert node.chosen(other, job) == "2"


def test_a_yes_to_an_idle_beat_counts_for_one_run() -> None:
    node = RoutingNode(FirstIdle())
    job, runs = cases("IDLE", 4)
    for run in runs:
        node.choose(run, job)
    node.settle(4)
    assert [node.chosen(run, job) for run in runs[:3]] == ["1", "2", "3"]
    with pytest.raises(RouteError, match="chose none of 3"):
        node.choose(runs[3], job)
    node.clock.advance(200)
    again = make_run(99)
    node.choose(again, job)
    node.settle(5)
    assert node.chosen(again, job) == "1"


def test_a_choice_is_asked_for_again_once_it_is_old_or_wrong() -> None:
    node = RoutingNode(FirstAlive())
    job, (run, other, third) = cases("ALIVE", 3)
    for item in (run, other, third):
        node.choose(item, job)
    node.settle(3)
    edited = make_job(route_strategy="ALIVE", revision=2)
    assert node.choose(run, edited) is None
    node.clock.advance(4999)
    assert node.choose(third, job)
    node.clock.advance(1)
    assert node.choose(third, job) is None
    node.settle(5)
    node.choose(other, job)
    node.settle(6)
    del node.executors[0]
    assert node.choose(other, job) is None
    node.settle(7)
    assert node.chosen(other, job) == "2"
    assert node.chooser.has_chosen(other.id)
    node.clock.advance(5000)
    node.chooser.step(node.clock.now_ms())
    assert not any(node.chooser.has_chosen(item.id) for item in (run, other, third))


def test_no_more_than_the_limit_are_out() -> None:
    node = RoutingNode(FirstAlive(), limit=2)
    job, runs = cases("ALIVE", 3)
    assert [node.choose(run, job) for run in runs] == [None, None, ()]
    node.settle(2)
    assert node.choose(runs[2], job) is None


def test_a_router_that_raises_or_returns_nonsense_fails_that_run_only() -> None:
    class Wild(FirstAlive):
        def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
            if context.job.id == 2:
                raise ValueError("not today")
            if context.job.id == 3:
                return [context]  # type: ignore[list-item]
            if context.job.id == 4:
                context.beat("http://127.0.0.1:1")
            return super().route(context)

    node = RoutingNode(Wild())
    made = [cases("ALIVE", 1, job_id) for job_id in (1, 2, 3, 4)]
    for job, (run,) in made:
        node.choose(run, job)
    node.settle(4)
    assert node.chosen(made[0][1][0], made[0][0]) == "1"
    for (job, (run,)), words in zip(made[1:], ("not today", "is no executor", "no live executor"), strict=True):
        with pytest.raises(RouteError, match=words):
            node.choose(run, job)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    router = Hanging()
    yield router
    router.go_on.set()


def test_a_router_that_hangs_fails_its_runs_and_holds_up_no_other(hanging: Hanging) -> None:
    node = RoutingNode(hanging, FirstAlive())
    stuck = [cases("HANGS", 1, job_id) for job_id in range(1, 8)]
    for job, (run,) in stuck:
        assert node.choose(run, job) is None
    for _ in range(async_choose.THREADS):
        assert hanging.inside.acquire(timeout=PATIENCE_S)
    job, (run,) = cases("ALIVE", 1, 50)
    node.choose(run, job)
    node.settle(1)
    assert node.chosen(run, job) == "1"
    node.clock.advance(async_choose.ROUTE_MS + 1)
    node.chooser.step(node.clock.now_ms())
    messages = []
    for job, (run,) in stuck:
        with pytest.raises(RouteError) as caught:
            node.choose(run, job)
        messages.append(str(caught.value))
    assert sum("did not choose within 30 s" in text for text in messages) == async_choose.THREADS
    assert sum("hangs in 4 calls" in text for text in messages) == 3
    assert len(node.chooser) == 0
    assert len(node.threads()) == async_choose.THREADS
    # as soon as it comes back it is called again
    hanging.go_on.set()
    wait_for(lambda: not node.threads())
    job, (run,) = cases("HANGS", 1, 60)
    assert node.choose(run, job) is None
    node.settle(9)
    assert node.chosen(run, job) == "1"


def test_runs_of_a_job_do_not_overtake_each_other() -> None:
    node = RoutingNode(FirstAlive())
    job, runs = cases("ALIVE", 50)
    for run in runs:
        node.choose(run, job)
    node.settle(50)
    assert node.back == [run.id for run in runs]


def test_stopping_lets_everybody_go_and_takes_nobody(hanging: Hanging) -> None:
    node = RoutingNode(hanging, FirstAlive(), says={})
    node.wire.poll = lambda timeout_ms: []  # type: ignore[method-assign,assignment]
    for name in ("HANGS", "ALIVE"):
        job, (run,) = cases(name, 1, 1 + len(name))
        node.choose(run, job)
    assert hanging.inside.acquire(timeout=PATIENCE_S)
    answer = node.probes.beat(node.executors[0])
    node.chooser.stop()
    node.probes.stop()
    with pytest.raises(RouteError, match="the node stops"):
        answer.result(0)
    assert node.threads()
    hanging.go_on.set()
    wait_for(lambda: not node.threads("ALIVE") and not node.threads())
    assert node.back == []
    assert node.choose(make_run(7), make_job(route_strategy="ALIVE")) == ()


@pytest.mark.parametrize(("status", "words"), [(503, ""), (200, "gave an unreadable answer")])
def test_only_an_answer_that_should_have_been_an_envelope_is_logged(
    status: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Old peers and busy proxies answer beats with an HTTP status each second: that is a no, and no news."""
    node = RoutingNode(FirstAlive())
    node.wire.answer = lambda call: HttpResult(  # type: ignore[method-assign]
        key=call.key, status=status, body=b"<html>", error="", sent=True, cost_ms=1
    )
    job, (run,) = cases("ALIVE", 1)
    node.choose(run, job)
    node.settle(1)
    with pytest.raises(RouteError, match="chose none"):
        node.choose(run, job)
    assert node.suspects == []
    assert (words in caplog.text) if words else not caplog.records
