"""Loops are repeated whatever they raise; clocks follow and step only on proof."""

from __future__ import annotations

import logging
import threading

import pytest

from xwheel.clock import ManualClock, OffsetFilter, SystemClock
from xwheel.errors import DatabaseUnreachableError
from xwheel.runtime.loops import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, FailureLog, Service, StallMonitor


class PausingClock(ManualClock):
    """Writes down every wait and lets the time pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[int] = []

    def wait(self, event: threading.Event, timeout_ms: int) -> bool:
        self.waits.append(timeout_ms)
        return super().wait(event, timeout_ms)


def test_a_failing_step_is_repeated_with_growing_pauses() -> None:
    clock, calls, done = PausingClock(), [], threading.Event()

    def step(now_ms: int) -> int:
        calls.append(now_ms)
        if len(calls) < 9:
            raise ValueError("no")
        done.set()
        service._stopping = True
        return 7

    service = Service("test", step, clock)
    service.start()
    assert done.wait(60)
    assert service.stop()

    pauses = [min(FIRST_PAUSE_MS * 2**n, LONGEST_PAUSE_MS) for n in range(8)]
    assert clock.waits[:8] == pauses
    assert service.failures == 8
    assert service.last_error == "ValueError: no"


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_r4_no_error_of_any_kind_ends_the_thread_of_a_loop(error: BaseException) -> None:
    clock, calls, done = PausingClock(), [], threading.Event()

    def step(now_ms: int) -> int:
        calls.append(now_ms)
        if len(calls) == 1:
            raise error
        done.set()
        service._stopping = True
        return 7

    service = Service("test", step, clock)
    service.start()
    assert done.wait(60)
    assert service.stop()
    assert service.failures == 1
    assert service.last_error.startswith(type(error).__name__)


def test_health_follows_the_last_good_step() -> None:
    clock, gate, stepped = ManualClock(), threading.Event(), threading.Semaphore(0)

    def step(now_ms: int) -> int:
        stepped.release()
        gate.wait(60)
        return 0

    service = Service("test", step, clock, stale_ms=1000)
    assert not service.is_healthy()
    service.start()
    stepped.acquire(timeout=60)
    assert service.is_healthy()
    clock.advance(1001)
    assert not service.is_healthy()
    service._stopping = True
    gate.set()
    assert service.stop()
    assert not service.is_healthy()


def test_loops_that_stand_still_are_logged_once_and_so_is_their_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock, gate, stepped = ManualClock(), threading.Event(), threading.Semaphore(0)

    def step(now_ms: int) -> int:
        stepped.release()
        gate.wait(60)
        return 60_000

    services = [Service(name, step, clock, stale_ms=10_000) for name in ("one", "two")]
    monitor = StallMonitor(lambda: services, clock)
    for service in services:
        service.start()
        assert stepped.acquire(timeout=60)
        clock.advance(4000)
    with monitor.noting("start"):
        for advance_ms in (0, 3000, 1000, 60_000):
            clock.advance(advance_ms)
            monitor.step(0)
    assert [item.getMessage().partition(";")[0] for item in caplog.records] == [
        "one: no step forward for 11 s",
        "one, start, two: no step forward for 72 s",
    ]
    caplog.clear()
    gate.set()
    for service in services:
        assert service.stop()
        assert service.step_ms() == 0
    for _ in range(3):
        monitor.step(0)
    assert [item.getMessage() for item in caplog.records] == ["one, start, two: in motion again"]


def test_a_bell_ends_the_wait() -> None:
    wakeup, stepped = threading.Event(), threading.Semaphore(0)
    clock = SystemClock()

    def step(now_ms: int) -> int:
        stepped.release()
        return 60_000

    service = Service("test", step, clock, wakeup=wakeup)
    service.start()
    for _ in range(3):
        assert stepped.acquire(timeout=60)
        wakeup.set()
    assert service.stop()


def test_a_small_drift_is_followed_and_a_step_needs_three_witnesses() -> None:
    clock = SystemClock()
    offset = OffsetFilter(clock)
    base = clock.now_ms() - clock.monotonic_ms()

    def sample(drift_ms: int) -> int | None:
        at = clock.monotonic_ms()
        return offset.sample(at + base + drift_ms, at, at)

    assert sample(200) is None
    assert clock.drift_ms(base + 200, 0) == 0
    assert [sample(90_000), sample(90_010), sample(200), sample(90_000), sample(90_020)] == [None] * 5
    assert abs((sample(90_010) or 0) - 89_810) <= 1
    assert clock.drift_ms(base + 90_010, 0) == 0


def test_samples_within_the_round_trip_change_nothing() -> None:
    clock = SystemClock()
    base = clock.now_ms() - clock.monotonic_ms()
    assert OffsetFilter(clock).sample(base + 1000 + 40, 900, 1100) is None
    assert clock.drift_ms(base, 0) == 0


def test_a_loop_works_again_only_once_its_database_does(caplog: pytest.LogCaptureFixture) -> None:
    """R15: a step that asks the database nothing, since the lease has ended, proves nothing about it."""
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    log = FailureLog("claim", clock)
    is_over = False

    def fail() -> None:
        error = DatabaseUnreachableError("nothing listens")
        error.is_over = lambda: is_over
        log.failed(error)

    fail()
    for _ in range(3):
        clock.advance(1000)
        log.worked()
        fail()
    log.worked()
    assert "works again" not in caplog.text
    is_over = True
    clock.advance(1000)
    log.worked()
    log.worked()
    assert caplog.text.count("loop claim works again after 4 failures in 4000 ms") == 1
    assert caplog.text.count("fails and is repeated") == 1
