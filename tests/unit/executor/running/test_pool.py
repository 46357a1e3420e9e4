"""Threads that come with work and go without it."""

from __future__ import annotations

import threading
import time

import pytest

from xwheel.executor.running.pool import ThreadPool

LIMIT_S = 20
BURST = 8


def _threads(pool: ThreadPool) -> int:
    """Return how many threads a pool has."""
    return sum(thread.name.startswith(f"xwheel-{pool._name}-") for thread in threading.enumerate())


def _burst(pool: ThreadPool, count: int) -> None:
    """Keep this many threads busy at once."""
    together = threading.Barrier(count + 1)
    for _ in range(count):
        pool.submit(lambda: together.wait(LIMIT_S) and None)
    together.wait(LIMIT_S)


def _run(pool: ThreadPool) -> None:
    """Run one task, and wait for its end."""
    ended = threading.Event()
    pool.submit(ended.set)
    assert ended.wait(LIMIT_S)


def test_the_threads_of_a_burst_end_though_work_goes_on() -> None:
    """Steady: each of them had its turn within its idle time, so that an executor had threads for its worst moment."""
    pool = ThreadPool("burst", idle_s=2)
    _burst(pool, BURST)
    assert _threads(pool) == BURST
    end_s = time.monotonic() + LIMIT_S
    while _threads(pool) > BURST // 2 and time.monotonic() < end_s:
        _run(pool)
        time.sleep(0.005)
    assert 1 <= _threads(pool) <= BURST // 2
    pool.close()


def test_what_found_no_thread_is_not_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, done = ThreadPool("scarce"), []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            pool.submit(lambda: done.append("refused"), lambda: done.append("too"))
    _run(pool)
    pool.close()
    assert done == []


def test_no_task_is_lost_between_a_thread_that_leaves_and_one_that_comes() -> None:
    pool = ThreadPool("leaving", idle_s=0.0001)
    done: list[int] = []
    expected = 4 * 500

    def submit(first: int) -> None:
        for number in range(500):
            pool.submit(lambda: done.append(1))
            if (first + number) % 3 == 0:
                time.sleep(0.0001)

    threads = [threading.Thread(target=submit, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end_s = time.monotonic() + LIMIT_S
    while len(done) < expected and time.monotonic() < end_s:
        time.sleep(0.001)
    assert len(done) == expected
    pool.close()


def test_a_pool_that_is_closed_finishes_what_it_was_given() -> None:
    pool = ThreadPool("closed", idle_s=LIMIT_S)
    _burst(pool, 3)
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(LIMIT_S)

    pool.submit(work)
    assert begun.wait(LIMIT_S)
    pool.close()
    end_s = time.monotonic() + LIMIT_S
    while _threads(pool) > 1 and time.monotonic() < end_s:
        time.sleep(0.001)
    assert _threads(pool) == 1
    may_end.set()
    while _threads(pool) and time.monotonic() < end_s:
        time.sleep(0.001)
    assert _threads(pool) == 0


def test_a_task_that_fails_costs_no_thread() -> None:
    pool = ThreadPool("failing", idle_s=LIMIT_S)

    def fail() -> None:
        raise SystemExit("a mistake")

    pool.submit(fail)
    _run(pool)
    assert _threads(pool) >= 1
    pool.close()


def test_no_more_threads_than_places_and_what_waits_gets_its_turn() -> None:
    """Also after threads were dismissed: those do not count."""
    pool = ThreadPool("places", idle_s=0.05, places=3)
    running, most, ended = [0], [0], [0]
    lock = threading.Lock()

    def work() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.002)
        with lock:
            running[0] -= 1
            ended[0] += 1

    expected = 0
    for _ in range(5):
        for _ in range(20):
            pool.submit(work)
        expected += 20
        end_s = time.monotonic() + LIMIT_S
        while ended[0] < expected and time.monotonic() < end_s:
            _run(pool)
        time.sleep(0.06)
    assert (ended[0], most[0]) == (expected, 3)
    _burst(pool, 3)
    pool.close()
