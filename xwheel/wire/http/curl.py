"""One call as curl makes it: what goes in, what comes out, and the handle that is used again and again."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Final

import certifi
import msgspec
import pycurl

from xwheel.wire.contract import MAX_ANSWER
from xwheel.wire.http.tls import NO_FILES, TlsFiles

IDLE_CONNECTION_S: Final = 60  # later idle ones are not used again: Java executors close theirs after 90 s
# curl's own words tell how it works inside, not what happened
_WORDS: Final = {
    pycurl.E_SEND_FAIL_REWIND: "the connection ended while the call was on its way, which is not sent twice"
}

# says why no connection may go to an IP address, or None; asked once the name is resolved, before any byte leaves
Guard = Callable[[str], "str | None"]


class HttpCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One POST."""

    key: object  # comes back in the result; anything
    url: str
    body: bytes
    timeout_ms: int = 3000  # limit for the whole call
    connect_timeout_ms: int = 3000
    wait_ms: int | None = None  # how long it may wait inside for its turn; None for as long as it takes
    app_name: str = ""  # the executor group, which fourth-generation executors insist on
    token: str = ""  # value of the token header; empty sends none
    # whether the library may send it again by itself when a kept connection turns out to be dead; False for a run on a
    # foreign executor, which would run it twice
    repeatable: bool = True


class HttpResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of a call."""

    key: object
    status: int = 0  # HTTP status, 0 if there was no complete answer
    body: bytes = b""
    error: str = ""  # empty if there was an answer
    sent: bool = True  # False only if it is certain that no byte of the request left
    cost_ms: float = 0  # from the start of the call to its end, without the wait for a place
    # whether the library sent it once more, after a kept connection had ended without an answer: the peer may have
    # taken the first one, so an answer to the second proves less
    repeated: bool = False


class _Body(BytesIO):
    rewinds = 0

    def rewind(self, offset: int, origin: int) -> int:
        self.rewinds += 1
        self.seek(offset, origin)
        return pycurl.SEEKFUNC_OK


class _Answer(BytesIO):
    """What came, up to a limit: older versions of curl bound only answers that say how long they are."""

    is_full = False

    def take(self, data: bytes) -> int:
        """Keep a piece; return how much of it, where less than all ends the call."""
        if self.tell() + len(data) > MAX_ANSWER:
            self.is_full = True
            return 0
        return self.write(data)

    def clear(self) -> None:
        """Begin again."""
        self.seek(0)
        self.truncate()
        self.is_full = False


class _Duplicated(socket.socket):
    """A socket of which curl takes a duplicate at once, and which is closed then."""

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # one that could not be opened
            self.close()


class _Door:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.refused = ""  # why the last call had none

    def open_socket(self, _purpose: int, wanted: Any) -> _Duplicated | int:
        """Open a socket for an address, if it may be called."""
        try:
            self.refused = self._guard(str(wanted.addr[0])) or ""
            if self.refused:
                return pycurl.SOCKET_BAD
            return _Duplicated(wanted.family, wanted.socktype, wanted.protocol)
        except OSError as error:
            self.refused = str(error)
            return pycurl.SOCKET_BAD


class Slot:
    """A curl handle with its buffer; kept and used again. Without a guard all addresses may be called."""

    __slots__ = ("_door", "body", "buffer", "call", "curl", "headers")

    def __init__(self, tls: TlsFiles = NO_FILES, guard: Guard | None = None) -> None:
        self.curl = new_handle(MAX_ANSWER, tls)
        # apart from the slot, which would else hold itself through curl, and not be closed before a fork
        self._door = None if guard is None else _Door(guard)
        if self._door is not None:
            self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._door.open_socket)
        self.body = _Body()
        self.buffer = _Answer()
        self.call: HttpCall | None = None
        self.headers: list[str] | None = None

    def prepare(self, call: HttpCall, headers: list[str]) -> None:
        """Set everything that differs from call to call."""
        self.call = call
        if self._door is not None:
            self._door.refused = ""
        self.buffer.clear()
        curl = self.curl
        curl.setopt(pycurl.URL, call.url)
        if self.headers is not headers:
            curl.setopt(pycurl.HTTPHEADER, headers)
            self.headers = headers
        curl.setopt(pycurl.TIMEOUT_MS, call.timeout_ms)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, call.connect_timeout_ms)
        curl.setopt(pycurl.POSTFIELDSIZE, len(call.body))
        self.body = _Body(call.body)
        curl.setopt(pycurl.READFUNCTION, self.body.read)
        if call.repeatable:  # a body that cannot be rewound is never sent twice
            curl.setopt(pycurl.SEEKFUNCTION, self.body.rewind)
        curl.setopt(pycurl.WRITEFUNCTION, self.buffer.take)

    def take_result(self, code: int, text: str) -> tuple[HttpCall, HttpResult]:
        """Return the call that ended and what became of it; ``code`` is curl's, 0 if all went well."""
        call, self.call = self.call, None
        assert call is not None  # noqa: S101 -- an active slot has its call
        curl = self.curl
        cost_ms = curl.getinfo(pycurl.TOTAL_TIME) * 1000
        repeated = self.body.rewinds > 0
        if not code:
            status, body = curl.getinfo(pycurl.RESPONSE_CODE), self.buffer.getvalue()
            return call, HttpResult(key=call.key, status=status, body=body, cost_ms=cost_ms, repeated=repeated)
        # all that left in this call, however often it was tried
        sent = curl.getinfo(pycurl.REQUEST_SIZE) > 0
        if self._door is not None and self._door.refused and not sent:
            error = self._door.refused
        elif code == pycurl.E_FILESIZE_EXCEEDED or self.buffer.is_full:
            error = f"the answer is larger than {MAX_ANSWER} bytes"
        else:
            error = f"{_WORDS.get(code) or text or 'transfer failed'} (curl {code})"
        return call, HttpResult(key=call.key, error=error, sent=sent, cost_ms=cost_ms, repeated=repeated)


def header_lines(headers: Mapping[str, str]) -> list[str]:
    """Return headers as curl takes them.

    Nothing packed is asked for: what a small answer unpacks to has no bound. An empty value takes out what curl would
    send by itself.
    """
    every = {"Expect": "", "Accept": "", "Accept-Encoding": "identity", **headers}
    return [f"{name}: {value}" if value else f"{name}:" for name, value in every.items()]


def new_handle(max_answer: int, tls: TlsFiles) -> pycurl.Curl:
    """Return a handle with what holds for all calls: no proxy, no redirect, bounded answers, our certificates."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.POST, 1)
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.PROXY, "")
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.TCP_NODELAY, 1)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.MAXAGE_CONN, IDLE_CONNECTION_S)
    curl.setopt(pycurl.MAXFILESIZE_LARGE, max_answer)
    curl.setopt(pycurl.CAINFO, tls.ca_file or certifi.where())
    if tls.ca_file:
        curl.unsetopt(pycurl.CAPATH)  # the system's authorities, next to the file
    if tls.cert_file:
        curl.setopt(pycurl.SSLCERT, tls.cert_file)
        curl.setopt(pycurl.SSLKEY, tls.key_file)
    return curl
