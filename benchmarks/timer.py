"""The wheel timer against asyncio, a plain Python wheel, ``sched`` and ``threading.Timer``: schedule, cancel, expire.

Random delays up to a minute, half of them cancelled. The wheel timer is measured with its thread at work, asyncio on a
loop that stands still, which favours asyncio. Expiry is measured with a simulated clock, in steps of a tick of 10 ms.
``sched`` and ``threading.Timer`` get 10,000 timers only: the one searches a list for each cancel, the other is a thread
each.
"""

from __future__ import annotations

import asyncio
import ctypes
import random
import sched
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks._report import Report, timed
from benchmarks.ring import resident
from xwheel import _timer, _timer_py
from xwheel.timer import WheelTimer

SPAN_S = 60.0
TICK_S = 0.01
FEW = 10_000
GOALS = {"schedule_cancel": 5.0, "expire": 3.0, "memory": 2.0}


def nothing() -> None:
    """Be what the timers call."""


class PlainTimeout:
    """A timer of the plain wheel."""

    __slots__ = ("args", "callback", "cancelled", "when")

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.when, self.callback, self.args, self.cancelled = when, callback, args, False

    def cancel(self) -> None:
        self.cancelled = True


class PlainWheel:
    """The least that can schedule, cancel and tick in Python: a dictionary of lists."""

    def __init__(self) -> None:
        self.slots: dict[int, list[PlainTimeout]] = {}
        self.tick = int(time.monotonic() / TICK_S)

    def schedule(self, delay_s: float, callback: Callable[..., object], *args: Any) -> PlainTimeout:
        timeout = PlainTimeout(time.monotonic() + delay_s, callback, args)
        tick = int(timeout.when / TICK_S) + 1
        if tick in self.slots:
            self.slots[tick].append(timeout)
        else:
            self.slots[tick] = [timeout]
        return timeout

    def run_due(self, now: float) -> int:
        made = 0
        while self.tick <= int(now / TICK_S):
            for timeout in self.slots.pop(self.tick, ()):
                if not timeout.cancelled:
                    timeout.callback(*timeout.args)
                    made += 1
            self.tick += 1
        return made


def schedule_cancel(schedule: Callable[..., Any], delays: list[float], order: list[int]) -> list[float]:
    """Return the seconds of scheduling all and of cancelling half, and their sum."""
    timers: list[Any] = []
    first = timed(lambda: timers.extend(schedule(delay, nothing) for delay in delays))
    half = [timers[place] for place in order]

    def cancel() -> None:
        for timer in half:
            timer.cancel()

    second = timed(cancel)
    return [first, second, first + second]


def expire_wheel(wheel: Any, delays: list[float]) -> float:
    """Return the seconds that all calls of a wheel take in steps of a tick."""
    made = 0
    start = time.monotonic()
    for delay in delays:
        wheel.schedule(delay, nothing)
    end = time.monotonic() + SPAN_S + 2 * TICK_S

    def run() -> None:
        nonlocal made
        now = start
        while now < end:
            made += wheel.run_due(now)
            now += TICK_S

    seconds = timed(run)
    assert made == len(delays), made
    return seconds


def expire_asyncio(delays: list[float]) -> float:
    """Return the seconds that a loop takes for the same, with a simulated clock."""
    loop = asyncio.new_event_loop()
    made = 0

    def count() -> None:
        nonlocal made
        made += 1

    start = loop.time()
    for delay in delays:
        loop.call_later(delay, count)
    end = loop.time() + SPAN_S + 2 * TICK_S
    now = start
    loop.time = lambda: now  # type: ignore[method-assign]

    def run() -> None:
        nonlocal now
        while now < end:
            loop.call_soon(loop.stop)
            loop.run_forever()
            now += TICK_S

    seconds = timed(run)
    assert made == len(delays), made
    loop.close()
    return seconds


def expire_empty_loop() -> float:
    """Return the seconds that the loop's turns take alone, which are not its timers' cost."""
    return expire_asyncio([])


def print_memory(peer: str, count: int) -> None:
    """Print how many bytes the process grows by for each waiting timer; run in a process of its own."""
    source = random.Random(1)
    delays = [source.random() * SPAN_S + 3_600 for _ in range(count)]
    loop = asyncio.new_event_loop()
    schedule: Callable[..., Any] = WheelTimer().schedule if peer == "wheel" else loop.call_later
    kept: list[Any] = [None] * count
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    for place, delay in enumerate(delays):
        kept[place] = schedule(delay, nothing)
    print((resident() - before) / count)


