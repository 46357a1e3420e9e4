"""A day of the history goes as a whole once nothing of it is needed; SQLite deletes its rows."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.databases import new_days
from tests.support.rows import job_values, make_run
from tests.support.upkeep import DAY_MS, HOUR_MS, GivenLease, all_runs, insert
from xwheel.clock import ManualClock, wall_ms
from xwheel.errors import DuplicateError
from xwheel.model import FINAL_STATES, Origin, Run, RunState
from xwheel.scheduler.upkeep.retention import RetentionLoop
from xwheel.storage import history_days, jobs, retention, runs
from xwheel.storage.database.engine import Database
from xwheel.storage.history_days import AHEAD, Days
from xwheel.storage.run_ids import BLOCK, RunIds, day_of, first_id

TODAY = wall_ms() // DAY_MS
"""There are partitions from this day on; a node that deletes them lives some time later."""


def _days(db: Database) -> list[Days]:
    with db.read() as conn:
        return history_days.list_days(conn)


def _has(db: Database, day: int) -> bool:
    """Return whether a day has its partition; on SQLite, where none has, whether it has runs."""
    if db.backend == "sqlite":
        return any(day_of(run.id) == day for run in all_runs(db))
    return day in {days.first for days in _days(db)}


def _run(day: int, number: int, state: RunState = RunState.SUCCEEDED, **changes: Any) -> Run:
    """A run that was made, due and, if it is final, ended at noon of a day."""
    due_ms = day * DAY_MS + 12 * HOUR_MS
    run_id = first_id(day) + number
    known = {"state": state, "due_ms": due_ms, "root_id": run_id, "origin_key": run_id}
    known["finished_ms"] = due_ms if state in FINAL_STATES else None
    return make_run(run_id, **{**known, **changes})


def _sweep(db: Database, day: float, **changes: Any) -> RetentionLoop:
    """Let a node delete what is old at some time of a day; return its loop."""
    clock = ManualClock(round(day * DAY_MS))
    settings: dict[str, Any] = {"run_days": 30, "job_versions": 100, "interval_ms": HOUR_MS, "batch": 10}
    loop = RetentionLoop(db, GivenLease(), clock, **{**settings, **changes})
    end_ms = clock.now_ms() + HOUR_MS // 2
    while clock.now_ms() < end_ms:
        clock.advance(loop.step(clock.now_ms()))
    return loop


def _ids(db: Database) -> list[int]:
    return sorted(run.id for run in all_runs(db))


def test_a_day_goes_as_a_whole(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(db, [_run(TODAY, number) for number in range(50)] + [_run(TODAY + 1, 1), make_run(7)])
    if db.backend != "sqlite":
        monkeypatch.setattr(retention, "delete_closed", lambda *_: pytest.fail("row by row"))
        monkeypatch.setattr("xwheel.scheduler.upkeep.retention.RUNS_PER_LOOK", 20)
    loop = _sweep(db, TODAY + 31.4)
    assert loop.deleted_runs == 50
    assert not _has(db, TODAY)
    assert _has(db, TODAY + 1)
    assert _ids(db) == [7, first_id(TODAY + 1) + 1]


LATE_MS = (TODAY + 20) * DAY_MS
NEEDED = {
    "open": [_run(TODAY, 5, RunState.RUNNING)],
    "open of a root": [_run(TODAY + 9, 5, RunState.PLANNED, root_id=first_id(TODAY) + 1)],
    "ended late": [_run(TODAY, 5, finished_ms=LATE_MS)],
    "due late": [_run(TODAY, 5, RunState.CANCELLED, due_ms=LATE_MS)],
    "late of a root": [_run(TODAY + 9, 5, root_id=first_id(TODAY) + 1, finished_ms=LATE_MS)],
    "late of an earlier root": [
        _run(TODAY, 5, RunState.FAILED, root_id=first_id(TODAY - 1) + 1),
        _run(TODAY - 1, 1, finished_ms=LATE_MS),
    ],
    "lost and tried again": [
        _run(TODAY, 5, RunState.LOST),
        _run(TODAY + 9, 5, RunState.PLANNED, root_id=first_id(TODAY) + 5),
    ],
    "of a job that keeps its runs": [_run(TODAY, 5, job_id=2)],
}


@pytest.mark.parametrize("why", NEEDED)
def test_a_day_stays_while_anything_of_it_is_needed(db: Database, why: str) -> None:
    values = {"enabled": True, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None}
    values |= {"revision": 1, "schedule_error": "", "created_ms": 1, "updated_ms": 1}
    for days in (0, 60 if why == "of a job that keeps its runs" else 20):
        db.transaction(lambda conn, days=days: jobs.insert_job(conn, job_values(retention_days=days) | values))
    others = [_run(TODAY, number) for number in range(4)]
    insert(db, others + NEEDED[why])
    _sweep(db, TODAY + 31.6)
    assert _has(db, TODAY)
    kept = {run.root_id for run in NEEDED[why]} | {run.id for run in NEEDED[why]}
    # row by row on SQLite, and a day later on servers
    _sweep(db, TODAY + 32.6)
    expected = [run.id for run in others + NEEDED[why] if {run.root_id, run.id} & kept]
    assert _ids(db) == sorted(expected)


def test_lost_ones_and_fires_over_midnight_go_first_and_then_the_day(db: Database) -> None:
    first, second = first_id(TODAY), first_id(TODAY + 1)
    insert(
        db,
        [
            *(_run(TODAY, number, RunState.LOST) for number in range(25)),
            _run(TODAY, 30, RunState.FAILED, root_id=first + 30),
            _run(TODAY + 1, 1, RunState.FAILED, root_id=first + 30),
            # an id that was left over from the day before
            _run(TODAY, 31, root_id=second + 2, shard_index=1),
            _run(TODAY + 1, 2),
            _run(TODAY + 1, 3),
        ],
    )
    loop = _sweep(db, TODAY + 32.6)
    assert _ids(db) == []
    assert loop.deleted_runs == 30
    assert not _has(db, TODAY)
    assert not _has(db, TODAY + 1)


def test_nothing_goes_where_all_is_kept(db: Database) -> None:
    insert(db, [_run(TODAY, 1)])
    _sweep(db, TODAY + 400, run_days=0)
    assert _ids(db) == [first_id(TODAY) + 1]
    assert _has(db, TODAY)


def test_partitions_are_there_before_their_days_and_longer_ones_where_runs_are_kept(db: Database) -> None:
    if db.backend == "sqlite":
        assert history_days.add_days(db, TODAY, 30) == []
        return
    found = [days.first for days in history_days.add_days(db, TODAY + 2, 30)]
    new = new_days()
    assert found == [*new, new[-1] + 1, new[-1] + 2]
    assert history_days.add_days(db, TODAY + 2, 30) == _days(db)
    last = history_days.add_days(db, TODAY + 5, 64)[-1]
    assert last.end - last.first == 2
    # after an outage one more has the days that passed
    after = history_days.add_days(db, TODAY + 100, 30)
    assert [days[:2] for days in after[-AHEAD - 1 :]] == [
        (last.end, TODAY + 101),
        *((day, day + 1) for day in range(TODAY + 101, TODAY + 101 + AHEAD)),
    ]


def test_what_has_no_partition_is_found_refused_a_second_time_and_deleted(db: Database) -> None:
    late = TODAY + 100
    stray = _run(late, 1, origin=Origin.SCHEDULE, origin_key=late * DAY_MS)
    insert(db, [stray, _run(late, 2)])
    with db.read() as conn:
        assert runs.get_run(conn, stray.id).id == stray.id
        assert runs.find_run(conn, runs.identity_of(stray)) is not None
        assert [run.id for run in runs.list_runs(conn, job_id=1)] == [first_id(late) + 2, stray.id]
    with pytest.raises(DuplicateError):
        insert(db, [_run(late, 3, origin=Origin.SCHEDULE, origin_key=late * DAY_MS)])
    history_days.add_days(db, late, 30)
    if db.backend != "sqlite":
        # MariaDB moved them, PostgreSQL makes partitions behind them
        assert _days(db)[-1].end == late + AHEAD + 1
    insert(db, [_run(late, 4), _run(late + 1, 1)])
    assert len(_ids(db)) == 4
    _sweep(db, late + 31.6)
    assert _ids(db) == [first_id(late + 1) + 1] * (db.backend != "sqlite")
    _sweep(db, late + 33.6)
    assert _ids(db) == []


def test_while_very_many_have_no_partition_none_is_made(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_days, "MOST_IN_REST", 3)
    before = _days(db)
    insert(db, [_run(TODAY + 100, number) for number in range(4)])
    assert history_days.add_days(db, TODAY + 100, 30) == before
    monkeypatch.setattr(history_days, "MOST_IN_REST", 4)
    assert history_days.add_days(db, TODAY + 100, 30) != before or db.backend == "sqlite"


def test_a_lock_that_is_held_puts_it_off(db: Database) -> None:
    if db.backend == "sqlite":
        return
    insert(db, [_run(TODAY, 1)])
    with db.write() as conn:
        conn.execute(text("SELECT id FROM run_history")).all()
        began = time.monotonic()
        assert _sweep(db, TODAY + 31.6).deleted_runs == 0
        assert time.monotonic() - began < 30
    assert _ids(db) == [first_id(TODAY) + 1]
    assert _sweep(db, TODAY + 31.6).deleted_runs == 1


def test_two_nodes_drop_and_make_the_same(db: Database) -> None:
    if db.backend == "sqlite":
        return
    days = _days(db)[1]
    assert history_days.drop_days(db, days)
    assert not history_days.drop_days(db, days)
    assert days not in _days(db)


KEYS = {
    Origin.SCHEDULE: TODAY * DAY_MS + 1,
    Origin.RETRY: first_id(TODAY) + 3,
    Origin.RECOVERY: first_id(TODAY) + 4,
    Origin.CHILD: first_id(TODAY) + 5,
    Origin.API: 5,
}


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("made", [TODAY - 1, TODAY, TODAY + 3, None])
def test_an_identity_is_refused_on_whichever_day_it_was_before(db: Database, origin: Origin, made: int | None) -> None:
    """A block that was begun the day before, misfires days later, and ids of an older version."""
    known = _run(made or 0, 40, origin=origin, origin_key=KEYS[origin])
    other = _run(TODAY, 60, origin=origin, origin_key=KEYS[origin] + 1)
    insert(db, [known])
    for batch in ([_run(TODAY + 5, 50, origin=origin, origin_key=KEYS[origin])], [other]):
        if batch[0].origin_key == KEYS[origin]:
            with pytest.raises(DuplicateError):
                insert(db, [*batch, other])
        else:
            insert(db, batch)
    assert _ids(db) == sorted([known.id, other.id])


def test_ids_carry_the_day_rise_and_are_numbers_that_a_browser_knows(db: Database) -> None:
    clock = ManualClock(TODAY * DAY_MS + DAY_MS - 1000)
    here, there = RunIds(db, clock.now_ms), RunIds(db, clock.now_ms)
    evening = [*here.reserve(10), *there.reserve(10), *here.reserve(10)]
    clock.advance(2000)
    there.ensure(1)
    # what was ensured before midnight can still be taken
    kept = here.take(5)
    here.ensure(1)
    morning = [*there.take(10), *here.take(10)]
    assert len({*evening, *kept, *morning}) == 55
    if db.backend == "sqlite":
        assert max(morning) < 5 * BLOCK
        return
    assert max(evening) < min(morning) < 2**53
    assert {day_of(run_id) for run_id in [*evening, *kept]} == {TODAY}
    assert {day_of(run_id) for run_id in morning} == {TODAY + 1}
    clock.advance(-3 * DAY_MS)  # a clock that goes back takes no id back
    assert min(RunIds(db, clock.now_ms).reserve(1)) > max(morning)
