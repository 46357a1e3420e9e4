"""Identity providers: who somebody is, by name and password or by a page elsewhere; and what their answers must be."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

import msgspec
from xwheel.errors import PluginError
from xwheel.plugin import Hook

T = TypeVar("T")

MAX_SUBJECT: Final = 255
MAX_ACCOUNT_NAME: Final = 64
MAX_DISPLAY_NAME: Final = 128
MAX_GROUPS: Final = 500
MAX_GROUP_NAME: Final = 512
MAX_SESSION: Final = 16_384
MAX_STATE: Final = 2048
"""Characters; sealed and in base64 they fit a cookie."""

MAX_TARGET: Final = 8192
SHOWN: Final = 60
_JOINERS: Final = "\u200c\u200d"
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class KnownAccount(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What xwheel keeps of an account that signs in by one provider; no other provider is shown it.

    Attributes:
        subject: By what the provider knows the person.
        name: The account's name.
        display_name: The person's name, or empty.
        password_hash: What is stored of the password; None for all providers but the one that has it kept here.
    """

    subject: str
    name: str
    display_name: str = ""
    password_hash: str | None = None

    def __repr__(self) -> str:
        return f"KnownAccount(subject={self.subject!r}, name={self.name!r})"


class Identity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who somebody is.

    Attributes:
        subject: By what the provider knows the person for ever: it stays when the name changes, and no one else ever
            gets it. 1 to 255 characters.
        name: What the account is called here; 1 to 64 characters without blanks.
        display_name: The person's name, to show; at most 128 characters.
        groups: The groups that the person is in now, at most 500 of 1 to 512 characters. They give no roles: an account
            has those that an admin gave it.
        session: What the provider needs to ask for the person again, such as a token; at most 16,384 characters. It is
            kept sealed with the session and shown to none but this provider.
        provider: Who says so; set by xwheel.
    """

    subject: str
    name: str
    display_name: str = ""
    groups: Sequence[str] = ()
    session: str = ""
    provider: str = ""

    def __repr__(self) -> str:
        return f"Identity(provider={self.provider!r}, subject={self.subject!r}, name={self.name!r})"


class SignInStart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a browser goes to sign in.

    Attributes:
        url: An absolute address with ``https`` or ``http``, at most 8,192 characters.
        state: What ``finish`` gets back, at most 2,048 characters. xwheel seals it under its key file and gives it to
            this one browser for ten minutes; so a secret may be in it, such as a PKCE verifier.
    """

    url: str
    state: str

    def __repr__(self) -> str:
        return "SignInStart(...)"


class IdentityProvider(Protocol):
    """Says who somebody is; the setting ``accounts.providers`` names those that are asked, in that order.

    It signs in by name and password (:class:`SignsInByPassword`), by a page of its own (:class:`SignsInByRedirect`), or
    both. Each call is made on a thread of its own, outside of any transaction, and counts as failed after the setting
    ``accounts.provider_timeout_s``; while four calls of a provider hang, it is not called. What it raises says that it
    cannot answer now: no one is let in because of that, and sessions that are there go on until they end by themselves.
    A message must hold no secret.

    Attributes:
        name: What the setting calls it, and accounts that it brought.
        title: What people see on the page where they sign in; the name if it is empty.
    """

    name: str
    title: str = ""

    def refresh(self, identity: Identity, known: KnownAccount | None) -> Identity | None:
        """Return who somebody is now, who signed in before; None if that came to an end.

        Asked every few minutes while a session is used. The answer may have another name and other groups, but has the
        same subject; its session data takes the place of the earlier.

        Args:
            identity: What the provider answered last.
            known: The account, as it is now; None if it is gone.
        """
        ...


@runtime_checkable
class SignsInByPassword(Protocol):
    """A provider that takes a name and a password."""

    def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
        """Return who that is, or None if the name or the password is wrong.

        It must take as long for a name that is not there as for a wrong password, and refuse an empty password even if
        the other side would not (LDAP servers take it for an anonymous call).

        Args:
            name: What somebody typed: at most 256 characters, any of them.
            password: What somebody typed: at most 256 characters.
            known: The account that has this name and signs in by this provider; None if there is none.
        """
        ...


@runtime_checkable
class SignsInByRedirect(Protocol):
    """A provider that sends browsers to a page elsewhere, from which they come back, such as one of OpenID Connect."""

    def begin(self, return_url: str) -> SignInStart:
        """Return where the browser goes, and what is needed when it comes back.

        Each call returns another state, with something random that the page elsewhere hands back in the query.

        Args:
            return_url: Address of xwheel to which the browser is sent back.
        """
        ...

    def finish(self, query: Mapping[str, str], state: str, return_url: str) -> Identity | None:
        """Return who came back, or None if somebody said no or the query does not belong to the state.

        It must refuse a query that does not hold what its ``begin`` put into this state: otherwise one person can sign
        in another one's browser.

        Args:
            query: What stands in the address that the browser came back with; a name that stands there twice is left
                out. Anybody can have written it.
            state: What ``begin`` returned for this browser.
            return_url: As for ``begin``.
        """
        ...


@runtime_checkable
class SignsOut(Protocol):
    """A provider that wants to know when a session ends, or where a browser must go to end the session elsewhere."""

    def sign_out(self, identity: Identity, return_url: str) -> str | None:
        """Return the address where the browser goes to sign out elsewhere, or None.

        The session here has ended by then, whatever comes of this.

        Args:
            identity: What the provider answered last.
            return_url: Where the browser may be sent back to.
        """
        ...


