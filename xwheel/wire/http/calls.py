"""HTTP clients: ``post`` for occasional calls, :class:`MultiClient` for many calls in flight on one thread.

Neither follows redirects, uses a proxy from the environment or reads an answer without bound. What matters to the
scheduler is whether a failed call can have reached the peer: ``sent`` is False only where no byte of the request left.
"""

from __future__ import annotations

import os
import threading
from typing import Final

import pycurl

from xwheel.errors import ExecutorRefusedError, ExecutorUnreachableError
from xwheel.wire.codec import decode_response
from xwheel.wire.contract import MAX_ANSWER, OK, headers_for
from xwheel.wire.http.curl import Guard, HttpCall, HttpResult, Slot, failed, header_lines
from xwheel.wire.http.tls import NO_FILES, TlsFiles
from xwheel.wire.messages import Response

KEPT_SLOTS: Final = 16
SERVER_ERRORS: Final = range(500, 600)
"""Proxies answer so too, with the request perhaps delivered."""


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
            return free.pop() if free else Slot(MAX_ANSWER, tls, guard)

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
os.register_at_fork(
    before=_slots.before_fork, after_in_parent=_slots.after_fork, after_in_child=_slots.after_fork
)


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

    Args:
        url: Where to.
        body: JSON.
        token: Value of the token header.
        app_name: Value of the app name header.
        timeout_s: Limit for all of it, from the name's look-up to the last byte of the answer, in seconds.
        tls: The certificates that https trusts and shows.
        guard: Which addresses may be called; None for all.

    Raises:
        ExecutorUnreachableError: No complete answer; ``sent`` says whether the request may have arrived.
        ExecutorRefusedError: An HTTP status that says no.
        WireError: The answer is not an envelope, or too large.
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
    slot = _slots.take(tls, guard)
    code, text = 0, ""
    try:
        slot.prepare(call, headers)
    except (pycurl.error, UnicodeEncodeError) as error:
        return failed(call, str(error), sent=False, cost_ms=0)
    try:
        slot.curl.perform()
    except pycurl.error as error:
        code, text = int(error.args[0]), slot.curl.errstr() or str(error.args[-1])
    result = slot.take_result(code, text)[1]
    _slots.keep(slot, tls, guard)
    return result
