"""A client of the management API, for the command line and the quickstart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from xwheel.errors import ConflictError, FieldError, NotFoundError, WireError
from xwheel.extras import extra
from xwheel.wire.http.tls import NO_FILES, TlsFiles

with extra("cli"):
    import requests

NOT_FOUND = 404
CONFLICT = 409
UNPROCESSABLE = 422
SUCCESS = range(200, 300)


class RestClient:
    """Calls the management API and turns its problem details back into errors.

    Thread-safety: one thread.

    Args:
        base_url: Where the API listens, without a path.
        token: Management token.
        timeout_s: Limit for connecting, and again for each read, in seconds.
        tls: The certificates that https trusts and shows.
    """

    def __init__(self, base_url: str, token: str, *, timeout_s: float = 10, tls: TlsFiles = NO_FILES) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = tls.ca_file or True
        self._session.cert = (tls.cert_file, tls.key_file) if tls.cert_file else None
        self._session.headers.update({"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"})

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Make one call and return the decoded answer; None if it has no body.

        Raises:
            FieldError: The server refuses a field.
            NotFoundError: The object does not exist.
            ConflictError: It is not in the state the call expects.
            WireError: The server cannot be reached or says no for another reason.
        """
        data = None if body is None else msgspec.json.encode(body)
        try:
            answer = self._session.request(
                method,
                f"{self._base_url}{path}",
                data=data,
                params=params,
                headers={"Content-Type": "application/json", **(headers or {})},
                timeout=self._timeout_s,
                allow_redirects=False,
            )
        except requests.exceptions.SSLError as error:
            raise WireError(
                f"{self._base_url} cannot be trusted, or does not trust us: {_cause(error)}; XWHEEL_TLS__CA_FILE names "
                "a private authority, XWHEEL_TLS__CERT_FILE and XWHEEL_TLS__KEY_FILE a certificate to show"
            ) from error
        except requests.RequestException as error:
            raise WireError(f"{self._base_url} cannot be reached: {type(error).__name__}") from error
        if answer.status_code not in SUCCESS:
            raise _error(answer.status_code, answer.content, f"{method} {path}")
        try:
            return msgspec.json.decode(answer.content) if answer.content else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise WireError(
                f"{self._base_url} answers {method} {path} with something else than JSON"
            ) from None


def _cause(error: requests.exceptions.SSLError) -> str:
    """Return what OpenSSL said, without the layers around it."""
    inner = error.args[0] if error.args else error
    return str(getattr(inner, "reason", inner))


def _error(status: int, content: bytes, what: str) -> Exception:
    try:
        problem = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {}
    detail = str(problem.get("detail") or problem.get("title") or f"HTTP status {status}")
    if status == UNPROCESSABLE and problem.get("field"):
        return FieldError(str(problem["field"]), detail.removeprefix(f"{problem['field']}: "))
    if status == NOT_FOUND:
        return NotFoundError("object", detail)
    if status == CONFLICT:
        return ConflictError(detail)
    return WireError(f"{what}: {detail}")
