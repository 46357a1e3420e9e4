"""Runs that come before they are due: they start then and not before, in their place, or are taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.executor.running.test_worker import HeldJournal
from xwheel.clock import ManualClock
from xwheel.config.sections import ExecutorSection
from xwheel.executor.handlers import describe
from xwheel.executor.intake.early import MOST_MS, SchedulersClock
from xwheel.executor.journal import Journal
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.pool import ThreadPool
from xwheel.executor.running.worker import PREPARE_MS, Workers
from xwheel.model import BlockStrategy, RunReason, RunState
from xwheel.timer import WheelTimer
from xwheel.wire.messages import RunKey, TriggerRequest

SENT = 1_000_000


class Timer:
    """Makes calls when the test lets time pass."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.calls: list[tuple[float, Callable[..., object], tuple[Any, ...]]] = []

    def schedule(self, delay_s: float, call: Callable[..., object], *args: Any) -> None:
        self.calls.append((self.clock.monotonic_ms() + delay_s * 1000, call, args))

    def pass_ms(self, duration_ms: int) -> None:
        for _ in range(duration_ms):
            self.clock.advance(1)
            while due := [item for item in self.calls if item[0] <= self.clock.monotonic_ms()]:
                self.calls.remove(due[0])
                due[0][1](*due[0][2])

    def stop(self) -> None:
        """Nothing is to be stopped."""


class AtOnce:
    """Works in the calling thread."""

    def submit(self, *tasks: Callable[[], None]) -> None:
        for task in tasks:
            task()

    def close(self) -> None:
        """It has no threads."""


class Place:
    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.journal = HeldJournal()
        self.logs = RunLogs(folder, self.clock)
        self.workers = Workers(
            journal=cast(Journal, self.journal),
            logs=self.logs,
            clock=self.clock,
            settings=ExecutorSection(workers=2, queue_limit=3, waiting_limit=100),
            may_start=lambda _instance: "",
            on_outcome=lambda: None,
        )
        self.timer = Timer(self.clock)
        self.workers._starts = self.workers._timer = cast(WheelTimer, self.timer)
        self.workers._pool = cast(ThreadPool, AtOnce())
        self.began_ms = self.clock.monotonic_ms()
        self.started: list[tuple[int, int]] = []

    def send(self, run_id: int, due_in_ms: int = 0, job_id: int = 1, **fields: Any) -> str:
        """Send a run as a node whose clock says SENT at the beginning; return why it was refused."""

        def note() -> None:
            self.started.append((run_id, self.clock.monotonic_ms() - self.began_ms))

        now_ms = SENT + self.clock.monotonic_ms() - self.began_ms
        due = {"due_ms": now_ms + due_in_ms, "sent_ms": now_ms} if due_in_ms else {}
        request = TriggerRequest(run_id=run_id, job_id=job_id, created_ms=1, **{**due, **fields})
        (problem,) = self.workers.accept([(request, describe("note", note))])
        return "" if problem is None else str(problem)

    def outcomes(self) -> dict[int, str]:
        return {key.run_id: str(item.state) for key, item in self.journal.outcomes.items()}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.workers.close()
    place.logs.close()


def key(run_id: int, job_id: int = 1) -> RunKey:
    return RunKey(run_id, job_id, 1)


def test_it_starts_when_it_is_due(place: Place) -> None:
    assert not place.send(1, 100)
    place.timer.pass_ms(100)
    assert place.started == []
    place.timer.pass_ms(1)  # both clocks are cut to whole milliseconds
    assert place.started == [(1, 101)]
    assert place.outcomes() == {1: "succeeded"}


def test_it_is_written_as_started_shortly_before(place: Place) -> None:
    chosen: list[RunKey] = []
    start = place.journal.start

    def note(choose: Callable[[], Any], done: Callable[[], None]) -> None:
        start(lambda: chosen.extend(choose()) or (), done)

    place.journal.start = note  # type: ignore[method-assign]
    place.send(1, 100)
    place.timer.pass_ms(100 - PREPARE_MS)
    assert chosen == []
    place.timer.pass_ms(1)
    assert (chosen, place.started) == ([key(1)], [])


def test_what_comes_later_and_is_due_sooner_starts_sooner(place: Place) -> None:
    place.send(1, 100)
    place.send(2, 50)
    place.send(3)
    place.timer.pass_ms(101)
    assert place.started == [(3, 0), (2, 51), (1, 101)]


@pytest.mark.parametrize("strategy", [BlockStrategy.COVER_EARLY, BlockStrategy.DISCARD_LATER])
def test_what_is_decided_when_it_is_due_is_not_taken_before(place: Place, strategy: BlockStrategy) -> None:
    assert "send it then" in place.send(1, 100, block_strategy=strategy)
    place.timer.pass_ms(200)
    assert place.started == []
    assert not place.send(2, block_strategy=strategy)


def test_an_executor_that_stops_reports_at_once_what_it_gave_back(place: Place) -> None:
    place.send(1, 100)
    place.send(2, 100)
    place.workers.recall([key(1)])
    place.workers.recall([key(2)])
    place.workers.report_given_back()
    assert place.outcomes() == {1: "failed", 2: "failed"}
    place.timer.pass_ms(5_001)


