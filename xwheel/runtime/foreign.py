"""Call foreign code on threads that can be left behind: a call that hangs ends here, though its thread does not."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Generic, TypeVar

from xwheel.clock import Clock
from xwheel.errors import PluginError

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MOST_HANGING: Final = 4
# waits that make up a time limit. They are counted, not timed: a process that was frozen starts its limits again
SLICES: Final = 20
IDLE_S: Final = 10.0  # a worker's thread ends after this long without work
REMIND_MS: Final = 600_000  # a plugin that fails again and again is named in the log this often


def ends_in_time(work: Callable[[], object], seconds: float, thread: str) -> bool:
    """Do work that raises nothing on a thread of this name; return False if it is left behind after these seconds."""
    worker = threading.Thread(target=work, name=thread, daemon=True)
    worker.start()
    worker.join(seconds)
    return not worker.is_alive()


class HangingError(PluginError):
    """A plugin did not come back in time, or is not called since too many of its calls hang."""

    def __init__(self, message: str, item: object = None) -> None:
        super().__init__(message)
        self.item = item  # what it was asked about when it hung; None if it was not called


@dataclass(slots=True, eq=False)
class PluginCall(Generic[T]):
    """Work on a thread of its own, for one item after another."""

    name: str
    item: object = None  # what the plugin is asked about now
    is_over: bool = False  # no further item may be begun
    is_left: bool = False  # the thread was left behind
    # set once the work ended; then result or error is there
    done: threading.Event = field(default_factory=threading.Event)
    result: T | None = None
    error: BaseException | None = None

    def goes_on(self, item: object) -> bool:
        """Note what is asked about next; return False if the time is up and the rest must wait for another call."""
        self.item = item
        return not self.is_over


@dataclass(slots=True, eq=False)
class PluginThreads:
    """Starts threads for calls of plugins, and counts those that hang. Thread-safety: any thread."""

    timeout_s: float  # how long a plugin may take for one item; may be infinite
    _: KW_ONLY
    # calls of one plugin object that may be left behind; then it is not called until one comes back
    most_hanging: int = MOST_HANGING
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _hanging: Counter[str] = field(default_factory=Counter, init=False)

    def call(self, name: str, work: Callable[[PluginCall[T]], T]) -> T:
        """Return what ``work`` returns, done on a thread that is left behind if it hangs.

        The caller waits for one item at most the time limit, and for all of them at most twice that. ``name`` says
        whose code it calls, such as ``schedule type CRON``, and is the thread's name too. ``work`` calls
        :meth:`PluginCall.goes_on` before each item, and ends when that returns False; what it raises is raised here.

        Raises HangingError: one item took longer than the time limit, or too many calls of this plugin hang already.
        """
        late = "%s came back from a call that was given up"
        call = self.start(name, work, f"xwheel-plugin-{name}", lambda _: logger.warning(late, name))
        if call is None:
            count = self.hanging()[name]
            raise HangingError(f"{name} hangs in {count} calls: it is not called until one of them comes back")
        if not self._await(call):
            logger.warning("%s did not come back in %g s and is left behind", name, self.timeout_s)
            raise HangingError(f"{name} did not answer within {self.timeout_s:g} s", call.item)
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]

    def start(
        self, name: str, work: Callable[[PluginCall[T]], T], thread: str, on_return: Callable[[PluginCall[T]], None]
    ) -> PluginCall[T] | None:
        """Start a call on a thread of this name, not waiting for it; return None if too many calls of the plugin hang.

        If the call ends after it was left behind, that thread calls ``on_return``.
        """
        with self._lock:
            if self._hanging[name] >= self.most_hanging:
                return None
        call: PluginCall[T] = PluginCall(name)
        threading.Thread(target=self._run, args=(call, work, on_return), name=thread, daemon=True).start()
        return call

    def leave(self, call: PluginCall[T]) -> bool:
        """Leave the thread of a call behind; return False if it ended meanwhile."""
        with self._lock:
            if call.done.is_set():
                return False
            self._hanging[call.name] += 1
            call.is_left = call.is_over = True
            return True

    def hanging(self) -> Counter[str]:
        """Return how many calls of each plugin hang."""
        with self._lock:
            return +self._hanging

    def _await(self, call: PluginCall[T]) -> bool:
        item, same, total = call.item, 0, 0
        while not call.done.wait(self.timeout_s / SLICES):
            total += 1
            call.is_over = total >= SLICES
            same = same + 1 if call.item is item else 0
            item = call.item
            if same >= SLICES and self.leave(call):
                return False
        return True

    def _run(
        self, call: PluginCall[T], work: Callable[[PluginCall[T]], T], on_return: Callable[[PluginCall[T]], None]
    ) -> None:
        try:
            call.result = work(call)
        except BaseException as error:  # raised where the call is waited for
            call.error = error
        with self._lock:
            call.done.set()
            if call.is_left:
                self._hanging[call.name] -= 1
        if call.is_left:
            on_return(call)


@dataclass(slots=True, eq=False)
class CountedCalls:
    """Calls a plugin object from any thread and counts its failures; the first of several and their end are logged."""

    what: str  # whose code it calls, such as log store file
    trouble: str  # what does not happen while it fails, for the log
    threads: PluginThreads  # what it is called on
    clock: Clock  # measures for how long it fails
    log: logging.Logger  # where its failures are said
    failures: int = field(default=0, init=False)  # how many of the last calls failed, one after the other
    last_error: str = field(default="", init=False)  # what the last of all failures was
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _said_ms: int | None = field(default=None, init=False)

    def hanging(self) -> int:
        """Return how many calls were left behind and have not come back."""
        return self.threads.hanging()[self.what]

    def _counted(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns; raises :class:`PluginError` if it does so or does not come back in time."""
        try:
            answer = self.threads.call(self.what, lambda _: work())
        except PluginError as error:
            self._failed(error)
            raise
        if self.failures:
            with self._lock:
                count, self.failures, self._said_ms = self.failures, 0, None
            if count:
                self.log.info("%s works again after %d failures", self.what, count)
        return answer

    def _failed(self, error: PluginError) -> None:
        # not the error itself, which holds what was passed to the plugin
        now_ms, said = self.clock.monotonic_ms(), str(error)
        with self._lock:
            self.failures += 1
            self.last_error = said
            is_news = self._said_ms is None or now_ms - self._said_ms >= REMIND_MS
            if is_news:
                self._said_ms = now_ms
            count = self.failures
        if is_news:
            self.log.warning("%s (%d failures by now): %s", self.trouble, count, said)


