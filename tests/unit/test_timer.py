"""The timers with a thread, in an event loop, and under one."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from xwheel.errors import TimerFullError, TimerStoppedError
from xwheel.timer import MOST_RUNNING, AsyncWheelTimer, Timeout, WheelTimer, WheelTimerMixin

LONG_S = 60
"""How long a test waits for what comes at once."""


@pytest.fixture
def timer() -> Iterator[WheelTimer]:
    timer = WheelTimer(tick_s=0.001)
    yield timer
    timer.stop()


def test_states(timer: WheelTimer) -> None:
    assert timer.state == "new"
    assert not [thread for thread in threading.enumerate() if thread.name == "wheel-timer"]
    timer.start()
    assert timer.state == "running"
    timer.start()
    assert len([thread for thread in threading.enumerate() if thread.name == "wheel-timer"]) == 1
    assert timer.stop() == []
    assert timer.state == "stopped"
    assert timer.stop() == []
    for refused in (timer.start, lambda: timer.schedule(1, print)):
        with pytest.raises(TimerStoppedError):
            refused()
    assert not [thread for thread in threading.enumerate() if thread.name == "wheel-timer"]


def test_the_first_call_starts_the_thread(timer: WheelTimer) -> None:
    made = threading.Event()
    timeout = timer.schedule(0.005, made.set)
    assert timer.state == "running"
    assert made.wait(LONG_S)
    assert timeout.is_expired
    assert time.monotonic() >= timeout.when


def test_a_sooner_call_wakes_the_thread(timer: WheelTimer) -> None:
    timer.schedule(3_000, print)
    made = threading.Event()
    timer.schedule(1_000, print)
    timer.schedule(0.005, made.set)
    assert made.wait(LONG_S)
    assert len(timer) == 2


def test_calls_of_calls(timer: WheelTimer) -> None:
    """Each schedules the next: what is scheduled while calls are made wakes no thread and is not lost."""
    done = threading.Event()

    def again(left: int) -> None:
        if left:
            timer.schedule(0, again, left - 1)
        else:
            done.set()

    timer.schedule(0, again, 200)
    assert done.wait(LONG_S)


def test_an_exception_harms_no_other(timer: WheelTimer, caplog: pytest.LogCaptureFixture) -> None:
    made = threading.Event()

    def fail() -> None:
        raise SystemExit("mine")

    timer.schedule(0.001, fail)
    timer.schedule(0.002, made.set)
    assert made.wait(LONG_S)
    (record,) = [record for record in caplog.records if record.name == "xwheel.timer"]
    assert record.levelno == logging.ERROR
    assert "fail" in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "mine"


def test_calls_on_an_executor(caplog: pytest.LogCaptureFixture) -> None:
    names: list[str] = []
    both = threading.Barrier(3)

    def work() -> None:
        names.append(threading.current_thread().name)
        both.wait(LONG_S)

    with ThreadPoolExecutor(2, "pool") as pool, WheelTimer(tick_s=0.001, executor=pool) as timer:
        timer.schedule(0, work)
        timer.schedule(0, work)  # the first one waits for this: the timer's own thread would wait for ever
        both.wait(LONG_S)
        timer.schedule(0, lambda: 1 / 0)
        seen = threading.Event()
        timer.schedule(0.005, seen.set)
        assert seen.wait(LONG_S)
    assert all(name.startswith("pool") for name in names)
    assert "division by zero" in str([record.exc_info for record in caplog.records])
    assert pool._shutdown


def test_an_executor_that_takes_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    said = threading.Event()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.set()

    watch = Watch()
    logging.getLogger("xwheel.timer").addHandler(watch)
    try:
        with WheelTimer(tick_s=0.001, executor=pool) as timer:
            timer.schedule(0, print)
            assert said.wait(LONG_S)
            assert timer.state == "running"
    finally:
        logging.getLogger("xwheel.timer").removeHandler(watch)


def test_stop_returns_what_was_left(timer: WheelTimer) -> None:
    far = timer.schedule(3_000, print, 3)
    near = timer.schedule(2_000, print, 2)
    gone = timer.schedule(1_000, print, 1)
    gone.cancel()
    left: list[Timeout] = timer.stop()
    assert left == [near, far]
    assert [timeout.args for timeout in left] == [(2,), (3,)]


def test_stop_waits_for_the_call_under_way(timer: WheelTimer) -> None:
    inside, go_on = threading.Event(), threading.Event()
    ended: list[bool] = []

    def call() -> None:
        inside.set()
        ended.append(go_on.wait(LONG_S))

    timer.schedule(0, call)
    rest = timer.schedule(0, print)
    assert inside.wait(LONG_S)
    assert timer.stop(timeout_s=0) == ([rest] if not rest.is_expired else [])
    go_on.set()
    timer._thread.join(LONG_S)  # type: ignore[union-attr]
    assert ended == [True]
    assert not rest.is_expired


def test_a_call_cannot_stop_its_timer(timer: WheelTimer) -> None:
    raised: list[str] = []
    done = threading.Event()

    def call() -> None:
        try:
            timer.stop()
        except RuntimeError as error:
            raised.append(str(error))
        done.set()

    timer.schedule(0, call)
    assert done.wait(LONG_S)
    assert raised == ["a timer cannot be stopped by one of its calls: it would wait for itself"]
    assert timer.state == "running"


def test_limit() -> None:
    with WheelTimer(limit=1) as timer:
        timer.schedule(1_000, print)
        with pytest.raises(TimerFullError):
            timer.schedule(1_000, print)


def test_a_thread_that_cannot_start_leaves_nothing_behind(timer: WheelTimer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            timer.schedule(0, print)
    assert len(timer) == 0
    made = threading.Event()
    timer.schedule(0, made.set)
    assert made.wait(LONG_S)


def test_too_many_timers_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel.timer._running", weakref.WeakSet())  # those of other tests aside
    timers = [WheelTimer() for _ in range(MOST_RUNNING + 1)]
    try:
        for each in timers[:-1]:
            each.start()
        with pytest.warns(RuntimeWarning, match=f"{MOST_RUNNING + 1} timers run in this process"):
            timers[-1].start()
    finally:
        for each in timers:
            each.stop()


@pytest.mark.processes
def test_a_child_process_begins_anew(timer: WheelTimer) -> None:
    timer.schedule(3_000, print)
    child = os.fork()
    if not child:
        made = threading.Event()
        state, waited = timer.state, len(timer)
        timer.schedule(0.001, made.set)
        os._exit(0 if (state, waited, made.wait(LONG_S)) == ("new", 0, True) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(timer) == 1


def test_async_timer_makes_its_calls_in_the_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        timer = AsyncWheelTimer(tick_s=0.001)
        done = loop.create_future()
        kept = timer.schedule(3_000, print)
        timer.schedule(0.002, done.set_result, threading.get_ident())
        timer.schedule(0.001, print).cancel()
        assert await asyncio.wait_for(done, LONG_S) == threading.get_ident()
        assert timer.stop() == [kept]
        with pytest.raises(TimerStoppedError):
            timer.schedule(0, print)

    asyncio.run(main())


def test_async_timer_never_calls_early_and_arms_once_a_tick() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        timer = AsyncWheelTimer(tick_s=0.005)
        early: list[float] = []
        made: list[int] = []
        done = loop.create_future()

        def call(number: int, when: float) -> None:
            made.append(number)
            early.append(loop.time() - when)
            if len(made) == 500:
                done.set_result(None)

        for number in range(500):
            delay = number % 50 / 1_000
            timer.schedule(delay, call, number, loop.time() + delay)
        await asyncio.wait_for(done, LONG_S)
        assert sorted(made) == list(range(500))
        assert min(early) >= -1e-6  # the two readings of the clock are not the same one

    asyncio.run(main())


def test_async_timer_tells_the_loop_what_a_call_raised() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        told: list[dict[str, object]] = []
        loop.set_exception_handler(lambda _, context: told.append(context))
        timer = AsyncWheelTimer(tick_s=0.001)
        done = loop.create_future()
        timer.schedule(0, lambda: 1 / 0)
        timer.schedule(0.001, done.set_result, None)
        await asyncio.wait_for(done, LONG_S)
        assert [type(context["exception"]) for context in told] == [ZeroDivisionError]

    asyncio.run(main())


def test_async_timer_lets_an_interrupt_end_the_loop_and_goes_on() -> None:
    loop = asyncio.new_event_loop()
    timer = AsyncWheelTimer(loop, tick_s=0.001)
    made: list[int] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    timer.schedule(0, interrupt)
    timer.schedule(0, made.append, 1)
    timer.schedule(0.001, loop.stop)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.run_forever()
    assert made == [1]
    loop.close()


class Loop(WheelTimerMixin, asyncio.SelectorEventLoop):
    pass


def run(main) -> object:
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main)


def test_a_loop_on_the_wheel_keeps_the_heap_small() -> None:
    async def main() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(asyncio.sleep(0.01 + number / 1e6, number)) for number in range(2_000)]
        await asyncio.sleep(0)
        waiting, heap = len(loop._wheel), len(loop._scheduled)  # type: ignore[attr-defined]
        assert await asyncio.wait_for(asyncio.gather(*tasks), LONG_S) == list(range(2_000))
        return waiting, heap

    waiting, heap = run(main())  # type: ignore[misc]
    assert waiting >= 2_000
    assert heap == 1


def test_a_loop_on_the_wheel_keeps_handles_and_contexts() -> None:
    variable = contextvars.ContextVar("variable", default="outer")

    async def main() -> list[object]:
        loop = asyncio.get_running_loop()
        seen: list[object] = []
        context = contextvars.copy_context()
        context.run(variable.set, "inner")
        asked_s = loop.time()
        gone = loop.call_later(0.001, seen.append, "cancelled")
        assert isinstance(gone, asyncio.TimerHandle)
        assert gone.when() > asked_s
        gone.cancel()
        assert gone.cancelled()
        loop.call_at(loop.time() + 0.001, lambda: seen.append(variable.get()), context=context)
        loop.call_later(0.002, lambda: seen.append(variable.get()))
        await asyncio.sleep(0.003)
        return seen

    assert run(main()) == ["inner", "outer"]


def test_a_loop_on_the_wheel_refuses_after_its_end() -> None:
    loop = Loop()
    timeout = loop.call_later(1_000, print)
    loop.close()
    assert len(loop._wheel) == 0  # type: ignore[arg-type]
    timeout.cancel()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(0, print)


def test_a_loop_on_the_wheel_checks_in_debug_mode() -> None:
    loop = Loop()
    loop.set_debug(True)
    with pytest.raises(TypeError):
        loop.call_later(0, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="coroutines"):
        loop.call_later(0, asyncio.sleep)
    assert "test_timer.py" in repr(loop.call_later(0, print))
    loop.close()


def test_a_call_that_comes_while_the_thread_goes_to_sleep_wakes_it() -> None:
    """N36: it is scheduled after the thread looked for the next one, and before it waits."""
    called, scheduled = threading.Event(), threading.Event()

    class Timer(WheelTimer):
        def next_when(self) -> float | None:
            when = super().next_when()
            if not scheduled.is_set():
                scheduled.set()
                self.schedule(0, called.set)
            return when

    with Timer():
        assert called.wait(20)
