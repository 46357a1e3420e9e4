"""Threads that come when there is work and go when there is none, and timers on one thread."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

from xwheel.clock import Clock

logger = logging.getLogger(__name__)

IDLE_S: Final = 30.0

Task = Callable[[], None]


class ThreadPool:
    """Runs tasks on as many threads as there are tasks at once; the caller bounds that number.

    Thread-safety: ``submit`` may be called by any thread.

    Args:
        name: Threads are called ``xwheel-<name>-<number>``.
        idle_s: A thread without work for so long ends, in seconds.
    """

    def __init__(self, name: str, idle_s: float = IDLE_S) -> None:
        self._name = name
        self._idle_s = idle_s
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    @property
    def size(self) -> int:
        """How many threads there are."""
        return len(self._threads)

    def submit(self, task: Task) -> None:
        """Run a task soon."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                thread = threading.Thread(
                    target=self._work, name=f"xwheel-{self._name}-{next(self._numbers)}", daemon=True
                )
                self._threads.add(thread)
                thread.start()
        self._tasks.put(task)

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
                self._threads.discard(threading.current_thread())
                return
            try:
                task()
            except BaseException:
                logger.exception("a task of pool %s failed", self._name)
            with self._lock:
                self._idle += 1

    def _may_leave(self) -> bool:
        with self._lock:
            if not self._idle:
                return False  # somebody counts on this thread and is about to hand it a task
            self._idle -= 1
            self._threads.discard(threading.current_thread())
            return True


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
        """Call a function later; return a number for :meth:`drop`."""
        with self._condition:
            number = next(self._numbers)
            heapq.heappush(self._heap, (self._clock.monotonic_ms() + delay_ms, number, task))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="xwheel-timers", daemon=True).start()
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
