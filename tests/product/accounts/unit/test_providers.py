"""Calls of identity providers: what they answer is checked, and one that fails, hangs or raises harms itself alone."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from xwheel_accounts import Identity, KnownAccount
from xwheel_accounts.providers import CheckedProvider

from tests.product.accounts.identities import PASSWORD, Directory, Person, providers_of
from xwheel.clock import ManualClock
from xwheel.errors import ConfigError, IdentityError

PAGE = "https://xwheel.example.org/back"


def nobody(provider: str) -> KnownAccount | None:
    return None


def only(directory: Any, **more: Any) -> CheckedProvider:
    found = providers_of(directory, **more).find(directory.name)
    assert found is not None
    return found


def test_the_first_that_knows_name_and_password_says_who_it_is() -> None:
    one = Directory("one", people={"alice": Person("a-1")})
    two = Directory("two", people={"alice": Person("a-2", password="other"), "bob": Person("b-2")})
    providers = providers_of(one, two)
    asked: list[str] = []

    def known(provider: str) -> KnownAccount | None:
        asked.append(provider)
        return None

    def who(name: str, password: str) -> tuple[str, str] | None:
        found = providers.sign_in(name, password, known)
        return found and (found.provider, found.subject)

    assert who("alice", PASSWORD) == ("one", "a-1")
    assert asked == ["one"]
    assert who("alice", "other") == ("two", "a-2")
    assert who("bob", PASSWORD) == ("two", "b-2")
    assert who("bob", "wrong") is None
    assert who("eve", PASSWORD) is None


def test_what_a_provider_says_of_its_own_name_does_not_count() -> None:
    class Boasts(Directory):
        def identity(self, name: str) -> Identity:
            return Identity(subject="1", name=name, provider="local", groups=["b", "a", "b"])

    found = only(Boasts()).sign_in("alice", PASSWORD, None)
    assert found is not None
    assert (found.provider, found.groups) == ("directory", ("b", "a"))


def test_one_that_fails_does_not_keep_others_from_answering(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Directory):
        def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
            raise OSError("the server is away")

    providers = providers_of(Broken("broken"), Directory())
    assert providers.sign_in("alice", PASSWORD, nobody) is not None
    with pytest.raises(IdentityError, match="identity provider broken failed: OSError: the server is away"):
        providers.sign_in("alice", "wrong", nobody)
    broken = providers.find("broken")
    assert broken is not None
    assert (broken.failures, len([r for r in caplog.records if r.levelno == logging.WARNING])) == (2, 1)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, ValueError, RecursionError])
def test_whatever_it_raises_is_its_own_failure(kind: type[BaseException]) -> None:
    class Raises(Directory):
        def refresh(self, identity: Identity, known: KnownAccount | None) -> Identity | None:
            raise kind("no")

        def sign_out(self, identity: Identity, return_url: str) -> str | None:
            raise kind("no")

    provider = only(Raises())
    found = provider.sign_in("alice", PASSWORD, None)
    assert found is not None
    with pytest.raises(IdentityError, match=kind.__name__):
        provider.refresh(found, None)
    assert provider.sign_out(found, PAGE) is None


@pytest.mark.parametrize("length", [26, 480, 2000])
def test_no_message_holds_what_somebody_typed(length: int, caplog: pytest.LogCaptureFixture) -> None:
    password = (PASSWORD * 100)[:length]
    known = KnownAccount(subject="1", name="alice", password_hash="$argon2id$of-alice")

    class Tells(Directory):
        def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
            raise ValueError(f"cannot bind as {name} with {password} {known and known.password_hash}")

    provider = only(Tells())
    with pytest.raises(IdentityError) as caught:
        provider.sign_in("alice", password, known)
    told = f"{caught.value}{caught.value.__cause__}{caplog.text}{provider.last_error}{known!r}"
    assert "cannot bind as alice with ***" in told
    assert password[:20] not in told
    assert "$argon2id" not in told
    assert caught.value.__suppress_context__


def test_one_that_hangs_is_left_alone_and_then_not_called() -> None:
    released = threading.Event()

    class Hangs(Directory):
        calls = 0

        def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
            Hangs.calls += 1
            released.wait(60)
            return None

    provider = only(Hangs(), provider_timeout_s=0.05)
    try:
        for _ in range(4):
            with pytest.raises(IdentityError, match="did not answer within"):
                provider.sign_in("alice", PASSWORD, None)
        assert provider.hanging() == 4
        with pytest.raises(IdentityError, match="not called until"):
            provider.sign_in("alice", PASSWORD, None)
        assert Hangs.calls == 4
    finally:
        released.set()


def test_a_failure_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    directory = Directory()
    provider = only(directory, clock=clock)
    directory.people["alice"] = Person("x" * 300)
    for _ in range(3):
        with pytest.raises(IdentityError, match="subject must have 1 to 255"):
            provider.sign_in("alice", PASSWORD, None)
    clock.advance(600_000)
    with pytest.raises(IdentityError):
        provider.sign_in("alice", PASSWORD, None)
    directory.people["alice"] = Person("u-1")
    assert provider.sign_in("alice", PASSWORD, None)
    said = [record.getMessage() for record in caplog.records if record.name == "xwheel_accounts.providers"]
    assert [words.partition(":")[0] for words in said] == [
        "no one can sign in by it now (1 failures by now)",
        "no one can sign in by it now (4 failures by now)",
        "identity provider directory works again after 4 failures",
    ]


def test_a_browser_is_sent_away_and_comes_back() -> None:
    directory = Directory()
    provider = only(directory)
    start = provider.begin(PAGE)
    found = provider.finish(directory.browse(start.url), start.state, PAGE)
    assert found is not None
    assert (found.name, found.groups) == ("alice", ("ops", "all"))
    assert provider.finish({"code": "x", "state": "y"}, start.state, PAGE) is None
    assert (provider.sign_out(found, PAGE) or "").startswith("https://id.example.org/logout?to=https%3A")
    assert start.state not in repr(start)


def test_a_refresh_is_about_the_same_person_or_none() -> None:
    directory = Directory()
    provider = only(directory)
    found = provider.sign_in("alice", PASSWORD, None)
    assert found is not None
    directory.people = {"alicia": Person("u-1", groups=["ops"]), "alice": Person("u-2")}
    again = provider.refresh(found, None)
    assert again is not None
    assert (again.name, again.groups) == ("alicia", ("ops",))
    directory.people = {}
    assert provider.refresh(found, None) is None
    directory.refresh = lambda identity, known: Identity(subject="u-2", name="alice")  # type: ignore[method-assign]
    with pytest.raises(IdentityError, match="answered with subject 'u-2' for 'u-1'"):
        provider.refresh(found, None)


def test_a_provider_of_one_way_says_so_when_asked_the_other_way() -> None:
    class ByPassword:
        name = "plain"
        title = ""

        def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
            return None

        def refresh(self, identity: Identity, known: KnownAccount | None) -> Identity | None:
            return None

    provider = only(ByPassword())
    assert (provider.title, provider.by_password, provider.by_redirect) == ("plain", True, False)
    with pytest.raises(IdentityError, match="has no page elsewhere"):
        provider.begin(PAGE)
    assert provider.sign_out(Identity(subject="1", name="a"), PAGE) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"providers": ["directory", "directory"]}, "names directory twice"),
        ({"providers": ["ldap"]}, "no identity provider is called 'ldap'; known: directory"),
    ],
)  # fmt: skip
def test_settings_that_name_what_is_not_there_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        providers_of(Directory(), **settings)
