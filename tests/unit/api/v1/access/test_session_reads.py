"""What a node reads of sessions: a change elsewhere counts within a second, and open pages cost little."""

from __future__ import annotations

from collections.abc import Collection

import falcon.testing
import pytest

from tests.unit.api.conftest import Api
from tests.unit.api.v1.access.test_session import ann, browse, sign_in
from xwheel.model.access import Grants
from xwheel.storage.access import accounts, sessions
from xwheel.storage.access.accounts import Account
from xwheel.storage.database.engine import Connection

__all__ = ["ann"]


def test_a_change_elsewhere_counts_within_a_second(api: Api, ann: Account) -> None:
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


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sessions were read together, each time that the database was asked."""
    found: list[int] = []
    read = sessions.get_sessions

    def counted(conn: Connection, digests: Collection[bytes]) -> list[sessions.Session]:
        found.append(len(digests))
        return read(conn, digests)

    monkeypatch.setattr(sessions, "get_sessions", counted)
    return found


def test_the_database_is_asked_once_a_second(api: Api, ann: Account, reads: list[int]) -> None:
    answer = sign_in(api)
    reads.clear()
    api.clock.advance(1000)
    for _ in range(20):
        assert browse(api, answer, "GET", "session").status_code == 200
    assert reads == [1]


def test_sessions_in_use_are_read_together_and_others_are_not(
    api: Api, ann: Account, reads: list[int]
) -> None:
    several = [sign_in(api) for _ in range(6)]

    def ask(answer: falcon.testing.Result) -> int:
        return browse(api, answer, "GET", "session").status_code

    assert [ask(answer) for answer in several] == [200] * 6
    reads.clear()
    for _ in range(10):  # five of them ask each second, at different times in it
        for answer in several[:5]:
            assert ask(answer) == 200
            api.clock.advance(200)
    assert len(reads) <= 2 * 10
    assert set(reads[-5:]) == {5}  # the sixth was forgotten once it did not ask
    # what was read for another one's sake is no older than what it asks for itself
    api.db.transaction(lambda conn: sessions.delete_sessions_of(conn, ann.id))
    api.clock.advance(1000)
    assert [ask(answer) for answer in several] == [401] * 6
