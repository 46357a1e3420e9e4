"""Threads that come when there is work and go when there is none."""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

logger = logging.getLogger(__name__)

IDLE_S: Final = 30.0

Task = Callable[[], None]
P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool:
    """Runs tasks on as many threads as there are tasks at once, ``places`` at most; further tasks wait.

    The thread that became idle last takes the next task, so that those that only a burst needed end after their idle
    time. One thread at a time is on its way to the tasks, and sends the next one if it finds more than its own: a
    thread whose tasks never wait for anything does most of them before another one comes. Any thread may ``submit`` and
    ``close``.
    """

    def __init__(self, name: str, idle_s: float = IDLE_S, places: int = sys.maxsize) -> None:
        self._name = name
        self._idle_s = idle_s
        self._places = places
        self._tasks: deque[Task] = deque()
        self._lock = threading.Lock()
        self._count = 0  # threads
        self._idle: list[threading.Lock] = []  # each is released to wake its thread
        self._is_waking = False  # a thread is on its way
        self._is_closed = False
        self._numbers = itertools.count(1)

    def submit(self, *tasks: Task) -> None:
        """Run tasks soon; raises RuntimeError if the system has no thread left for them: then none of them is run."""
        with self._lock:
            self._tasks.extend(tasks)
            try:
                self._wake()
            except RuntimeError:
                for _ in tasks:
                    self._tasks.pop()
                raise

    def close(self) -> None:
        """Let idle threads end; busy ones end after their task."""
        with self._lock:
            self._is_closed = True
            while self._idle:
                self._idle.pop().release()

    def _wake(self) -> None:
        """Send a thread to the tasks, unless one is on its way; under the lock."""
        if self._is_waking:
            return
        if self._idle:
            self._idle.pop().release()
        elif self._count < self._places:
            name = f"xwheel-{self._name}-{next(self._numbers)}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
            self._count += 1
        else:
            return
        self._is_waking = True

    def _work(self) -> None:
        wakeup = threading.Lock()
        wakeup.acquire()
        has_come = True
        while True:
            with self._lock:
                if has_come:
                    self._is_waking = False
                task = self._tasks.popleft() if self._tasks else None
                if self._tasks:
                    with contextlib.suppress(RuntimeError):  # no thread left: those that are there go on
                        self._wake()
                if task is None:
                    if self._is_closed:
                        self._count -= 1
                        return
                    self._idle.append(wakeup)
            has_come = task is None
            if task is None:
                if not self._sleep(wakeup):
                    return
                continue
            try:
                task()
            except BaseException:
                logger.exception("a task of pool %s failed", self._name)
            del task  # what it holds may be large, and the next one may be long in coming

    def _sleep(self, wakeup: threading.Lock) -> bool:
        """Wait for tasks; return whether there may be some, otherwise the thread is to end."""
        if not wakeup.acquire(timeout=self._idle_s):
            with self._lock:
                if wakeup in self._idle:
                    self._idle.remove(wakeup)
                    self._count -= 1
                    return False
            wakeup.acquire()  # woken just now
        return True


class DaemonExecutor(ThreadPoolExecutor):
    """The event loop's helper threads; one that is blocked does not keep the interpreter from ending.

    It is a :class:`~concurrent.futures.ThreadPoolExecutor` because asyncio insists on one; none of its threads is used.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._pool = ThreadPool(name, places=self._max_workers)

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

        self._pool.submit(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let idle threads end, and return at once."""
        del wait, cancel_futures
        self._pool.close()
