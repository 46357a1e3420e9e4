"""Routers that ask executors, and executors that are a table of answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from xwheel.model import RegisteredExecutor
from xwheel.plugin import RouteContext
from xwheel.wire.http import HttpCall, HttpResult

PATIENCE_S = 60
ADDRESSES = [f"http://127.0.0.1:900{number}" for number in (1, 2, 3)]


class Wire:
    """Executors as a table: what each address answers to a path, or None for a refused connection."""

    def __init__(self, says: dict[str, bool | None]) -> None:
        self.says = says
        self.calls: list[tuple[str, str]] = []
        self._waiting: list[HttpCall] = []

    def submit(self, call: HttpCall) -> None:
        self._waiting.append(call)

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        del timeout_ms
        calls, self._waiting = self._waiting, []
        return [self.answer(call) for call in calls]

    def answer(self, call: HttpCall) -> HttpResult:
        address, _, path = call.url.rpartition("/")
        self.calls.append((address[-1], path))
        said = self.says.get(address)
        if said is None:
            return HttpResult(key=call.key, status=0, body=b"", error="refused", sent=False, cost_ms=1)
        code = 200 if said else 500
        return HttpResult(key=call.key, status=200, body=b'{"code":%d}' % code, error="", sent=True, cost_ms=1)

    def wake(self) -> None: ...

    def close(self) -> None: ...


class FirstAlive:
    name = "ALIVE"
    asks = True

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        return [item for item in context.executors if context.beat(item.address)][:1]


class FirstIdle:
    name = "IDLE"
    asks = True

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        for item in context.executors:
            if context.idle_beat(item.address):
                return [item]
        return []


class Hanging:
    name = "HANGS"
    asks = True

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.inside = threading.Semaphore(0)

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        self.inside.release()
        self.go_on.wait(PATIENCE_S)
        return context.executors[:1]


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)
