"""Routers that lie, raise what no one expects or never come back fail their own runs by name, and stop no other."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from tests.support.asking import Hanging, wait_for
from tests.support.node import HandNode
from tests.support.rows import make_executor
from xwheel.model import RegisteredExecutor, RunState
from xwheel.plugin import RouteContext
from xwheel.scheduler.route import async_choose

ADDRESSES = ("http://127.0.0.1:9001", "http://127.0.0.1:9002", "http://127.0.0.1:9003")


class Lying:
    """A router that returns what a function makes of the context."""

    name = "LYING"
    asks = False

    def __init__(self, answer: Callable[[RouteContext], Any]) -> None:
        self.route = answer


class LazySequence(Sequence[Any]):
    """One that says that it is short, and never ends."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: Any) -> Any:
        return make_executor(f"http://127.0.0.1:{place}")


class HalfList(list[Any]):
    """One that fails while it is read."""

    def __iter__(self) -> Iterator[Any]:
        yield self[0]
        raise SystemExit("half way")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words either")


def raising(error: BaseException, context: RouteContext) -> Any:
    raise error


def halfway(context: RouteContext) -> Iterator[Any]:
    yield context.executors[0]
    raise KeyError("half way")


def with_none(context: RouteContext) -> Iterator[Any]:
    yield context.executors[0]
    yield None


def copied(context: RouteContext, **changes: Any) -> list[RegisteredExecutor]:
    return [dataclasses.replace(context.executors[0], **changes)]


LIES: dict[str, tuple[Callable[[RouteContext], Any], str]] = {
    "strange addresses": (lambda c: ["http://127.0.0.1:1"], "chose http://127.0.0.1:1, which it was not given"),
    "one address": (lambda c: c.executors[0].address, "returned 'http://127.0.0.1:9001' where a list"),
    "one executor": (lambda c: c.executors[0], "returned an object of RegisteredExecutor where a list"),
    "numbers": (lambda c: [0, 1], "chose 0, which is no executor"),
    "a huge number": (lambda c: [10**5000], "chose an object of int, which is no executor"),
    "a number": (lambda c: 7, "returned 7 where a list"),
    "None": (lambda c: None, "returned an object of NoneType where a list"),
    "a generator": (halfway, "returned an object of generator where a list"),
    "a generator with None": (with_none, "returned an object of generator where a list"),
    "a list with None": (lambda c: [c.executors[0], None], "chose an object of NoneType"),
    "nobody": (lambda c: [], "chose none of 3 executors"),
    "a set": (set, "failed: TypeError"),
    "5,000 executors": (
        lambda c: [make_executor(f"http://127.0.0.1:{port}") for port in range(10_000, 15_000)],
        "chose http://127.0.0.1:10000, which it was not given",
    ),
    "the same 5,000 times": (lambda c: list(c.executors[:1]) * 5000, "twice: each executor takes one shard"),
    "one twice": (lambda c: [*c.executors, c.executors[0]], "chose http://127.0.0.1:9001 twice"),
    "another port": (partial(copied, address="http://127.0.0.1:1"), "which it was not given"),
    "another journal": (partial(copied, instance="mine"), "which it was not given"),
    "no end": (lambda c: LazySequence(), "which it was not given"),
    "half a list": (lambda c: HalfList(c.executors), "SystemExit: half way"),
    "sys.exit()": (partial(raising, SystemExit(1)), "failed: SystemExit: 1"),
    "Ctrl-C": (partial(raising, KeyboardInterrupt()), "failed: KeyboardInterrupt"),
    "the end of a generator": (partial(raising, GeneratorExit()), "failed: GeneratorExit"),
    "an error without words": (partial(raising, UnspeakableError()), "UnspeakableError: .nothing that can be read."),
    "a change of its list": (lambda c: c.executors.clear(), "failed: AttributeError"),  # type: ignore[attr-defined]
    "a change of labels": (
        lambda c: c.executors[0].labels.update(zone="b"),  # type: ignore[attr-defined]
        "failed: AttributeError",
    ),
}


def install(node: HandNode, *routers: Any, trusted: bool) -> None:
    node.install_routers(*routers, trusted=None if trusted else node.scheduler.core.plugins.routers.trusted)


def name_router(node: HandNode, job_id: int, name: str) -> None:
    with node.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE job SET route_strategy = '{name}' WHERE id = {job_id}")


def one_of_each(node: HandNode, *names: str) -> list[int]:
    """Plan a run for a job of each router and one of an honest one; return the jobs, the honest one last."""
    made = []
    for name in (*names, "FIRST"):
        job = node.job(enabled=False)
        name_router(node, job.id, name)
        node.scheduler.management.run_now.run(job.id)
        made.append(job.id)
    return made


def settle(node: HandNode, count: int) -> None:
    """Fire until this many runs are no longer planned."""

    def is_done() -> bool:
        node.adopt()
        node.tick(20)
        return sum(run.state is not RunState.PLANNED for run in node.runs()) >= count

    wait_for(is_done)


