"""What goes out and what comes back, and the errors of calls; no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final

from xwheel import XwheelError

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MAX_HEADER: Final = 8192
MAX_RETRY_AFTER_S: Final = 86_400.0

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
# what frames a message or chooses its host is the client's
_OWN_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
# a redirect to another origin takes these headers along and no other, since one of those may be a credential
_HARMLESS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_SEE_OTHER: Final = 303
_KEEPS_METHOD: Final = 307


class EgressError(XwheelError):
    """A call to an address outside, such as a webhook, got no complete answer."""


class EgressRefusedError(EgressError):
    """The egress policy does not allow a call; the message names the setting that does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the other side said.

    Attributes:
        origin: Who said it: scheme, host and port of the last call.
        status: HTTP status.
        headers: By name in lower case; several of one name are joined with a comma.
        body: The body, up to the limit of the call.
        truncated: Whether there was more of it.
    """

    origin: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    truncated: bool

    @property
    def text(self) -> str:
        """The body as UTF-8; what is none becomes a replacement character."""
        return self.body.decode("utf-8", "replace")

    @property
    def document(self) -> Any:
        """The body, read as JSON; None if it is not JSON, or was cut."""
        try:
            return None if self.truncated else json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def retry_after_s(self) -> float | None:
        """How long to wait, by the header Retry-After, from 0 to a day; None if it says nothing usable."""
        said = self.headers.get("retry-after", "").strip()
        if re.fullmatch(r"[0-9]{1,9}", said):
            return min(float(said), MAX_RETRY_AFTER_S)
        try:
            # by the peer's own clock, so that ours need not agree with it
            wait = parsedate_to_datetime(said) - parsedate_to_datetime(self.headers.get("date", ""))
        except (TypeError, ValueError):
            return None
        return min(max(wait.total_seconds(), 0.0), MAX_RETRY_AFTER_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked; ``headers`` and ``body`` may hold secrets."""

    method: str
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)

    @classmethod
    def checked(cls, method: str, headers: Mapping[str, str], body: bytes | None) -> Request:
        """Return a request, or raise :class:`EgressRefusedError` if it is none."""
        if method not in METHODS:
            raise EgressRefusedError(f"the method must be one of {', '.join(sorted(METHODS))}")
        _check_headers(headers)
        if body is None and method in _WITH_BODY:
            body = b""
        return cls(method=method, headers=dict(headers), body=body)

    def redirected(self, status: int, *, same_origin: bool) -> Request:
        """Return the request that follows a redirect."""
        to_get = status == _SEE_OTHER or (status < _KEEPS_METHOD and self.method == "POST")
        headers = {
            name: value
            for name, value in self.headers.items()
            if (same_origin or name.lower() in _HARMLESS) and not (to_get and name.lower() == "content-type")
        }
        if to_get and self.method != "HEAD":
            return Request(method="GET", headers=headers, body=None)
        return Request(method=self.method, headers=headers, body=self.body)


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise EgressRefusedError(f"{name[:100]!r} is no name of a header")
        if name.lower() in _OWN_HEADERS or name.lower().startswith("proxy-"):
            raise EgressRefusedError(f"the header {name} is set by the client itself")
        try:
            data = value.encode("latin-1")
        except UnicodeEncodeError:
            data = b"\0"
        if len(data) > MAX_HEADER or any(byte < ord(" ") and byte != ord("\t") for byte in data):
            raise EgressRefusedError(f"the header {name} must be one line of at most {MAX_HEADER} Latin-1 characters")
