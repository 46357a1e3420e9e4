"""How many runs each executor has, for routers that ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.rows import NOW, make_executor
from xwheel.clock import ManualClock
from xwheel.scheduler.executors.loads import WANTED_MS, Loads

FIRST, SECOND = make_executor("http://127.0.0.1:9001"), make_executor("http://127.0.0.1:9002")


class Counted:
    """A database in which counting runs is a function."""

    def __init__(self, count: Callable[[], dict[str, int]]) -> None:
        self._count = count

    @contextmanager
    def read(self) -> Iterator[Counted]:
        yield self

    def execute(self, query: object) -> list[tuple[str, int]]:
        del query
        return list(self._count().items())


def test_nothing_is_counted_while_nobody_asks() -> None:
    clock = ManualClock(NOW)
    counted: list[int] = []
    loads = Loads(Counted(lambda: counted.append(1) or {FIRST.address: 7}), clock)  # type: ignore[arg-type]
    loads.step(NOW)
    assert not counted
    assert loads.load(FIRST.address) == 0
    loads.chosen([SECOND], NOW)
    assert loads.step(NOW) > 0
    assert loads.load(FIRST.address) == 7
    loads.chosen([SECOND], NOW)
    clock.advance(WANTED_MS + 1)
    loads.step(NOW)
    assert counted == [1]
    # a router on a thread of its own asks, too
    assert loads.load(FIRST.address) == 0
    loads.step(NOW)
    assert loads.load(FIRST.address) == 7


def test_what_was_sent_counts_until_it_is_counted_and_what_was_chosen_for_a_batch() -> None:
    clock = ManualClock(NOW)
    rows = {FIRST.address: 1}
    loads = Loads(Counted(lambda: dict(rows)), clock)  # type: ignore[arg-type]
    loads.chosen([FIRST], NOW)
    loads.chosen([FIRST], NOW)
    assert loads.load(FIRST.address) == 2
    loads.sent(FIRST.address, 2)
    loads.chosen([SECOND], NOW + 20)
    assert loads.load(FIRST.address) == 2
    rows[FIRST.address] = 3
    loads.step(NOW)
    assert loads.load(FIRST.address) == 3
    assert loads.load(SECOND.address) == 1
