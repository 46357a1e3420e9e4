"""The tick thread forgets nothing, whatever a batch does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.rows import NOW, make_run
from tests.support.stubs import StubFiring, StubLease
from xwheel.ring import TimeRing
from xwheel.scheduler.fire import tick
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.fire.tick import Inbox, TickLoop
from xwheel.scheduler.records import Deferred, Line, Queued
from xwheel.storage.runs import QueuedRun


def tick_loop(
    fire: Callable[[Sequence[Queued], int], set[int]],
    *,
    waiting_limit: int = 100,
    may_fire: Callable[..., bool] = lambda *_: True,
) -> TickLoop:
    parts: Any = (StubFiring(fire), DeferredRuns(lambda: None, limit=100), StubLease(may_fire))
    inbox = Inbox(lambda: None)
    return TickLoop(
        lambda at_ms: TimeRing(at_ms, 20), NOW, inbox, *parts, send_ms=3000, waiting_limit=waiting_limit
    )


def put(loop: TickLoop, runs: Sequence[Queued]) -> None:
    loop.inbox.put(runs)


def queued(count: int, group_id: int = 1, first: int = 1) -> list[QueuedRun]:
    return [QueuedRun(number, 1, group_id, 1, 1, NOW) for number in range(first, first + count)]


def test_runs_that_wait_survive_the_failure_of_a_later_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick, "FIRE_BATCH", 2)
    fired: list[int] = []

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        ids = [run.id for run in due]
        if 3 in ids and not fired:
            fired.append(0)
            raise OSError("the database went away")
        if 1 in ids and not fired:
            return {2}
        fired.extend(ids)
        return set()

    loop = tick_loop(fire, waiting_limit=100)
    put(loop, queued(2))
    put(loop, queued(4, group_id=2, first=3))
    with pytest.raises(OSError, match="went away"):
        loop.step(NOW)
    assert [number for number in range(1, 7) if loop.is_held(number)] == [2, 5, 6]
    loop.step(NOW + 20)
    assert sorted(fired) == [0, 2, 5, 6]
    assert loop.depth() == (0, 0)


def test_a_batch_without_any_place_is_asked_once_a_tick() -> None:
    calls: list[int] = []

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        calls.append(len(due))
        return {run.id for run in due}

    loop = tick_loop(fire, waiting_limit=10_000)
    put(loop, queued(2500))
    loop.step(NOW)
    assert calls == [1000]
    assert loop.depth() == (0, 2500)


def test_a_group_without_places_holds_up_no_other_and_keeps_its_order() -> None:
    sent: list[int] = []
    free = 3

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        nonlocal free
        left: set[int] = set()
        for run in due:
            if run.group_id == 1 and not free:
                left.add(run.id)
            else:
                free -= run.group_id == 1
                sent.append(run.id)
        return left

    loop = tick_loop(fire, waiting_limit=10_000)
    put(loop, queued(2500))
    put(loop, queued(1500, group_id=2, first=10_001))
    loop.step(NOW)
    assert sent[:3] == [1, 2, 3]
    assert sent[3:] == list(range(10_001, 11_501))
    free = 2
    loop.step(NOW + 20)
    assert sent[-2:] == [4, 5]
    assert loop.depth() == (0, 2495)


def test_a_line_that_hardly_moves_is_asked_near_its_head_only() -> None:
    asked: list[int] = []

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        asked.append(len(due))
        return {run.id for run in due[1:]}

    loop = tick_loop(fire, waiting_limit=10_000)
    put(loop, queued(2500))
    for step in range(3):
        loop.step(NOW + 20 * step)
    assert asked == [1000, 64, 64]


def test_too_many_waiting_runs_are_forgotten_from_the_ends_of_the_longest_lines() -> None:
    loop = tick_loop(lambda due, _: {run.id for run in due})
    put(loop, queued(150))
    put(loop, queued(10, group_id=2, first=1001))
    loop.step(NOW)
    assert loop.depth() == (0, 100)
    assert loop.overflowed == 60
    assert [number for number in (1, 90, 91, 150, 1001, 1010) if loop.is_held(number)] == [1, 90, 1001, 1010]


def test_after_a_step_back_each_run_fires_at_its_time() -> None:
    """What comes in then, and what the ring, a line or the deferred runs had before."""
    fired: list[int] = []
    places = 0

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        if not places:
            return {run.id for run in due}
        fired.extend(run.id for run in due)
        return set()

    loop = tick_loop(fire)
    far = QueuedRun(9, 1, 1, 1, 1, NOW + 5000)
    put(loop, [*queued(2), far])
    loop.step(NOW)
    loop.deferred.defer([Deferred(make_run(3, due_ms=NOW), Line("job", 1, ""))], NOW)
    places = 1
    back_ms = NOW - 600_000
    loop.step(back_ms)
    put(loop, [QueuedRun(4, 1, 1, 1, 1, back_ms + 40)])
    loop.step(back_ms + 40)
    assert fired == [4]
    assert all(loop.is_held(number) for number in (1, 2, 3, 9))
    loop.step(NOW)
    assert sorted(fired) == [1, 2, 3, 4]
    loop.step(NOW + 5000)
    assert fired[-1] == 9
    assert loop.depth() == (0, 0)


def test_a_run_that_is_adopted_again_is_decided_about_under_its_later_epoch() -> None:
    fired: list[Queued] = []

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        fired.extend(due)
        return set()

    loop = tick_loop(fire)
    put(loop, [QueuedRun(1, 1, 1, 1, 1, NOW + 100)])
    loop.step(NOW)
    put(loop, [QueuedRun(1, 1, 1, 1, 2, NOW + 100)])
    loop.step(NOW + 100)
    assert [(run.id, run.epoch) for run in fired] == [(1, 2)]


def test_nothing_fires_under_a_lease_that_a_send_would_outlast() -> None:
    fired: list[int] = []

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        fired.extend(run.id for run in due)
        return set()

    loop = tick_loop(fire, may_fire=lambda margin_ms=0: margin_ms < 3000)
    put(loop, queued(1))
    loop.step(NOW)
    assert fired == []


def test_what_comes_in_wakes_the_tick() -> None:
    woken: list[int] = []
    inbox = Inbox(lambda: woken.append(1))
    inbox.put([])
    assert woken == []
    inbox.put(queued(1))
    assert woken == [1]
