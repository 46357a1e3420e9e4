"""Cursors are written only if no job was changed since it was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.model import RunState
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection
from xwheel.storage.schema.tables import job as table


def change(**values: object) -> Callable[[Connection, int], object]:
    return lambda conn, job_id: conn.execute(update(table).where(table.c.id == job_id).values(**values))


@pytest.mark.parametrize(
    ("meddle", "is_written"),
    [
        (lambda *_: None, True),
        (change(param="new"), True),
        (change(revision=7), False),
        (change(next_fire_ms=NOW + 7), False),
        (change(next_fire_ms=None), False),
        (change(enabled=False), False),
    ],
    ids=["nothing", "other column", "revision", "moved", "no next fire", "stopped"],
)
def test_cursors_are_written_only_over_what_was_seen(
    node: HandNode, meddle: Callable[[Connection, int], object], is_written: bool
) -> None:
    ids = [node.job(schedule_conf="1").id for _ in range(3)]
    with node.db.read() as conn:
        seen = jobs.get_jobs(conn, ids)
    cursors = [jobs.JobCursor(item, NOW + 9000, NOW, None, True, "") for item in ids]

    def write(conn: Connection) -> bool:
        meddle(conn, ids[1])
        return jobs.update_seen_fires(conn, cursors, seen)

    assert node.db.transaction(write) is is_written
    assert (node.load(ids[1]).next_fire_ms == NOW + 9000) is is_written


def between(node: HandNode, monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], object]) -> int:
    """Claim once, with something that happens between the reading and the writing; return the wait."""
    planner = node.scheduler.planning.claim.planner
    real = planner.plan

    def plan(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        monkeypatch.undo()
        meddle()
        return found

    monkeypatch.setattr(planner, "plan", plan)
    return node.scheduler.planning.claim.step(node.clock.now_ms())


def test_a_pause_between_reading_and_writing_holds_the_claim_up(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = node.job(schedule_conf="1")
    between(node, monkeypatch, node.scheduler.management.schedules.pause)
    assert node.runs(job.id) == []


def test_a_partition_that_went_and_came_back_is_claimed_under_its_new_epoch(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = node.job(schedule_conf="1")
    lease = node.scheduler.core.lease

    def move() -> None:
        lease.release()
        node.clock.advance(lease.renew_ms)
        lease.acquire()

    before = lease.epochs[job.partition]
    between(node, monkeypatch, move)
    assert node.runs(job.id) == []
    node.plan()
    assert {run.epoch for run in node.runs(job.id)} == {lease.epochs[job.partition]}
    assert lease.epochs[job.partition] > before


def test_a_job_whose_fires_another_node_planned_is_left_out_and_looked_at_again_at_once(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, other = node.job(schedule_conf="1"), node.job(schedule_conf="1")
    later_ms = NOW + 60_000

    def move() -> None:
        with node.db.write() as conn:
            change(next_fire_ms=later_ms)(conn, moved.id)

    assert between(node, monkeypatch, move) == 0
    assert node.runs(moved.id) == []
    assert node.load(moved.id).next_fire_ms == later_ms
    assert node.runs(other.id) != []


def test_a_fixed_delay_goes_on_if_its_fire_was_planned_before_under_another_id(node: HandNode) -> None:
    """As after a restored backup; nothing would ever end the run that it awaits."""
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="2s")
    fire_ms = job.next_fire_ms
    assert fire_ms is not None
    row = make_run(
        500, job_id=job.id, partition=job.partition, state=RunState.SUCCEEDED, origin_key=fire_ms, finished_ms=NOW
    )
    node.db.transaction(lambda conn: runs.insert_runs(conn, [row]))
    node.scheduler.planning.claim.step(node.clock.now_ms())
    after = node.load(job.id)
    assert (after.awaits_root, after.next_fire_ms) == (None, node.clock.now_ms())
    assert [run.id for run in node.runs(job.id)] == [500]