def memory_of(peer: str, count: int) -> float:
    """Return what a process of its own says."""
    command = [sys.executable, "-m", "benchmarks.timer", "--memory", peer, "--count", str(count)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one_round(delays: list[float], order: list[int]) -> dict[str, list[float]]:
    """Measure each peer once, one after the other."""
    found: dict[str, list[float]] = {}
    with WheelTimer(tick_s=TICK_S) as timer:
        found["wheel"] = schedule_cancel(timer.schedule, delays, order)
    loop = asyncio.new_event_loop()
    found["asyncio"] = schedule_cancel(loop.call_later, delays, order)
    loop.close()
    twin = _timer_py.TimeoutWheel(time.monotonic, TICK_S)
    found["twin"] = schedule_cancel(twin.schedule, delays, order)
    found["plain"] = schedule_cancel(PlainWheel().schedule, delays, order)
    rest = delays[::2]
    found["wheel"].append(expire_wheel(_timer.TimeoutWheel(time.monotonic, TICK_S), rest))
    found["asyncio"].append(expire_asyncio(rest) - expire_empty_loop())
    found["twin"].append(expire_wheel(_timer_py.TimeoutWheel(time.monotonic, TICK_S), rest))
    found["plain"].append(expire_wheel(PlainWheel(), rest))
    return found


def few_round(delays: list[float], order: list[int]) -> dict[str, list[float]]:
    """Measure those that cannot take more than a few, and the wheel with as many."""

    def start_thread(delay: float, callback: Callable[[], object]) -> threading.Timer:
        timer = threading.Timer(delay + SPAN_S, callback)
        timer.daemon = True
        timer.start()
        return timer

    class Entry:
        def __init__(self, scheduler: sched.scheduler, delay: float, callback: Callable[[], object]) -> None:
            self.scheduler = scheduler
            self.event = scheduler.enter(delay, 0, callback)

        def cancel(self) -> None:
            self.scheduler.cancel(self.event)

    found: dict[str, list[float]] = {}
    with WheelTimer(tick_s=TICK_S) as timer:
        found["wheel"] = schedule_cancel(timer.schedule, delays, order)
    scheduler = sched.scheduler()
    found["sched"] = schedule_cancel(lambda delay, callback: Entry(scheduler, delay, callback), delays, order)
    threads: list[threading.Timer] = []

    def schedule(delay: float, callback: Callable[[], object]) -> threading.Timer:
        threads.append(start_thread(delay, callback))
        return threads[-1]

    found["threading"] = schedule_cancel(schedule, delays, order)
    for thread in threads:
        thread.cancel()
        thread.join()
    return found


def main() -> None:
    report = Report("Wheel timer: schedule, cancel half, expire", repeats=3)
    report.parser.add_argument("--count", type=int, default=1_000_000, help="timers")
    report.parser.add_argument("--memory", help="only print bytes a timer: wheel or asyncio")
    args = report.parse()
    if args.memory:
        print_memory(args.memory, args.count)
        return
    source = random.Random(1)
    delays = [source.random() * SPAN_S for _ in range(args.count)]
    order = source.sample(range(args.count), args.count // 2)
    few = source.sample(range(FEW), FEW // 2)
    rounds = [one_round(delays, order) for _ in range(args.repeats)]
    short = [few_round(delays[:FEW], few) for _ in range(args.repeats)]
    for peer in rounds[0]:
        counts = (args.count, args.count // 2, args.count, len(delays[::2]))
        for stage, (name, count) in enumerate(
            zip(("schedule", "cancel", "schedule_cancel", "expire"), counts, strict=True)
        ):
            report.figure(f"{peer}.{name}", [1e9 * found[peer][stage] / count for found in rounds], "ns")
    for peer in short[0]:
        report.figure(f"few.{peer}.schedule_cancel", [1e9 * found[peer][2] / FEW for found in short], "ns")
    for peer in ("asyncio", "plain", "twin"):
        for stage, name in ((2, "schedule_cancel"), (3, "expire")):
            report.ratio(
                f"{name}.{peer}_over_wheel",
                [found[peer][stage] for found in rounds],
                [found["wheel"][stage] for found in rounds],
                goal=GOALS[name] if peer == "asyncio" else None,
            )
    for peer in ("sched", "threading"):
        report.ratio(
            f"few.{peer}_over_wheel", [found[peer][2] for found in short], [found["wheel"][2] for found in short]
        )
    sizes = {peer: [memory_of(peer, args.count) for _ in range(args.repeats)] for peer in ("wheel", "asyncio")}
    for peer, values in sizes.items():
        report.figure(f"{peer}.memory", values, "B")
    report.ratio("memory.asyncio_over_wheel", sizes["asyncio"], sizes["wheel"], goal=GOALS["memory"])
    report.finish()


if __name__ == "__main__":
    main()