def test_it_counts_in_the_limit_of_its_job(place: Place) -> None:
    assert [place.send(run_id, 100) for run_id in (1, 2, 3)] == ["", "", ""]
    assert "3 waiting runs" in place.send(4, 100)
    assert place.workers.queues.has(1)
    place.timer.pass_ms(101)
    assert sorted(run_id for run_id, _ in place.started) == [1, 2, 3]
    assert not place.workers.queues.has(1)


def test_it_is_given_back_and_says_so_later(place: Place) -> None:
    """The change for which it was given back cancels it first; if that failed, it gets another attempt."""
    place.send(1, 100)
    place.send(2, 100, job_id=2)
    assert place.workers.recall([key(1), key(7)]) == [1]
    assert place.workers.recall([key(1)]) == []
    place.timer.pass_ms(4_999)
    assert (place.started, place.outcomes()) == ([(2, 101)], {2: "succeeded"})
    place.timer.pass_ms(1)
    (outcome,) = (item for known, item in place.journal.outcomes.items() if known == key(1))
    assert (outcome.state, outcome.reason) == (RunState.FAILED, RunReason.FAILED_OVER)
    assert place.workers.queues.wait_empty(0)


def test_what_was_given_back_does_not_start_if_it_comes_again(place: Place) -> None:
    place.send(1, 100)
    place.workers.recall([key(1)])
    assert not place.send(1)
    assert place.started == []


@pytest.mark.parametrize("after_ms", [100 - PREPARE_MS + 1, 101])
def test_what_is_about_to_start_is_not_taken_back(place: Place, after_ms: int) -> None:
    place.send(1, 100)
    place.timer.pass_ms(after_ms)
    assert place.workers.recall([key(1)]) == []
    place.timer.pass_ms(101)
    assert [run_id for run_id, _ in place.started] == [1]
    assert place.outcomes() == {1: "succeeded"}


def test_what_is_not_on_disk_is_not_taken_back(place: Place) -> None:
    place.journal.hold = True
    request = TriggerRequest(run_id=1, job_id=1, created_ms=1, due_ms=SENT + 100, sent_ms=SENT)
    (execution,) = place.workers.queues.admit([(request, describe("note", lambda: None))])
    assert execution is not None
    assert place.workers.recall([key(1)]) == []


@pytest.mark.parametrize("after_ms", [0, 100 - PREPARE_MS + 1])
def test_a_kill_ends_it_before_it_starts(place: Place, after_ms: int) -> None:
    place.send(1, 100)
    place.timer.pass_ms(after_ms)
    assert place.workers.kill(1, 1)
    place.timer.pass_ms(101)
    assert place.started == []
    assert place.outcomes() == {1: "killed"}


def test_an_executor_that_stops_waits_for_it(place: Place) -> None:
    place.send(1, 100)
    place.workers.queues.close("it stops")
    assert not place.workers.queues.wait_empty(0)
    place.timer.pass_ms(101)
    assert place.started == [(1, 101)]
    assert place.workers.queues.wait_empty(0)


# the scheduler's clock, as messages tell it


def due_at(clock: SchedulersClock, sent_ms: int, received_ms: int, in_ms: int = 300) -> int:
    """Return how long after it was received a run starts that is due so long after it was sent."""
    request = TriggerRequest(run_id=1, job_id=1, created_ms=1, due_ms=sent_ms + in_ms, sent_ms=sent_ms)
    return clock.start_ms(request, received_ms) - received_ms


def test_what_a_message_takes_longer_makes_its_run_no_later() -> None:
    clock = SchedulersClock()
    assert due_at(clock, SENT, 5_002) == 301
    assert due_at(clock, SENT + 1000, 6_042) == 261
    assert due_at(clock, SENT + 2000, 7_000) == 301
    assert due_at(clock, SENT + 3000, 8_000 + MOST_MS) == 301 - MOST_MS
    assert due_at(clock, SENT + 4000, 9_000 + 2 * MOST_MS) == 301 - MOST_MS


def test_the_quickest_message_of_the_last_half_minute_counts_for_another_one() -> None:
    clock = SchedulersClock()
    assert due_at(clock, SENT, 5_000) == 301
    assert due_at(clock, SENT + 20_000, 25_030) == 271
    assert due_at(clock, SENT + 31_000, 36_030) == 271
    assert due_at(clock, SENT + 62_000, 67_030) == 301


def test_the_time_of_day_here_makes_no_difference() -> None:
    """Only our monotonic clock is asked, and what lies between it and the scheduler's."""
    for off_ms in (-10_000, 0, 10_000):
        assert due_at(SchedulersClock(), SENT + off_ms, 5_000) == 301


@pytest.mark.parametrize("by_ms", [60, 800, 10_000])
def test_a_clock_that_was_set_or_another_scheduler_s_starts_nothing_much_too_early(by_ms: int) -> None:
    clock = SchedulersClock()
    due_at(clock, SENT, 5_000)
    assert due_at(clock, SENT + 100 - by_ms, 5_100) == 301 - MOST_MS
    assert due_at(clock, SENT + 200 + by_ms, 5_200) == 301
    for later_ms in (31_000, 62_000):
        last = due_at(clock, SENT + later_ms, 5_000 + later_ms)
    assert last == 301
