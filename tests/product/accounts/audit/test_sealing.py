"""Sealing: one chain, no matter who seals, whatever the clock does, and nothing after a head that was changed."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest
from xwheel_accounts.audit.anchors import Anchors
from xwheel_accounts.audit.reading import export_audit, verify_audit
from xwheel_accounts.audit.sealing import SealLoop
from xwheel_accounts.settings import AuditSection
from xwheel_accounts.storage import audit_chain

from tests.product.accounts.audit.conftest import NOW, World
from tests.support.databases import twin_of
from xwheel.model.deeds import Deed
from xwheel.storage.database.engine import Connection
from xwheel.storage.retention import DAY_MS


def test_only_the_holder_of_partition_0_seals(world: World) -> None:
    world.write(2)
    world.partitions.mine = {1}
    assert world.sealer.step(NOW) == 1000
    assert world.waiting() == 2
    world.partitions.mine, world.partitions.acts = {0}, False
    world.sealer.step(NOW)
    assert world.waiting() == 2
    world.partitions.acts = True
    assert world.sealer.step(NOW) == 1000
    assert world.waiting() == 0


def test_many_rows_are_sealed_in_batches(world: World) -> None:
    world.write(10)
    naps = [world.sealer.step(NOW) for _ in range(3)]
    assert naps[0] < 100
    assert naps[1] < 100
    assert naps[2] == 1000
    assert len(world.ids()) == 10


def test_two_that_seal_at_once_leave_one_chain(world: World) -> None:
    world.write(40)
    twins = [twin_of(world.db) for _ in range(3)]
    start, failures = threading.Barrier(4), []

    def go(loop: SealLoop) -> None:
        try:
            start.wait(30)
            for _ in range(60):
                loop.seal(NOW)
        except BaseException as error:
            failures.append(error)

    def write() -> None:
        start.wait(30)
        for number in range(40):
            entry = Deed(action="job.start", kind="job", object_id=number)
            twins[2].transaction(lambda conn, entry=entry: world.trail.record_many(conn, [entry]))

    loops = [SealLoop(twin, world.partitions, world.keys, Anchors(AuditSection()), batch=3) for twin in twins[:2]]
    threads = [threading.Thread(target=go, args=(loop,)) for loop in (*loops, world.sealer)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for twin in twins:
        twin.close()
    assert failures == []
    world.seal()
    report = verify_audit(world.db, world.keys)
    assert report.is_sound, report.findings
    assert (report.sealed, report.position, report.unsealed) == (80, 80, 0)


def test_a_chain_that_another_node_begins_meanwhile_is_not_broken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This node finds no head, then rows that are sealed: on servers each question sees what others have committed."""
    world.write(3)
    twin = twin_of(world.db)
    other, find, asked = (
        SealLoop(twin, world.partitions, world.keys, Anchors(AuditSection())),
        audit_chain.find_head,
        [],
    )

    def late(conn: Any, **options: bool) -> Any:
        found = find(conn, **options)
        if not asked:
            asked.append(found)
            other.seal(NOW)
        return found

    monkeypatch.setattr(audit_chain, "find_head", late)
    world.sealer.seal(NOW)
    twin.close()
    assert asked == [None]
    assert verify_audit(world.db, world.keys).sealed == 3


def test_a_row_that_is_committed_late_comes_later_in_the_chain(world: World) -> None:
    if world.db.backend == "sqlite":
        return  # one writer at a time there
    entry = Deed(action="job.start", kind="job", object_id="late")
    twin = twin_of(world.db)
    with twin.write() as conn:
        world.trail.record_many(conn, [entry])
        world.write(2)
        world.seal()
        assert len(world.ids()) == 2
    twin.close()
    world.seal()
    ids = world.ids()
    assert ids[2] < ids[0]
    assert verify_audit(world.db, world.keys).is_sound


