"""Calls identity providers: on threads that can be left behind; their answers are checked before they are believed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from xwheel.clock import Clock
from xwheel.errors import ConfigError, IdentityError, PluginError
from xwheel.plugin.registries import Registry
from xwheel.plugin.validation import TEXT_LENGTH, words_of
from xwheel.runtime.foreign import CountedCalls, PluginThreads

from xwheel_accounts.identities import (
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
from xwheel_accounts.settings import AccountsSection

logger = logging.getLogger(__name__)

T = TypeVar("T")

LEAST_HIDDEN: Final = 4
"""A shorter text is not taken out of messages: it stands in words by chance, and opens nothing."""


class CheckedProvider(CountedCalls):
    """One identity provider; each failure is an :class:`IdentityError`.

    Thread-safety: any thread, outside of transactions.

    Attributes:
        name: What settings and accounts call it.
        title: What people see where they sign in.
        by_password: It takes names and passwords.
        by_redirect: It sends browsers to a page elsewhere.

    Args:
        name: Its name.
        provider: The plugin's object.
        threads: What it is called on.
        clock: Measures for how long it fails.
    """

    def __init__(self, name: str, provider: IdentityProvider, threads: PluginThreads, clock: Clock) -> None:
        super().__init__(f"identity provider {name}", "no one can sign in by it now", threads, clock, logger)
        self.name = name
        self.title = str.__str__(provider.title) or name
        self.by_password = isinstance(provider, SignsInByPassword)
        self.by_redirect = isinstance(provider, SignsInByRedirect)
        self._provider = provider

    def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
        """Return whose name and password that is, None if they are wrong.

        Its subject says which account that is, and never its name: names are given to others.

        Raises:
            IdentityError: The provider cannot say now; nothing is known of the password.
        """
        provider = self._provider
        if not isinstance(provider, SignsInByPassword):
            raise IdentityError(f"{self.what} takes no passwords")
        return self._call(
            lambda: provider.sign_in(name, password, known),
            lambda found: checked_identity(self.name, found),
            secrets=(password, (known.password_hash if known else "") or ""),
        )

    def begin(self, return_url: str) -> SignInStart:
        """Return where a browser goes to sign in, and what to keep until it is back; raises :class:`IdentityError`."""
        provider = self._redirecting()
        return self._call(lambda: provider.begin(return_url), lambda found: checked_start(self.name, found))

    def finish(self, query: Mapping[str, str], state: str, return_url: str) -> Identity | None:
        """Return who came back from the page elsewhere, None if no one is let in; raises :class:`IdentityError`."""
        provider = self._redirecting()
        return self._call(
            lambda: provider.finish(dict(query), state, return_url),
            lambda found: checked_identity(self.name, found),
            secrets=(state, *query.values()),
        )

    def refresh(self, identity: Identity, known: KnownAccount | None) -> Identity | None:
        """Return who somebody is now, None if the session ended elsewhere; raises :class:`IdentityError`."""
        return self._call(
            lambda: self._provider.refresh(identity, known),
            lambda found: checked_identity(self.name, found, identity.subject),
            secrets=(identity.session,),
        )

    def sign_out(self, identity: Identity, return_url: str) -> str | None:
        """Return where a browser goes to sign out elsewhere, or None; never raises, for the session here has ended."""
        provider = self._provider
        if not isinstance(provider, SignsOut):
            return None
        try:
            return self._call(
                lambda: provider.sign_out(identity, return_url),
                lambda found: checked_page(self.name, found),
                secrets=(identity.session,),
            )
        except IdentityError:
            return None

    def _redirecting(self) -> SignsInByRedirect:
        if not isinstance(self._provider, SignsInByRedirect):
            raise IdentityError(f"{self.what} has no page elsewhere")
        return self._provider

    def _call(self, call: Callable[[], object], check: Callable[[object], T], *, secrets: Sequence[str] = ()) -> T:
        try:
            return self._counted(lambda: check(self._guarded(call, secrets)))
        except PluginError as error:
            # what raised it may hold what somebody typed
            raise IdentityError(str(error)) from None

    def _guarded(self, call: Callable[[], object], secrets: Sequence[str]) -> object:
        try:
            return call()
        except BaseException as error:
            words = words_of(error)
            for secret in secrets:
                if len(secret) >= LEAST_HIDDEN:
                    words = words.replace(secret, "***")
            text = f"{self.what} failed: {type(error).__name__}: {words}"
            raise PluginError(text[:TEXT_LENGTH]) from None


class IdentityProviders:
    """The identity providers by which people sign in here, in the order of the setting.

    Args:
        providers: All that are there, by name.
        settings: Which of them, and how long they may take.
        clock: Measures for how long one fails.

    Raises:
        ConfigError: The settings name one that is not there, or one of them twice.
    """

    def __init__(self, providers: Registry[IdentityProvider], settings: AccountsSection, clock: Clock) -> None:
        threads = PluginThreads(settings.provider_timeout_s)
        self._chosen: dict[str, CheckedProvider] = {}
        for name in settings.providers:
            if name in self._chosen:
                raise ConfigError(f"accounts.providers: names {name} twice")
            try:
                provider = providers[name]
            except KeyError as error:
                raise ConfigError(f"accounts.providers: {error.args[0]}") from None
            self._chosen[name] = CheckedProvider(name, provider, threads, clock)

    def __iter__(self) -> Iterable[CheckedProvider]:
        return iter(self._chosen.values())

    def find(self, name: str) -> CheckedProvider | None:
        """Return a provider by name, None if people do not sign in by it any more."""
        return self._chosen.get(name)

    def sign_in(self, name: str, password: str, known: Callable[[str], KnownAccount | None]) -> Identity | None:
        """Ask the providers that take passwords one after the other; return what the first says that knows both.

        Args:
            name: What somebody typed.
            password: What somebody typed.
            known: Returns what is kept of the name for a provider; called outside of transactions.

        Raises:
            IdentityError: No one knows both, and one of them could not be asked.
        """
        failed: IdentityError | None = None
        for provider in self._chosen.values():
            if not provider.by_password:
                continue
            try:
                found = provider.sign_in(name, password, known(provider.name))
            except IdentityError as error:
                failed = failed or error
                continue
            if found is not None:
                return found
        if failed is not None:
            raise failed
        return None
