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
    arm_ms: int = 0,
) -> TickLoop:
    parts: Any = (StubFiring(fire), DeferredRuns(lambda: None, limit=100), StubLease(may_fire))
    inbox = Inbox(lambda: None)
    return TickLoop(
        lambda at_ms: TimeRing(at_ms, 20), NOW, inbox, *parts, send_ms=3000, waiting_limit=waiting_limit, arm_ms=arm_ms
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


class Battery:
    """Notes which runs are fired when; those of group 1 may leave early, and ``full`` has no place for them."""

    def __init__(self, arm_ms: int = 300) -> None:
        self.fired: list[tuple[int, list[int]]] = []
        self.full = False
        self.loop = tick_loop(self.fire, arm_ms=arm_ms)
        self.loop.firing.may_leave_early = lambda runs, now_ms: {  # type: ignore[method-assign]
            run.id for run in runs if run.group_id == 1 and run.due_ms > now_ms
        }

    def fire(self, due: Sequence[Queued], now_ms: int) -> set[int]:
        left = {run.id for run in due if self.full and run.due_ms > now_ms}
        if sent := [run.id for run in due if run.id not in left]:
            self.fired.append((now_ms - NOW, sent))
        return left

    def put(self, group_id: int, *due_in_ms: int) -> None:
        first = 10 * group_id
        put(self.loop, [QueuedRun(first + n, 1, group_id, 1, 1, NOW + ms) for n, ms in enumerate(due_in_ms)])

    def run(self, until_ms: int) -> None:
        """Let the loop sleep and step as it wants to."""
        now_ms = 0
        while now_ms < until_ms:
            now_ms += self.loop.step(NOW + now_ms)


def test_runs_that_leave_early_go_together_100_to_300_ms_before_they_are_due() -> None:
    battery = Battery()
    battery.put(1, 600, 699, 700, 899, 900)
    battery.run(2000)
    assert battery.fired == [(400, [10, 11]), (600, [12, 13]), (800, [14])]
    assert battery.loop.depth() == (0, 0)


def test_others_go_when_they_are_due() -> None:
    battery = Battery()
    battery.put(1, 600)
    battery.put(2, 600, 40)
    battery.run(2000)
    assert battery.fired == [(40, [21]), (400, [10]), (600, [20])]


def test_without_time_to_arm_all_go_when_they_are_due() -> None:
    battery = Battery(arm_ms=0)
    battery.put(1, 600)
    battery.run(2000)
    assert battery.fired == [(600, [10])]


@pytest.mark.parametrize("arm_ms", [1, 50, 100, 101, 1000])
def test_none_leaves_sooner_than_it_may(arm_ms: int) -> None:
    battery = Battery(arm_ms)
    battery.put(1, *range(1500, 1800, 7))
    battery.run(3000)
    lead = [1500 + 7 * (run_id - 10) - at_ms for at_ms, fired in battery.fired for run_id in fired]
    assert len(lead) == 43
    assert max(lead) <= arm_ms
    assert min(lead) >= min(arm_ms, 100) - 20  # a tick


def test_what_comes_late_leaves_at_once() -> None:
    battery = Battery()
    battery.put(1, 80)
    battery.run(2000)
    assert battery.fired == [(0, [10])]


def test_what_finds_no_place_before_it_is_due_is_asked_again_then() -> None:
    battery = Battery()
    battery.full = True
    battery.put(1, 600)
    battery.run(2000)
    assert battery.fired == [(600, [10])]


def test_a_clock_that_is_set_back_forgets_nothing_that_may_leave_early() -> None:
    battery = Battery()
    battery.put(1, 600)
    battery.loop.step(NOW)
    battery.loop.step(NOW - 3_600_000)
    assert battery.loop.depth() == (1, 0)
    battery.run(2000)
    assert battery.fired == [(400, [10])]


def test_a_drain_lets_go_of_what_may_leave_early() -> None:
    battery = Battery()
    battery.put(1, 600)
    battery.loop.step(NOW)
    assert battery.loop.drain() == [10]
    assert battery.loop.depth() == (0, 0)
