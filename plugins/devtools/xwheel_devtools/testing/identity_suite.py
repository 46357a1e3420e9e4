"""The suite for identity providers: who is let in, who is refused, what answers hold, and what ends."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from xwheel.errors import PluginError
from xwheel.plugin.hookspecs import check_object
from xwheel_accounts.identities import (
    MAX_ACCOUNT_NAME,
    Identity,
    IdentityProvider,
    KnownAccount,
    SignInStart,
    SignsInByPassword,
    SignsInByRedirect,
    SignsOut,
    checked_identity,
    checked_page,
    checked_start,
)

from xwheel_devtools.testing.suites import in_threads

T = TypeVar("T")

ROUNDS: Final = 5
RETURN_URL: Final = "https://xwheel.example.org/api/v1/sign-in/return"
# what LDAP filters, SQL and shells would take for their own
STRANGE_NAMES: Final = (
    "*", "*)(uid=*", "admin)(&)", "a\\2a", "cn=admin,dc=example", "' OR '1'='1", "$(id)", "\u202enimda", "x\x00admin",
    "\u4e2d\u6587\U0001f514", " ", "a" * MAX_ACCOUNT_NAME,
)  # fmt: skip
STRANGE_PASSWORDS: Final = ("", " ", "*", "\x00", "' OR '1'='1", "\u4e2d\u6587\U0001f514", "a" * 256)

Browser = Callable[[str], Mapping[str, str]]
"""Follows an address as a person's browser does, signs in there, and returns the query that it comes back with."""


def check_identity_provider(
    provider: IdentityProvider,
    *,
    name: str = "",
    password: str = "",
    known: KnownAccount | None = None,
    browser: Browser | None = None,
    groups: Sequence[str] | None = None,
    gone: Callable[[], object] | None = None,
) -> None:
    """Check an identity provider: it lets in who may come in and no one else, and its answers can be kept.

    Args:
        provider: The provider, set up to reach a test's server.
        name: Somebody who may sign in by password; empty to try strangers only.
        password: That person's password.
        known: What xwheel would know of that account.
        browser: Signs in on the provider's page, if it has one.
        groups: The groups that the person is in; None if they are not to be compared.
        gone: Removes or locks the person at the other side; called at last, after which a refresh must end.
    """
    try:
        check_object(IdentityProvider, provider)
    except PluginError as error:
        raise AssertionError(str(error)) from None
    check = _Checks(provider, known)
    found: list[Identity] = []
    if isinstance(provider, SignsInByPassword):
        check.strangers(provider)
        if name:
            found.append(check.password(provider, name, password))
    if isinstance(provider, SignsInByRedirect):
        check.starts(provider)
        if browser is not None:
            found.append(check.redirect(provider, browser))
    for identity in found:
        _demand(
            groups is None or sorted(identity.groups) == sorted(groups),
            f"{check.what}: {identity.name} is in {sorted(identity.groups)}, not in {sorted(groups or ())}",
        )
        check.refreshed(identity)
    if found and gone is not None:
        gone()
        for identity in found:
            _demand(
                check.asked("refresh", lambda one=identity: check.refresh(one, None)) is None,  # type: ignore[misc]
                f"{check.what}: refresh goes on with {identity.name}, who is gone",
            )