@pytest.mark.parametrize("trusted", [True, False], ids=["at once", "on a thread"])
@pytest.mark.parametrize("lie", LIES)
def test_r4_a_router_that_lies_fails_its_own_run_by_name(sqlite_node: HandNode, lie: str, trusted: bool) -> None:
    answer, words = LIES[lie]
    sqlite_node.group()
    sqlite_node.register(*ADDRESSES, labels={"zone": "a"})
    install(sqlite_node, Lying(answer), trusted=trusted)
    liar, honest = one_of_each(sqlite_node, "LYING")
    settle(sqlite_node, 2)
    (failed,), (went,) = sqlite_node.runs(liar), sqlite_node.runs(honest)
    assert (failed.state, failed.reason) == (RunState.REFUSED, "no_route")
    assert failed.message.startswith(f"job {liar}: router LYING ")
    assert words.replace(".nothing that can be read.", "(nothing that can be read)") in failed.message
    assert went.state is RunState.DISPATCHING
    labels = {item.labels["zone"] for item in sqlite_node.scheduler.core.registry.all(sqlite_node.clock.now_ms())}
    assert labels == {"a"}


def test_r4_a_copy_a_tuple_and_a_lazy_sequence_of_the_executors_are_fine(sqlite_node: HandNode) -> None:
    class Lazy(Sequence[Any]):
        def __init__(self, items: Sequence[Any]) -> None:
            self._items = items

        def __len__(self) -> int:
            return len(self._items)

        def __getitem__(self, place: Any) -> Any:
            return self._items[place]

    class Kept:
        """Goes on changing the list that it returned."""

        name = "KEPT"
        asks = False

        def __init__(self) -> None:
            self.given: list[RegisteredExecutor] = []

        def route(self, context: RouteContext) -> list[RegisteredExecutor]:
            self.given.clear()
            self.given.append(context.executors[len(context.job.name) % 3])
            return self.given

    routers = [Lying(copied), Lying(lambda c: Lazy(c.executors)), Lying(tuple), Kept()]
    for number, item in enumerate(routers[:3]):
        item.name = f"FINE{number}"
    routers[2].route = lambda context: tuple(context.executors)  # type: ignore[union-attr]
    sqlite_node.group()
    sqlite_node.register(*ADDRESSES)
    install(sqlite_node, *routers, trusted=True)
    made = one_of_each(sqlite_node, "FINE0", "FINE1", "FINE2", "KEPT")
    settle(sqlite_node, 9)
    assert [len(sqlite_node.runs(job_id)) for job_id in made] == [1, 3, 3, 1, 1]
    assert {run.state for run in sqlite_node.runs()} == {RunState.DISPATCHING}


def test_r4_only_trusted_routers_work_on_the_tick_thread_also_behind_another(sqlite_node: HandNode) -> None:
    seen: dict[str, set[str]] = {}

    class Foreign(Lying):
        def __init__(self, name: str) -> None:
            self.name = name

        def route(self, context: RouteContext) -> Any:  # type: ignore[override]
            seen.setdefault(self.name, set()).add(threading.current_thread().name)
            return context.executors[-1:]

    class Behind(Foreign):
        """Ours, which lets another one choose."""

        def route(self, context: RouteContext) -> Any:  # type: ignore[override]
            try:
                other = context.routers.get("FOREIGN")
            except Exception:  # a router that is careful
                other = None
            assert other is not None
            return other.route(context)

    sqlite_node.group()
    sqlite_node.register(*ADDRESSES)
    ours = sqlite_node.scheduler.core.plugins.routers.trusted
    routers = (Foreign("FOREIGN"), Behind("BEHIND"), Foreign("OURS"))
    sqlite_node.install_routers(*routers, trusted=ours | {"BEHIND", "OURS"})
    made = one_of_each(sqlite_node, "FOREIGN", "BEHIND", "OURS")
    settle(sqlite_node, 4)
    assert seen["FOREIGN"] == {"xwheel-route-FOREIGN", "xwheel-route-BEHIND"}
    assert seen["OURS"] == {threading.current_thread().name}
    assert [run.address for job_id in made for run in sqlite_node.runs(job_id)] == [*[ADDRESSES[2]] * 3, ADDRESSES[0]]
    # no one was asked for, so a refused connection is no reason for another attempt
    assert not any(sqlite_node.scheduler.routing.async_chooser.has_chosen(run.id) for run in sqlite_node.runs())


def test_r4_a_router_that_is_not_trusted_and_hangs_fails_its_run_and_holds_up_nobody(sqlite_node: HandNode) -> None:
    hanging = Hanging()
    hanging.asks = False
    sqlite_node.group()
    sqlite_node.register(*ADDRESSES)
    install(sqlite_node, hanging, trusted=False)
    try:
        stuck, honest = one_of_each(sqlite_node, "HANGS")
        settle(sqlite_node, 1)
        assert hanging.inside.acquire(timeout=60)
        assert [run.state for run in sqlite_node.runs(honest)] == [RunState.DISPATCHING]
        sqlite_node.clock.advance(async_choose.ROUTE_MS + 1)
        sqlite_node.keep_lease()
        sqlite_node.register(*ADDRESSES)
        sqlite_node.scheduler.routing.async_chooser.step(sqlite_node.clock.now_ms())
        settle(sqlite_node, 2)
    finally:
        hanging.go_on.set()
    (failed,) = sqlite_node.runs(stuck)
    assert (failed.state, failed.reason) == (RunState.REFUSED, "no_route")
    assert "router HANGS did not choose within 30 s" in failed.message
