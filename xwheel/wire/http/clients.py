"""HTTP clients: ``post`` for occasional calls, :class:`MultiClient` for many calls in flight on one thread.

Neither follows redirects, uses a proxy from the environment or reads an answer without bound. What matters to the
scheduler is whether a failed call can have reached the peer: ``sent`` is False only where no byte of the request left.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from typing import Final, Protocol

import pycurl

from xwheel.errors import ExecutorRefusedError, ExecutorUnreachableError
from xwheel.wire.codec import decode_response
from xwheel.wire.contract import OK, headers_for
from xwheel.wire.http.curl import Guard, HttpCall, HttpResult, Slot, header_lines
from xwheel.wire.http.tls import NO_FILES, TlsFiles
from xwheel.wire.messages import Response

KEPT_SLOTS: Final = 16
KNOWN_HEADERS: Final = 10_000
SERVER_ERRORS: Final = range(500, 600)  # proxies answer so too, with the request perhaps delivered


class _Slots:
    """Handles that are used again, for their connections; each belongs to one call at a time.

    What is kept is closed before a fork: a child that closed a copy of it would crash inside curl, which waits there
    for threads that only the parent has. What is in use then is never closed in the child.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[TlsFiles, Guard | None], list[Slot]] = {}

    def take(self, tls: TlsFiles, guard: Guard | None) -> Slot:
        with self._lock:
            free = self._free.get((tls, guard))
            return free.pop() if free else Slot(tls, guard)

    def keep(self, slot: Slot, tls: TlsFiles, guard: Guard | None) -> None:
        with self._lock:
            free = self._free.setdefault((tls, guard), [])
            if len(free) < KEPT_SLOTS:
                free.append(slot)

    def before_fork(self) -> None:
        self._lock.acquire()
        self._free.clear()

    def after_fork(self) -> None:
        self._lock.release()


_slots = _Slots()
os.register_at_fork(before=_slots.before_fork, after_in_parent=_slots.after_fork, after_in_child=_slots.after_fork)


def post(
    url: str,
    body: bytes,
    *,
    token: str,
    app_name: str = "",
    timeout_s: float = 3,
    tls: TlsFiles = NO_FILES,
    guard: Guard | None = None,
) -> Response:
    """Make one call and return the envelope, whatever its code.

    The limit is for all of it, from the name's look-up to the last byte of the answer. Without a guard all addresses
    may be called. Raises ExecutorUnreachableError: no complete answer; ``sent`` says whether the request may have
    arrived; ExecutorRefusedError: an HTTP status that says no; WireError: the answer is not an envelope, or too large.
    """
    timeout_ms = max(1, round(timeout_s * 1000))
    call = HttpCall(key=None, url=url, body=body, timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms)
    result = _perform(call, header_lines(headers_for(token, app_name)), tls, guard)
    if result.error:
        raise ExecutorUnreachableError(url, result.error, sent=result.sent)
    if result.status in SERVER_ERRORS:
        raise ExecutorUnreachableError(url, f"HTTP status {result.status}", sent=True)
    if result.status != OK:
        raise ExecutorRefusedError(f"{url}: HTTP status {result.status}")
    return decode_response(result.body)


def _perform(call: HttpCall, headers: list[str], tls: TlsFiles, guard: Guard | None) -> HttpResult:
    """Return what became of a call; apart from :func:`post`, whose errors would hold the handle at a fork."""
    slot = _slots.take(tls, guard)
    code, text = 0, ""
    try:
        slot.prepare(call, headers)
    except (pycurl.error, UnicodeEncodeError) as error:
        return HttpResult(key=call.key, error=str(error), sent=False)
    try:
        slot.curl.perform()
    except pycurl.error as error:
        code, text = int(error.args[0]), slot.curl.errstr() or str(error.args[-1])
    _, result = slot.take_result(code, text)
    _slots.keep(slot, tls, guard)
    return result


class HttpClient(Protocol):
    """Many calls in flight: what the scheduler's stages need of :class:`MultiClient`."""

    def submit(self, call: HttpCall) -> None:
        """Hand in a call; from any thread."""

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        """Move everything on for at most so long, and return the calls that ended."""

    def wake(self) -> None:
        """End a wait inside :meth:`poll`; from any thread."""

    def close(self) -> None:
        """Close all connections."""


class MultiClient:
    """Many calls in flight on one thread, over kept connections.

    Of more calls than ``max_in_flight`` the rest waits inside; without a guard all addresses may be called. Results
    come only out of ``poll``, which like ``close`` belongs to one thread; any may ``submit`` and ``wake``.
    """

    def __init__(self, *, max_in_flight: int = 100, tls: TlsFiles = NO_FILES, guard: Guard | None = None) -> None:
        self._headers: dict[tuple[str, str], list[str]] = {}
        self._max_in_flight = max_in_flight
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
        """Move everything on, after waiting at most this long for something to move; return the calls that ended."""
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
                self._results.append(HttpResult(key=call.key, error=text, sent=False))
                continue
            free = self._free[call.repeatable]
            slot = free.pop() if free else Slot(self._tls, self._guard)
            try:
                slot.prepare(call, self._headers_for(call))
            except (pycurl.error, UnicodeEncodeError) as error:
                slot.curl.close()
                self._results.append(HttpResult(key=call.key, error=str(error), sent=False))
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
        key = (call.token, call.app_name)
        found = self._headers.get(key)
        if found is None:
            found = header_lines(headers_for(*key))
            if len(self._headers) >= KNOWN_HEADERS:
                self._headers.clear()  # of secrets and groups that were there once
            self._headers[key] = found
        return found

    def _collect(self) -> None:
        remaining = 1
        while remaining:
            remaining, done, failed = self._multi.info_read()
            for curl, code, text in [*((curl, 0, "") for curl in done), *failed]:
                slot = self._active.pop(curl)
                call, result = slot.take_result(code, text)
                self._results.append(result)
                self._multi.remove_handle(curl)
                self._free[call.repeatable].append(slot)

    def _on_socket(self, what: int, number: int, _multi: object, _data: object) -> None:
        if what == pycurl.POLL_REMOVE:
            # closing the socket may have taken it out already
            with contextlib.suppress(OSError, ValueError):
                self._epoll.unregister(number)
            return
        mask = (select.EPOLLIN if what & pycurl.POLL_IN else 0) | (select.EPOLLOUT if what & pycurl.POLL_OUT else 0)
        try:
            self._epoll.register(number, mask)  # curl lets go of a connection after each call
        except FileExistsError:
            self._epoll.modify(number, mask)

    def _on_timer(self, timeout_ms: int) -> None:
        self._deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
