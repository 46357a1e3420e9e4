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
from collections.abc import Callable
from io import BytesIO
from typing import Final

import msgspec
import pycurl
import requests
import urllib3.exceptions

from xwheel.errors import ExecutorRefusedError, ExecutorUnreachableError, WireError
from xwheel.wire.codec import decode_response
from xwheel.wire.contract import APP_NAME_HEADER, OK, TOKEN_HEADER
from xwheel.wire.messages import Response

MAX_ANSWER: Final = 16 * 1024 * 1024
CONTENT_TYPE: Final = "application/json;charset=UTF-8"

IDLE_CONNECTION_S: Final = 60
"""Connections idle for longer are not used again: Java executors close theirs after 90 s."""

_CONNECT_ERRORS: Final = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.NameResolutionError,
)
_UNSENT_CODES: Final = frozenset(
    {
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_SSL_CONNECT_ERROR,
        pycurl.E_PEER_FAILED_VERIFICATION,
        pycurl.E_URL_MALFORMAT,
        pycurl.E_UNSUPPORTED_PROTOCOL,
    }
)
_sessions = threading.local()


def headers_for(token: str, app_name: str) -> dict[str, str]:
    """Return the headers of every call; the app name is for fourth-generation peers, others ignore it."""
    return {"Content-Type": CONTENT_TYPE, TOKEN_HEADER: token, APP_NAME_HEADER: app_name}


def post(url: str, body: bytes, *, token: str, app_name: str = "", timeout_s: float = 3) -> Response:
    """Make one call and return the envelope, whatever its code.

    Args:
        url: Where to.
        body: JSON.
        token: Value of the token header.
        app_name: Value of the app name header.
        timeout_s: Limit for connecting, and again for each read, in seconds.

    Raises:
        ExecutorUnreachableError: No complete answer; ``sent`` tells whether the request may have arrived.
        ExecutorRefusedError: An HTTP status that says no.
        WireError: The answer is not an envelope.
    """
    headers = headers_for(token, app_name)
    try:
        with _session().post(
            url, data=body, headers=headers, timeout=timeout_s, allow_redirects=False, stream=True
        ) as answer:
            content = answer.raw.read(MAX_ANSWER + 1, decode_content=True)
            status = answer.status_code
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise ExecutorUnreachableError(url, _short(error), sent=not _is_connect_failure(error)) from error
    if len(content) > MAX_ANSWER:
        raise WireError(f"{url}: the answer is larger than {MAX_ANSWER} bytes")
    if status >= 500:  # noqa: PLR2004 -- proxies say so too, with the request perhaps delivered
        raise ExecutorUnreachableError(url, f"HTTP status {status}", sent=True)
    if status != OK:
        raise ExecutorRefusedError(f"{url}: HTTP status {status}")
    return decode_response(content)


def _session() -> requests.Session:
    found: requests.Session | None = getattr(_sessions, "session", None)
    if found is None:
        found = _sessions.session = requests.Session()
        found.trust_env = False
    return found


def _is_connect_failure(error: BaseException) -> bool:
    if isinstance(error, requests.ConnectTimeout):
        return True
    cause = error.args[0] if error.args else None
    reason = getattr(cause, "reason", cause)
    return isinstance(reason, _CONNECT_ERRORS)


def _short(error: BaseException) -> str:
    cause = error.args[0] if error.args else error
    reason = getattr(cause, "reason", None) or error
    return f"{type(reason).__name__}: {reason}"[:300]


class HttpCall(msgspec.Struct, frozen=True, kw_only=True):
    """One POST.

    Attributes:
        key: Comes back in the result; anything.
        timeout_ms: Limit for the whole call.
        connect_timeout_ms: Limit for connecting.
        app_name: The executor group, which fourth-generation executors insist on.
        repeatable: Whether the library may send it again by itself when a kept connection turns out to be dead.
            Say False for a run on a foreign executor, which would run it twice.
    """

    key: object
    url: str
    body: bytes
    timeout_ms: int = 3000
    connect_timeout_ms: int = 3000
    app_name: str = ""
    repeatable: bool = True


class HttpResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a call.

    Attributes:
        status: HTTP status, 0 if there was no complete answer.
        error: Empty if there was one.
        sent: False only if it is certain that no byte of the request left.
        cost_ms: From the start of the call to its end, without the wait for a place.
    """

    key: object
    status: int
    body: bytes
    error: str
    sent: bool
    cost_ms: float


class _Slot:
    """A curl handle with its buffer; kept and used again."""

    __slots__ = ("app_name", "buffer", "call", "curl")

    def __init__(self, curl: pycurl.Curl) -> None:
        self.curl = curl
        self.buffer = BytesIO()
        self.call: HttpCall | None = None
        self.app_name: str | None = None


class MultiClient:
    """Many calls in flight on one thread, over kept connections.

    Thread-safety: ``submit``, ``wake`` and ``in_flight`` may be used by any thread; ``poll`` and ``close`` belong to
    one owner thread. Results come only out of ``poll``.

    Args:
        token: Value of the token header.
        app_name: Value of the app name header for calls that do not say.
        max_in_flight: Calls on the wire at once; more wait inside.
        max_answer: Larger answers end as an error, in bytes.
        headers: Further headers of every call.
    """

    def __init__(
        self,
        *,
        token: str,
        app_name: str = "",
        max_in_flight: int = 100,
        max_answer: int = MAX_ANSWER,
        headers: dict[str, str] | None = None,
    ) -> None:
        self._token = token
        self._app_name = app_name
        self._further = {"Expect": "", "Accept": "", **(headers or {})}
        self._headers: dict[str, list[str]] = {}
        self._max_in_flight = max_in_flight
        self._max_answer = max_answer
        self._waiting: deque[HttpCall] = deque()
        self._active: dict[pycurl.Curl, _Slot] = {}
        self._free: dict[bool, list[_Slot]] = {True: [], False: []}
        self._results: list[HttpResult] = []
        self._deadline: float | None = None
        self._sleeping = False
        self._closed = False
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 2 * max_in_flight)

    @property
    def in_flight(self) -> int:
        """How many calls have no result yet, waiting ones included."""
        return len(self._active) + len(self._waiting)

    def submit(self, call: HttpCall) -> None:
        """Hand in a call; it starts at the next ``poll`` with a free place."""
        self._waiting.append(call)
        # set by the owner before its last look at the queue, so one of the two sees the other
        if self._sleeping:
            self.wake()

    def wake(self) -> None:
        """End the current or the next wait inside ``poll``."""
        if not self._closed:
            os.eventfd_write(self._bell, 1)

    def poll(self, timeout_ms: int) -> list[HttpResult]:
        """Move everything on; wait at most this long if there is nothing to move.

        Returns:
            Calls that ended, in the order they did; empty after a wake or the timeout.
        """
        self._start_waiting()
        events = self._wait(0 if self._results else timeout_ms)
        for number, event in events:
            if number == self._bell:
                os.eventfd_read(self._bell)
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
        os.close(self._bell)

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
            call = self._waiting.popleft()
            free = self._free[call.repeatable]
            slot = free.pop() if free else _Slot(self._new_handle())
            try:
                self._prepare(slot, call)
            except (pycurl.error, UnicodeEncodeError) as error:
                slot.curl.close()
                self._results.append(_failed(call, str(error), sent=False, cost_ms=0))
                continue
            self._active[slot.curl] = slot
            self._multi.add_handle(slot.curl)
            started = True
        if started:
            # now instead of after a round through epoll: connecting and sending begin at once
            self._deadline = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)

    def _prepare(self, slot: _Slot, call: HttpCall) -> None:
        slot.call = call
        slot.buffer.seek(0)
        slot.buffer.truncate()
        curl = slot.curl
        curl.setopt(pycurl.URL, call.url)
        if slot.app_name != call.app_name:
            curl.setopt(pycurl.HTTPHEADER, self._headers_for(call.app_name))
            slot.app_name = call.app_name
        curl.setopt(pycurl.TIMEOUT_MS, call.timeout_ms)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, call.connect_timeout_ms)
        curl.setopt(pycurl.POSTFIELDSIZE, len(call.body))
        if call.repeatable:
            curl.setopt(pycurl.POSTFIELDS, call.body)
        else:
            # a body that cannot be rewound is never sent twice
            curl.setopt(pycurl.READFUNCTION, BytesIO(call.body).read)
        curl.setopt(pycurl.WRITEFUNCTION, slot.buffer.write)

    def _headers_for(self, app_name: str) -> list[str]:
        found = self._headers.get(app_name)
        if found is None:
            every = {**headers_for(self._token, app_name or self._app_name), **self._further}
            found = [f"{name}: {value}" if value else f"{name}:" for name, value in every.items()]
            self._headers[app_name] = found
        return found

    def _new_handle(self) -> pycurl.Curl:
        curl = pycurl.Curl()
        curl.setopt(pycurl.POST, 1)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.TCP_NODELAY, 1)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.MAXAGE_CONN, IDLE_CONNECTION_S)
        curl.setopt(pycurl.MAXFILESIZE_LARGE, self._max_answer)
        curl.setopt(pycurl.CAINFO, requests.utils.DEFAULT_CA_BUNDLE_PATH)
        return curl

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
        call, slot.call = slot.call, None
        assert call is not None  # noqa: S101 -- an active slot has its call
        cost_ms = curl.getinfo(pycurl.TOTAL_TIME) * 1000
        if code:
            sent = code not in _UNSENT_CODES and curl.getinfo(pycurl.REQUEST_SIZE) > 0
            result = _failed(call, f"{text or 'transfer failed'} (curl {code})", sent=sent, cost_ms=cost_ms)
        else:
            result = HttpResult(
                key=call.key,
                status=curl.getinfo(pycurl.RESPONSE_CODE),
                body=slot.buffer.getvalue(),
                error="",
                sent=True,
                cost_ms=cost_ms,
            )
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


def _failed(call: HttpCall, error: str, *, sent: bool, cost_ms: float) -> HttpResult:
    return HttpResult(key=call.key, status=0, body=b"", error=error, sent=sent, cost_ms=cost_ms)


Sender = Callable[[str, bytes], Response]
"""``post`` with everything but address and body bound."""