def test_time_that_goes_back_breaks_nothing(world: World) -> None:
    world.write(3)
    world.sealer.step(NOW + 1_000_000)
    world.write(3)
    world.sealer.step(NOW - 5_000_000)
    world.write(3)
    world.sealer.step(NOW)
    report = verify_audit(world.db, world.keys)
    assert report.is_sound
    assert report.sealed == 9
    # and heads are written out although the next one was planned for far ahead
    lines = world.anchor_file.read_text().splitlines()
    assert [json.loads(line)["position"] for line in lines] == [3, 6, 9]


def test_a_clock_that_was_ahead_deletes_nothing_early(world: World) -> None:
    world.write(1)
    world.clock.advance(400 * 86_400_000)
    world.write(1)
    world.clock.step_wall(-400 * 86_400_000)
    world.write(2)
    world.seal()
    loop = world.new_sealer(retention_days=5)
    loop.step(NOW + 10 * 86_400_000)
    assert loop.deleted == 1
    assert len(world.ids()) == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET at_ms = 1 WHERE position IN (2, 3)",
        "DELETE FROM audit WHERE position = 2",
        "UPDATE audit SET position = 0 WHERE position = 2",
        f"UPDATE audit SET link = '{'b' * 64}' WHERE position = 1",
        "UPDATE audit SET key_id = 'other' WHERE position = 1",
    ],
)
def test_retention_deletes_nothing_that_is_not_what_was_sealed(
    world: World, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    world.write(1)
    world.clock.advance(10 * DAY_MS)
    world.write(3)
    world.seal()
    world.run(change)
    ids = world.ids()
    if "at_ms" not in change:
        world.clock.advance(20 * DAY_MS)
    loop = world.new_sealer(retention_days=5)
    now_ms = world.clock.now_ms()
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            assert loop.step(now_ms + number * 1000) == 1000
        world.write(1)
        loop.step(now_ms + 61_000)
    assert world.ids()[: len(ids)] == ids
    assert len(world.ids()) == len(ids) + 1  # it goes on sealing
    assert loop.deleted == 0
    assert len(caplog.records) == 1
    assert "no old rows are deleted: run 'xwheel audit verify'" in caplog.text
    assert not verify_audit(world.db, world.keys).is_sound


def test_nothing_is_sealed_after_a_head_that_was_changed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.write(2)
    world.seal()
    world.run("UPDATE audit_head SET sealed_ms = 5")
    world.write(1)
    with caplog.at_level(logging.ERROR):
        assert world.sealer.step(NOW) == 1000
        world.sealer.step(NOW + 1000)
    assert len(caplog.records) == 1
    assert "xwheel audit verify" in caplog.text
    assert world.waiting() == 1


def test_nothing_is_sealed_after_a_head_that_is_gone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.write(2)
    world.seal()
    world.run("DELETE FROM audit_head")
    world.write(1)
    world.sealer.step(NOW)
    assert "xwheel audit verify" in caplog.text
    assert world.waiting() == 1


def test_a_row_that_nobody_signed_is_said_when_it_is_sealed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.write(1)
    world.run("UPDATE audit SET actor = 'mallory'")
    world.seal()
    assert "not what was signed" in caplog.text


def test_an_idle_audit_writes_nothing(world: World) -> None:
    world.write(1)
    world.seal()

    def fail(*_: object) -> Connection:
        raise AssertionError("nothing waits")

    world.db.transaction = fail  # type: ignore[method-assign, assignment]
    for at in range(5):
        assert world.sealer.step(NOW + at * 1000) == 1000


def test_an_export_has_every_row_once_in_the_order_of_the_chain(world: World) -> None:
    world.write(9)
    world.seal()
    world.write(2)
    *rows, last = [json.loads(line) for line in export_audit(world.db)]
    assert [row["position"] for row in rows] == [*range(1, 10), None, None]
    assert json.loads(rows[0]["detail"]) == {"before": {"name": "a"}, "after": {"name": "b"}}
    assert last["head"]["position"] == 9
