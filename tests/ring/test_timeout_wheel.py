"""What a wheel of timeouts promises; every test runs on the compiled one and on its twin."""

from __future__ import annotations

import gc
import math
import os
import random
import threading
import weakref
from types import ModuleType

import pytest

from xwheel import _timer, _timer_py
from xwheel.errors import TimerFullError, TimerStoppedError


@pytest.fixture(params=[_timer, _timer_py], ids=["compiled", "twin"])
def timer(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_calls_are_made_once_in_order_and_never_early(timer, clock):
    wheel = timer.TimeoutWheel(clock, 0.01, 8)
    made: list[str] = []
    for delay, name in [(0.5, "c"), (0.005, "a"), (0.005, "b"), (1.0, "d"), (-3, "now")]:
        wheel.schedule(delay, made.append, name)
    assert wheel.run_due(100.0) == 1
    assert wheel.run_due(100.004_999) == 0
    assert wheel.run_due(100.005) == 2
    assert wheel.run_due(102) == 2
    assert made == ["now", "a", "b", "c", "d"]
    assert wheel.run_due(200) == 0
    assert wheel.next_when() is None


def test_rounds_any_number_of_revolutions_ahead(timer, clock):
    """A revolution is 0.08 s; a call 1,000 revolutions ahead passes by its slot as often."""
    wheel = timer.TimeoutWheel(clock, 0.01, 8)
    made: list[int] = []
    for laps in (0, 1, 2, 255, 256, 257, 1_000):
        wheel.schedule(laps * 0.08 + 0.015, made.append, laps)
    turns = ((wheel.run_due(100 + tick * 0.01 + 0.009_999), tick) for tick in range(8_010))
    seen = [(made[-1], tick) for ran, tick in turns if ran]
    assert seen == [(laps, laps * 8 + 1) for laps in (0, 1, 2, 255, 256, 257, 1_000)]


def test_a_stall_makes_up_for_all_ticks(timer, clock):
    wheel = timer.TimeoutWheel(clock, 0.01, 8)
    made: list[int] = []
    numbers = list(range(500))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        wheel.schedule(number * 0.013, made.append, number)
    assert wheel.run_due(1_000) == 500
    assert made == sorted(numbers)


def test_cancelled_is_never_called_and_lets_go_at_once(timer, clock):
    class Held:
        def call(self) -> None:
            raise AssertionError("called")

    held = Held()
    gone = weakref.ref(held)
    wheel = timer.TimeoutWheel(clock)
    timeout = wheel.schedule(1, held.call)
    assert (timeout.is_cancelled, timeout.is_expired) == (False, False)
    del held
    assert gone() is not None
    assert timeout.cancel()
    assert gone() is None
    assert (timeout.is_cancelled, timeout.is_expired, timeout.callback, timeout.args) == (True, False, None, None)
    assert not timeout.cancel()
    assert wheel.run_due(200) == 0


def test_a_call_may_cancel_the_next_of_its_tick(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    made: list[str] = []
    later = []
    wheel.schedule(0.1, lambda: [timeout.cancel() for timeout in later])
    later.append(wheel.schedule(0.1, made.append, "later"))
    wheel.schedule(0.1, made.append, "last")
    assert wheel.run_due(200) == 2
    assert made == ["last"]
    assert later[0].is_cancelled


def test_a_call_may_schedule_and_what_is_due_waits_for_the_next_turn(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    made: list[int] = []

    def again(number: int) -> None:
        made.append(number)
        wheel.schedule(-1, again, number + 1)

    wheel.schedule(0, again, 0)
    assert [wheel.run_due(100) for _ in range(3)] == [1, 1, 1]
    assert made == [0, 1, 2]
    assert len(wheel) == 1


def test_expired_is_said_before_the_call(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    seen = []
    made = [wheel.schedule(0, lambda: seen.append((made[0].is_expired, made[0].cancel())))]
    wheel.run_due(100)
    assert seen == [(True, False)]


def test_what_a_call_raises_reaches_the_caller_and_the_rest_stays(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    made: list[int] = []

    def fail() -> None:
        raise KeyError("mine")

    wheel.schedule(0, fail)
    wheel.schedule(0.001, made.append, 1)
    with pytest.raises(KeyError, match="mine"):
        wheel.run_due(101)
    assert wheel.next_when() == 100.001
    assert wheel.run_due(101) == 1
    assert made == [1]


def test_turns_do_not_overlap(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    inner: list[int] = []
    wheel.schedule(0, lambda: inner.append(wheel.run_due(101)))
    wheel.schedule(0.5, inner.append, 7)
    assert wheel.run_due(101) == 2
    assert inner == [0, 7]


def test_limit(timer, clock):
    wheel = timer.TimeoutWheel(clock, limit=2)
    first = wheel.schedule(1, print)
    wheel.schedule(1, print)
    with pytest.raises(TimerFullError, match="2 timeouts wait"):
        wheel.schedule(1, print)
    first.cancel()
    wheel.schedule(1, print)
    assert len(wheel) == 2


@pytest.mark.parametrize("delay", [math.nan, math.inf, -math.inf, 9e9, 1e300])
def test_a_time_that_is_none_is_refused(timer, clock, delay):
    wheel = timer.TimeoutWheel(clock)
    with pytest.raises(ValueError, match="delay_s: .* is not a time within 285 years"):
        wheel.schedule(delay, print)
    with pytest.raises(ValueError, match="now: "):
        wheel.run_due(delay)
    assert len(wheel) == 0


def test_what_cannot_be_called_is_refused(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    with pytest.raises(TypeError, match="callback: a function is needed, not int"):
        wheel.schedule(1, 5)
    with pytest.raises(TypeError):
        wheel.schedule("1", print)
    with pytest.raises(TypeError, match="what schedule"):
        timer.Timeout()


@pytest.mark.parametrize(
    ("given", "word"), [({"tick_s": 0}, "tick_s"), ({"tick_s": 4000}, "tick_s"), ({"slots": 0}, "slots"),
                        ({"slots": 1 << 25}, "slots"), ({"limit": 0}, "limit"), ({"tick_s": math.nan}, "tick_s")],
)  # fmt: skip
def test_settings_out_of_range_are_named(timer, clock, given, word):
    with pytest.raises(ValueError, match=f"^{word}: "):
        timer.TimeoutWheel(clock, **given)


def test_closed(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    wheel.schedule(0, print)
    wheel._closed = True
    with pytest.raises(TimerStoppedError):
        wheel.schedule(1, print)
    assert wheel.run_due(200) == 0
    assert len(wheel.drain()) == 1


def test_drained_is_left_with_its_call(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    ends = [wheel.schedule(delay, print, delay) for delay in (3, 1, 2)]
    ends[2].cancel()
    left = wheel.drain()
    assert [(timeout.args, timeout.callback) for timeout in left] == [((1,), print), ((3,), print)]
    assert len(wheel) == 0
    assert left[0].cancel()
    assert len(wheel) == 0


def test_ten_threads_schedule_and_cancel(timer):
    """None is lost, none is made twice, and none that was cancelled is made."""
    clock = Clock()
    wheel = timer.TimeoutWheel(clock, 0.001, 64)
    made: list[tuple[int, int]] = []
    cancelled: list[tuple[int, int]] = []
    done = threading.Barrier(11)

    def work(thread: int) -> None:
        rng = random.Random(thread)
        for number in range(2_000):
            timeout = wheel.schedule(rng.random() * 0.3, made.append, (thread, number))
            if rng.random() < 0.5 and timeout.cancel():
                cancelled.append((thread, number))
        done.wait(60)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    while done.n_waiting < 10:
        clock.now += 0.001
        wheel.run_due(clock.now)
    done.wait(60)
    for thread in threads:
        thread.join()
    wheel.run_due(clock.now + 1)
    assert len(made) == len(set(made))
    assert len(wheel) == 0
    assert sorted(made + cancelled) == [(thread, number) for thread in range(10) for number in range(2_000)]


def test_many_cancelled_are_swept(timer, clock):
    """What was cancelled leaves long before its time: memory does not grow with calls that are always cancelled."""
    wheel = timer.TimeoutWheel(clock)
    kept = wheel.schedule(3_000, print)
    gone = []
    for number in range(30_000):
        timeout = wheel.schedule(3_600, print, number)
        if number % 1_000 == 0:
            gone.append(timeout)
        timeout.cancel()
    assert len(wheel) == 1
    assert wheel.next_when() <= kept.when
    assert wheel.drain() == [kept]


def test_a_wheel_that_is_dropped_lets_go_of_its_calls(timer, clock):
    class Held:
        def call(self) -> None: ...

    held = Held()
    gone = weakref.ref(held)
    wheel = timer.TimeoutWheel(clock)
    for delay in (1, 100, 1e6):
        wheel.schedule(delay, held.call)
    del held, wheel
    gc.collect()
    assert gone() is None


@pytest.mark.processes
def test_after_a_fork_another_threads_turn_is_forgotten(timer, clock):
    wheel = timer.TimeoutWheel(clock)
    results: list[int] = []

    def fork() -> None:
        child = os.fork()
        if not child:
            wheel._after_fork()
            wheel.schedule(0, results.append, 1)
            os._exit(wheel.run_due(200))
        results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    wheel.schedule(0, fork)
    wheel.run_due(100)
    assert results == [1]


def test_a_call_that_could_not_be_announced_does_not_wait(timer, clock):
    """As when a timer cannot start its thread: who schedules is told, and nothing is left behind."""

    class Wheel(timer.TimeoutWheel):
        def __init__(self):
            super().__init__(clock)
            self._wake_at = math.inf

        def _sooner(self, when):
            raise RuntimeError("no more threads")

    wheel = Wheel()
    with pytest.raises(RuntimeError, match="no more threads"):
        wheel.schedule(1, print)
    assert (len(wheel), wheel.drain()) == (0, [])
