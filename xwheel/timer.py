"""Timers on the time ring, for programs that keep very many timeouts: for threads, asyncio, and under an event loop.

To schedule or to cancel costs the same however many wait. The wheel is the one of Varghese and Lauck ("Hashed and
hierarchical timing wheels", SOSP 1987), with what Netty's ``HashedWheelTimer`` promises: see
``docs/reference/timer.md``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import TYPE_CHECKING, Final, Self, TypeVarTuple

from xwheel.errors import TimerStoppedError
from xwheel.ring import COMPILED

if TYPE_CHECKING or not COMPILED:
    from xwheel._timer_py import Timeout, TimeoutWheel
else:
    from xwheel._timer import Timeout, TimeoutWheel

__all__ = ["AsyncWheelTimer", "Timeout", "WheelTimer", "WheelTimerMixin"]

log = logging.getLogger(__name__)

MOST_RUNNING: Final = 64
"""From here on, a start warns: a program needs one timer, or a few, and each has a thread."""
Ts = TypeVarTuple("Ts")
_NEVER: Final = math.inf
_AT_ONCE: Final = -math.inf

_running: weakref.WeakSet[WheelTimer] = weakref.WeakSet()


class WheelTimer(TimeoutWheel):
    """A wheel with a thread of its own, which makes the calls.

    The thread starts with the first call that is scheduled, wakes at the end of a tick in which something is due, and
    sleeps otherwise. A call is made up to a tick after its time, never before. In a child process after a fork the
    timer is new: the calls that wait are the parent's.

    Args:
        tick_s: Width of a tick in seconds, 0.000001 to 3600; calls of one tick are made together.
        slots: Slots of the wheel.
        limit: Most calls that may wait; None for no limit.
        executor: Where calls are made instead of on the timer's thread; it is not shut down with the timer.
        name: The thread's name.
        clock: Gives the time in seconds, and never goes back.

    Raises:
        ValueError: If a number is out of range.

    Thread-safety:
        All calls may come from any thread.
    """

    def __init__(
        self,
        *,
        tick_s: float = 0.01,
        slots: int = 4096,
        limit: int | None = None,
        executor: Executor | None = None,
        name: str = "wheel-timer",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock, tick_s, slots, limit)
        self._tick_s = tick_s
        self._now = clock
        self._name = name
        self._submit = executor.submit if executor is not None else None
        self._begin()

    def _begin(self) -> None:
        self._lock_state = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._wake_at = _NEVER  # the first call starts the thread

    @property
    def state(self) -> str:
        """``new``, ``running`` or ``stopped``."""
        return "stopped" if self._closed else "new" if self._thread is None else "running"

    def start(self) -> None:
        """Start the thread now, and not with the first call.

        Raises:
            TimerStoppedError: If it was stopped.
        """
        with self._lock_state:
            if self._closed:
                raise TimerStoppedError("the timer was stopped")
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads
                self._thread = None
                raise
            _running.add(self)
        if len(_running) > MOST_RUNNING:
            warnings.warn(
                f"{len(_running)} timers run in this process, each with a thread; one may be shared by all",
                RuntimeWarning,
                stacklevel=3,
            )

    def stop(self, timeout_s: float = 10.0) -> list[Timeout]:
        """Take nothing more, wait for the call that is being made, and end the thread.

        Return what waited and will not be called, in order. It waits ``timeout_s`` seconds for that call; the thread
        ends after it in any case. Raises RuntimeError if a call of this timer's thread stops it.
        """
        thread = self._thread
        if thread is threading.current_thread():
            raise RuntimeError("a timer cannot be stopped by one of its calls: it would wait for itself")
        with self._lock_state:
            self._closed = True
        self._wake.set()
        if thread is not None:
            thread.join(timeout_s)
            if thread.is_alive():
                log.warning("%s: a call did not end within %s s; the timer stops after it", self._name, timeout_s)
        _running.discard(self)
        return self.drain()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _work(self) -> None:
        while True:
            self._wake_at = _AT_ONCE  # what is scheduled by the calls is seen below
            self.run_due(self._now())
            self._wake.clear()
            self._wake_at = _NEVER  # what is scheduled from here on wakes this thread
            when = self.next_when()
            if self._closed:
                return
            if when is None:
                self._wake.wait()
                continue
            end = _end_of_tick(when, self._tick_s)
            self._wake_at = end - self._tick_s
            self._wake.wait(max(end - self._now(), 0))

    def _sooner(self, _: float) -> None:
        if self._thread is None:
            self.start()
        elif not self._wake.is_set():
            self._wake.set()

    def _failed(self, callback: Callable[..., object], error: BaseException) -> None:
        log.error("%s: %r raised", self._name, callback, exc_info=error)

    def _forked(self) -> None:
        """Be a new timer, in a child process: threads do not survive a fork."""
        self._after_fork()
        self.drain()
        self._begin()


def _end_of_tick(when: float, tick_s: float) -> float:
    return math.ceil(when / tick_s) * tick_s


def _after_fork() -> None:
    for timer in list(_running):
        timer._forked()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class AsyncWheelTimer(TimeoutWheel):
    """A wheel whose calls an event loop makes; the loop's own heap holds one timer for all of them.

    A call is made up to a tick after its time, never before, in the context in which the timer was made. What one
    raises goes to the loop's exception handler.

    Args:
        loop: The loop; None for the running one.
        tick_s: Width of a tick in seconds, 0.000001 to 3600; calls of one tick are made together.
        slots: Slots of the wheel.
        limit: Most calls that may wait; None for no limit.

    Thread-safety:
        As the loop's own ``call_later``: to be used by the loop's thread. From another one,
        ``loop.call_soon_threadsafe(timer.schedule, delay_s, callback)``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        tick_s: float = 0.01,
        slots: int = 4096,
        limit: int | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop() if loop is None else loop
        super().__init__(self._loop.time, tick_s, slots, limit)
        self._tick_s = tick_s
        self._armed: asyncio.TimerHandle | None = None
        self._wake_at = _NEVER

    def stop(self) -> list[Timeout]:
        """Take nothing more; return what waited and will not be called, in order."""
        self._closed = True
        self._disarm()
        return self.drain()

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _sooner(self, when: float) -> None:
        self._disarm()
        end = _end_of_tick(when, self._tick_s)
        self._wake_at = end - self._tick_s
        self._armed = self._loop.call_at(end, self._tick)

    def _tick(self) -> None:
        self._armed = None
        self._wake_at = _AT_ONCE  # what comes from the calls is seen below
        try:
            self.run_due(self._loop.time())
        finally:
            when = self.next_when()
            self._wake_at = _NEVER
            if when is not None and not self._closed:
                self._sooner(when)

    def _failed(self, callback: Callable[..., object], error: BaseException) -> None:
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise error
        self._loop.call_exception_handler(
            {"message": f"Exception in the timer's call {callback!r}", "exception": error}
        )


