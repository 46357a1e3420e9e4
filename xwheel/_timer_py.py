"""The wheel of timeouts in Python; :mod:`xwheel._timer` is the same, compiled.

It is the time ring's twin with a dictionary from its ids to the timeouts, and a lock.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from math import floor
from threading import RLock
from typing import Any

from xwheel._ring_py import TimeRing
from xwheel.errors import TimerFullError, TimerStoppedError

_NS = 1_000_000_000
_FARTHEST = 9_000_000_000  # seconds: as nanoseconds, 64 bits hold it
_LEAST_TICK_S, _MOST_TICK_S = 0.000_001, 3600


class Timeout:
    """A call that waits in a wheel; made by :meth:`TimeoutWheel.schedule`.

    Attributes:
        when: The time of the wheel's clock at which it is due, in seconds.
        callback: What will be called, and ``args`` with what; None and None once it was called or cancelled.
    """

    __slots__ = ("_wheel", "args", "callback", "is_cancelled", "is_expired", "key", "when")
    callback: Callable[..., object] | None
    args: tuple[Any, ...] | None
    when: float
    key: int
    is_cancelled: bool
    is_expired: bool
    _wheel: TimeoutWheel

    def __init__(self) -> None:
        raise TypeError("a Timeout is what schedule() returns")

    def cancel(self) -> bool:
        """Give the call up; return whether this kept it from being made."""
        with self._wheel._lock:
            if self.is_cancelled or self.is_expired:
                return False
            self.is_cancelled = True
            held = self._wheel._let_go(self)
        del held  # let go of here, since that may run anything
        return True

    def __repr__(self) -> str:
        state = "cancelled" if self.is_cancelled else "expired" if self.is_expired else "waiting"
        return f"<Timeout {state} when={self.when:.6f} callback={self.callback!r}>"


class TimeoutWheel:
    """Calls by their times, without a thread: time passes when :meth:`run_due` says so.

    A call is made once, at its time or later, never before; those that are due at once are made in order of their
    times, and then of their scheduling. Times are kept in nanoseconds.

    Args:
        clock: Gives the time in seconds, and never goes back, as ``time.monotonic``.
        tick_s: Width of a slot in seconds, 0.000001 to 3600.
        slots: Number of slots, rounded up to a power of two; one revolution is ``tick_s * slots``. Calls may lie any
            number of revolutions ahead.
        limit: Most calls that may wait; None for no limit.

    Raises:
        ValueError: If a width, count or limit is out of range.

    Thread-safety:
        All calls may come from any thread. One :meth:`run_due` works at a time; a second one does nothing.

    Attributes of those that inherit it:
        _wake_at: A call before this time of the clock is told to :meth:`_sooner`.
        _closed: Nothing more is taken, and no more calls are made.
        _submit: None to make calls where :meth:`run_due` is called; else given a function and its arguments.
    """

    def __init__(
        self, clock: Callable[[], float], tick_s: float = 0.001, slots: int = 4096, limit: int | None = None
    ) -> None:
        if not _LEAST_TICK_S <= tick_s <= _MOST_TICK_S:
            raise ValueError(f"tick_s: 0.000001 to 3600 seconds, not {tick_s}")
        if not 1 <= slots <= 1 << 24:
            raise ValueError(f"slots: 1 to 16777216, not {slots}")
        if limit is not None and limit < 1:
            raise ValueError(f"limit: at least 1, or None, not {limit}")
        self._clock = clock
        self._limit = sys.maxsize if limit is None else limit
        self._lock = RLock()
        self._ring = TimeRing(_nanoseconds(clock(), "clock"), int(tick_s * _NS), slots)
        self._waiting: dict[int, Timeout] = {}
        self._due: deque[int] = deque()
        self._last = 0
        self._running = self._closed = False
        self._wake_at = float("-inf")
        self._submit: Callable[..., object] | None = None

    def schedule(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timeout:
        """Make a call ``delay_s`` seconds from now, or at once if that is not above 0.

        Raises ValueError: the time is no number, or lies more than 285 years from the clock's zero; TypeError: that
        cannot be called; TimerFullError: as many wait as may; TimerStoppedError: it was stopped.
        """
        return self.schedule_at(self._clock() + delay_s, callback, *args)

    def schedule_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timeout:
        """Make a call at this time of the clock, in seconds; errors are those of :meth:`schedule`."""
        due = _nanoseconds(when, "delay_s")
        if not callable(callback):
            raise TypeError(f"callback: a function is needed, not {type(callback).__name__}")
        with self._lock:
            if self._closed:
                raise TimerStoppedError("the timer was stopped")
            if len(self._waiting) >= self._limit:
                raise TimerFullError(f"{self._limit} timeouts wait, which is the limit of this timer")
            timeout = Timeout.__new__(Timeout)
            timeout.when, timeout.callback, timeout.args = when, callback, args
            timeout.is_cancelled = timeout.is_expired = False
            timeout._wheel = self
            self._last += 1
            timeout.key = self._last
            self._waiting[timeout.key] = timeout
            self._ring.push(timeout.key, due)
        if when < self._wake_at:
            try:
                self._sooner(when)
            except BaseException:
                timeout.cancel()
                raise
        return timeout

    def _let_go(self, timeout: Timeout) -> tuple[Callable[..., object] | None, tuple[Any, ...] | None]:
        call = (timeout.callback, timeout.args)
        timeout.callback = timeout.args = None
        if self._waiting.pop(timeout.key, None) is not None:
            self._ring.cancel(timeout.key)
        return call

    def run_due(self, now: float) -> int:
        """Make the calls that are due at this time of the clock, in order; return how many.

        What a call raises goes to :meth:`_failed`, which raises it unless it is overridden; the others stay.
        """
        now_ns = _nanoseconds(now, "now")
        with self._lock:
            if self._running:
                return 0
            self._running = True
            self._due.extend(self._ring.advance(now_ns))
        made = 0
        try:
            while self._due and not self._closed:
                with self._lock:
                    timeout = self._waiting.get(self._due.popleft()) if self._due else None
                    if timeout is None:
                        continue
                    timeout.is_expired = True
                    callback, args = self._let_go(timeout)
                made += 1
                if self._submit is None:
                    self._guarded(callback, args)
                else:
                    try:
                        self._submit(self._guarded, callback, args)
                    except BaseException as error:
                        self._failed(callback, error)
        finally:
            self._running = False
        return made

    def _guarded(self, callback: Any, args: Any) -> None:
        try:
            callback(*args)
        except BaseException as error:
            self._failed(callback, error)

    def _failed(self, callback: Any, error: BaseException) -> None:  # noqa: ARG002 - for those that inherit it
        raise error

    def _sooner(self, when: float) -> None:
        """Be told of a call before ``_wake_at``."""

    def _after_fork(self) -> None:
        """Forget, in a child process, that another thread makes calls or holds the lock."""
        self._running = False
        self._lock = RLock()

    def next_when(self) -> float | None:
        """Return a time of the clock before which nothing is due, in seconds, or None if nothing waits."""
        with self._lock:
            for key in self._due:
                if key in self._waiting:
                    return self._waiting[key].when
            due = self._ring.next_due_ms()
            return None if due is None else due / _NS

    def drain(self) -> list[Timeout]:
        """Take out all that wait, in order; they will not be called."""
        with self._lock:
            keys = [*self._due, *(key for _, key in self._ring.drain())]
            self._due.clear()
            left = [self._waiting[key] for key in keys if key in self._waiting]
            self._waiting.clear()
        return left

    def __len__(self) -> int:
        return len(self._waiting)


def _nanoseconds(seconds: float, name: str) -> int:
    if not -_FARTHEST < seconds < _FARTHEST:
        raise ValueError(f"{name}: {seconds} is not a time within 285 years of the clock's zero, in seconds")
    return floor(seconds * _NS)
