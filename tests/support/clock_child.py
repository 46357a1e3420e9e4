"""Says what its clocks show and how long its waits of 50 ms took: one line of JSON for each line it is sent."""

from __future__ import annotations

import ctypes
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

WALL, MONOTONIC = time.CLOCK_REALTIME, time.CLOCK_MONOTONIC
WAIT_S = 0.05
TIMER_ABSTIME = 1

libc = ctypes.CDLL(None, use_errno=True)
libc.time.restype = ctypes.c_long


class Instant(ctypes.Structure):
    """timespec, and timeval as well."""

    _fields_ = (("seconds", ctypes.c_long), ("rest", ctypes.c_long))


def clocks() -> dict[str, int]:
    """Return what each way to ask for the time says, in nanoseconds."""
    day, spec = Instant(), Instant()
    libc.gettimeofday(ctypes.byref(day), None)
    libc.timespec_get(ctypes.byref(spec), 1)
    return {
        "monotonic": time.monotonic_ns(),
        "time": time.time_ns(),
        "datetime": round(datetime.now(UTC).timestamp() * 1e9),
        "gettimeofday": day.seconds * 10**9 + day.rest * 1000,
        "timespec_get": spec.seconds * 10**9 + spec.rest,
        "C time": libc.time(None) * 10**9,
        "shell": int(subprocess.run(["date", "+%s%N"], capture_output=True, check=True).stdout),
    }


def soon(clock: int) -> object:
    """Return the instant at which a wait shall end, by a clock."""
    at_ns = time.clock_gettime_ns(clock) + int(WAIT_S * 1e9)
    return ctypes.byref(Instant(at_ns // 10**9, at_ns % 10**9))


def made(kind: str, *, locked: str = "") -> ctypes.Array[ctypes.c_char]:
    """Return a thing of the C library, held if it is a lock."""
    thing = ctypes.create_string_buffer(256)
    getattr(libc, f"{kind}_init")(thing, None)
    if locked:
        getattr(libc, f"{kind}_{locked}")(thing)
    return thing


def condition(clock: int) -> None:
    attributes, thing = made("pthread_condattr"), ctypes.create_string_buffer(256)
    libc.pthread_condattr_setclock(attributes, clock)
    libc.pthread_cond_init(thing, attributes)
    libc.pthread_cond_timedwait(thing, made("pthread_mutex", locked="lock"), soon(clock))


def condition_by_clock(clock: int) -> None:
    mutex = made("pthread_mutex", locked="lock")
    libc.pthread_cond_clockwait(made("pthread_cond"), mutex, clock, soon(clock))


def semaphore(name: str, *clock: int) -> None:
    thing = ctypes.create_string_buffer(256)
    libc.sem_init(thing, 0, 0)
    getattr(libc, name)(thing, *clock, soon(*clock or (WALL,)))


def lock(kind: str, hold: str, name: str, *clock: int) -> None:
    """Wait for a lock that is held, in a thread: its own holder would be refused at once."""
    thing, wait = made(kind, locked=hold), getattr(libc, f"{kind}_{name}")
    thread = threading.Thread(target=lambda: wait(thing, *clock, soon(*clock or (WALL,))))
    thread.start()
    thread.join()


def alarm(clock: int) -> None:
    number = libc.timerfd_create(clock, 0)
    at_ns = time.clock_gettime_ns(clock) + int(WAIT_S * 1e9)
    wanted = (Instant * 2)(Instant(0, 0), Instant(at_ns // 10**9, at_ns % 10**9))
    libc.timerfd_settime(number, TIMER_ABSTIME, wanted, None)
    os.read(number, 8)
    os.close(number)


def timer() -> None:
    thread = threading.Timer(WAIT_S, lambda: None)
    thread.start()
    thread.join()


WAITS: dict[str, Callable[[], object]] = {
    "sleep": lambda: time.sleep(WAIT_S),
    "event": lambda: threading.Event().wait(WAIT_S),
    "select": lambda: select.select([], [], [], WAIT_S),
    "poll": lambda: select.poll().poll(WAIT_S * 1000),
    "timer": timer,
    "another program": lambda: subprocess.run(["sleep", str(WAIT_S)], timeout=30, check=True),
    "semaphore": lambda: semaphore("sem_timedwait"),
    "mutex": lambda: lock("pthread_mutex", "lock", "timedlock"),
    "reader": lambda: lock("pthread_rwlock", "wrlock", "timedrdlock"),
    "writer": lambda: lock("pthread_rwlock", "wrlock", "timedwrlock"),
}
BY_CLOCK: dict[str, Callable[[int], object]] = {
    "condition": condition,
    "condition by clock": condition_by_clock,
    "semaphore": lambda clock: semaphore("sem_clockwait", clock),
    "mutex": lambda clock: lock("pthread_mutex", "lock", "clocklock", clock),
    "reader": lambda clock: lock("pthread_rwlock", "wrlock", "clockrdlock", clock),
    "writer": lambda clock: lock("pthread_rwlock", "wrlock", "clockwrlock", clock),
    "sleep": lambda clock: libc.clock_nanosleep(clock, TIMER_ABSTIME, soon(clock), None),
    "timerfd": alarm,
}


def waits() -> dict[str, float]:
    """Return how many seconds each wait took by the monotonic clock."""
    found = {name: _timed(wait) for name, wait in WAITS.items()}
    for clock, word in ((WALL, "wall"), (MONOTONIC, "monotonic")):
        for name, wait in BY_CLOCK.items():
            found[f"{name}, {word}"] = _timed(partial(wait, clock))
    return found


def _timed(wait: Callable[[], object]) -> float:
    began_s = time.monotonic()
    wait()
    return time.monotonic() - began_s


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(clocks() if line == "clocks\n" else waits()), flush=True)
