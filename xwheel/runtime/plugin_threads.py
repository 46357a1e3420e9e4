"""Call plugins on threads that can be left behind: the call of one that hangs ends here, though its thread does not."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from xwheel.errors import PluginError

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_HANGING: Final = 4
"""Threads of one plugin object that may be left behind; until one of them comes back it is not called again."""

SLICES: Final = 20
"""Waits that make up a time limit. They are counted, not timed: a process that was frozen gives everybody a new one."""


class HangingError(PluginError):
    """A plugin did not come back in time, or is not called since too many of its calls hang.

    Attributes:
        item: What it was asked about when it hung; None if it was not called.
    """

    def __init__(self, message: str, item: Any = None) -> None:
        super().__init__(message)
        self.item = item


class PluginCall(Generic[T]):
    """One call on a thread of its own; what it works on tells it how far it is."""

    def __init__(self, work: Callable[[PluginCall[T]], T]) -> None:
        self.item: Any = None
        self.is_over = False
        self.is_left = False
        self.done = threading.Event()
        self.result: T | None = None
        self.error: BaseException | None = None
        self.work = work

    def goes_on(self, item: Any) -> bool:
        """Note what is asked about next; return False if the time is up and the rest must wait for another call."""
        self.item = item
        return not self.is_over


class PluginThreads:
    """Threads for calls of plugins, with a deadline.

    Thread-safety: all methods may be called from any thread. Whoever calls waits: for one item at most the time limit,
    and for all of a call at most twice that.

    Args:
        timeout_s: How long a plugin may take for one item.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._hanging: Counter[str] = Counter()

    def ask(self, name: str, work: Callable[[], T]) -> T:
        """Return what a plugin answers to one question; see :meth:`call`."""
        return self.call(name, lambda _: work())

    def call(self, name: str, work: Callable[[PluginCall[T]], T]) -> T:
        """Return what ``work`` returns, done on a thread that is left behind if it hangs.

        Args:
            name: Whose code it calls, such as ``schedule type CRON``; also the thread's name.
            work: Calls :meth:`PluginCall.goes_on` before each item, and ends when that returns False.

        Raises:
            HangingError: One item took longer than the time limit, or too many calls of this plugin hang already.
            BaseException: What ``work`` raised.
        """
        with self._lock:
            hanging = self._hanging[name]
        if hanging >= MOST_HANGING:
            raise HangingError(
                f"{name} hangs in {hanging} calls: it is not called until one of them comes back"
            )
        call = PluginCall(work)
        threading.Thread(
            target=self._run, args=(name, call), name=f"xwheel-plugin-{name}", daemon=True
        ).start()
        if not self._await(name, call):
            logger.warning("%s did not come back in %g s and is left behind", name, self.timeout_s)
            raise HangingError(f"{name} did not answer within {self.timeout_s:g} s", call.item)
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]

    def hanging(self) -> dict[str, int]:
        """Return how many calls of each plugin hang."""
        with self._lock:
            return {name: count for name, count in self._hanging.items() if count}

    def _await(self, name: str, call: PluginCall[Any]) -> bool:
        """Wait until a call is done; return False if it hangs in one item."""
        item, same, total = call.item, 0, 0
        while not call.done.wait(self.timeout_s / SLICES):
            total += 1
            call.is_over = total >= SLICES
            same = same + 1 if call.item is item else 0
            item = call.item
            if same < SLICES:
                continue
            with (
                self._lock
            ):  # so that a call that ends now counts as one that came back, or as one that hangs
                if not call.done.is_set():
                    self._hanging[name] += 1
                    call.is_left = True
                    return False
        return True

    def _run(self, name: str, call: PluginCall[Any]) -> None:
        try:
            call.result = call.work(call)
        except BaseException as error:  # whoever waits raises it
            call.error = error
        with self._lock:
            call.done.set()
            if call.is_left:
                self._hanging[name] -= 1
                logger.warning("%s came back from a call that was given up", name)
