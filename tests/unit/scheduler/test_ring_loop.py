"""The tick thread forgets nothing, whatever a batch does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.ring import TimeRing
from xwheel.scheduler import ring_loop
from xwheel.scheduler.parking import ParkedRuns
from xwheel.scheduler.ports import Queued
from xwheel.scheduler.ring_loop import RingLoop
from xwheel.storage.runs import QueuedRun


def no_parking() -> ParkedRuns:
    return ParkedRuns(lambda: None, limit=100)


def queued(count: int) -> list[QueuedRun]:
    return [QueuedRun(number, 1, 1, 1, NOW) for number in range(1, count + 1)]


def test_runs_that_wait_survive_the_failure_of_a_later_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_loop, "FIRE_BATCH", 2)
    fired: list[int] = []

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        ids = [run.id for run in due]
        if 3 in ids and not fired:
            fired.append(0)
            raise OSError("the database went away")
        if 1 in ids and not fired:
            return {2}
        fired.extend(ids)
        return set()

    loop = RingLoop(TimeRing(NOW, 20), fire, lambda: None, no_parking(), tick_ms=20, waiting_limit=100)
    loop.enqueue(queued(6))
    with pytest.raises(OSError, match="went away"):
        loop.step(NOW)
    assert [number for number in range(1, 7) if loop.is_held(number)] == [2, 5, 6]
    loop.step(NOW + 20)
    assert fired == [0, 2, 5, 6]
    assert loop.depth() == (0, 0)


def test_a_batch_without_any_place_is_asked_once_a_tick() -> None:
    calls: list[int] = []

    def fire(due: Sequence[Queued], now_ms: int) -> set[int]:
        calls.append(len(due))
        return {run.id for run in due}

    loop = RingLoop(TimeRing(NOW, 20), fire, lambda: None, no_parking(), tick_ms=20, waiting_limit=10_000)
    loop.enqueue(queued(2500))
    loop.step(NOW)
    assert calls == [1000]
    assert loop.depth() == (0, 2500)


def test_a_crowded_partition_is_claimed_without_waiting(node: HandNode) -> None:
    made = [node.job(enabled=False, schedule_conf="3600") for _ in range(64 * 30)]
    crowded = [job.id for job in made if job.partition == 5]
    assert len(crowded) == 30
    for job_id in crowded:
        node.scheduler.manager.edit(job_id, {"schedule_type": "ONCE", "schedule_conf": "2026-01-01T00:00:02"})
        node.scheduler.manager.start(job_id)
    node.plan()
    assert len(node.runs()) == 30
