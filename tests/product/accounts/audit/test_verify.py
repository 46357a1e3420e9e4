"""Whatever somebody with the database's password does to the audit, a verification names the row."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace
from sqlalchemy import select
from xwheel_accounts.audit.anchors import read_anchors
from xwheel_accounts.audit.chain import sign_head
from xwheel_accounts.audit.reading import export_audit, verify_audit
from xwheel_accounts.audit.records import AuditRow
from xwheel_accounts.audit.trail import KEY, signing_keys
from xwheel_accounts.audit.verify import AuditFindingKind, Retention, VerifyReport
from xwheel_accounts.storage.audit_chain import find_head
from xwheel_accounts.tables import audit, audit_head

from tests.product.accounts.audit.conftest import NOW, World
from xwheel.runtime.sealing import KeyRing, make_key
from xwheel.storage import settings
from xwheel.storage.retention import DAY_MS

COPIED = ", ".join(name for name in AuditRow.__struct_fields__ if name not in {"id", "position", "link"})


def check(world: World, *, anchored: bool = False) -> VerifyReport:
    return verify_audit(world.db, world.keys, read_anchors(world.anchor_file) if anchored else ())


def found(world: World, *, anchored: bool = False) -> set[tuple[AuditFindingKind, int | None, int | None]]:
    report = check(world, anchored=anchored)
    assert report.total == len(report.findings)
    return {(item.kind, item.row_id, item.position) for item in report.findings}


@pytest.fixture
def sealed(world: World) -> World:
    """Ten sealed rows, with an anchor of each batch."""
    for count in (4, 4, 2):
        world.write(count)
        world.clock.advance(2000)
        world.seal()
    return world


def test_an_audit_that_nobody_touched_is_sound(sealed: World) -> None:
    report = check(sealed, anchored=True)
    assert report.is_sound, report.findings
    assert (report.sealed, report.unsealed, report.position) == (10, 0, 10)
    assert report.anchors == 3
    assert report.kept_beside == 0


def test_an_empty_audit_is_sound(world: World) -> None:
    report = check(world)
    assert report.is_sound
    assert (report.sealed, report.position) == (0, 0)


def test_rows_that_wait_for_their_seal_are_said_to_be_so(sealed: World) -> None:
    sealed.write(3)
    report = check(sealed)
    assert report.is_sound
    assert (report.sealed, report.unsealed) == (10, 3)
    assert report.oldest_unsealed_ms == sealed.clock.now_ms() - 2


@pytest.mark.parametrize(
    "change",
    [
        "detail = '{}'",
        "actor = 'mallory'",
        "reason = 'because'",
        "outcome = 'refused'",
        "at_ms = at_ms + 1",
        "group_id = 9",
        "account_id = 3",
        "nonce = nonce + 1",
        f"mac = '{'a' * 64}'",
        "mac = 'ü'",
        f"link = '{'b' * 64}'",
        "id = 4000",
    ],
)
def test_the_row_that_was_changed_is_named(sealed: World, change: str) -> None:
    row_id = sealed.ids()[5]
    sealed.run(f"UPDATE audit SET {change} WHERE id = {row_id}")
    named = 4000 if change.startswith("id") else row_id
    assert found(sealed) == {(AuditFindingKind.CHANGED, named, 6)}


def test_a_signature_under_a_key_that_is_not_ours_proves_nothing(sealed: World) -> None:
    sealed.run(f"UPDATE audit SET key_id = 'other' WHERE id = {sealed.ids()[5]}")
    (finding,) = check(sealed).findings
    assert finding.kind is AuditFindingKind.KEY
    assert "1 rows are signed under key other" in finding.what


@pytest.mark.parametrize(("first", "count"), [(1, 1), (6, 1), (3, 4)])
def test_the_place_that_rows_were_removed_from_is_named(sealed: World, first: int, count: int) -> None:
    sealed.run(f"DELETE FROM audit WHERE position BETWEEN {first} AND {first + count - 1}")
    assert found(sealed) == {(AuditFindingKind.REMOVED, None, first)}


def test_two_rows_that_changed_places_are_named(sealed: World) -> None:
    one, other = sealed.ids()[3:5]
    sealed.run(
        f"UPDATE audit SET position = 99 WHERE id = {one}",
        f"UPDATE audit SET position = 4 WHERE id = {other}",
        f"UPDATE audit SET position = 5 WHERE id = {one}",
    )
    assert {(AuditFindingKind.CHANGED, other, 4), (AuditFindingKind.CHANGED, one, 5)} <= found(sealed)


def test_a_row_that_was_inserted_and_then_sealed_is_named(sealed: World) -> None:
    names = COPIED.replace("nonce", "nonce + 1").replace("reason", "'x'")
    sealed.run(f"INSERT INTO audit ({COPIED}) SELECT {names} FROM audit WHERE position = 3")
    row_id = max(_all_ids(sealed))
    assert found(sealed) == {(AuditFindingKind.INSERTED, row_id, None)}
    sealed.seal()
    assert found(sealed) == {(AuditFindingKind.CHANGED, row_id, 11)}


def test_a_copy_of_a_row_is_named_before_and_after_it_is_sealed(sealed: World) -> None:
    sealed.run(f"INSERT INTO audit ({COPIED}) SELECT {COPIED} FROM audit WHERE position = 3")
    row_id = max(_all_ids(sealed))
    assert found(sealed) == {(AuditFindingKind.INSERTED, row_id, None)}
    sealed.seal()
    assert found(sealed) == {(AuditFindingKind.INSERTED, row_id, 11)}


def test_a_row_that_was_put_behind_the_last_one_is_seen(sealed: World) -> None:
    sealed.run(f"INSERT INTO audit ({COPIED}, position, link) SELECT {COPIED}, 11, link FROM audit WHERE position = 10")
    kinds = {item[0] for item in found(sealed)}
    assert kinds == {AuditFindingKind.INSERTED, AuditFindingKind.HEAD}


def test_a_row_that_was_put_before_the_first_one_is_named(sealed: World) -> None:
    sealed.run(f"INSERT INTO audit ({COPIED}, position, link) SELECT {COPIED}, 0, link FROM audit WHERE position = 10")
    assert (AuditFindingKind.INSERTED, max(_all_ids(sealed)), 0) in found(sealed)


@pytest.mark.parametrize("left", [0, 7, 8, 9])
def test_a_tail_that_was_cut_is_seen_by_the_head(sealed: World, left: int) -> None:
    sealed.run(f"DELETE FROM audit WHERE position > {left}")
    assert found(sealed) == {(AuditFindingKind.CUT, None, left + 1)}


def test_a_head_that_was_changed_along_is_seen_by_its_signature(sealed: World) -> None:
    with sealed.db.read() as conn:
        link = conn.execute(select(audit.c.link).where(audit.c.position == 7)).scalar_one()
    sealed.run("DELETE FROM audit WHERE position > 7", f"UPDATE audit_head SET position = 7, link = '{link}'")
    assert found(sealed) == {(AuditFindingKind.HEAD, None, 7)}


def test_an_old_head_with_a_tail_cut_is_seen_by_an_anchor(world: World) -> None:
    world.write(4)
    world.seal()
    with world.db.read() as conn:
        old = dict(conn.execute(select(audit_head)).one()._mapping)
    world.clock.advance(2000)
    world.write(4)
    world.seal()
    world.run("DELETE FROM audit WHERE position > 4", "DELETE FROM audit_head")
    with world.db.write() as conn:
        conn.execute(audit_head.insert().values(old))
    assert found(world) == set()
    assert found(world, anchored=True) == {(AuditFindingKind.CUT, None, 5)}


def test_rows_of_a_backup_under_the_head_of_what_came_after_it_are_seen(world: World) -> None:
    """Both are signed, and both end at the same place: only the head's link says that other rows were there."""
    world.write(4)
    world.seal()
    backup = heads(world)
    world.clock.advance(2000)
    world.write(2)
    world.seal()
    after = heads(world)
    world.run("DELETE FROM audit WHERE position > 4", "DELETE FROM audit_head")
    with world.db.write() as conn:
        conn.execute(audit_head.insert().values(backup))
    world.clock.advance(2000)
    world.write(2)
    world.seal()
    assert found(world) == set()
    world.run("DELETE FROM audit_head")
    with world.db.write() as conn:
        conn.execute(audit_head.insert().values(after))
    assert found(world) == {(AuditFindingKind.HEAD, None, 6)}


