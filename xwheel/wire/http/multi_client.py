"""Many HTTP calls in flight on one thread, over kept connections."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections import deque
from typing import Final, Protocol

import pycurl

from xwheel.wire.contract import MAX_ANSWER, headers_for
from xwheel.wire.http.curl import Guard, HttpCall, HttpResult, Slot, failed, header_lines
from xwheel.wire.http.tls import NO_FILES, TlsFiles

KNOWN_HEADERS: Final = 10_000


class HttpClient(Protocol):
    """Many calls in flight: what the scheduler's stages need of :class:`MultiClient`."""

    def submit(self, call: HttpCall) -> None:
        """Hand in a call; from any thread."""
        ...

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        """Move everything on for at most so long, and return the calls that ended."""
        ...

    def wake(self) -> None:
        """End a wait inside :meth:`poll`; from any thread."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class MultiClient:
    """Many calls in flight on one thread, over kept connections.

    Thread-safety: ``submit`` and ``wake`` may be used by any thread; ``poll`` and ``close`` belong to
    one owner thread. Results come only out of ``poll``.

    Args:
        token: Value of the token header for calls that do not say; empty sends none.
        app_name: Value of the app name header for calls that do not say.
        max_in_flight: Calls on the wire at once; more wait inside.
        guard: Which addresses may be called; None for all.
        max_answer: Larger answers end as an error, in bytes.
        headers: Further headers of every call.
        tls: The certificates that https trusts and shows.
    """

    def __init__(
        self,
        *,
        token: str = "",
        app_name: str = "",
        max_in_flight: int = 100,
        max_answer: int = MAX_ANSWER,
        headers: dict[str, str] | None = None,
        tls: TlsFiles = NO_FILES,
        guard: Guard | None = None,
    ) -> None:
        self._token = token
        self._app_name = app_name
        self._further = headers or {}
        self._headers: dict[tuple[str, str], list[str]] = {}
        self._max_in_flight = max_in_flight
        self._max_answer = max_answer
        self._tls = tls
        self._guard = guard
        self._waiting: deque[tuple[HttpCall, float | None]] = deque()
        self._active: dict[pycurl.Curl, Slot] = {}
        self._free: dict[bool, list[Slot]] = {True: [], False: []}
        self._results: list[HttpResult] = []
        self._deadline: float | None = None
        self._sleeping = False
        self._closed = False
        self._epoll = select.epoll()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wakeup, select.EPOLLIN)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 2 * max_in_flight)

    def submit(self, call: HttpCall) -> None:
        """Hand in a call; it starts at the next ``poll`` with a free place."""
        until = None if call.wait_ms is None else time.monotonic() + call.wait_ms / 1000
        self._waiting.append((call, until))
        # set by the owner before it reads the queue for the last time, so one of the two sees the other
        if self._sleeping:
            self.wake()

    def wake(self) -> None:
        """End the current or the next wait inside ``poll``."""
        if not self._closed:
            os.eventfd_write(self._wakeup, 1)

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        """Move everything on; wait at most this long if there is nothing to move.

        Returns calls that ended, in the order they did; none after a wake or the timeout.
        """
        self._start_waiting()
        events = self._wait(0 if self._results else timeout_ms)
        for number, event in events:
            if number == self._wakeup:
                os.eventfd_read(self._wakeup)
                continue
            mask = (pycurl.CSELECT_IN if event & ~select.EPOLLOUT else 0) | (
                pycurl.CSELECT_OUT if event & select.EPOLLOUT else 0
            )
            self._multi.socket_action(number, mask)
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._deadline = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()
        self._start_waiting()
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Drop everything; calls without a result never get one."""
        if self._closed:
            return
        self._closed = True
        for curl, slot in self._active.items():
            self._multi.remove_handle(curl)
            slot.curl.close()
        for slot in [*self._free[True], *self._free[False]]:
            slot.curl.close()
        self._active.clear()
        self._multi.close()
        self._epoll.close()
        os.close(self._wakeup)

    def _wait(self, timeout_ms: int) -> list[tuple[int, int]]:
        wait_s = timeout_ms / 1000
        if self._deadline is not None:
            wait_s = min(wait_s, max(0.0, self._deadline - time.monotonic()))
        self._sleeping = True
        try:
            if self._waiting and len(self._active) < self._max_in_flight:
                wait_s = 0
            return self._epoll.poll(wait_s)
        finally:
            self._sleeping = False

    def _start_waiting(self) -> None:
        started = False
        while self._waiting and len(self._active) < self._max_in_flight:
            call, until = self._waiting.popleft()
            if until is not None and time.monotonic() > until:
                text = f"it waited for its turn for more than {call.wait_ms} ms"
                self._results.append(failed(call, text, sent=False, cost_ms=0))
                continue
            free = self._free[call.repeatable]
            slot = free.pop() if free else Slot(self._max_answer, self._tls, self._guard)
            try:
                slot.prepare(call, self._headers_for(call))
            except (pycurl.error, UnicodeEncodeError) as error:
                slot.curl.close()
                self._results.append(failed(call, str(error), sent=False, cost_ms=0))
                continue
            self._active[slot.curl] = slot
            self._multi.add_handle(slot.curl)
            started = True
        if started:
            # now instead of after a round through epoll: connecting and sending begin at once
            self._deadline = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)

    def _headers_for(self, call: HttpCall) -> list[str]:
        """Return the headers of a call; the same list for the same ones, so that curl need not be told again."""
        key = (self._token if call.token is None else call.token, call.app_name or self._app_name)
        found = self._headers.get(key)
        if found is None:
            found = header_lines({**headers_for(*key), **self._further})
            if len(self._headers) >= KNOWN_HEADERS:
                self._headers.clear()  # of secrets and groups that were there once
            self._headers[key] = found
        return found

    def _collect(self) -> None:
        remaining = 1
        while remaining:
            remaining, done, failed = self._multi.info_read()
            for curl in done:
                self._finish(curl, 0, "")
            for curl, code, text in failed:
                self._finish(curl, code, text)

    def _finish(self, curl: pycurl.Curl, code: int, text: str) -> None:
        slot = self._active.pop(curl)
        call, result = slot.take_result(code, text)
        self._results.append(result)
        self._multi.remove_handle(curl)
        self._free[call.repeatable].append(slot)

    def _on_socket(self, what: int, number: int, _multi: object, _data: object) -> None:
        if what == pycurl.POLL_REMOVE:
            self._forget(number)
            return
        mask = (select.EPOLLIN if what & pycurl.POLL_IN else 0) | (
            select.EPOLLOUT if what & pycurl.POLL_OUT else 0
        )
        try:
            self._epoll.modify(number, mask)
        except FileNotFoundError:
            self._epoll.register(number, mask)

    def _forget(self, number: int) -> None:
        # closing the socket may have taken it out already
        with contextlib.suppress(OSError, ValueError):
            self._epoll.unregister(number)

    def _on_timer(self, timeout_ms: int) -> None:
        self._deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
