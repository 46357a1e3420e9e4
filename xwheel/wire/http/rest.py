"""A client of the management API, for the command line and the quickstart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlencode

import msgspec
import pycurl

from xwheel.errors import AuthError, ConflictError, FieldError, NotFoundError, WireError
from xwheel.wire.http.curl import header_lines, new_handle
from xwheel.wire.http.tls import NO_FILES, TlsFiles

Fields = Mapping[str, Any] | None
Headers = Mapping[str, str]

SUCCESS: Final = range(200, 300)
MAX_ANSWER: Final = 256 * 1024 * 1024
MISSING: Final = re.compile(r"(\w+) (.*) does not exist", re.DOTALL)
# what curl says where certificates are refused; with TLS 1.3 a server says so only when the answer is read
UNTRUSTED: Final = frozenset(
    {
        pycurl.E_SSL_CONNECT_ERROR,
        pycurl.E_PEER_FAILED_VERIFICATION,
        pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_CACERT_BADFILE,
        pycurl.E_RECV_ERROR,
    }
)


class RestClient:
    """Calls the management API and turns its problem details back into errors; for one thread.

    The base URL has no path; ``timeout_s`` is the limit for connecting, and again for each stretch without a byte.
    """

    def __init__(self, base_url: str, token: str, *, timeout_s: float = 10, tls: TlsFiles = NO_FILES) -> None:
        self.base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._curl = new_handle(MAX_ANSWER, tls)
        self._curl.setopt(pycurl.CONNECTTIMEOUT_MS, max(1, round(timeout_s * 1000)))
        self._curl.setopt(pycurl.LOW_SPEED_LIMIT, 1)
        self.allow(timeout_s)

    def allow(self, answer_s: float) -> None:
        """Let each answer take this many seconds from now on, however long connecting may take."""
        self._curl.setopt(pycurl.LOW_SPEED_TIME, max(1, ceil(answer_s)))

    def call(
        self, method: str, path: str, body: Fields = None, *, params: Fields = None, headers: Headers | None = None
    ) -> Any:
        """Make one call and return the decoded answer; None if it has no body.

        Raises FieldError: the server refuses a field; NotFoundError: the object does not exist; ConflictError: it is
        not in the state the call expects; AuthError: the server does not know the token; WireError: the server cannot
        be reached or says no for another reason.
        """
        data = b"" if body is None else msgspec.json.encode(body)
        return self._call(method, path, params, BytesIO(data), len(data), headers or {})

    def send_file(self, path: str, file: Path, *, params: Fields = None) -> Any:
        """Send a file as the body of a POST, without holding it in memory, and return the decoded answer.

        Raises FieldError: it cannot be read; XwheelError: what :meth:`call` raises.
        """
        headers = {"Content-Type": "application/octet-stream", "Expect": "100-continue"}
        try:
            opened = file.open("rb")
        except OSError as error:
            raise FieldError("FILE", f"cannot read {file}: {error.strerror}") from error
        with opened:
            size = opened.seek(0, 2)
            opened.seek(0)
            return self._call("POST", path, params, opened, size, headers)

    def _call(self, method: str, path: str, params: Fields, data: BinaryIO, size: int, headers: Headers) -> Any:
        given = {name: value for name, value in (params or {}).items() if value is not None}
        query = urlencode(given, doseq=True)
        answer = BytesIO()
        curl = self._curl
        try:
            curl.setopt(pycurl.URL, f"{self.base_url}{path}{'?' if query else ''}{query}")
            curl.setopt(pycurl.HTTPHEADER, header_lines({**self._headers, **headers}))
            if method == "GET":
                curl.setopt(pycurl.HTTPGET, 1)
            else:
                curl.setopt(pycurl.POST, 1)
                curl.setopt(pycurl.POSTFIELDSIZE_LARGE, size)
                curl.setopt(pycurl.READFUNCTION, data.read)
            # what changes something has a connection of its own: on a kept one that has ended meanwhile, no one would
            # know whether it arrived, and curl sends it again
            curl.setopt(pycurl.FRESH_CONNECT, method != "GET")
            curl.setopt(pycurl.CUSTOMREQUEST, method)
            curl.setopt(pycurl.WRITEFUNCTION, answer.write)
            curl.perform()
        except pycurl.error as error:
            raise self._failure(int(error.args[0])) from None
        status, content = curl.getinfo(pycurl.RESPONSE_CODE), answer.getvalue()
        if status not in SUCCESS:
            raise _error(status, content, f"{method} {path}", self.base_url)
        try:
            return msgspec.json.decode(content) if content else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise WireError(f"{self.base_url} answers {method} {path} with something else than JSON") from None

    def _failure(self, code: int) -> WireError:
        said = self._curl.errstr() or f"curl {code}"
        if code in UNTRUSTED and self.base_url.startswith("https:"):
            return WireError(
                f"{self.base_url} cannot be trusted, or does not trust us: {said}; XWHEEL_TLS__CA_FILE names "
                "a private authority, XWHEEL_TLS__CERT_FILE and XWHEEL_TLS__KEY_FILE a certificate to show"
            )
        if code == pycurl.E_COULDNT_CONNECT:
            return WireError(
                f"{self.base_url} cannot be reached: nothing takes connections there; 'xwheel server' runs a node, "
                "an embedded one runs while its program does, and --url or XWHEEL_URL says where it is"
            )
        return WireError(f"{self.base_url} cannot be reached: {said}")


def _error(status: int, content: bytes, what: str, base_url: str) -> Exception:
    try:
        problem = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {}
    detail = str(problem.get("detail") or problem.get("title") or f"HTTP status {status}")
    if status == HTTPStatus.UNPROCESSABLE_ENTITY and problem.get("field"):
        return FieldError(str(problem["field"]), detail.removeprefix(f"{problem['field']}: "))
    found = MISSING.fullmatch(detail)
    if status == HTTPStatus.NOT_FOUND and found:
        return NotFoundError(found[1], found[2])
    if status == HTTPStatus.UNAUTHORIZED:
        return AuthError(
            f"{base_url} does not know this token: {detail}; 'xwheel login' on the node's machine makes another one, "
            "'xwheel login --url URL' asks for one, and --token-file, XWHEEL_TOKEN or XWHEEL_TOKEN_FILE gives it"
        )
    if status == HTTPStatus.NOT_FOUND and not problem:
        return WireError(
            f"{base_url} has no management API: it answers {what} with HTTP status {status}; --url or XWHEEL_URL says "
            "where a node has its own ([api] port in its settings), which is not the port for executors"
        )
    if status == HTTPStatus.CONFLICT:
        return ConflictError(detail)
    return WireError(f"{what}: {detail}")
