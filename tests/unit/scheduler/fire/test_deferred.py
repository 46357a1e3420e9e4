"""Runs that wait in memory: who is looked at, when, and what a full memory forgets."""

from __future__ import annotations

from typing import Any

from tests.support.rows import NOW, make_run
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.records import Deferred, Line
from xwheel.storage.runs import QueuedRun

LINE = Line("group", 1)


def waiting_runs(limit: int = 1000) -> DeferredRuns:
    return DeferredRuns(lambda: None, limit=limit)


def deferred(run_id: int, *, line: Line = LINE, due_ms: int = NOW, job_id: int = 1, **more: Any) -> Deferred:
    return Deferred(make_run(run_id, due_ms=due_ms, job_id=job_id), line, **more)


def queued(run_id: int, *, due_ms: int = NOW, job_id: int = 1) -> QueuedRun:
    return QueuedRun(run_id, job_id, 1, 1, 1, due_ms)


def ids(found: list[QueuedRun]) -> list[int]:
    return [run.id for run in found]


def test_looks_come_after_a_growing_wait_and_ask_only_the_head() -> None:
    lines = waiting_runs()
    lines.defer([deferred(number) for number in range(1, 101)], NOW)
    looks: list[int] = []
    for now_ms in range(NOW, NOW + 5000, 10):
        found = lines.take_ripe(now_ms)
        if found:
            looks.append(now_ms - NOW)
            assert ids(found) == list(range(1, 9))
            lines.defer([deferred(run.id) for run in found], now_ms)
    assert looks == [200, 400, 800, 1600, 2600, 3600, 4600]


def test_a_line_whose_head_goes_is_asked_on_at_once_in_growing_parts() -> None:
    lines = waiting_runs(100_000)
    lines.defer([deferred(number) for number in range(1, 10_001)], NOW)
    now_ms, sizes = NOW + 200, []
    while found := lines.take_ripe(now_ms):
        sizes.append(len(found))
        now_ms += 100
    assert sum(sizes) == 10_000
    assert sizes[:4] == [8, 16, 32, 64]
    assert max(sizes) == 500
    assert len(lines) == 0


def test_an_end_and_an_arrival_wake_only_those_who_wait_for_them() -> None:
    lines = waiting_runs()
    dead, other = Line("executor", 1, "http://a"), Line("executor", 2)
    lines.defer([deferred(1, line=dead, until_ms=NOW + 60_000), deferred(2, line=other, until_ms=NOW + 60_000)], NOW)
    lines.arrived(1)
    assert ids(lines.take_ripe(NOW + 1)) == [1]


def test_the_end_of_a_wait_is_looked_at_when_it_comes() -> None:
    lines = waiting_runs()
    lines.defer([deferred(1, line=Line("executor", 1), until_ms=NOW + 50)], NOW)
    assert lines.next_try_ms() == NOW + 50
    assert ids(lines.take_ripe(NOW + 50)) == [1]


def test_what_a_full_memory_forgets_is_the_newest_and_is_known_to_be_missing() -> None:
    lines = waiting_runs(100)
    lines.defer([deferred(number, due_ms=NOW + number) for number in range(200, 0, -1)], NOW)
    assert len(lines) == 100
    assert lines.overflowed == 100
    assert all(lines.is_held(number) for number in range(1, 101))
    assert lines.has_no_room(queued(150, due_ms=NOW + 150))
    assert not lines.has_no_room(queued(50, due_ms=NOW + 50))
    assert not lines.has_no_room(queued(500, due_ms=NOW + 150, job_id=2))
    lines.forget(range(1, 27))
    assert not lines.has_no_room(queued(150, due_ms=NOW + 150))  # there is room again
