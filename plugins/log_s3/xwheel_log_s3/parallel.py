"""Doing several things at once, and the time limit for all of them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class Deadline:
    """How long a call may go on.

    Args:
        seconds: From now on.
    """

    def __init__(self, seconds: float) -> None:
        self._until_s = time.monotonic() + seconds
        self._seconds = seconds

    def left_s(self) -> float:
        """Return how much is left."""
        return self._until_s - time.monotonic()

    def check(self) -> None:
        """Let the call end if it took too long.

        Raises:
            TimeoutError: It did.
        """
        if self.left_s() <= 0:
            raise TimeoutError(f"not done within {self._seconds:g} s")


def run_all(tasks: Sequence[Callable[[], T]], parallel: int) -> list[T]:
    """Run tasks, some at a time, and return their results in order.

    The first failure is raised once those that run have ended; those that did not begin are left out.

    Args:
        tasks: What is to be done.
        parallel: How many at once.
    """
    if len(tasks) < 2 or parallel == 1:  # noqa: PLR2004 -- one needs no thread
        return [task() for task in tasks]
    results: list[Any] = [None] * len(tasks)
    failures: list[BaseException] = []
    waiting = deque(enumerate(tasks))

    def work() -> None:
        while not failures:
            try:
                number, task = waiting.popleft()
            except IndexError:
                return
            try:
                results[number] = task()
            except BaseException as error:
                failures.append(error)

    # daemons: a service that hangs must not keep the process from ending
    threads = [
        threading.Thread(target=work, name="xwheel-log-s3", daemon=True) for _ in range(min(parallel, len(tasks)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
