"""Calls of browsers: the session's cookie, and what tells a page of ours from one of another site."""

from __future__ import annotations

import hmac
from typing import Final

import falcon

from xwheel.accounts.sessions import csrf_token
from xwheel.api.http.client import TrustedProxies
from xwheel.errors import AuthError, ForbiddenError

COOKIE: Final = "xwheel_session"
HOST_COOKIE: Final = f"__Host-{COOKIE}"
"""Its name over HTTPS: browsers take such a cookie from this very host alone."""

CSRF_HEADER: Final = "X-Xwheel-CSRF"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Browsers:
    """Reads and sets the session's cookie, and refuses what other sites' pages ask for.

    Args:
        proxies: Who may say where a call came from.
        secure_cookies: Keep cookies to HTTPS whatever a proxy says.
    """

    def __init__(self, proxies: TrustedProxies, *, secure_cookies: bool) -> None:
        self.proxies = proxies
        self._secure_cookies = secure_cookies

    def cookie_of(self, req: falcon.Request) -> str | None:
        """Return the secret of the session's cookie, or None without one.

        Over HTTPS only a cookie of this very host counts, which no other host of the domain can have set.

        Raises:
            AuthError: There are two of them.
        """
        found = req.get_cookie_values(self._name(req)) or []
        if len(found) > 1:
            raise AuthError(
                "Cookie: the session's is there twice: delete the cookies of this site, and sign in again"
            )
        return found[0] if found else None

    def set_cookie(self, req: falcon.Request, resp: falcon.Response, secret: str, age_s: int) -> None:
        """Give the browser a session's cookie."""
        resp.set_cookie(
            self._name(req),
            secret,
            max_age=age_s,
            path="/",
            secure=self._is_secure(req),
            http_only=True,
            same_site="Strict",
        )

    def unset_cookie(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Take the session's cookie from the browser."""
        resp.set_cookie(
            self._name(req),
            "",
            max_age=0,
            path="/",
            secure=self._is_secure(req),
            http_only=True,
            same_site="Strict",
        )

    def check_page(self, req: falcon.Request, secret: str) -> None:
        """Refuse a change that a browser was made to ask for: it has the cookie, but not what our page knows.

        Raises:
            ForbiddenError: It does not come from a page of ours.
        """
        shown = (req.get_header(CSRF_HEADER) or "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(shown, csrf_token(secret).encode()):
            raise ForbiddenError(
                "session", f"{CSRF_HEADER}: must be the 'csrf' of this session; GET /api/v1/session shows it"
            )
        self.check_origin(req)

    def check_origin(self, req: falcon.Request) -> None:
        """Refuse what a page of another site asks for; browsers say so, old ones by the page's origin alone.

        Raises:
            ForbiddenError: The browser says that it is one.
        """
        site, origin = req.get_header("Sec-Fetch-Site"), req.get_header("Origin")
        if site in {"same-origin", "none"} or (site is None and origin is None):
            return
        host = self.proxies.host_of(req)
        if (
            site is None
            and origin is not None
            and host
            and origin.partition("://")[2].lower() == host.lower()
        ):
            return
        raise ForbiddenError("session", "Origin: a page of another site may not ask for this")

    def _name(self, req: falcon.Request) -> str:
        return HOST_COOKIE if self._is_secure(req) else COOKIE

    def _is_secure(self, req: falcon.Request) -> bool:
        return self._secure_cookies or self.proxies.is_https(req)