class _Checks:
    """Calls one provider and judges what it answers.

    Args:
        provider: The provider.
        known: What it is handed with the name of who may sign in.
    """

    def __init__(self, provider: IdentityProvider, known: KnownAccount | None) -> None:
        self.what = f"identity provider {provider.name}"
        self._provider = provider
        self._known = known

    def strangers(self, provider: SignsInByPassword) -> None:
        """Try names and passwords that are none."""
        nobody = secrets.token_hex(8)
        for name in STRANGE_NAMES:
            self._refused(provider, name, nobody, None)
        for password in STRANGE_PASSWORDS:
            self._refused(provider, nobody, password, None)

    def password(self, provider: SignsInByPassword, name: str, password: str) -> Identity:
        """Sign in, from several threads at once; and try what nearly fits."""

        def sign_in() -> Identity:
            found = self.asked("sign_in", lambda: provider.sign_in(name, password, self._known))
            return self._one(found, f"sign_in refuses {name} with the right password")

        identity = sign_in()
        for wrong in ("", f"{password} ", f" {password}", password[:-1], password.swapcase() + "x", "*"):
            self._refused(provider, name, wrong, self._known)
        self._refused(provider, secrets.token_hex(8), password, None)
        subjects: list[str] = []
        in_threads(lambda: subjects.extend(sign_in().subject for _ in range(ROUNDS)), self.what)
        _demand(
            set(subjects) == {identity.subject},
            f"{self.what}: one person has the subjects {sorted({*subjects, identity.subject})}",
        )
        return identity

    def starts(self, provider: SignsInByRedirect) -> None:
        """Begin several times, and come back with what no page elsewhere has sent."""
        made = [self._begin(provider) for _ in range(ROUNDS)]
        _demand(
            len({start.state for start in made}) == len(made),
            f"{self.what}: begin returned the same state twice: one browser's sign-in would fit another's",
        )
        state = made[0].state
        echoed = dict(parse_qsl(urlsplit(made[0].url).query))
        queries: list[dict[str, str]] = [
            {}, {"state": "x"}, {"code": "x"}, {"code": "x", "state": "x"}, {"error": "access_denied"},
            {"error": "access_denied", **echoed}, {"code": "' OR '1'='1", "state": "\u202e\x00"},
            {"a" * 1000: "b" * 8000},
        ]  # fmt: skip
        for query in queries:
            self._sent_back(provider, query, state, f"what no one sent: {sorted(query)[:3]}")
        for bad_state in ("", "x", state[:-1], state[::-1]):
            self._sent_back(provider, {"code": "x", **echoed}, bad_state, "a state that it did not make")

    def redirect(self, provider: SignsInByRedirect, browser: Browser) -> Identity:
        """Sign in by the page elsewhere; come back twice, and with another browser's query."""
        mine, other = self._begin(provider), self._begin(provider)
        query = dict(browser(mine.url))
        self._sent_back(provider, query, other.state, "the query of another browser")
        found = self.asked("finish", lambda: provider.finish(query, mine.state, RETURN_URL))
        if found is None:  # the wrong browser's attempt may have used it up
            mine = self._begin(provider)
            query = dict(browser(mine.url))
            found = self.asked("finish", lambda: provider.finish(query, mine.state, RETURN_URL))
        identity = self._one(found, "finish refuses who signed in on its page")
        self._sent_back(provider, {**query, "state": "x"}, mine.state, "a query with another state")
        return identity

    def refreshed(self, identity: Identity) -> None:
        """Ask who it is now, and where a browser goes to sign out."""
        again = self._one(
            self.asked("refresh", lambda: self.refresh(identity, self._known)),
            f"refresh ends the session of {identity.name}, who is there",
        )
        _demand(
            (again.subject, again.groups) == (identity.subject, identity.groups),
            f"{self.what}: refresh answers {again!r} for {identity!r}",
        )
        provider = self._provider
        if isinstance(provider, SignsOut):
            said = self._call("sign_out", lambda: provider.sign_out(again, RETURN_URL))
            self._judged(lambda: checked_page(provider.name, said))

    def refresh(self, identity: Identity, known: KnownAccount | None) -> object:
        """Ask the provider who somebody is now."""
        return self._provider.refresh(identity, known)

    def asked(self, method: str, call: Callable[[], object]) -> Identity | None:
        """Return what a call answers, checked as xwheel checks it."""
        found = self._call(method, call)
        return self._judged(lambda: checked_identity(self._provider.name, found))

    def _begin(self, provider: SignsInByRedirect) -> SignInStart:
        said = self._call("begin", lambda: provider.begin(RETURN_URL))
        return self._judged(lambda: checked_start(self._provider.name, said))

    def _refused(self, provider: SignsInByPassword, name: str, password: str, known: KnownAccount | None) -> None:
        found = self.asked("sign_in", lambda: provider.sign_in(name, password, known))
        _demand(found is None, f"{self.what}: sign_in lets in {name[:40]!r} with the password {password[:40]!r}")

    def _sent_back(self, provider: SignsInByRedirect, query: Mapping[str, str], state: str, words: str) -> None:
        """Come back with what must not let anybody in: None is an answer, and so is an error."""
        try:
            found: Any = provider.finish(dict(query), state, RETURN_URL)
        except Exception:  # it cannot say who that is, which lets no one in
            return
        _demand(found is None, f"{self.what}: finish lets in with {words}")

    def _call(self, method: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except BaseException as error:
            raise AssertionError(f"{self.what}: {method} raised {error!r}") from error

    def _judged(self, check: Callable[[], T]) -> T:
        try:
            return check()
        except PluginError as error:
            raise AssertionError(str(error)) from None

    def _one(self, found: Identity | None, words: str) -> Identity:
        if found is None:
            raise AssertionError(f"{self.what}: {words}")
        return found


def _demand(holds: bool, words: str) -> None:
    if not holds:
        raise AssertionError(words)
