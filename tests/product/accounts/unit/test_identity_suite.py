"""The suite for identity providers: what keeps the contract passes, and each lie is found and named."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from xwheel_accounts import Identity, KnownAccount, SignInStart
from xwheel_accounts.passwords import hash_password
from xwheel_devtools.testing import check_identity_provider

from tests.product.accounts.identities import PASSWORD, Directory, Person
from tests.support.node import plugins


def check(provider: Any, **more: Any) -> None:
    check_identity_provider(provider, **{"name": "alice", "password": PASSWORD, **more})


def found_in(provider: Any, words: str, **more: Any) -> None:
    with pytest.raises(AssertionError, match=words):
        check(provider, **more)


def test_the_local_accounts_keep_the_contract() -> None:
    known = KnownAccount(subject="7", name="alice", display_name="Alice", password_hash=hash_password(PASSWORD))
    local = plugins().registered("xwheel_register_identity_providers")["local"]
    check(local, known=known, groups=(), gone=lambda: None)


def test_who_keeps_the_contract_passes() -> None:
    directory = Directory()
    check(directory, browser=directory.browse, groups=("all", "ops"), gone=directory.people.clear)


def test_one_whose_only_people_are_strangers_is_tried_with_them() -> None:
    check_identity_provider(Directory(people={}))


class Lies(Directory):
    """A directory of which single answers are replaced."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        super().__init__()
        for name, method in methods.items():
            setattr(self, name, method.__get__(self))


def takes_any_password(self: Directory, name: str, password: str, known: object) -> Identity | None:
    return self.identity(name) if name in self.people else None


def takes_anybody(self: Directory, name: str, password: str, known: object) -> Identity | None:
    return Identity(subject="guest", name="guest")


def trims(self: Directory, name: str, password: str, known: object) -> Identity | None:
    return Directory.sign_in(self, name, password.strip(), None)


def forgets_itself(self: Directory, name: str, password: str, known: object) -> Identity | None:
    found = Directory.sign_in(self, name, password, None)
    return found and msgspec.structs.replace(found, subject=secrets.token_hex(4))


def raises(self: Directory, name: str, password: str, known: object) -> Identity | None:
    raise LookupError("no such user") if name not in self.people else SystemExit(1)


def refuses(self: Directory, name: str, password: str, known: object) -> Identity | None:
    return None


def changing(**fields: Any) -> Callable[..., Any]:
    def sign_in(self: Directory, name: str, password: str, known: object) -> Identity | None:
        found = Directory.sign_in(self, name, password, None)
        return found and msgspec.structs.replace(found, **fields)

    return sign_in


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (takes_any_password, "sign_in lets in 'alice' with the password ''"),
        (takes_anybody, "sign_in lets in"),
        (trims, "sign_in lets in 'alice' with the password 'nine herons above the weir '"),
        (forgets_itself, "one person has the subjects"),
        (raises, "sign_in raised LookupError"),
        (refuses, "refuses alice with the right password"),
        (changing(subject=""), "subject must have 1 to 255 characters, not 0"),
        (changing(subject=7), "subject must be a text, not int"),
        (changing(name="al ice"), "name must hold no blanks"),
        (changing(name="al\u202eice"), "name must hold no control characters"),
        (changing(name="a" * 4000), "name must have 1 to 64 characters, not 4000"),
        (changing(display_name="Ali\nce"), "display_name must hold no control characters"),
        (changing(groups="ops"), "groups must be a list of at most 500, not str"),
        (changing(groups=["g"] * 501), "groups must be a list of at most 500, not list with 501"),
        (changing(groups=[b"ops"]), "groups must be a text, not bytes"),
        (changing(session="x" * 20_000), "session must have at most 16384 characters"),
    ],
)
def test_a_lie_about_passwords_is_found(method: Callable[..., Any], words: str) -> None:
    found_in(Lies(sign_in=method), words)


def no_identity(self: Directory, name: str, password: str, known: object) -> Any:
    return {"subject": "u-1"} if name in self.people else None


def test_what_is_no_identity_is_found() -> None:
    found_in(Lies(sign_in=no_identity), "returned dict where an Identity or None is due")


def same_state(self: Directory, return_url: str) -> SignInStart:
    return SignInStart(url="https://id.example.org/?state=same", state="same")


def scripted(self: Directory, return_url: str) -> SignInStart:
    return SignInStart(url="javascript:alert(1)", state=secrets.token_hex(4))


def splits_headers(self: Directory, return_url: str) -> SignInStart:
    return SignInStart(url="https://id.example.org/\r\nSet-Cookie: a=b", state=secrets.token_hex(4))


def huge_state(self: Directory, return_url: str) -> SignInStart:
    return SignInStart(url="https://id.example.org/", state=secrets.token_hex(2000))


def takes_any_state(self: Directory, query: Mapping[str, str], state: str, return_url: str) -> Any:
    name = self.codes.get(query.get("code", ""))
    return self.identity(name) if name else None


def takes_no_code(self: Directory, query: Mapping[str, str], state: str, return_url: str) -> Any:
    return self.identity("alice")


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"begin": same_state}, "begin returned the same state twice"),
        ({"begin": scripted}, "url must be an absolute address with https or http"),
        ({"begin": splits_headers}, "url must be an address of printable ASCII"),
        ({"begin": huge_state}, "state must have at most 2048 characters"),
        ({"finish": takes_any_state}, "finish lets in with the query of another browser"),
        ({"finish": takes_no_code}, "finish lets in with what no one sent"),
        ({"sign_out": lambda self, identity, return_url: "//evil"}, "sign_out must be an absolute address"),
        ({"sign_out": lambda self, identity, return_url: 1 / 0}, "sign_out raised ZeroDivisionError"),
        ({"refresh": lambda self, identity, known: None}, "refresh ends the session of alice"),
        ({"refresh": lambda self, identity, known: Identity(subject="u-2", name="alice")}, "refresh answers"),
    ],
)  # fmt: skip
def test_a_lie_about_pages_and_sessions_is_found(methods: dict[str, Any], words: str) -> None:
    provider = Lies(**methods)
    found_in(provider, words, browser=provider.browse)


def test_a_session_that_outlives_its_person_is_found() -> None:
    provider = Lies(refresh=lambda self, identity, known: identity)
    found_in(provider, "refresh goes on with alice, who is gone", gone=provider.people.clear)


def test_groups_that_are_missing_are_found() -> None:
    provider = Directory(people={"alice": Person("u-1", groups=("ops",))})
    found_in(provider, r"alice is in \['ops'\], not in \['all', 'ops'\]", groups=("all", "ops"))


class Nothing:
    name = "nothing"

    def refresh(self, identity: Identity, known: KnownAccount | None) -> Identity | None:
        return None


class Half(Nothing):
    def begin(self, return_url: str) -> SignInStart:
        raise NotImplementedError


class Asynchronous(Nothing):
    async def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
        return None


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (Nothing(), "it needs the method sign_in, or begin and finish"),
        (Half(), r"the method finish\(query, state, return_url\) is missing"),
        (Asynchronous(), "must be a plain method, not an async one"),
    ],
)
def test_a_wrong_form_is_found(provider: Any, words: str) -> None:
    found_in(provider, words)
