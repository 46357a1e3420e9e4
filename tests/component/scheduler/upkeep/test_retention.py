"""What is old goes, what must stay stays, and neither holds up the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import insert as insert_into
from sqlalchemy import select

from tests.support.rows import NOW, job_values, make_run
from tests.support.upkeep import DAY_MS, HOUR_MS, GivenLease, all_runs, insert
from tests.support.versions import kept_versions
from xwheel.clock import ManualClock
from xwheel.model import FINAL_STATES, OPEN_STATES, Run, RunState
from xwheel.model.versions import JobVersion
from xwheel.scheduler.upkeep.retention import RetentionLoop
from xwheel.storage import job_versions, jobs, retention
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import tables


def make_loop(db: Database, clock: ManualClock, **changes: Any) -> RetentionLoop:
    settings = {"run_days": 30, "job_versions": 100, "interval_ms": HOUR_MS, "batch": 10}
    settings |= changes
    return RetentionLoop(db, GivenLease(), clock, **settings)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def loop(db: Database, clock: ManualClock) -> RetentionLoop:
    return make_loop(db, clock)


def _sweep(loop: RetentionLoop, clock: ManualClock) -> None:
    """Let one whole sweep happen."""
    end_ms = clock.now_ms() + HOUR_MS // 2
    while clock.now_ms() < end_ms:
        clock.advance(loop.step(clock.now_ms()))
    clock.advance(HOUR_MS // 2)


def _job(db: Database, **changes: Any) -> int:
    values = {"enabled": True, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None}
    values |= {"revision": 1, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW}
    return db.transaction(lambda conn: jobs.insert_job(conn, job_values(**changes) | values)).id


def _old(run_id: int, days: float, state: RunState = RunState.SUCCEEDED, **changes: Any) -> Run:
    """A run that was due, and if it is final ended, that many days ago."""
    due_ms = NOW - round(days * DAY_MS)
    finished_ms = due_ms if state in FINAL_STATES else None
    return make_run(run_id, **{"state": state, "due_ms": due_ms, "finished_ms": finished_ms, **changes})


def _ids(db: Database) -> list[int]:
    return sorted(run.id for run in all_runs(db))


def test_each_final_state_goes_and_each_open_one_stays(db: Database, loop: RetentionLoop, clock: ManualClock) -> None:
    states = dict(enumerate(RunState, 1))
    ended_ms = NOW - 31 * DAY_MS  # even where it should not stand
    insert(db, [_old(number, 31, state, finished_ms=ended_ms) for number, state in states.items()])
    _sweep(loop, clock)
    assert _ids(db) == [number for number, state in states.items() if state in OPEN_STATES]
    assert loop.deleted_runs == len(FINAL_STATES)


def test_a_run_is_as_old_as_its_due_time_and_its_end(db: Database, loop: RetentionLoop, clock: ManualClock) -> None:
    late = _old(3, 90, finished_ms=NOW - 29 * DAY_MS)
    early = _old(4, 29, RunState.CANCELLED, finished_ms=NOW - 60 * DAY_MS)
    insert(db, [_old(1, 30.001), _old(2, 29.999), late, early])
    loop.step(NOW)
    assert _ids(db) == [2, 3, 4]


def test_a_root_stays_while_any_of_its_runs_is_open_or_young(
    db: Database, loop: RetentionLoop, clock: ManualClock
) -> None:
    insert(
        db,
        [
            _old(1, 40, RunState.FAILED, root_id=1),
            _old(2, 39, RunState.RUNNING, root_id=1, attempt=2),
            _old(3, 40, root_id=3, shard_index=0, shard_total=2),
            _old(4, 40, root_id=3, shard_index=1, shard_total=2, origin_key=3, finished_ms=NOW - DAY_MS),
            _old(5, 31, RunState.FAILED, root_id=5),
            _old(6, 29, root_id=5, attempt=2),
            _old(7, 35, RunState.LOST, root_id=7),
            _old(8, 34, root_id=7, attempt=2),
            _old(9, 40, RunState.FAILED, root_id=9),
            _old(10, 29, RunState.CANCELLED, root_id=9, finished_ms=NOW - 39 * DAY_MS),
        ],
    )
    _sweep(loop, clock)
    assert _ids(db) == [1, 2, 3, 4, 5, 6, 9, 10]


@pytest.mark.parametrize("days", [1, 2, 3])
def test_nothing_goes_before_three_days(db: Database, clock: ManualClock, days: int) -> None:
    own = _job(db, retention_days=days)
    insert(db, [_old(1, 2.99), _old(2, 3.01), _old(3, 2.99, job_id=own), _old(4, 3.01, job_id=own)])
    _sweep(make_loop(db, clock, run_days=days), clock)
    assert _ids(db) == [1, 3]


def test_a_job_keeps_its_runs_longer_or_shorter_than_the_setting(
    db: Database, loop: RetentionLoop, clock: ManualClock
) -> None:
    plain, short, long = (_job(db, retention_days=days) for days in (0, 5, 90))
    ages = (4, 6, 29, 31, 89, 91)
    owners = {100 * job_id + age: (job_id, age) for job_id in (plain, short, long) for age in ages}
    insert(db, [_old(number, age, job_id=job_id) for number, (job_id, age) in owners.items()])
    _sweep(loop, clock)
    left = {
        job_id: [owners[number][1] for number in _ids(db) if owners[number][0] == job_id]
        for job_id in (plain, short, long)
    }
    assert left == {plain: [4, 6, 29], short: [4], long: [4, 6, 29, 31, 89]}


def test_zero_keeps_all_runs_but_those_of_jobs_that_say_otherwise(db: Database, clock: ManualClock) -> None:
    plain, short = (_job(db, retention_days=days) for days in (0, 5))
    insert(db, [_old(1, 3000, job_id=plain), _old(2, 6, job_id=short)])
    _sweep(make_loop(db, clock, run_days=0), clock)
    assert _ids(db) == [1]


def test_rows_that_must_stay_do_not_hold_up_the_others(db: Database, loop: RetentionLoop, clock: ManualClock) -> None:
    """The oldest hundred are open, half with the same due time: ten batches of them come first."""
    plain, kept = _job(db), _job(db, retention_days=365)
    assert plain == 1  # the one that runs belong to here unless they say otherwise
    stay = [_old(number, 50 if number % 2 else 60, RunState.RUNNING) for number in range(1, 101)]
    stay += [_old(number, 55, job_id=kept) for number in range(101, 151)]
    insert(db, stay + [_old(number, 40) for number in range(201, 231)])
    _sweep(loop, clock)
    assert _ids(db) == list(range(1, 151))


def test_a_sweep_does_not_see_again_what_stayed_until_the_next_day(
    db: Database, loop: RetentionLoop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(db, [_old(number, 50, finished_ms=NOW) for number in range(1, 101)])
    seen: list[int] = []
    real = retention.find_old_runs

    def note(*args: Any) -> list[retention.OldRun]:
        found = real(*args)
        seen.extend(item.id for item in found)
        return found

    monkeypatch.setattr(retention, "find_old_runs", note)
    _sweep(loop, clock)
    assert len(seen) == 100
    seen.clear()
    insert(db, [_old(number, 30.01) for number in range(201, 206)])
    _sweep(loop, clock)
    assert seen == [201, 202, 203, 204, 205]
    db.transaction(lambda conn: conn.execute(tables.run_history.update().values(finished_ms=NOW - 45 * DAY_MS)))
    _sweep(loop, clock)
    assert len(_ids(db)) == 100
    clock.advance(DAY_MS)
    _sweep(loop, clock)
    assert _ids(db) == []


def test_no_transaction_is_larger_than_the_batch_and_each_is_followed_by_a_pause(
    db: Database, loop: RetentionLoop, clock: ManualClock
) -> None:
    short = _job(db, retention_days=5)
    insert(db, [_old(number, 40 + number / 1000) for number in range(1, 56)])
    insert(db, [_old(number, 20, job_id=short) for number in range(101, 126)])
    while _ids(db):
        before, at_ms = len(_ids(db)), clock.now_ms()
        wait_ms = loop.step(at_ms)
        assert before - len(_ids(db)) <= 10
        assert wait_ms >= 50
        assert clock.now_ms() - NOW < HOUR_MS
        clock.advance(wait_ms)


def test_many_jobs_with_few_old_runs_share_transactions(db: Database, loop: RetentionLoop, clock: ManualClock) -> None:
    own = [_job(db, retention_days=5) for _ in range(30)]
    insert(db, [_old(job_id, 6, job_id=job_id) for job_id in own])
    steps = 0
    while _ids(db):
        steps += 1
        clock.advance(loop.step(clock.now_ms()))
    assert steps <= 5


def test_jobs_are_looked_through_page_by_page(
    db: Database, loop: RetentionLoop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel.scheduler.upkeep.retention.JOBS_PER_LOOK", 3)
    own = [_job(db, retention_days=number % 2 and 5) for number in range(10)]
    insert(db, [_old(job_id, 6, job_id=job_id) for job_id in own])
    _sweep(loop, clock)
    assert _ids(db) == own[::2]


def test_a_crash_between_batches_leaves_the_rest_to_the_next_node(
    db: Database, loop: RetentionLoop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(db, [_old(number, 40, root_id=1 + number % 7) for number in range(1, 36)])
    real = retention.delete_closed
    calls: list[int] = []

    def crash(*args: Any) -> int:
        calls.append(1)
        deleted = real(*args)
        if len(calls) == 3:
            raise KeyboardInterrupt  # nothing of this batch is committed
        return deleted

    monkeypatch.setattr(retention, "delete_closed", crash)
    with pytest.raises(KeyboardInterrupt):
        _sweep(loop, clock)
    assert len(_ids(db)) == 15
    _sweep(make_loop(db, clock), clock)
    assert _ids(db) == []


def test_a_batch_that_fails_is_passed_over_until_the_next_day(
    db: Database, loop: RetentionLoop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(db, [_old(number, 40 - number / 1000) for number in range(1, 26)])
    real = retention.delete_closed

    def fail(conn: Any, found: Any, before: Any) -> int:
        if any(item.id == 5 for item in found):
            raise RuntimeError("a damaged page")
        return real(conn, found, before)

    monkeypatch.setattr(retention, "delete_closed", fail)
    with pytest.raises(RuntimeError):
        loop.step(NOW)
    clock.advance(HOUR_MS)
    _sweep(loop, clock)
    assert _ids(db) == list(range(1, 11))


def test_an_outcome_that_corrects_a_lost_run_meanwhile_wins(db: Database) -> None:
    """The rows are read again under lock: what the page said before does not count."""
    insert(db, [_old(1, 40, RunState.LOST), _old(2, 40, RunState.RUNNING, root_id=1), _old(3, 40)])
    found = [retention.OldRun(NOW - 40 * DAY_MS, number, 1, root) for number, root in ((1, 1), (3, 3))]
    gone = db.transaction(lambda conn: retention.delete_closed(conn, found, {1: NOW - 30 * DAY_MS}))
    assert gone == 1
    assert _ids(db) == [1, 2]


def test_arrivals_go_with_the_runs(db: Database, loop: RetentionLoop, clock: ManualClock) -> None:
    arrivals = [
        {"child_id": 1, "chain_id": number, "parent_id": 2, "root_id": number, "created_ms": NOW - age * DAY_MS}
        for number, age in enumerate([29] * 5 + [31] * 25)
    ]
    db.transaction(lambda conn: conn.execute(insert_into(tables.child_arrival), arrivals))
    _sweep(loop, clock)
    with db.read() as conn:
        assert sorted(conn.execute(select(tables.child_arrival.c.chain_id)).scalars()) == list(range(5))
    assert loop.deleted_rows == 25


def test_a_deleted_job_goes_with_its_links_once_its_last_run_is_gone(
    db: Database, loop: RetentionLoop, clock: ManualClock
) -> None:
    alive, empty, busy, parent = (_job(db) for _ in range(4))
    links = [(empty, alive), (parent, empty), (parent, alive), (busy, alive)]

    def prepare(conn: Any) -> None:
        for job_id in (empty, busy):
            jobs.delete_jobs(conn, [job_id], NOW - DAY_MS)
        conn.execute(
            insert_into(tables.job_child),
            [{"parent_id": one, "child_id": other, "param": None} for one, other in links],
        )
        conn.execute(
            insert_into(tables.child_arrival),
            [
                {"child_id": child, "chain_id": 1, "parent_id": parent, "root_id": 1, "created_ms": NOW}
                for child in (empty, alive)
            ],
        )

    db.transaction(prepare)
    insert(db, [_old(1, 29, job_id=busy)])

    def left() -> tuple[list[int], list[tuple[int, int]], list[int]]:
        with db.read() as conn:
            return (
                sorted(conn.execute(select(tables.job.c.id)).scalars()),
                sorted((row[0], row[1]) for row in conn.execute(select(tables.job_child))),
                sorted(conn.execute(select(tables.child_arrival.c.child_id)).scalars()),
            )

    _sweep(loop, clock)
    assert left() == ([alive, busy, parent], [(busy, alive), (parent, alive)][:: 1 if busy < parent else -1], [alive])
    assert loop.swept_jobs == 1
    clock.advance(2 * DAY_MS)
    _sweep(loop, clock)
    assert left()[:2] == ([alive, parent], [(parent, alive)])
    assert loop.swept_jobs == 2


def test_tombstones_with_runs_do_not_hide_those_behind_them(
    db: Database, loop: RetentionLoop, clock: ManualClock
) -> None:
    ids = [_job(db) for _ in range(25)]
    for job_id in ids:
        db.transaction(lambda conn, job_id=job_id: jobs.delete_jobs(conn, [job_id], NOW - DAY_MS))
    insert(db, [_old(job_id, 1, job_id=job_id) for job_id in ids[:20]])
    _sweep(loop, clock)
    with db.read() as conn:
        assert sorted(conn.execute(select(tables.job.c.id)).scalars()) == ids[:20]


@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_deletes_what_the_rule_says_and_nothing_else(db: Database, clock: ManualClock, seed: int) -> None:
    chance = random.Random(seed)
    days = {_job(db, retention_days=own): own for own in (0, 0, 4, 60)}
    found: list[Run] = []
    for root in range(1, 200, 3):
        job_id = chance.choice(list(days))
        for shard in range(chance.randint(1, 3)):
            state = chance.choice([*FINAL_STATES] * 3 + [*OPEN_STATES])
            age = chance.uniform(0, 70)
            end_ms = NOW - round(age * chance.random() * DAY_MS) if state in FINAL_STATES else None
            found.append(
                _old(root + shard, age, state, job_id=job_id, root_id=root, shard_index=shard, finished_ms=end_ms)
            )
    insert(db, found)
    _sweep(make_loop(db, clock, run_days=20, batch=7), clock)

    def is_old(run: Run) -> bool:
        limit_ms = NOW - (days[run.job_id] or 20) * DAY_MS
        return run.finished_ms is not None and run.due_ms < limit_ms and run.finished_ms < limit_ms

    roots = {run.root_id: [other for other in found if other.root_id == run.root_id] for run in found}
    expected = sorted(run.id for run in found if not all(map(is_old, roots[run.root_id])))
    assert 0 < len(expected) < len(found)
    assert _ids(db) == expected


@pytest.mark.parametrize("spoil", [lambda lease: lease.epochs.pop(0), lambda lease: setattr(lease, "is_valid", False)])
def test_only_the_holder_of_partition_0_deletes(
    db: Database, clock: ManualClock, spoil: Callable[[GivenLease], object]
) -> None:
    lease = GivenLease(0, 1)
    loop = RetentionLoop(db, lease, clock, run_days=30, job_versions=100, interval_ms=HOUR_MS, batch=10)
    insert(db, [_old(number, 40) for number in range(1, 31)])
    loop.step(clock.now_ms())
    spoil(lease)
    _sweep(loop, clock)
    assert len(_ids(db)) == 20


def _versions(job_id: int, revisions: range) -> list[JobVersion]:
    return [
        JobVersion(
            job_id=job_id, revision=number, at_ms=NOW, actor_kind="node", actor="", action="edit", reason="",
            glue_version=0,
        )
        for number in revisions
    ]  # fmt: skip


def _kept(db: Database, job_id: int) -> list[int]:
    with db.read() as conn:
        return [item.revision for item in reversed(kept_versions(conn, job_id))]


def test_the_newest_versions_of_each_job_stay(db: Database, clock: ManualClock) -> None:
    few, many, gaps = (_job(db) for _ in range(3))
    made = [*_versions(few, range(1, 4)), *_versions(many, range(1, 31)), *_versions(gaps, range(1, 61, 10))]
    db.transaction(lambda conn: job_versions.insert_versions(conn, made))
    loop = make_loop(db, clock, job_versions=4, batch=7)
    _sweep(loop, clock)
    assert [_kept(db, job_id) for job_id in (few, many, gaps)] == [
        [3, 2, 1], [30, 29, 28, 27], [51, 41, 31, 21],
    ]  # fmt: skip
    # the next sweep begins where this one ended
    db.transaction(lambda conn: job_versions.insert_versions(conn, _versions(few, range(4, 6))))
    _sweep(loop, clock)
    assert _kept(db, few) == [5, 4, 3, 2]
    assert loop.deleted_rows == 26 + 2 + 1