def heads(world: World) -> dict[str, Any]:
    with world.db.read() as conn:
        return dict(conn.execute(select(audit_head)).one()._mapping)


def test_an_audit_that_was_emptied_is_seen_by_an_anchor(sealed: World) -> None:
    sealed.run("DELETE FROM audit", "DELETE FROM audit_head")
    assert found(sealed) == set()
    assert found(sealed, anchored=True) == {(AuditFindingKind.CUT, None, 1)}
    # and so once a new chain has outgrown the old one
    anchors = sealed.anchor_file.with_name("old.jsonl")
    shutil.copy(sealed.anchor_file, anchors)
    sealed.write(12)
    sealed.seal()
    report = verify_audit(sealed.db, sealed.keys, read_anchors(anchors))
    assert {item.kind for item in report.findings} == {AuditFindingKind.ANCHOR}
    assert [item.position for item in report.findings] == [4, 8, 10]


def test_a_head_that_was_removed_is_seen(sealed: World) -> None:
    sealed.run("DELETE FROM audit_head")
    assert found(sealed) == {(AuditFindingKind.HEAD, None, None)}


def test_an_anchor_that_was_changed_is_seen(sealed: World) -> None:
    lines = sealed.anchor_file.read_text().splitlines()
    sealed.anchor_file.write_text("\n".join([*lines[:2], lines[2].replace('"position":10', '"position":12')]))
    assert found(sealed, anchored=True) == {(AuditFindingKind.ANCHOR, None, 12)}