class _WheelHandle(asyncio.TimerHandle):
    __slots__ = ("timeout",)
    timeout: Timeout
    if TYPE_CHECKING:
        _source_traceback: list[object] | None


class _LoopWheel(TimeoutWheel):
    """The wheel of an event loop; due handles go to those that the loop runs next."""

    def __init__(self, loop: WheelTimerMixin) -> None:
        super().__init__(loop.time)
        self._loop = loop
        self._armed: asyncio.TimerHandle | None = None
        self._wake_at = _NEVER

    def _sooner(self, when: float) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._wake_at = when
        self._armed = self._loop.arm(when, self._tick)

    def _tick(self) -> None:
        self._armed = None
        self._wake_at = _AT_ONCE
        # the loop's clock may say a little less than the time at which it was to wake
        self.run_due(self._loop.time() + self._loop.resolution())
        when = self.next_when()
        self._wake_at = _NEVER
        if when is not None:
            self._sooner(when)


class WheelTimerMixin(asyncio.BaseEventLoop):
    """An event loop's ``call_later`` and ``call_at`` on a wheel.

    It is used as ``class Loop(WheelTimerMixin, asyncio.SelectorEventLoop)``. Everything that waits through them is on
    it: ``sleep``, ``wait_for``, ``timeout``, the timeouts of libraries. Times are kept as exactly as by the loop's own
    heap. The loop must keep time and run handles as :class:`asyncio.BaseEventLoop` does, so uvloop's cannot be used.
    """

    if TYPE_CHECKING:  # what the base class has and its stub does not say
        _debug: bool
        _clock_resolution: float
        _ready: deque[asyncio.Handle]

        def _check_closed(self) -> None: ...
        def _check_thread(self) -> None: ...
        def _check_callback(self, callback: object, method: str) -> None: ...

    _wheel: _LoopWheel | None = None

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Make a call at this time of the loop's clock; see :meth:`asyncio.loop.call_at`."""
        self._check_closed()
        if self._debug:
            self._check_thread()
            self._check_callback(callback, "call_at")
        if self._wheel is None:
            self._wheel = _LoopWheel(self)
        handle = _WheelHandle(when, callback, args, self, context)
        if handle._source_traceback:
            del handle._source_traceback[-1]
        handle.timeout = self._wheel.schedule_at(when, self._ready.append, handle)
        return handle

    def arm(self, when: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Make a call by the loop's own heap."""
        return super().call_at(when, callback)

    def resolution(self) -> float:
        """Return how far the loop's clock may be from a time it was told, in seconds."""
        return self._clock_resolution

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, _WheelHandle):
            handle.timeout.cancel()
        else:
            super()._timer_handle_cancelled(handle)  # type: ignore[misc]

    def close(self) -> None:
        """Close the loop; what waits is not called."""
        super().close()
        if self._wheel is not None:
            self._wheel.drain()
