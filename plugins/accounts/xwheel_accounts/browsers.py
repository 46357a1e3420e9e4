"""Calls of browsers: the session's cookie, and what tells a page of ours from one of another site."""

from __future__ import annotations

import hmac
from typing import Final

import falcon
from xwheel.plugin import Actor, AuthError, CallHead, ForbiddenError

from xwheel_accounts.sessions import csrf_token

COOKIE: Final = "xwheel_session"
HOST_COOKIE: Final = f"__Host-{COOKIE}"
"""Its name over HTTPS: browsers take such a cookie from this very host alone."""

CSRF_HEADER: Final = "X-Xwheel-CSRF"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class OtherPageError(ForbiddenError):
    """A page of another site asks for something with our cookie.

    Attributes:
        caller: Whose cookie it is, so that the audit names them.
    """

    def __init__(self, what: str, caller: Actor | None) -> None:
        super().__init__("session", what)
        self.caller = caller


class Browsers:
    """Reads and sets the session's cookie, and refuses what other sites' pages ask for.

    Args:
        secure_cookies: Keep cookies to HTTPS whatever a proxy says.
    """

    def __init__(self, *, secure_cookies: bool) -> None:
        self._secure_cookies = secure_cookies

    def cookie_of(self, call: CallHead) -> str | None:
        """Return the secret of the session's cookie, or None without one.

        Over HTTPS only a cookie of this very host counts, which no other host of the domain can have set.

        Raises:
            AuthError: There are two of them.
        """
        found = call.cookies.get(self._name(call)) or ()
        if len(found) > 1:
            raise AuthError("Cookie: the session's is there twice: delete the cookies of this site, and sign in again")
        return found[0] if found else None

    def set_cookie(self, call: CallHead, resp: falcon.Response, secret: str, age_s: int) -> None:
        """Give the browser a session's cookie."""
        resp.set_cookie(
            self._name(call),
            secret,
            max_age=age_s,
            path="/",
            secure=self._is_secure(call),
            http_only=True,
            same_site="Strict",
        )

    def unset_cookie(self, call: CallHead, resp: falcon.Response) -> None:
        """Take the session's cookie from the browser."""
        resp.set_cookie(
            self._name(call), "", max_age=0, path="/", secure=self._is_secure(call), http_only=True, same_site="Strict"
        )

    def check_page(self, call: CallHead, secret: str, actor: Actor) -> None:
        """Refuse a change that a browser was made to ask for: it has the cookie, but not what our page knows.

        Raises:
            OtherPageError: It does not come from a page of ours.
        """
        shown = call.headers.get(CSRF_HEADER.lower(), "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(shown, csrf_token(secret).encode()):
            raise OtherPageError(
                f"{CSRF_HEADER}: must be the 'csrf' of this session; GET /api/v1/session shows it", actor
            )
        self.check_origin(call, actor)

    def check_origin(self, call: CallHead, actor: Actor | None = None) -> None:
        """Refuse what a page of another site asks for; browsers say so, old ones by the page's origin alone.

        Raises:
            OtherPageError: The browser says that it is one.
        """
        site, origin = call.headers.get("sec-fetch-site"), call.headers.get("origin")
        if site in {"same-origin", "none"} or (site is None and origin is None):
            return
        host = call.host
        if site is None and origin is not None and host and origin.partition("://")[2].lower() == host.lower():
            return
        raise OtherPageError("Origin: a page of another site may not ask for this", actor)

    def _name(self, call: CallHead) -> str:
        return HOST_COOKIE if self._is_secure(call) else COOKIE

    def _is_secure(self, call: CallHead) -> bool:
        return self._secure_cookies or call.is_https