def test_keys_can_be_replaced(world_with: Callable[[KeyRing], World]) -> None:
    old, new = make_key(), make_key()
    before = world_with(KeyRing([old]))
    before.write(3)
    before.seal()
    after = world_with(KeyRing([new, old]))
    after.clock.advance(5000)
    # a node that was not restarted yet signs with the old key
    before.write(1)
    after.write(2)
    after.seal()
    assert check(after, anchored=True).is_sound
    only_new = world_with(KeyRing([new]))
    assert {item.kind for item in check(only_new).findings} == {AuditFindingKind.KEY}


def test_after_a_key_file_the_key_in_the_database_links_nothing(world_with: Callable[[KeyRing], World]) -> None:
    weak = world_with(KeyRing())
    weak.write(2)
    weak.seal()
    report = check(weak)
    assert report.is_sound
    assert report.kept_beside == 2
    strong = world_with(KeyRing([make_key()]))
    strong.write(2)
    strong.seal()
    assert check(strong).is_sound
    # somebody reads the key in the database and goes on with the chain
    with strong.db.read() as conn:
        assert settings.find_setting(conn, KEY)
    forger = signing_keys(strong.db, KeyRing())
    weak.write(1)
    with strong.db.write() as conn:
        from xwheel_accounts.audit.chain import seal
        from xwheel_accounts.storage import audit_chain

        head = find_head(conn)
        assert head is not None
        forged, places = seal(head, audit_chain.list_unsealed(conn, 0, 10), forger.first, NOW)
        audit_chain.seal_rows(conn, places)
        audit_chain.update_head(conn, forged)
    kinds = {(item.kind, item.position) for item in check(strong).findings}
    assert (AuditFindingKind.CHANGED, 5) in kinds


