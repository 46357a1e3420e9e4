"""From the key in the database to a key file: once, and the one who reads the former can sign nothing from then on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from sqlalchemy import select
from xwheel_accounts.audit.anchors import Anchors, read_anchors
from xwheel_accounts.audit.chain import seal, sign_head
from xwheel_accounts.audit.reading import verify_audit
from xwheel_accounts.audit.records import AuditHead
from xwheel_accounts.audit.sealing import SealLoop
from xwheel_accounts.audit.signing import SigningKey
from xwheel_accounts.audit.trail import signing_keys
from xwheel_accounts.audit.verify import AuditFindingKind, VerifyReport
from xwheel_accounts.settings import AuditSection
from xwheel_accounts.storage import audit_chain
from xwheel_accounts.tables import audit

from tests.product.accounts.audit.conftest import World
from tests.support.databases import twin_of
from xwheel.runtime.sealing import KeyRing, make_key
from xwheel.storage.retention import DAY_MS

WorldWith = Callable[[KeyRing], World]


@pytest.fixture
def weak(world_with: WorldWith) -> World:
    """A node without a key file, and three rows that it sealed."""
    world = world_with(KeyRing())
    world.write(3)
    world.seal()
    return world


@pytest.fixture
def strong(weak: World, world_with: WorldWith) -> World:
    """A node with a key file, which sealed three rows more."""
    world = world_with(KeyRing([make_key()]))
    world.clock.advance(10_000)
    world.write(3)
    world.seal()
    assert weak.waiting() == 0
    return world


def check(world: World, *, anchored: bool = False) -> VerifyReport:
    return verify_audit(world.db, world.keys, read_anchors(world.anchor_file) if anchored else ())


def kinds(world: World, *, anchored: bool = False) -> set[AuditFindingKind]:
    return {item.kind for item in check(world, anchored=anchored).findings}


def head_of(world: World) -> AuditHead:
    with world.db.read() as conn:
        head = audit_chain.find_head(conn)
    assert head is not None
    return head


def stolen(world: World) -> SigningKey:
    """Return the key that somebody reads in the database."""
    return signing_keys(world.db, KeyRing()).first


def forge(world: World, head: AuditHead) -> None:
    with world.db.write() as conn:
        audit_chain.update_head(conn, sign_head(head, stolen(world)))


def test_a_chain_is_signed_anew_once_there_is_a_key_file(weak: World, strong: World) -> None:
    assert head_of(strong).key_id == strong.keys.first.name
    report = check(strong, anchored=True)
    assert report.is_sound, report.findings
    assert (report.sealed, report.kept_beside, report.unsealed) == (6, 3, 0)
    assert stolen(weak).name == weak.keys.first.name


def test_rows_that_wait_at_the_switch_are_sealed(weak: World, world_with: WorldWith) -> None:
    weak.write(9)
    strong = world_with(KeyRing([make_key()]))
    strong.write(2)
    assert check(strong).is_sound
    strong.seal()
    assert strong.waiting() == 0
    assert check(strong).is_sound
    assert head_of(strong).position == 14


def test_rows_that_wait_before_anything_is_sealed_are_sealed(world_with: WorldWith) -> None:
    world_with(KeyRing()).write(3)
    strong = world_with(KeyRing([make_key()]))
    strong.write(1)
    strong.seal()
    assert strong.waiting() == 0
    assert check(strong).is_sound


def test_nodes_that_are_restarted_in_turn_break_nothing(weak: World, world_with: WorldWith) -> None:
    ring = KeyRing([make_key()])
    strong = world_with(ring)
    strong.clock.advance(10_000)
    strong.write(2)
    weak.seal()  # it holds the partition still, and does not know the file's key
    strong.seal()
    strong.write(2)
    strong.seal()
    assert head_of(strong).key_id == strong.keys.first.name
    assert check(strong).is_sound


def test_an_idle_chain_is_signed_anew_too(weak: World, world_with: WorldWith) -> None:
    strong = world_with(KeyRing([make_key()]))
    strong.seal()
    assert head_of(strong) == sign_head(head_of(weak), strong.keys.first)


@pytest.mark.parametrize("what", ["cut", "base"])
def test_a_head_that_was_forged_with_the_key_in_the_database_is_not_gone_on_with(
    strong: World, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    with strong.db.read() as conn:
        link = conn.execute(select(audit.c.link).where(audit.c.position == 4)).scalar_one()
    head = head_of(strong)
    if what == "cut":
        strong.run("DELETE FROM audit WHERE position > 4")
        forge(strong, replace(head, position=4, link=link))
    else:
        strong.run("DELETE FROM audit WHERE position <= 4")
        forge(strong, replace(head, base_position=4, base_link=link))
    forged = head_of(strong)
    assert kinds(strong) == {AuditFindingKind.HEAD}
    strong.write(1)
    # also by a node that was not there before
    for sealer in (strong.sealer, strong.new_sealer()):
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            sealer.step(strong.clock.now_ms())
        assert "somebody forged it" in caplog.text
    assert strong.waiting() == 1
    assert head_of(strong) == forged


def test_a_chain_that_was_written_anew_with_the_key_in_the_database_is_seen_by_who_saw_the_other(
    strong: World, caplog: pytest.LogCaptureFixture
) -> None:
    key = stolen(strong)
    with strong.db.write() as conn:
        rows = audit_chain.list_sealed(conn, 1, 2)
        audit_chain.delete_sealed(conn, 100)
        first = replace(head_of(strong), position=0, link="0" * 64)
        audit_chain.update_head(conn, sign_head(first, key))
    assert len(rows) == 2
    strong.sealer.step(strong.clock.now_ms())
    assert "somebody forged it" in caplog.text
    assert kinds(strong, anchored=True) == {AuditFindingKind.HEAD, AuditFindingKind.CUT}


def test_a_row_of_the_key_in_the_database_is_not_sealed_any_more(
    weak: World, strong: World, caplog: pytest.LogCaptureFixture
) -> None:
    weak.write(6)
    strong.write(1)
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            strong.sealer.step(strong.clock.now_ms() + number * 1000)
    assert strong.waiting() == 6
    assert len(caplog.records) == 1
    assert "are not sealed" in caplog.text
    report = check(strong)
    assert [item.kind for item in report.findings] == [AuditFindingKind.KEY] * 6
    assert report.sealed == 7


def test_a_row_of_the_key_in_the_database_is_named_where_it_was_sealed(weak: World, strong: World) -> None:
    weak.write(1)
    with strong.db.write() as conn:
        rows = audit_chain.list_unsealed(conn, 0, 10)
        head, places = seal(head_of(strong), rows, strong.keys.first, strong.clock.now_ms())
        audit_chain.seal_rows(conn, places)
        audit_chain.update_head(conn, head)
    (finding,) = check(strong).findings
    assert (finding.kind, finding.position) == (AuditFindingKind.KEY, 7)


def test_two_nodes_that_switch_at_once_leave_one_chain(weak: World, world_with: WorldWith) -> None:
    weak.write(10)
    strong = world_with(KeyRing([make_key()]))
    strong.write(10)
    twins = [twin_of(strong.db) for _ in range(2)]
    partitions, anchors = strong.partitions, Anchors(AuditSection())
    loops = [SealLoop(twin, partitions, strong.keys, anchors, batch=4) for twin in twins]  # type: ignore[arg-type]
    start, failures = threading.Barrier(2), []

    def go(loop: SealLoop) -> None:
        try:
            start.wait(30)
            for _ in range(10):
                loop.seal(strong.clock.now_ms())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=go, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for twin in twins:
        twin.close()
    assert failures == []
    report = check(strong)
    assert report.is_sound, report.findings
    assert (report.sealed, report.unsealed) == (23, 0)
    assert head_of(strong).key_id == strong.keys.first.name


def test_retention_goes_over_the_switch(strong: World) -> None:
    strong.clock.advance(10 * DAY_MS)
    loop = strong.new_sealer(retention_days=5)
    while loop.step(strong.clock.now_ms()) < 1000:
        pass
    assert loop.deleted == 6
    strong.write(1)
    strong.seal()
    report = check(strong, anchored=True)
    assert report.is_sound, report.findings
    assert (report.base_position, report.sealed) == (6, 1)
