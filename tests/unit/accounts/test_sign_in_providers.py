"""Signing in asks the account's identity provider, and what that says counts for its own accounts alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.identities import PASSWORD, Directory, Person, providers_of
from tests.support.rows import NOW
from xwheel.accounts.sign_in import SignIn, SignInError
from xwheel.builtin.local_accounts import LocalAccounts
from xwheel.errors import IdentityError
from xwheel.model.access import Grants
from xwheel.plugin import Identity, KnownAccount
from xwheel.runtime.passwords import hash_password
from xwheel.runtime.sealing import KeyRing
from xwheel.storage.access import accounts
from xwheel.storage.access.accounts import Account
from xwheel.storage.access.audit import AuditTrail, signing_keys
from xwheel.storage.database.engine import Database
from xwheel.testing import ManualClock

ADDRESS = "10.0.0.1"


def door(db: Database, *providers: object) -> SignIn:
    clock = ManualClock(NOW)
    trail = AuditTrail(signing_keys(db, KeyRing()), clock)
    return SignIn(db, clock, trail, providers_of(*providers, clock=clock))


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