def test_retention_leaves_what_the_rest_is_verified_by(sealed: World) -> None:
    sealed.clock.advance(10 * 86_400_000)
    sealed.write(3)
    sealed.seal()
    loop = sealed.new_sealer(retention_days=5, batch=4)
    while loop.step(sealed.clock.now_ms()) < 1000:
        pass
    assert loop.deleted == 10
    report = check(sealed, anchored=True)
    assert report.is_sound, report.findings
    assert (report.base_position, report.sealed, report.position) == (10, 3, 13)
    # what stays is protected as before
    sealed.run("DELETE FROM audit WHERE position = 11")
    assert found(sealed) == {(AuditFindingKind.REMOVED, None, 11)}


def test_rows_that_go_during_a_verification_are_not_missed(sealed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from xwheel_accounts.audit import reading

    monkeypatch.setattr(reading, "BATCH", 2)
    sealed.clock.advance(10 * 86_400_000)
    sealed.write(3)
    sealed.seal()
    loop = sealed.new_sealer(retention_days=5, batch=4)

    class Slow(reading.Verifier):
        def add(self, *arguments: Any) -> None:
            super().add(*arguments)
            loop.step(sealed.clock.now_ms())

    monkeypatch.setattr(reading, "Verifier", Slow)
    report = check(sealed)
    assert report.is_sound, report.findings
    assert loop.deleted


def kept(world: World, days: int, *, after_days: int = 0) -> VerifyReport:
    now_ms = world.clock.now_ms() + after_days * DAY_MS
    anchors = read_anchors(world.anchor_file)
    return verify_audit(world.db, world.keys, anchors, Retention(days=days, now_ms=now_ms))


@pytest.fixture
def swept(sealed: World) -> World:
    """Of ten rows and their anchors, eight were deleted as old."""
    sealed.clock.advance(10 * DAY_MS)
    sealed.write(3)
    sealed.seal()
    loop = sealed.new_sealer(retention_days=5, batch=8)
    with sealed.db.write() as conn:
        loop._delete(conn, sealed.clock.now_ms() - 5 * DAY_MS)
    return sealed


def test_an_anchor_of_the_last_row_that_was_deleted_is_compared(swept: World) -> None:
    report = kept(swept, 5)
    assert report.is_sound, report.findings
    assert (report.base_position, report.anchors, report.anchors_below) == (8, 3, 1)
    lines = swept.anchor_file.read_text().splitlines()
    other = sign_head(replace(read_anchors(swept.anchor_file)[1], link="c" * 64), swept.keys.first)
    assert other.position == 8
    swept.anchor_file.write_text("\n".join([lines[0], json.encode(other).decode(), *lines[2:]]))
    assert found(swept, anchored=True) == {(AuditFindingKind.ANCHOR, None, 8)}


def test_rows_that_were_deleted_although_all_are_kept_are_a_finding(swept: World) -> None:
    (finding,) = kept(swept, 0).findings
    assert (finding.kind, finding.position) == (AuditFindingKind.REMOVED, 1)
    assert "retention_days is 0" in finding.what


def test_rows_that_were_deleted_before_their_time_are_a_finding(swept: World) -> None:
    (finding,) = kept(swept, 12).findings
    assert (finding.kind, finding.position) == (AuditFindingKind.REMOVED, 4)
    assert "younger than audit.retention_days" in finding.what
    assert kept(swept, 12, after_days=3).is_sound


def test_nothing_that_was_deleted_is_no_finding(sealed: World) -> None:
    assert kept(sealed, 0).is_sound
    assert kept(sealed, 5).is_sound


def _all_ids(world: World) -> list[int]:
    with world.db.read() as conn:
        return list(conn.execute(select(audit.c.id)).scalars())


def test_an_export_is_an_anchor(world: World, tmp_path: Path) -> None:
    world.write(5)
    world.seal()
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"\n".join(export_audit(world.db)) + b"\n")
    assert [head.position for head in read_anchors(path)] == [5]
    report = verify_audit(world.db, world.keys, read_anchors(path))
    assert report.is_sound
    assert report.anchors == 1
    assert json.decode(path.read_bytes().splitlines()[-1])["head"]["position"] == 5
