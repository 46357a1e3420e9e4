"""Random operations on both wheels of timeouts at once, compared with a sorted list."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from xwheel import _timer, _timer_py
from xwheel.errors import TimerFullError

# a revolution of these wheels is 0.064 to 0.16 s, so that the larger steps are stalls and far calls are laps ahead
DELAYS = st.one_of(st.floats(-0.05, 0.2), st.floats(0, 30), st.sampled_from([0.0, 0.02, 0.02, 0.04]))


class WheelMachine(RuleBasedStateMachine):
    """The model is a list of (due, sequence, number), and does everything the slow way."""

    @initialize(start=st.floats(-10, 1e6), tick_ms=st.integers(1, 20), limit=st.integers(5, 40))
    def start(self, start: float, tick_ms: int, limit: int) -> None:
        self.now = start
        self.wheels = [made.TimeoutWheel(lambda: self.now, tick_ms / 1000, 8, limit) for made in (_timer, _timer_py)]
        self.made: list[list[int]] = [[], []]
        self.timeouts: list[list[_timer.Timeout]] = [[], []]
        self.limit = limit
        self.waiting: list[tuple[float, int]] = []

    @rule(delay=DELAYS)
    def schedule(self, delay: float) -> None:
        number = len(self.timeouts[0])
        for wheel, made, timeouts in zip(self.wheels, self.made, self.timeouts, strict=True):
            if len(self.waiting) == self.limit:
                try:
                    wheel.schedule(delay, print)
                except TimerFullError:
                    continue
                raise AssertionError("a call was taken above the limit")
            timeouts.append(wheel.schedule(delay, made.append, number))
            assert timeouts[-1].when == self.now + delay
        if len(self.waiting) < self.limit:
            # both keep whole nanoseconds
            self.waiting.append(((self.now + delay) * 1e9 // 1, number))
            self.waiting.sort()

    @rule(place=st.integers(0, 60))
    def cancel(self, place: int) -> None:
        if place >= len(self.timeouts[0]):
            return
        waits = [pair for pair in self.waiting if pair[1] == place]
        for timeouts in self.timeouts:
            timeout = timeouts[place]
            assert timeout.cancel() == bool(waits)
            assert not timeout.cancel()
            assert timeout.is_cancelled != timeout.is_expired
            assert timeout.callback is None
        for pair in waits:
            self.waiting.remove(pair)

    @rule(step=st.one_of(st.floats(0, 0.05), st.floats(0, 40)))
    def let_time_pass(self, step: float) -> None:
        self.now += step
        now_ns = self.now * 1e9 // 1
        due = [number for at, number in self.waiting if at <= now_ns]
        self.waiting = [pair for pair in self.waiting if pair[0] > now_ns]
        for wheel, made, timeouts in zip(self.wheels, self.made, self.timeouts, strict=True):
            assert wheel.run_due(self.now) == len(due)
            assert made == due
            assert all(timeouts[number].is_expired for number in due)
            made.clear()

    @rule()
    def drain(self) -> None:
        left = [number for _, number in self.waiting]
        for wheel, timeouts in zip(self.wheels, self.timeouts, strict=True):
            assert wheel.drain() == [timeouts[number] for number in left]
            for number in left:
                assert timeouts[number].args == (number,)
                assert timeouts[number].cancel()
        self.waiting.clear()

    @invariant()
    def the_rest_waits(self) -> None:
        for wheel in getattr(self, "wheels", ()):
            assert len(wheel) == len(self.waiting)
            when = wheel.next_when()
            assert (when is None) == (not self.waiting)
            if when is not None:
                assert when * 1e9 <= self.waiting[0][0] + 1_000  # a double of a million seconds has that much of error


TestWheels = WheelMachine.TestCase
TestWheels.settings = settings(stateful_step_count=40)
