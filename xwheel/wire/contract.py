"""Paths, headers, codes and texts of the contract, and the few checks both sides share."""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import Final

from xwheel.errors import AuthError, JobTimeoutError, NotYetError, WireError, XwheelError
from xwheel.wire.messages import Response

TOKEN_HEADER: Final = "XXL-JOB-ACCESS-TOKEN"  # noqa: S105 -- the header's name
APP_NAME_HEADER: Final = "XXL-JOB-APPNAME"
TRACE_HEADER: Final = "traceparent"
ADDRESS_FIELD: Final = "registryValue"  # what a registration calls the address of an executor
CONTENT_TYPE: Final = "application/json;charset=UTF-8"

OK: Final = 200
FAIL: Final = 500
TIMEOUT: Final = 502

REGISTRY: Final = "registry"
REGISTRY_REMOVE: Final = "registryRemove"
CALLBACK: Final = "callback"
SHIP_LOGS: Final = "shipLogs"  # lines of run logs, from xwheel's executors to its schedulers

BEAT: Final = "/beat"
IDLE_BEAT: Final = "/idleBeat"
RUN: Final = "/run"
TRIGGER: Final = "/trigger"
KILL: Final = "/kill"
LOG: Final = "/log"
RUN_BATCH: Final = "/runBatch"
RUN_STATE: Final = "/runState"
RECALL: Final = "/recall"  # takes back runs that have not started

MAX_URL: Final = 255
MAX_MESSAGE: Final = 15_000  # characters of an outcome's message; upstream truncates its column there
# bytes of an answer that we read; a page of log, all escaped and under two keys, is twelve megabytes
MAX_ANSWER: Final = 16 * 1024 * 1024

TEXT_POST_ONLY: Final = "invalid request, HttpMethod not support."
TEXT_NO_URI: Final = "invalid request, uri-mapping empty."
TEXT_NO_HANDLER: Final = "job handler [{}] not found."
# what executors of all kinds say of a job whose handler they do not have
NO_HANDLER: Final = re.compile(r"job handler \[(.*)\] not found", re.DOTALL)
TEXT_NOT_FOUND: Final = "invalid request, uri-mapping({}) not found."
TEXT_TOKEN: Final = "The access token is wrong."  # noqa: S105 -- a message
TEXT_BUSY: Final = "job thread is running or has trigger queue."
TEXT_DISCARD: Final = "block strategy effect：Discard Later"
TEXT_COVER: Final = "block strategy effect：Cover Early"
TEXT_KILLED: Final = "scheduling center kill job."
TEXT_NOTHING_TO_KILL: Final = "job thread already killed."
TEXT_NO_LOG: Final = "readLog fail, logFile not exists"
# what executors of others send in place of a log that does not exist, or has not begun
TEXTS_NO_LOG: Final = frozenset({TEXT_NO_LOG, "readLog fail, logFile not found", "No such logid logs."})
# how a fourth-generation scheduler begins its answer to a body of the wrong shape
TEXT_G4_OBJECT: Final = "openapi invoke error"

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?\.?)(:(?P<port>[0-9]{1,5}))?(?P<path>/[!-~]*)?",
    re.IGNORECASE | re.ASCII,
)


def error_response(error: BaseException) -> Response:
    """Return the envelope for a failure; only here do error classes become codes."""
    code = TIMEOUT if isinstance(error, JobTimeoutError) else FAIL
    if isinstance(error, AuthError):
        text = TEXT_TOKEN
    elif isinstance(error, XwheelError):
        text = str(error)
    elif isinstance(error, Exception):
        text = "internal error; the log of this process has it"
    else:
        text = type(error).__name__
    return Response(code=code, message=text, not_yet=isinstance(error, NotYetError))


def check_token(given: str | None, *expected: str) -> None:
    """Raise AuthError unless a caller's token is one of ours; takes the same time wherever they differ."""
    offered = (given or "").encode("utf-8", "surrogateescape")
    # every expected token is compared, so that time does not tell which one came close
    matches = [hmac.compare_digest(offered, token.encode()) for token in expected if token]
    if not any(matches):
        raise AuthError(TEXT_TOKEN)


def join_url(base: str, path: str) -> str:
    """Join with exactly one slash: Go executors answer ``//run`` with a redirect, which breaks the POST."""
    return f"{base.rstrip('/')}/{path.lstrip('/')}"


def normalise_address(value: str, field: str = ADDRESS_FIELD) -> str:
    """Return the canonical spelling of a base URL: explicit port, no trailing slash, see :func:`_canonical_host`.

    Raises WireError: not an http(s) URL of at most 255 characters, or it has credentials, a query or a fragment.
    """
    text = value.strip()
    if not text or len(text) > MAX_URL:
        raise WireError(f"{field}: an http(s) URL of 1 to {MAX_URL} characters is needed")
    match = _URL.fullmatch(text)
    path = (match["path"] or "").rstrip("/") if match else ""
    odd = any(mark in path for mark in "?#\\") or not {".", "..", ""}.isdisjoint(path.split("/")[1:])
    if match is None or odd:
        raise WireError(f"{field}: must be http(s)://host[:port][/path] without credentials, query or fragment")
    scheme = match["scheme"].lower()
    port = int(match["port"]) if match["port"] else {"http": 80, "https": 443}[scheme]
    host = _canonical_host(match["host"])
    if not host or not 1 <= port <= 65535:  # noqa: PLR2004
        raise WireError(f"{field}: host or port is not possible")
    return f"{scheme}://{host}:{port}{path}"


def as_registered(value: str) -> str:
    """Return an address to look for as the registry spells it; what is no address stays, and is found nowhere."""
    try:
        return normalise_address(value)
    except WireError:
        return value


def _canonical_host(host: str) -> str:
    """Return a lower-case name without the dot of the root, or an address, IPv6 compressed as in RFC 5952.

    Returns an empty text for what is in brackets and no address.
    """
    if not host.startswith("["):
        return host.lower().removesuffix(".")
    try:
        return f"[{ipaddress.IPv6Address(host[1:-1])}]"
    except ValueError:
        return ""


def headers_for(token: str, app_name: str) -> dict[str, str]:
    """Return the headers of every call; the app name is for fourth-generation peers, others ignore it."""
    shown = {TOKEN_HEADER: token} if token else {}
    return {"Content-Type": CONTENT_TYPE, **shown, APP_NAME_HEADER: app_name}
