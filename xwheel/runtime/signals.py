"""SIGTERM, SIGINT and SIGHUP, however often they come and whatever they interrupt."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final, TypeAlias

from xwheel.runtime.memory import trim

logger = logging.getLogger(__name__)

# SIGHUP among them: the terminal is gone, so the process drains. Settings are read at the start only
ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
EACH_S: Final = 60

Handler: TypeAlias = Callable[[int, FrameType | None], object]
Previous: TypeAlias = Callable[[int, FrameType | None], Any] | int | None


class StopSignals:
    """Receives the signals to end this process; a context manager, which belongs to the main thread.

    Before :meth:`be_up` the process ends at once and with status 0: it is still looking for what it needs, such as a
    database, and has nothing to bring to an end. Afterwards a signal only ends :meth:`wait`. With ``for_good`` the
    process ends after the block: once it is to end, it ignores further signals.
    """

    def __init__(self, *, for_good: bool = False) -> None:
        # a handler may interrupt anything, also itself: the lock within an Event would wait for itself
        self._heard: SimpleQueue[int] = SimpleQueue()
        self._pipe: tuple[int, int] | None = None
        self._is_up = False
        self._for_good = for_good
        self._is_to_end = False
        self.number = 0  # the signal that ended wait() or heard()

    def __enter__(self) -> StopSignals:
        # a process that was stopped (SIGSTOP) when the signal came may get it in any thread as it goes on; a lock on
        # which the main thread waits would not end by that, and only the main thread calls handlers
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        # under nohup SIGHUP is ignored, and stays so: the process is to outlive its terminal
        self._before = {
            number: hear(number, self._hear)
            for number in ENDING
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if not (self._for_good and self._is_to_end):
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._wakeup_before)
            if self._pipe is not None:
                for descriptor in self._pipe:
                    os.close(descriptor)
        if failure is not None and self._is_to_end and not self._is_up:
            # what the signal interrupted, such as a plugin that was being loaded, is not what failed
            raise SystemExit(0) from None

    def be_up(self) -> bool:
        """Let signals wait from now on; return whether one came already."""
        self._is_up = True
        return not self._heard.empty()

    def wait(self, each: Callable[[], None] = trim) -> None:
        """Wait for a signal, unless one came already, and say in the log which one it was; call ``each`` now and then.

        That gives back what is not needed any more: a process that runs for long grows with its worst moments.
        """
        while not self.heard(EACH_S):
            each()

    def heard(self, timeout_s: float) -> bool:
        """Wait for a signal this long at most; return whether one has come by now."""
        if self.number == 0:
            if self._heard.empty():
                self._sleep(timeout_s)
            if not self._heard.empty():
                self._note(self._heard.get())
        return self._is_to_end

    def _sleep(self, timeout_s: float) -> None:
        assert self._pipe is not None, "signals are heard within the block"  # noqa: S101 - a mistake of ours
        poll = select.poll()
        poll.register(self._pipe[0], select.POLLIN)
        if poll.poll(timeout_s * 1000):
            os.read(self._pipe[0], 4096)

    def _note(self, number: int) -> None:
        self.number = number
        logger.info("%s: draining, then ending", signal.Signals(number).name)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self._heard.put(number)
        self._is_to_end = True
        if not self._is_up:
            raise SystemExit(0)


def hear(number: int, handler: Handler) -> Previous:
    """Let a function hear a signal in this process alone; return what heard it before. For the main thread.

    In copies that are forked the signal is Python's own again: told to end, they end.
    """
    _heard_here[number] = handler
    return signal.signal(number, handler)


def _before_fork() -> None:
    # a signal that comes to the copy before _after_fork would be for its parent's handler, and be forgotten
    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def _after_fork() -> None:
    for number, handler in _heard_here.items():
        if signal.getsignal(number) == handler:
            signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)  # it leads to the parent
    _unmask()
    if signal.SIGINT in _heard_here and signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _heard_here.clear()


def _unmask() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _fork.mask)


_heard_here: Final[dict[int, Handler]] = {}
_fork: Final = threading.local()
os.register_at_fork(before=_before_fork, after_in_parent=_unmask, after_in_child=_after_fork)