def check_provider(item: IdentityProvider) -> None:
    """Refuse a provider by which no one could sign in."""
    if not isinstance(item, SignsInByPassword | SignsInByRedirect):
        raise PluginError(
            f"an object of {type(item).__qualname__} is no identity provider: it needs the method sign_in, or begin "
            "and finish"
        )


HOOKS: Final[Mapping[str, Hook]] = {
    "xwheel_register_identity_providers": Hook(
        kind="identity provider",
        contract=IdentityProvider,
        words="Return identity providers; the setting ``accounts.providers`` names those by which people sign in.",
        more=(SignsInByPassword, SignsInByRedirect, SignsOut),
        check=check_provider,
    )
}
"""The hook that this distribution brings."""


def checked_identity(provider: str, found: object, subject: str | None = None) -> Identity | None:
    """Return what an identity provider answered, with its name; None if it let no one in.

    Args:
        provider: Its name.
        found: What it returned.
        subject: Whose identity it must be, for a refresh; None for anybody's.

    Raises:
        PluginError: It is no identity, or holds what none may hold; the message holds no secret.
    """
    if found is None:
        return None
    if type(found) is not Identity:
        raise _wrong(provider, f"returned {_kind(found)} where an Identity or None is due")
    text = _Texts(provider)
    groups = found.groups
    if type(groups) not in (list, tuple) or len(groups) > MAX_GROUPS:
        size = f" with {len(groups)} of them" if isinstance(groups, list | tuple) else ""
        raise _wrong(provider, f"groups must be a list of at most {MAX_GROUPS}, not {_kind(groups)}{size}")
    made = Identity(
        subject=text.shown("subject", found.subject, 1, MAX_SUBJECT),
        name=text.plain("name", found.name, MAX_ACCOUNT_NAME),
        display_name=text.shown("display_name", found.display_name, 0, MAX_DISPLAY_NAME),
        groups=tuple(dict.fromkeys(text.shown("groups", item, 1, MAX_GROUP_NAME) for item in groups)),
        session=text.opaque("session", found.session, MAX_SESSION),
        provider=provider,
    )
    if subject is not None and made.subject != subject:
        raise _wrong(provider, f"answered with subject {made.subject[:SHOWN]!r} for {subject[:SHOWN]!r}")
    return made


def checked_start(provider: str, found: object) -> SignInStart:
    """Return where a provider sends a browser.

    Raises:
        PluginError: It is no address of a page, or the state is not fit to be kept.
    """
    if type(found) is not SignInStart:
        raise _wrong(provider, f"begin returned {_kind(found)} where a SignInStart is due")
    state = _Texts(provider).opaque("state", found.state, MAX_STATE)
    return SignInStart(url=_page(provider, "url", found.url), state=state)


def checked_page(provider: str, found: object) -> str | None:
    """Return where a provider sends a browser to sign out, or None.

    Raises:
        PluginError: It is no address of a page.
    """
    return None if found is None else _page(provider, "sign_out", found)


class _Texts:
    """Checks texts of one provider's answer."""

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def plain(self, field: str, value: object, limit: int) -> str:
        """Return a text that people type, so that nothing in it is blank or invisible."""
        text = self.shown(field, value, 1, limit)
        if any(char.isspace() or char in _JOINERS for char in text):
            raise _wrong(self._provider, f"{field} must hold no blanks and nothing invisible")
        return text

    def shown(self, field: str, value: object, least: int, limit: int) -> str:
        """Return a text that pages show: of this length, and without characters that control how it looks."""
        if type(value) is not str:
            raise _wrong(self._provider, f"{field} must be a text, not {_kind(value)}")
        text = unicodedata.normalize("NFC", value)
        if not least <= len(text) <= limit:
            raise _wrong(self._provider, f"{field} must have {least} to {limit} characters, not {len(text)}")
        if any(unicodedata.category(char) in _UNSEEN and char not in _JOINERS for char in text):
            raise _wrong(
                self._provider, f"{field} must hold no control characters and none that turn the direction of text"
            )
        return text

    def opaque(self, field: str, value: object, limit: int) -> str:
        """Return a text that only the provider reads."""
        if type(value) is not str:
            raise _wrong(self._provider, f"{field} must be a text, not {_kind(value)}")
        if len(value) > limit:
            raise _wrong(self._provider, f"{field} must have at most {limit} characters, not {len(value)}")
        if any(char == "\x00" or unicodedata.category(char) == "Cs" for char in value):
            raise _wrong(self._provider, f"{field} must hold no null characters and no halves of characters")
        return value


def _page(provider: str, field: str, value: object) -> str:
    """Return an address to which a browser may be sent: nothing in it ends a header or runs as a script."""
    if type(value) is not str or not 0 < len(value) <= MAX_TARGET:
        raise _wrong(provider, f"{field} must be an address of at most {MAX_TARGET} characters")
    if not value.isascii() or not value.isprintable() or " " in value or "\\" in value:
        raise _wrong(provider, f"{field} must be an address of printable ASCII characters, the others encoded")
    try:
        parts = urlsplit(value)
        is_fit = parts.scheme in {"https", "http"} and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_fit = False
    if not is_fit:
        raise _wrong(provider, f"{field} must be an absolute address with https or http, and no user in it")
    return value


def _wrong(provider: str, why: str) -> PluginError:
    return PluginError(f"identity provider {provider}: {why}")


def _kind(value: object) -> str:
    """Return what a value is, without running code of its own."""
    return type(value).__qualname__[:SHOWN]
