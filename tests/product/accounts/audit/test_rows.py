"""Rows of the audit: what stands in them, what never does, and what signs them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from sqlalchemy import event, select
from xwheel_accounts.audit.records import AuditRow, detail_of
from xwheel_accounts.audit.signing import SigningKeys
from xwheel_accounts.audit.trail import KEY, signing_keys
from xwheel_accounts.tables import audit

from tests.product.accounts.trails import trail_of
from tests.support.databases import twin_of
from xwheel.clock import ManualClock
from xwheel.model.access import Actor, ActorKind, acting
from xwheel.model.deeds import AuditOutcome, Deed
from xwheel.runtime.sealing import KeyRing, make_key
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage import settings
from xwheel.storage.database.engine import Connection, Database

NOW = 1_800_000_000_000
ALICE = Actor(
    kind=ActorKind.ACCOUNT,
    name="alice",
    account_id=7,
    credential="session 12",
    address="192.0.2.7",
    reason="the report is late ☂",
)


@dataclass(frozen=True)
class Thing:
    name: str
    size: int
    digest: bytes
    updated_ms: int


def rows(db: Database) -> list[AuditRow]:
    with db.read() as conn:
        return [AuditRow(**row._mapping) for row in conn.execute(select(audit).order_by(audit.c.id))]


@pytest.fixture
def keys(db: Database) -> SigningKeys:
    return signing_keys(db, KeyRing([make_key()]))


@pytest.fixture
def trail(db: Database, keys: SigningKeys) -> AuditTrail:
    return trail_of(db, ManualClock(NOW), keys)


def test_a_row_says_who_did_what_to_what_and_is_signed(db: Database, trail: AuditTrail, keys: SigningKeys) -> None:
    with acting(ALICE):
        db.transaction(
            lambda conn: trail.record(
                conn, "thing.edit", "thing", 12, group_id=3, before=Thing("a", 1, b"x", 5), after=Thing("a", 2, b"y", 6)
            )
        )
    (row,) = rows(db)
    assert (row.actor_kind, row.actor, row.account_id) == ("account", "alice", 7)
    assert (row.credential, row.address, row.reason) == (ALICE.credential, ALICE.address, ALICE.reason)
    assert (row.action, row.object_kind, row.object_id, row.group_id) == ("thing.edit", "thing", "12", 3)
    assert (row.at_ms, row.outcome, row.position, row.link) == (NOW, "done", None, None)
    assert json.loads(row.detail) == {"before": {"size": 1}, "after": {"size": 2}}
    key = keys.find(row.key_id)
    assert key is not None
    assert key.has_signed(row.signed_bytes(), row.mac)
    assert not key.is_kept_beside


def test_a_row_goes_when_its_change_does(db: Database, trail: AuditTrail) -> None:
    def fail(conn: Connection) -> None:
        trail.record(conn, "thing.edit", "thing", 1)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        db.transaction(fail)
    assert rows(db) == []


def test_many_rows_are_one_statement(db: Database, trail: AuditTrail) -> None:
    statements: list[str] = []
    event.listen(db.engine, "before_cursor_execute", lambda _c, _u, statement, *_: statements.append(statement))
    entries = [Deed(action="job.start", kind="job", object_id=at) for at in range(100)]
    db.transaction(lambda conn: trail.record_many(conn, entries))
    assert len([text for text in statements if "INSERT" in text]) == 1
    found = rows(db)
    assert [row.object_id for row in found] == [str(at) for at in range(100)]
    assert len({row.mac for row in found}) == 100


def test_what_no_database_takes_is_taken_out(db: Database, trail: AuditTrail, keys: SigningKeys) -> None:
    odd = Actor(kind=ActorKind.TOKEN, name="n" * 4000, reason="a\0b\ud800" + "c" * 600, address="a" * 999)
    with acting(odd):
        db.transaction(
            lambda conn: trail.record(conn, "x", "calendar", "ü\0" * 400, after={"text": "a\ud800", "deep": ["\ud800"]})
        )
    (row,) = rows(db)
    key = keys.find(row.key_id)
    assert key is not None
    assert key.has_signed(row.signed_bytes(), row.mac)
    assert (len(row.actor), len(row.reason), row.reason[:4]) == (255, 500, "ab?c")
    assert json.loads(row.detail)["after"]["text"] == "a?"


def test_a_detail_shows_no_source_no_digest_and_no_text_of_any_length() -> None:
    said = detail_of(None, {"source": "rm -rf /", "digest": b"1", "token": "t", "param": "p" * 5000})
    assert "rm -rf" not in said
    shown = json.loads(said)["after"]
    assert set(shown) == {"source", "param"}
    assert shown["source"].startswith("8 characters, sha256 ")
    assert len(shown["param"]) < 400
    many = detail_of(None, {f"field{at}": "ü" * 900 for at in range(100)})
    assert len(many.encode()) <= 60_000
    assert json.loads(many)["fields"][0] == "field0"
    assert detail_of({"a": 1}, {"a": 1}) == "{}"


def test_without_a_key_file_one_key_is_made_and_kept(db: Database) -> None:
    first = signing_keys(db, KeyRing())
    twin = twin_of(db)
    second = signing_keys(twin, KeyRing())
    twin.close()
    assert first.first.name == second.first.name
    assert first.first.is_kept_beside
    with db.read() as conn:
        assert settings.find_setting(conn, KEY)
    # with a key file later on, it still verifies
    later = signing_keys(db, KeyRing([make_key()]))
    assert not later.first.is_kept_beside
    assert later.find(first.first.name) is not None


def test_the_first_key_signs_and_all_verify(db: Database) -> None:
    old, new = make_key(), make_key()
    before, after = signing_keys(db, KeyRing([old])), signing_keys(db, KeyRing([new, old]))
    assert before.first.name != after.first.name
    found = after.find(before.first.name)
    assert found is not None
    assert found.has_signed(b"data", before.first.sign(b"data"))
    assert signing_keys(db, KeyRing([new])).find(before.first.name) is None


def test_a_refusal_may_be_recorded_for_somebody_else(db: Database, trail: AuditTrail) -> None:
    entry = Deed(
        action="job.edit",
        kind="job",
        object_id=1,
        outcome=AuditOutcome.REFUSED,
        at_ms=NOW - 9,
        actor=Actor(kind=ActorKind.TOKEN, name="bob"),
    )
    with acting(ALICE):
        db.transaction(lambda conn: trail.record_many(conn, [entry]))
    (row,) = rows(db)
    assert (row.actor, row.outcome, row.at_ms) == ("bob", "refused", NOW - 9)
