"""Identity providers for tests: people in memory, who sign in by password or on a page elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlsplit

from xwheel_accounts import Identity, KnownAccount, SignInStart
from xwheel_accounts.providers import IdentityProviders
from xwheel_accounts.settings import AccountsSection

from xwheel.clock import ManualClock
from xwheel.config import build_config
from xwheel.plugin.registries import Registry

PASSWORD = "nine herons above the weir"


@dataclass
class Person:
    subject: str
    password: str = PASSWORD
    display_name: str = ""
    groups: Sequence[str] = ()


@dataclass
class Directory:
    """A provider for both ways: what it is asked and answers, tests may replace."""

    name: str = "directory"
    title: str = "The company"
    people: dict[str, Person] = field(default_factory=lambda: {"alice": Person("u-1", groups=("ops", "all"))})
    codes: dict[str, str] = field(default_factory=dict)

    def identity(self, name: str) -> Identity:
        person = self.people[name]
        return Identity(
            subject=person.subject, name=name, display_name=person.display_name, groups=person.groups, session="s3ssion"
        )  # fmt: skip

    def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
        person = self.people.get(name)
        return self.identity(name) if person and person.password == password else None

    def begin(self, return_url: str) -> SignInStart:
        nonce = secrets.token_hex(8)
        url = f"https://id.example.org/authorize?state={nonce}&redirect_uri={quote(return_url, safe='')}"
        return SignInStart(url=url, state=nonce)

    def finish(self, query: Mapping[str, str], state: str, return_url: str) -> Identity | None:
        if not state or query.get("state") != state:
            return None
        name = self.codes.pop(query.get("code", ""), "")
        return self.identity(name) if name else None

    def browse(self, url: str, name: str = "alice") -> Mapping[str, str]:
        """Sign in on the page as somebody; return what the browser comes back with."""
        code = secrets.token_hex(8)
        self.codes[code] = name
        return {"code": code, "state": dict(parse_qsl(urlsplit(url).query))["state"]}

    def refresh(self, identity: Identity, known: KnownAccount | None) -> Identity | None:
        return next((self.identity(name) for name, one in self.people.items() if one.subject == identity.subject), None)

    def sign_out(self, identity: Identity, return_url: str) -> str | None:
        return f"https://id.example.org/logout?to={quote(return_url, safe='')}"


def providers_of(*given: object, clock: ManualClock | None = None, **settings: object) -> IdentityProviders:
    """Return the identity providers of a node, in this order."""
    names = [str(getattr(one, "name", "")) for one in given]
    config = build_config({"accounts": {"providers": names, **settings}})
    registry: Registry[object] = Registry("identity provider", dict(zip(names, given, strict=True)), {})
    return IdentityProviders(registry, config.section("accounts", AccountsSection), clock or ManualClock())  # type: ignore[arg-type]
