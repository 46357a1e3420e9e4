"""What is said of runs and jobs whose commits the database has lost; what a node does that uses the wrong server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.component.scheduler.plan.test_claim_shares import make_jobs
from tests.support.rows import make_run
from xwheel.clock import ManualClock
from xwheel.model import Run, RunState
from xwheel.scheduler.cluster import split_brain
from xwheel.scheduler.cluster.split_brain import SURVEY_MS, RecentSends, SplitWatch, in_ranges, tell_jobs
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Database


def _sent(ids: Sequence[int], at_ms: int = 5) -> list[Run]:
    return [make_run(run_id, state=RunState.DISPATCHING, dispatched_ms=at_ms) for run_id in ids]


def test_only_runs_are_listed_that_the_database_does_not_know_as_sent(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    sends = RecentSends(clock)
    sends.note(_sent([90]))
    clock.advance(1000)
    since_ms = clock.monotonic_ms()
    sends.note(_sent([1, 2, 3, 10]))
    clock.advance(2500)
    sends.note(_sent([11, 12, 13]))
    known = [*_sent([2, 11]), *_sent([12], at_ms=6), make_run(13)]  # of another node; not sent
    ended = make_run(3, state=RunState.SUCCEEDED, dispatched_ms=5)
    db.transaction(lambda conn: runs.insert_runs(conn, [*known, ended]))
    sends.tell(db, since_ms)
    assert [item.getMessage() for item in caplog.records] == [
        "of the runs that left in the last 3 s the database does not know 4 as sent; may run again: 1, 10, 12-13"
    ]
    caplog.clear()
    sends.tell(db, clock.monotonic_ms() + 1)
    assert caplog.text == ""


def test_of_very_many_sends_the_latest_are_looked_up(
    db: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_brain, "PAGE", 3)
    sends = RecentSends(ManualClock())
    for first in range(1, 40, 2):
        sends.note(_sent([first, first + 1]))
    sends.tell(db, 0)
    assert caplog.records[0].getMessage().endswith("know 8 as sent; may run again: 33-40")


def test_of_a_run_that_left_twice_the_last_time_counts(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    sends = RecentSends(ManualClock())
    sends.note(_sent([1, 2], at_ms=4))
    sends.note(_sent([1], at_ms=5))
    db.transaction(lambda conn: runs.insert_runs(conn, [*_sent([1]), *_sent([2])]))
    sends.tell(db, 0)
    assert caplog.records[0].getMessage().endswith("know 1 as sent; may run again: 2")


def test_jobs_that_went_back_are_listed(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    ids = make_jobs(db, 3)
    with db.read() as conn:
        made = [job for _, job in sorted(jobs.get_jobs(conn, ids).items())]
    tell_jobs(db, [*made, replace(made[0], id=999)])
    assert caplog.text == ""
    tell_jobs(db, [replace(made[0], revision=2), made[1], replace(made[2], revision=7)])
    (line,) = [item.getMessage() for item in caplog.records]
    assert line == f"2 jobs are in the database as they were before their last change: {made[0].id}, {made[2].id}"


def test_long_lists_say_how_much_they_leave_out() -> None:
    assert in_ranges([7, 9, 8, 3]) == "3, 7-9"
    words = in_ranges(range(0, 2 * split_brain.TOLD + 6, 2))
    assert words.startswith("0, 2, 4, ")
    assert words.endswith(f", {2 * split_brain.TOLD - 2} and 3 more ranges")


def test_a_node_on_the_wrong_server_halts_and_renews_its_lease() -> None:
    found = [False, True, False]
    done: list[str] = []

    class Halting:
        def halt(self) -> None:
            done.append("halt")

    watch = SplitWatch(lambda: found.pop(0), Halting(), lambda: done.append("wake"))  # type: ignore[arg-type]
    assert [watch.step(0) for _ in range(3)] == [SURVEY_MS] * 3
    assert done == ["halt", "wake"]
