"""The client that keeps to the policy: one curl handle for each call, to a checked address.

curl is told every address beforehand, so it asks no DNS, and its sockets are opened here, where the address is compared
once more with those that were checked. Its time limit covers connecting, TLS, headers and body.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final
from urllib.parse import urljoin

import certifi
import pycurl
from xwheel.plugin import PlainUrl

from xwheel_egress.messages import Answer, EgressError, EgressRefusedError, Request
from xwheel_egress.policy import Address, EgressPolicy
from xwheel_egress.transfer import MAX_HEADERS, Transfer, aim, fill

MAX_TEXT: Final = 300

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

Resolver = Callable[[str, int], Sequence[str]]
"""Gives the addresses of a name for a port; raises ``OSError``."""


class EgressClient:
    """Makes calls that keep to a policy.

    Thread-safety: may be used by any number of threads; calls share nothing.

    Args:
        policy: What may be called.
        resolve: How names are resolved; asked once a call.
    """

    def __init__(self, policy: EgressPolicy, *, resolve: Resolver | None = None) -> None:
        self.policy = policy
        self.resolve = resolve or _resolve

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 10,
        max_answer: int = 65_536,
        redirects: int = 0,
    ) -> Answer:
        """Make a call and return the answer, whatever its status.

        Args:
            method: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
            url: Where to; may hold secrets.
            headers: Headers of the request; those that frame it are the client's own.
            body: What to send; None for nothing.
            timeout_s: Limit of the whole call, with its redirects, in seconds.
            max_answer: Bytes of the answer's body that are kept; the connection is closed after them.
            redirects: How many redirects are followed; with 0 the answer is the redirect itself.

        Raises:
            EgressRefusedError: The policy does not allow it, or it is no request; nothing was sent, except for a
                redirect that is not allowed.
            EgressError: There is no complete answer.
        """
        return self.call(
            method, url, headers=headers, body=body, timeout_s=timeout_s, max_answer=max_answer, redirects=redirects
        ).run()

    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 10,
        max_answer: int = 65_536,
        redirects: int = 0,
    ) -> EgressCall:
        """Return a call that :meth:`EgressCall.run` makes and another thread may abort; as :meth:`request`."""
        request = Request.checked(method, headers or {}, body)
        target = self.policy.target(url)
        return EgressCall(self, target, request, timeout_s, max_answer, redirects)

    @cached_property
    def certificates(self) -> bytes:
        """Certificates of authorities that are trusted, as PEM."""
        found = _read(certifi.where())
        if self.policy.ca_file is not None:
            found += b"\n" + _read(str(self.policy.ca_file))
        return found


class EgressCall:
    """One call; made by :meth:`EgressClient.call`, run once.

    Thread-safety: :meth:`abort` may be called by any thread at any time.
    """

    def __init__(
        self,
        client: EgressClient,
        target: PlainUrl,
        request: Request,
        timeout_s: float,
        max_answer: int,
        redirects: int,
    ) -> None:
        self._client = client
        self._target = target
        self._request = request
        self._timeout_s = timeout_s
        self._max_answer = max_answer
        self._redirects = redirects
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._aborted = False
        self._named = threading.Event()

    @property
    def origin(self) -> str:
        """Scheme, host and port of the URL."""
        return self._target.origin

    def abort(self) -> None:
        """End the call at once; :meth:`run` raises then."""
        with self._lock:
            self._aborted = True
            self._named.set()
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def run(self) -> Answer:
        """Make the call; returns and raises as :meth:`EgressClient.request`."""
        deadline = time.monotonic() + self._timeout_s
        target, request = self._target, self._request
        for left in range(self._redirects, -1, -1):
            answer = self._call(target, request, deadline)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None or not self._redirects:
                return answer
            if not left:
                break
            target, request = self._follow(target, request, answer.status, location)
        raise EgressError(f"{target.origin}: more than {self._redirects} redirects")

    def _follow(self, target: PlainUrl, request: Request, status: int, location: str) -> tuple[PlainUrl, Request]:
        try:
            following = self._client.policy.target(urljoin(target.url, location))
        except EgressRefusedError as error:
            raise EgressRefusedError(f"{target.origin} redirects: {error}") from None
        except ValueError:  # urljoin's, whose message may hold the URL
            raise EgressRefusedError(f"{target.origin} redirects to something that is no URL") from None
        if target.scheme == "https" and following.scheme != "https":
            raise EgressRefusedError(f"{target.origin} redirects from https to {following.origin}")
        same = following.origin == target.origin
        request = request.redirected(status, same_origin=same)
        if request.body and not same:
            raise EgressRefusedError(
                f"{target.origin} redirects to {following.origin}, which would get the request's body"
            )
        return following, request

    def _call(self, target: PlainUrl, request: Request, deadline: float) -> Answer:
        found = self._resolve(target, deadline) if target.literal is None else [target.literal]
        good = self._client.policy.check_addresses(target, found)
        transfer = Transfer(target, self._max_answer)
        curl = pycurl.Curl()
        try:
            aim(curl, target, good)
            fill(curl, request)
            curl.setopt(pycurl.OPENSOCKETFUNCTION, self._opener(good))
            curl.setopt(pycurl.WRITEFUNCTION, transfer.take_body)
            curl.setopt(pycurl.HEADERFUNCTION, transfer.take_header)
            curl.setopt(pycurl.NOPROGRESS, 0)
            curl.setopt(pycurl.XFERINFOFUNCTION, self._progress)
            if target.scheme == "https":
                curl.setopt(pycurl.CAINFO_BLOB, self._client.certificates)
            curl.setopt(pycurl.TIMEOUT_MS, max(1, int((deadline - time.monotonic()) * 1000)))
            curl.perform()
        except pycurl.error as error:
            if not transfer.truncated:
                raise self._failure(target, transfer, error) from None
        finally:
            status = curl.getinfo(pycurl.RESPONSE_CODE)
            curl.close()
            with self._lock:
                for one in self._sockets:
                    one.close()
                self._sockets.clear()
        return transfer.answer(status)

    def _failure(self, target: PlainUrl, transfer: Transfer, error: pycurl.error) -> EgressError:
        code, text = error.args if len(error.args) > 1 else (0, str(error))
        if self._aborted:
            return EgressError(f"{target.origin}: the call was aborted")
        if transfer.too_long:
            return EgressError(f"{target.origin}: the answer's headers have over {MAX_HEADERS} bytes")
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return EgressError(f"{target.origin}: no complete answer within {self._timeout_s:g} s")
        return EgressError(f"{target.origin}: {text or 'the transfer failed'} (curl {code})"[:MAX_TEXT])

    def _opener(self, good: Sequence[Address]) -> Callable[[int, Any], socket.socket | int]:
        """Return what opens curl's sockets; an address that was not checked gets none."""

        def open_socket(purpose: int, wanted: Any) -> socket.socket | int:
            del purpose
            try:
                if ipaddress.ip_address(wanted.addr[0]) not in good:
                    return pycurl.SOCKET_BAD
                with self._lock:
                    if self._aborted:
                        return pycurl.SOCKET_BAD
                    made = socket.socket(wanted.family, wanted.socktype, wanted.protocol)
                    self._sockets.append(made)  # curl works on a duplicate
                    return made
            except (OSError, ValueError):
                return pycurl.SOCKET_BAD

        return open_socket

    def _progress(self, *_numbers: float) -> int:
        return int(self._aborted)

    def _resolve(self, target: PlainUrl, deadline: float) -> list[Address]:
        """Ask for a name's addresses, on a thread: the library's call knows no time limit."""
        found: list[Sequence[str] | OSError | UnicodeError] = []
        with self._lock:
            if not self._aborted:
                self._named.clear()

        def ask() -> None:
            try:
                found.append(self._client.resolve(target.host, target.port))
            except (OSError, UnicodeError) as error:
                found.append(error)
            finally:
                self._named.set()

        threading.Thread(target=ask, name="xwheel-egress-name", daemon=True).start()
        self._named.wait(max(0.0, deadline - time.monotonic()))
        if self._aborted:
            raise EgressError(f"{target.origin}: the call was aborted")
        if not found:
            raise EgressError(f"{target.origin}: the name was not resolved within {self._timeout_s:g} s")
        if isinstance(found[0], Exception):
            reason = getattr(found[0], "strerror", None) or type(found[0]).__name__
            raise EgressError(f"{target.origin}: the name cannot be resolved: {reason}")
        addresses = [ipaddress.ip_address(text) for text in dict.fromkeys(found[0])]
        if not addresses:
            raise EgressError(f"{target.origin}: the name has no address")
        return addresses


def _resolve(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- certifi gives text
            return file.read()
    except OSError as error:
        raise EgressError(f"cannot read the certificates in {path}: {error.strerror}") from None
