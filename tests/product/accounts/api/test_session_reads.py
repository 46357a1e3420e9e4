"""What a node reads of sessions: a change elsewhere counts within a second, and open pages cost little."""

from __future__ import annotations

from typing import Any

import pytest
from xwheel_accounts.browsers import COOKIE
from xwheel_accounts.sessions import CACHE_MS, USED_MS
from xwheel_accounts.storage import accounts, sessions
from xwheel_accounts.storage.accounts import Account

from tests.product.accounts.api.test_session import ann, browse, sign_in
from tests.product.accounts.conftest import PeopleApi
from xwheel.model.access import Grants

__all__ = ["ann"]


def test_a_change_elsewhere_counts_within_a_second(api: PeopleApi, ann: Account) -> None:
    """Another node changes the rows: this one asks again after a second."""
    answer = sign_in(api)
    assert browse(api, answer, "GET", "accounts").status_code == 200
    api.db.transaction(lambda conn: accounts.update_account(conn, ann.id, {"grants": Grants()}, 1))
    api.clock.advance(1000)
    assert browse(api, answer, "GET", "accounts").status_code == 403
    api.db.transaction(lambda conn: accounts.update_account(conn, ann.id, {"disabled": True}, 1))
    api.clock.advance(1000)
    assert browse(api, answer, "GET", "session").status_code == 401
    api.db.transaction(lambda conn: accounts.update_account(conn, ann.id, {"disabled": False}, 1))
    api.clock.advance(1000)
    assert browse(api, answer, "GET", "session").status_code == 200
    api.db.transaction(lambda conn: sessions.delete_sessions_of(conn, ann.id))
    api.clock.advance(1000)
    assert browse(api, answer, "GET", "session").status_code == 401


def test_the_database_is_asked_once_a_second(api: PeopleApi, ann: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = sign_in(api)
    api.clock.advance(1000)
    asked = count_reads(monkeypatch)
    for _ in range(20):
        assert browse(api, answer, "GET", "session").status_code == 200
    assert asked == [1]


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list that takes how many sessions are read with each look at the database."""
    asked: list[int] = []
    read = sessions.get_sessions
    monkeypatch.setattr(
        sessions, "get_sessions", lambda conn, digests: asked.append(len(digests)) or read(conn, digests)
    )
    return asked


def test_sessions_in_use_are_read_together(api: PeopleApi, ann: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [sign_in(api) for _ in range(5)]
    for answer in answers:
        assert browse(api, answer, "GET", "session").status_code == 200
    asked = count_reads(monkeypatch)
    for _ in range(3):
        api.clock.advance(CACHE_MS)
        for answer in answers:
            assert browse(api, answer, "GET", "session").status_code == 200
    assert asked == [5, 5, 5]
    # a cookie that is none, and a session that no one uses now, make nothing more be read
    api.clock.advance(USED_MS)
    wrong = api.management.simulate_get("/api/v1/session", headers={"Cookie": f"{COOKIE}={'x' * 43}"})
    assert wrong.status_code == 401
    assert browse(api, answers[1], "GET", "session").status_code == 200
    assert asked[3:] == [1, 1]


def test_a_session_that_was_read_with_another_ends_within_a_second(api: PeopleApi, ann: Account) -> None:
    """It was asked for by no one since: still no copy of it is older than a second."""
    one, other = sign_in(api), sign_in(api)
    for answer in (one, other):
        assert browse(api, answer, "GET", "session").status_code == 200
    api.clock.advance(CACHE_MS)
    assert browse(api, one, "GET", "session").status_code == 200
    items = browse(api, other, "GET", "me/sessions").json["items"]
    (ended,) = [item["id"] for item in items if item["is_this"]]
    api.db.transaction(lambda conn: sessions.delete_sessions(conn, [ended]))
    api.clock.advance(CACHE_MS)
    assert browse(api, one, "GET", "session").status_code == 200
    assert browse(api, other, "GET", "session").status_code == 401


def test_what_was_read_before_a_change_here_is_not_kept(
    api: PeopleApi, ann: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = sign_in(api), sign_in(api)
    for answer in (one, other):
        assert browse(api, answer, "GET", "session").status_code == 200
    api.clock.advance(CACHE_MS)
    read = accounts.get_accounts

    def change_meanwhile(*given: Any) -> Any:
        found = read(*given)
        api.db.transaction(lambda conn: sessions.delete_sessions_of(conn, ann.id))
        api.people.sessions.forget()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(accounts, "get_accounts", change_meanwhile)
        browse(api, one, "GET", "session")
    assert browse(api, one, "GET", "session").status_code == 401
    assert browse(api, other, "GET", "session").status_code == 401
