"""HTTP clients: ``post`` for occasional calls, :class:`MultiClient` for many calls in flight on one thread.

Neither follows redirects, uses a proxy from the environment or reads an answer without bound. What matters to the
scheduler is whether a failed call can have reached the peer: ``sent`` is False only where no byte of the request left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import requests
import urllib3.exceptions

from xwheel.errors import ExecutorRefusedError, ExecutorUnreachableError, WireError
from xwheel.wire.codec import decode_response
from xwheel.wire.contract import MAX_ANSWER, OK, headers_for
from xwheel.wire.curl import HttpCall, HttpResult
from xwheel.wire.messages import Response
from xwheel.wire.multi_client import MultiClient

__all__ = ["HttpCall", "HttpResult", "MultiClient", "Sender", "post"]

_CONNECT_ERRORS: Final = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.NameResolutionError,
)
_sessions = threading.local()


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


Sender = Callable[[str, bytes], Response]
"""``post`` with everything but address and body bound."""