@dataclass(slots=True, eq=False)
class PluginWorker(Generic[T, R]):
    """Hands what waits in a bounded queue to a plugin, one call after another, on a thread that can be left behind.

    The thread ends after ten seconds without work, and the next :meth:`put` starts another. Thread-safety: any thread.
    """

    name: str  # whose code it calls, such as run listener audit
    thread: str  # the thread's name
    work: Callable[[Sequence[T]], R]  # calls the plugin, and raises nothing
    # gets what was worked on and what work returned, unless the call was left behind; on the same thread
    done: Callable[[Sequence[T], R], None]
    threads: PluginThreads  # starts threads
    clock: Clock  # measures calls
    _: KW_ONLY
    limit: int  # items that may wait
    batch: int = 1  # items in one call, at most
    # what is put into a full queue takes the place of the oldest items; otherwise it is refused
    drops_oldest: bool = False
    is_closed: bool = field(default=False, init=False)  # no further call begins
    _waiting: deque[T] = field(default_factory=deque, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    _call: PluginCall[R | None] | None = field(default=None, init=False)
    _present: Sequence[T] = field(default=(), init=False)
    _began_ms: int = field(default=0, init=False)

    def put(self, items: Sequence[T]) -> Sequence[T]:
        """Let items wait for their turn; return those that were dropped or refused instead."""
        with self._changed:
            if self.is_closed:
                return items
            self._waiting.extend(items)
            drop = self._waiting.popleft if self.drops_oldest else self._waiting.pop
            lost = [drop() for _ in range(len(self._waiting) - self.limit)]
            if self._call is None:
                self._start()
            elif not self._present:
                self._changed.notify()
        return lost

    def queued(self) -> int:
        """Return how many items wait."""
        return len(self._waiting)

    def busy_ms(self) -> int | None:
        """Return how long the present call has lasted; None if there is none."""
        with self._changed:
            return self.clock.monotonic_ms() - self._began_ms if self._present else None

    def hanging(self) -> int:
        """Return how many threads were left behind and have not come back."""
        return self.threads.hanging()[self.name]

    def check(self, lost: Callable[[T, int | None], None]) -> int | None:
        """Leave a call behind that takes too long; return in how many milliseconds to check again, None if not needed.

        ``lost`` gets each item of such a call and how long that took, and with None what waits in vain, since too many
        calls hang.
        """
        failed: list[tuple[T, int | None]] = []
        with self._changed:
            if self._call is not None and self._present:
                took_ms = self.clock.monotonic_ms() - self._began_ms
                if (left_ms := round(self.threads.timeout_s * 1000) - took_ms) > 0:
                    return left_ms
                self.threads.leave(self._call)
                failed = [(item, took_ms) for item in self._present]
                words = "%s did not come back from %s in %d ms and is left alone with it; %d calls hang"
                logger.warning(words, self.name, self._call.item, took_ms, self.hanging())
                self._call, self._present = None, ()
                if self._waiting:
                    self._start()
            if self._call is None and self.hanging() >= self.threads.most_hanging:
                failed += [(item, None) for item in self._waiting]
                self._waiting.clear()
        for item, took in failed:
            lost(item, took)
        return None

    def rest(self, seconds: float) -> None:
        """Wait until something is put or the worker is closed, at most this long; for ``done``."""
        with self._changed:
            if not self.is_closed:
                self._changed.wait(seconds)

    def close(self) -> None:
        """Begin no further call; what waits stays in the queue."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def _start(self) -> None:
        self._call = self.threads.start(self.name, self._run, self.thread, self._returned)

    def _run(self, call: PluginCall[R | None]) -> R | None:
        while batch := self._take(call):
            result = self.work(batch)
            with self._changed:
                if call.is_left:
                    return result
                self._present = ()
            self.done(batch, result)
        return None

    def _take(self, call: PluginCall[R | None]) -> Sequence[T]:
        """Wait for the next batch; an empty one ends the thread."""
        with self._changed:
            while not (self._waiting or self.is_closed) and self._changed.wait(IDLE_S):
                pass
            size = 0 if self.is_closed else min(self.batch, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(size)]
            if not batch:
                self._call = None
                return ()
            call.goes_on(batch[0])
            self._present, self._began_ms = batch, self.clock.monotonic_ms()
            return batch

    def _returned(self, call: PluginCall[R | None]) -> None:
        logger.warning("%s came back late from %s: %s", self.name, call.item, call.result)
        with self._changed:
            if self._waiting and self._call is None and not self.is_closed:
                self._start()
