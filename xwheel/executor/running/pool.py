"""Threads that come when there is work and go when there is none, and timers on one thread."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from xwheel.clock import Clock

logger = logging.getLogger(__name__)

IDLE_S: Final = 30.0

Task = Callable[[], None]
P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool:
    """Runs tasks on as many threads as there are tasks at once; the caller bounds that number.

    The first free thread takes the next task, which costs least; so every thread gets tasks now and then, and threads
    that a burst needed would stay. Therefore as many as were idle for all of the idle time are dismissed.

    Thread-safety: ``submit`` may be called by any thread.
    """

    def __init__(self, name: str, idle_s: float = IDLE_S) -> None:
        self._name = name
        self._idle_s = idle_s
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._least_idle = 0
        self._count_until_s = 0.0
        self._threads: set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    def submit(self, task: Task) -> None:
        """Run a task soon; raises RuntimeError if the system has no thread left for it."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._least_idle = min(self._least_idle, self._idle)
                if time.monotonic() > self._count_until_s:
                    self._dismiss()
            else:
                self._least_idle = 0
                name = f"xwheel-{self._name}-{next(self._numbers)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                thread.start()
                self._threads.add(thread)
        self._tasks.put(task)

    def _dismiss(self) -> None:
        """Dismiss as many threads as were idle since the last time, and count again; under the lock."""
        self._idle -= self._least_idle
        for _ in range(self._least_idle):
            self._tasks.put(None)
        self._least_idle = self._idle
        self._count_until_s = time.monotonic() + self._idle_s

    def close(self) -> None:
        """Let idle threads end; busy ones end after their task."""
        for _ in range(len(self._threads)):
            self._tasks.put(None)

    def _work(self) -> None:
        while True:
            try:
                task = self._tasks.get(timeout=self._idle_s)
            except queue.Empty:
                if self._may_leave():
                    return
                continue
            if task is None:
                with self._lock:  # the thread that started this one may not have added it yet
                    self._threads.discard(threading.current_thread())
                return
            try:
                task()
            except BaseException:
                logger.exception("a task of pool %s failed", self._name)
            del task  # what it holds may be large, and the next one may be long in coming
            with self._lock:
                self._idle += 1

    def _may_leave(self) -> bool:
        with self._lock:
            if not self._idle:
                return False  # a caller of submit counts on this thread
            self._idle -= 1
            self._threads.discard(threading.current_thread())
            return True


class DaemonExecutor(ThreadPoolExecutor):
    """The event loop's helper threads; one that is blocked does not keep the interpreter from ending.

    It is a :class:`~concurrent.futures.ThreadPoolExecutor` because asyncio insists on one; none of its threads is used.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._pool = ThreadPool(name)
        self._places = self._max_workers
        self._waiting: deque[Task] = deque()
        self._guard = threading.Lock()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function on a helper thread."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        with self._guard:
            self._waiting.append(run)
            if self._places:
                self._pool.submit(self._work)
                self._places -= 1
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let idle threads end, and return at once."""
        del wait, cancel_futures
        self._pool.close()

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._places += 1
                    return
                run = self._waiting.popleft()
            run()


class Timers:
    """Calls functions at a monotonic time, on one thread that exists only while something waits.

    Thread-safety: every method may be called by any thread; functions must be short.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._heap: list[tuple[int, int, Task]] = []
        self._dropped: set[int] = set()
        self._numbers = itertools.count()
        self._running = False

    def after(self, delay_ms: int, task: Task) -> int:
        """Call a function later; return a number for :meth:`drop`. Raises RuntimeError if no thread is left."""
        with self._condition:
            number = next(self._numbers)
            heapq.heappush(self._heap, (self._clock.monotonic_ms() + delay_ms, number, task))
            if not self._running:
                try:
                    threading.Thread(target=self._run, name="xwheel-timers", daemon=True).start()
                except RuntimeError:
                    self._heap.clear()  # it was alone
                    raise
                self._running = True
            elif self._heap[0][1] == number:
                self._condition.notify()
            return number

    def drop(self, number: int) -> None:
        """Do not call this one any more."""
        with self._condition:
            self._dropped.add(number)
            if len(self._dropped) * 2 > len(self._heap):
                self._heap = [entry for entry in self._heap if entry[1] not in self._dropped]
                heapq.heapify(self._heap)
                self._dropped.clear()
                self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._heap:
                    self._running = False
                    return
                wait_ms = self._heap[0][0] - self._clock.monotonic_ms()
                if wait_ms > 0:
                    self._condition.wait(wait_ms / 1000)
                    continue
                _, number, task = heapq.heappop(self._heap)
                if number in self._dropped:
                    self._dropped.discard(number)
                    continue
            try:
                task()
            except Exception:
                logger.exception("a timer failed")
