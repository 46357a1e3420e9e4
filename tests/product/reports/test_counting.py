"""The report agrees with the runs, whatever happened to them and whenever."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from sqlalchemy import event
from xwheel_reports import counting
from xwheel_reports import storage as reports
from xwheel_reports.counting import ReportLoop, compare
from xwheel_reports.storage import HOUR_MS, Counts, JobHour

from tests.product.reports.recount import job_hours, recount, stored
from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from tests.support.upkeep import DAY_MS, GivenLease, all_runs, insert
from xwheel.clock import ManualClock
from xwheel.model import FINAL_STATES, OUTCOME_STATES, Origin, Run, RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection, Database

# in the middle of an hour, three days after the first one
START = NOW + 3 * DAY_MS + HOUR_MS // 2
# those that stay within the last three days while a test lasts
HOURS = range(NOW + 3 * HOUR_MS, START, HOUR_MS)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def loop(db: Database, clock: ManualClock) -> ReportLoop:
    return ReportLoop(db, GivenLease(), clock, interval_ms=60_000)


def _pass(loop: ReportLoop, clock: ManualClock, minutes: int = 40) -> None:
    """Let the loop work for a while."""
    end_ms = clock.now_ms() + minutes * 60_000
    while clock.now_ms() < end_ms:
        clock.advance(max(1, loop.step(clock.now_ms())))


def _some_runs(chance: random.Random, first_id: int, count: int) -> list[Run]:
    """Random runs of the last three days: plain ones, shards of broadcasts, retries and skip rows."""
    found: list[Run] = []
    while len(found) < count:
        job_id, due_ms = chance.randint(1, 5), chance.choice(HOURS) + chance.choice([0, 1, 1800, 3599]) * 1000
        root_id = first_id + len(found)
        shards = chance.choice([1, 1, 1, 3])
        for shard in range(shards):
            state = chance.choice(list(RunState))
            is_taken = state is not RunState.SKIPPED and chance.random() < 0.8
            accepted_ms = due_ms + chance.randint(0, 500) if is_taken else None
            found.append(
                make_run(
                    first_id + len(found),
                    job_id=job_id,
                    group_id=1 + job_id % 2,
                    origin=Origin.SCHEDULE if shard else chance.choice(list(Origin)),
                    origin_key=root_id,
                    root_id=root_id,
                    shard_index=shard,
                    shard_total=shards,
                    state=state,
                    due_ms=due_ms,
                    accepted_ms=accepted_ms,
                    started_ms=accepted_ms and chance.choice([None, accepted_ms + chance.randint(0, 90)]),
                    finished_ms=due_ms + chance.randint(600, 9000) if state in FINAL_STATES else None,
                    skip_count=chance.choice([0, 1, 7, 1001]) if state is RunState.SKIPPED else 0,
                    attempt=chance.randint(1, 3),
                )
            )
    return found


@pytest.mark.servers_get(1)
@pytest.mark.parametrize("seed", range(3))
def test_it_equals_a_recount_after_everything_that_can_still_happen(
    db: Database, loop: ReportLoop, clock: ManualClock, seed: int
) -> None:
    chance = random.Random(seed)
    insert(db, _some_runs(chance, 1, 150))
    _pass(loop, clock)
    assert stored(db, HOURS) == recount(all_runs(db))

    # late outcomes of lost runs, ends of open ones, later retries, and skip rows of hours long past
    changed = [
        (run.id, chance.choice(list(OUTCOME_STATES)), "", 200, "", run.accepted_ms, run.started_ms, clock.now_ms())
        for run in all_runs(db)
        if run.state is RunState.LOST or (run.state not in FINAL_STATES and chance.random() < 0.5)
    ]
    assert len(changed) > 10
    lost = {run.id for run in all_runs(db) if run.state is RunState.LOST}
    db.transaction(lambda conn: runs.close_runs(conn, changed, corrected=lost))
    insert(db, _some_runs(chance, 1000, 50))
    assert stored(db, HOURS) != recount(all_runs(db))
    _pass(loop, clock)
    assert stored(db, HOURS) == recount(all_runs(db))


def test_the_current_hour_and_the_one_before_are_counted_each_minute(
    db: Database, loop: ReportLoop, clock: ManualClock
) -> None:
    _pass(loop, clock, minutes=3)
    now = clock.now_ms()
    insert(db, [make_run(1, due_ms=now), make_run(2, due_ms=now - HOUR_MS), make_run(3, due_ms=now - DAY_MS)])
    _pass(loop, clock, minutes=1)
    hour_ms = now - now % HOUR_MS
    assert [len(job_hours(db, hour_ms - back * HOUR_MS)) for back in (0, 1, 24)] == [1, 1, 0]
    assert clock.now_ms() - now <= 65_000


@pytest.mark.parametrize(("jobs_per_page", "runs_per_read"), [(2, 7), (3, 1000), (1000, 1), (1, 25)])
def test_an_hour_is_counted_a_bounded_number_of_runs_at_a_time(
    db: Database, loop: ReportLoop, monkeypatch: pytest.MonkeyPatch, jobs_per_page: int, runs_per_read: int
) -> None:
    """What one question counts is sorted in memory, 50 MB for an hour with half a million runs."""
    monkeypatch.setattr(counting, "JOBS_PER_PAGE", jobs_per_page)
    monkeypatch.setattr(counting, "RUNS_PER_READ", runs_per_read)
    chance = random.Random(5)
    hour_ms = START - START % HOUR_MS
    at_once = 12
    given = []
    for number in range(1, 150):
        offset_ms = 77 if number <= at_once else chance.randint(0, 60) * 60_000 - number % 2
        due_ms = hour_ms + offset_ms
        times = {"accepted_ms": due_ms + chance.randint(0, 999), "finished_ms": due_ms + 1000 + number}
        given.append(make_run(number, job_id=chance.randint(1, 9), due_ms=due_ms, state=RunState.SUCCEEDED, **times))
    insert(db, given)
    dues = [run.due_ms for run in given]
    read: list[int] = []
    count = reports.count_part

    def count_part(conn: Connection, from_ms: int, to_ms: int, *others: int) -> list[JobHour]:
        read.append(sum(from_ms <= due_ms < to_ms for due_ms in dues))
        return count(conn, from_ms, to_ms, *others)

    monkeypatch.setattr(reports, "count_part", count_part)
    loop.refresh(hour_ms, START)
    expected = recount([run for run in given if hour_ms <= run.due_ms < hour_ms + HOUR_MS])
    assert stored(db, [hour_ms]) == expected
    assert len(expected) == 9
    assert max(read) <= max(at_once, runs_per_read)


def test_what_did_not_change_is_not_written(db: Database, loop: ReportLoop, clock: ManualClock) -> None:
    insert(db, _some_runs(random.Random(1), 1, 50))
    _pass(loop, clock)
    written, counted = loop.written_rows, loop.counted_hours
    assert written > 0
    _pass(loop, clock)
    assert loop.written_rows == written
    assert loop.counted_hours - counted > len(HOURS)


def test_a_job_whose_runs_left_an_hour_leaves_the_report(db: Database, loop: ReportLoop) -> None:
    hour_ms = START - START % HOUR_MS
    stray = [JobHour(7, 1, Counts(failed=3))]
    db.transaction(lambda conn: reports.replace_hour(conn, hour_ms, (), stray))
    assert loop.refresh(hour_ms, START) == 1
    assert job_hours(db, hour_ms) == []


def test_hours_from_which_runs_may_be_gone_only_gain(db: Database, loop: ReportLoop) -> None:
    """Retention deletes runs after three days at the earliest; the report outlives them."""
    known = [JobHour(job_id, 1, Counts(open_runs=1, succeeded=4)) for job_id in (1, 2)]
    old_ms = NOW - 9 * DAY_MS
    db.transaction(lambda conn: reports.replace_hour(conn, old_ms, (), known))
    insert(
        db,
        [
            make_run(number, job_id=1, due_ms=old_ms, state=RunState.SUCCEEDED, finished_ms=START)
            for number in range(1, 6)
        ],
    )
    insert(db, [make_run(9, job_id=2, due_ms=old_ms, state=RunState.KILLED, finished_ms=START)])
    assert loop.refresh(old_ms, START) == 1
    assert stored(db, [old_ms]) == {(old_ms, 1): Counts(succeeded=5), (old_ms, 2): known[1].counts}


def test_a_run_that_ends_after_days_is_counted_the_next_day(db: Database, clock: ManualClock) -> None:
    loop = ReportLoop(db, GivenLease(), clock, interval_ms=600_000)
    old_ms = NOW - 9 * DAY_MS
    insert(db, [make_run(1, due_ms=old_ms, state=RunState.RUNNING, accepted_ms=old_ms)])
    loop.refresh(old_ms, START)
    _pass(loop, clock)
    assert stored(db, [old_ms]) == {(old_ms, 1): Counts(open_runs=1)}
    db.transaction(
        lambda conn: runs.close_runs(conn, [(1, RunState.SUCCEEDED, "", 200, "", old_ms, None, old_ms + 5 * DAY_MS)])
    )
    _pass(loop, clock, minutes=30 * 60)
    took_ms = 5 * DAY_MS
    assert stored(db, [old_ms]) == {(old_ms, 1): Counts(succeeded=1, duration_sum_ms=took_ms, duration_max_ms=took_ms)}


@pytest.mark.parametrize("is_new", [True, False])
def test_hours_that_nobody_counted_for_a_week_are_counted_at_the_takeover(
    db: Database, clock: ManualClock, is_new: bool
) -> None:
    lease = GivenLease()
    loop = ReportLoop(db, lease, clock, interval_ms=60_000)
    last_ms = START - START % HOUR_MS
    insert(db, [make_run(1, due_ms=last_ms, state=RunState.LOST, finished_ms=last_ms + 60_000)])
    _pass(loop, clock, minutes=2)
    # the last minutes before everything stopped, and what the next claim says of the time without a node
    insert(db, [make_run(2, due_ms=last_ms + 1000, state=RunState.FAILED, finished_ms=last_ms + 2000)])
    clock.advance(7 * DAY_MS)
    since_ms = last_ms + HOUR_MS
    insert(db, [make_run(3, due_ms=since_ms, state=RunState.SKIPPED, skip_count=160, finished_ms=clock.now_ms())])
    heir = loop
    if is_new:
        heir = ReportLoop(db, lease, clock, interval_ms=60_000)
    else:
        lease.is_valid = False
        clock.advance(loop.step(clock.now_ms()))
        lease.is_valid = True
    _pass(heir, clock, minutes=120)
    expected = recount(all_runs(db))
    assert len(expected) == 2
    assert stored(db, [last_ms, since_ms]) == expected


@pytest.mark.parametrize("spoil", [lambda lease: lease.epochs.pop(0), lambda lease: setattr(lease, "is_valid", False)])
def test_only_the_holder_of_partition_0_counts(
    db: Database, clock: ManualClock, spoil: Callable[[GivenLease], object]
) -> None:
    lease = GivenLease(0, 1)
    loop = ReportLoop(db, lease, clock, interval_ms=60_000)
    spoil(lease)
    assert loop.step(START) > 0
    assert loop.counted_hours == 0
    lease.epochs, lease.is_valid = {0: 2}, True
    loop.step(START)
    assert loop.counted_hours == 1


def test_a_count_that_takes_long_is_followed_by_twenty_times_as_long_a_rest(
    db: Database, loop: ReportLoop, clock: ManualClock
) -> None:
    def be_slow(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if "max(due_then.group_id)" in statement:
            clock.advance(4000)

    event.listen(db.engine, "before_cursor_execute", be_slow)
    waits = []
    while loop.counted_hours < 3:
        waits.append(loop.step(clock.now_ms()))
        clock.advance(waits[-1])
    assert max(waits) == 5000
    assert clock.now_ms() - START >= 3 * 4000 + 2 * 80_000


def test_a_crash_between_two_writes_is_made_good_by_the_next_pass(
    db: Database, loop: ReportLoop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ms = START - START % HOUR_MS
    insert(db, [make_run(number, job_id=number, due_ms=hour_ms) for number in range(1, 10)])
    monkeypatch.setattr("xwheel_reports.counting.ROWS_PER_WRITE", 2)
    real, calls = reports.replace_hour, []

    def crash(*args: object) -> None:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(reports, "replace_hour", crash)
    with pytest.raises(KeyboardInterrupt):
        loop.step(START)
    assert len(job_hours(db, hour_ms)) == 4
    heir = ReportLoop(db, GivenLease(), clock, interval_ms=60_000)
    heir.step(START)
    assert stored(db, [hour_ms]) == recount(all_runs(db))


def test_pages_of_jobs_are_compared_with_their_own_rows(
    db: Database, loop: ReportLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ms = START - START % HOUR_MS
    monkeypatch.setattr("xwheel_reports.counting.JOBS_PER_PAGE", 2)
    strays = [JobHour(job_id, 1, Counts(failed=1)) for job_id in (1, 4, 8, 99)]
    db.transaction(lambda conn: reports.replace_hour(conn, hour_ms, (), strays))
    insert(db, [make_run(number, job_id=number, due_ms=hour_ms) for number in (2, 3, 5, 6, 7)])
    loop.refresh(hour_ms, START)
    assert stored(db, [hour_ms]) == recount(all_runs(db))


def test_a_row_of_a_whole_hour_may_shrink_and_one_of_an_old_hour_may_not() -> None:
    more, fewer = JobHour(1, 1, Counts(succeeded=2)), JobHour(1, 1, Counts(succeeded=1))
    assert compare([fewer], [more], is_whole=True) == ([], [fewer])
    assert compare([fewer], [more], is_whole=False) == ([], [])
    assert compare([more], [fewer], is_whole=False) == ([], [more])
    assert compare([], [more], is_whole=True) == ([1], [])
    assert compare([], [more], is_whole=False) == ([], [])
    assert compare([more], [more], is_whole=True) == ([], [])


def test_what_a_node_did_stands_in_its_report(node: HandNode) -> None:
    """A broadcast over two executors, failures with retries, a lost run with a late outcome, misfires and a stop."""
    addresses = ("http://127.0.0.1:9001", "http://127.0.0.1:9002")
    node.job(name="everywhere", schedule_conf="60", route_strategy="SHARDING_BROADCAST")
    failing = node.job(name="failing", schedule_conf="120", max_retries=1)
    stopped = node.job(name="stopped", schedule_conf="3600", jitter_ms=1000)
    for minute in range(7):
        node.register(*addresses)
        node.run_for(60_000, step_ms=2000)
        for run in node.answer():
            is_bad = run.job_id == failing.id
            state = RunState.LOST if minute == 3 else RunState.FAILED if is_bad else RunState.SUCCEEDED
            node.finish([run], state)
    node.scheduler.management.jobs.stop(stopped.id)
    node.clock.advance(3 * HOUR_MS)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.register(*addresses)
    node.run_for(60_000, step_ms=2000)
    hours = range(NOW, node.clock.now_ms() + 1, HOUR_MS)

    loop = ReportLoop(node.db, GivenLease(), node.clock, interval_ms=60_000)

    def refresh() -> Counts:
        for hour_ms in hours:
            loop.refresh(hour_ms, node.clock.now_ms())
        with node.db.read() as conn:
            return reports.get_totals(conn, NOW, hours[-1] + 1)

    totals = refresh()
    assert stored(node.db, hours) == recount(node.runs())
    assert min(totals.succeeded, totals.failed, totals.lost, totals.skipped, totals.open_runs) > 0
    lost = [run for run in node.runs() if run.state is RunState.LOST]
    node.finish(lost, RunState.SUCCEEDED)
    assert refresh().lost == 0
    assert stored(node.db, hours) == recount(node.runs())
