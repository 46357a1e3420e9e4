"""Signing in asks the account's identity provider, and what that says counts for its own accounts alone."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
from xwheel_accounts import Identity, KnownAccount
from xwheel_accounts.local import LocalAccounts
from xwheel_accounts.passwords import hash_password
from xwheel_accounts.places import PasswordPlaces, PasswordsBusyError
from xwheel_accounts.sign_in import SignIn, SignInError, SignInThrottledError, WrongPasswordError
from xwheel_accounts.storage import accounts
from xwheel_accounts.storage.accounts import Account
from xwheel_accounts.throttle import OF_PAIR

from tests.product.accounts.identities import PASSWORD, Directory, Person, providers_of
from tests.product.accounts.trails import trail_of
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import IdentityError
from xwheel.model.access import Grants
from xwheel.storage.database.engine import Database

ADDRESS = "10.0.0.1"


def door(db: Database, *providers: object, places: PasswordPlaces | None = None) -> SignIn:
    clock = ManualClock(NOW)
    return SignIn(db, clock, trail_of(db, clock), providers_of(*providers, clock=clock), places or PasswordPlaces())


def make(db: Database, name: str, **values: Any) -> Account:
    return db.transaction(lambda conn: accounts.insert_account(conn, name, Grants(), NOW, **values))


def test_each_account_is_judged_by_its_own_provider(db: Database) -> None:
    directory = Directory(people={"alice": Person("u-1"), "bob": Person("u-2", password="of the directory")})
    signs_in = door(db, LocalAccounts(), directory)
    alice = make(db, "alice", provider="directory", subject="u-1")
    bob = make(db, "bob", password=hash_password(PASSWORD))
    assert signs_in.judge("alice", PASSWORD, ADDRESS).id == alice.id
    assert signs_in.judge("bob", PASSWORD, ADDRESS).id == bob.id
    for name, password in (("alice", "wrong"), ("bob", "of the directory"), ("eve", PASSWORD)):
        with pytest.raises(SignInError):
            signs_in.judge(name, password, ADDRESS)


def test_a_name_that_another_person_has_got_there_opens_nothing_here(db: Database) -> None:
    directory = Directory(people={"alice": Person("u-2")})
    make(db, "alice", provider="directory", subject="u-1")
    with pytest.raises(SignInError):
        door(db, LocalAccounts(), directory).judge("alice", PASSWORD, ADDRESS)


def test_s14_who_has_to_wait_is_refused_before_a_place_is_taken(db: Database) -> None:
    """One that is refused for want of a place is not counted either; it was not judged."""
    places = PasswordPlaces(1, 1, 0)
    signs_in = door(db, LocalAccounts(), places=places)
    make(db, "bob", password=hash_password(PASSWORD))
    for _ in range(OF_PAIR.free):
        with pytest.raises(SignInError):
            signs_in.judge("bob", "wrong", ADDRESS)
    with places.hold("10.9.9.9"):
        with pytest.raises(SignInThrottledError):
            signs_in.judge("bob", PASSWORD, ADDRESS)
        for _ in range(OF_PAIR.free + 1):
            with pytest.raises(PasswordsBusyError):
                signs_in.judge("bob", "wrong", "10.0.0.2")
    assert signs_in.judge("bob", PASSWORD, "10.0.0.2").name == "bob"


def test_s14_a_directory_that_hangs_keeps_local_accounts_from_nothing(db: Database) -> None:
    asked, over = threading.Event(), threading.Event()

    class Hanging(Directory):
        def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
            asked.set()
            assert over.wait(60)
            return None

    signs_in = door(db, LocalAccounts(), Hanging(), places=PasswordPlaces(1, 1, 0))
    make(db, "alice", provider="directory", subject="u-1")
    make(db, "bob", password=hash_password(PASSWORD))

    def hang() -> None:
        with contextlib.suppress(SignInError, IdentityError):
            signs_in.judge("alice", PASSWORD, ADDRESS)

    thread = threading.Thread(target=hang)
    thread.start()
    try:
        assert asked.wait(60)
        assert signs_in.judge("bob", PASSWORD, "10.0.0.2").name == "bob"
        with pytest.raises(PasswordsBusyError):
            signs_in.judge("alice", PASSWORD, "10.0.0.3")
    finally:
        over.set()
        thread.join()


def test_a_password_judges_the_account_that_is_signed_in_and_not_one_that_got_its_name(db: Database) -> None:
    signs_in = door(db, LocalAccounts())
    gone = make(db, "bob", password=hash_password("of the one before"))
    db.transaction(lambda conn: accounts.delete_account(conn, gone.id))
    make(db, "other")  # ids of deleted rows are given again
    make(db, "bob", password=hash_password(PASSWORD))
    with pytest.raises(WrongPasswordError, match="password"):
        signs_in.judge_again(gone, PASSWORD, ADDRESS, field="password")


def test_no_other_provider_is_shown_a_hash(db: Database) -> None:
    shown: list[KnownAccount | None] = []

    class Curious(Directory):
        def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
            shown.append(known)
            return None

    make(db, "alice", provider="directory", subject="u-1", password=hash_password(PASSWORD))
    with pytest.raises(SignInError):
        door(db, LocalAccounts(), Curious()).judge("alice", PASSWORD, ADDRESS)
    assert shown == [KnownAccount(subject="u-1", name="alice")]


def test_a_password_of_another_provider_is_never_hashed_here(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel_accounts.sign_in.needs_rehash", lambda _: True)
    made = make(db, "alice", provider="directory", subject="u-1", password=hash_password("of earlier"))
    judged = door(db, LocalAccounts(), Directory()).judge("alice", PASSWORD, ADDRESS)
    assert judged.password == made.password


def test_an_account_whose_provider_is_not_asked_any_more_opens_nothing(db: Database) -> None:
    make(db, "alice", provider="directory", subject="u-1", password=hash_password(PASSWORD))
    with pytest.raises(SignInError):
        door(db, LocalAccounts()).judge("alice", PASSWORD, ADDRESS)


def test_a_provider_that_is_away_is_nobodys_wrong_password(db: Database) -> None:
    class Away(Directory):
        def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
            raise OSError("no route to the server")

    signs_in = door(db, LocalAccounts(), Away())
    make(db, "alice", provider="directory", subject="u-1")
    for _ in range(20):
        with pytest.raises(IdentityError, match="no route to the server"):
            signs_in.judge("alice", PASSWORD, ADDRESS)
