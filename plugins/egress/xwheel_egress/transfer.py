"""One transfer as curl makes it: how a handle is set, and what takes the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pycurl
from xwheel.plugin import PlainUrl

from xwheel_egress.messages import Answer, Request
from xwheel_egress.policy import Address

MAX_HEADERS: Final = 65_536
USER_AGENT: Final = "xwheel"


class Transfer:
    """Takes what curl reads. Its methods never raise: an exception would be lost in curl."""

    def __init__(self, target: PlainUrl, max_answer: int) -> None:
        self._target = target
        self._max_answer = max_answer
        self._body = bytearray()
        self._headers: dict[str, str] = {}
        self._taken = 0
        self.truncated = False
        self.too_long = False

    def take_header(self, line: bytes) -> int:
        """Take one header line; 0 ends the transfer."""
        self._taken += len(line)
        if self._taken > MAX_HEADERS:
            self.too_long = True
            return 0
        text = line.decode("latin-1").rstrip("\r\n")
        if text.startswith("HTTP/"):
            self._headers.clear()
        name, colon, value = text.partition(":")
        if colon and not self._body:  # trailers count for nothing
            name, value = name.strip().lower(), value.strip()
            before = self._headers.get(name)
            self._headers[name] = value if before is None else f"{before}, {value}"
        return len(line)

    def take_body(self, data: bytes) -> int:
        """Take a part of the body; 0 ends the transfer."""
        room = self._max_answer - len(self._body)
        self._body += data[:room]
        if len(data) > room:
            self.truncated = True
            return 0
        return len(data)

    def answer(self, status: int) -> Answer:
        """Return what was read."""
        return Answer(
            origin=self._target.origin,
            status=status,
            headers=self._headers,
            body=bytes(self._body),
            truncated=self.truncated,
        )


def aim(curl: pycurl.Curl, target: PlainUrl, good: Sequence[Address]) -> None:
    """Point a handle at a target whose addresses were checked."""
    curl.setopt(pycurl.URL, target.url)
    curl.setopt(pycurl.PATH_AS_IS, 1)
    if target.literal is None:
        listed = ",".join(f"[{one}]" if one.version == 6 else str(one) for one in good)  # noqa: PLR2004
        curl.setopt(pycurl.RESOLVE, [f"{target.host}:{target.port}:{listed}"])
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.PROXY, "")
    curl.setopt(pycurl.NOSIGNAL, 1)


def fill(curl: pycurl.Curl, request: Request) -> None:
    """Give a handle what it sends."""
    lines = [f"{name}: {value}" if value else f"{name};" for name, value in request.headers.items()]
    given = {name.lower() for name in request.headers}
    # curl has headers of its own, which an empty one removes
    lines += [f"{name}:" for name in ("Content-Type", "Expect") if name.lower() not in given]
    if "user-agent" not in given:
        lines.append(f"User-Agent: {USER_AGENT}")
    lines.append("Accept-Encoding: identity")
    curl.setopt(pycurl.HTTPHEADER, [line.encode("latin-1") for line in lines])
    if request.body is not None:
        curl.setopt(pycurl.POST, 1)
        curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(request.body))
        curl.setopt(pycurl.POSTFIELDS, request.body)
    elif request.method == "HEAD":
        curl.setopt(pycurl.NOBODY, 1)
    curl.setopt(pycurl.CUSTOMREQUEST, request.method)
