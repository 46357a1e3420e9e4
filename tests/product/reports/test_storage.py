"""The report's questions and answers, on rows that are put there."""

from __future__ import annotations

import random

from xwheel_reports import storage as reports
from xwheel_reports.storage import HOUR_MS, Counts, JobHour

from tests.support.rows import NOW, make_run
from tests.support.upkeep import DAY_MS, insert
from xwheel.model import MAX_ID, RunState
from xwheel.storage.database.engine import Connection, Database


def _fill(db: Database, rows: dict[int, list[JobHour]]) -> None:
    for hour_ms, part in rows.items():
        db.transaction(lambda conn, hour_ms=hour_ms, part=part: reports.replace_hour(conn, hour_ms, (), part))


def _count(conn: Connection, hour_ms: int) -> list[JobHour]:
    return reports.count_part(conn, hour_ms, hour_ms + HOUR_MS, 0, MAX_ID, 10)


def test_an_hour_holds_what_was_due_from_its_first_to_its_last_millisecond(db: Database) -> None:
    dues = {1: NOW - 1, 2: NOW, 3: NOW + HOUR_MS - 1, 4: NOW + HOUR_MS}
    insert(db, [make_run(number, due_ms=due_ms) for number, due_ms in dues.items()])
    with db.read() as conn:
        found = [_count(conn, hour_ms) for hour_ms in (NOW - HOUR_MS, NOW, NOW + HOUR_MS)]
    assert [[row.counts.open_runs for row in rows] for rows in found] == [[1], [2], [1]]


def test_a_count_agrees_with_one_made_by_hand(db: Database) -> None:
    run = make_run(
        1,
        state=RunState.SUCCEEDED,
        due_ms=NOW,
        dispatched_ms=NOW + 3,
        accepted_ms=NOW + 7,
        finished_ms=NOW + 100,
        started_ms=NOW + 60,
    )
    shard = make_run(
        2, root_id=1, origin_key=1, shard_index=1, state=RunState.FAILED, accepted_ms=NOW + 9, finished_ms=NOW + 10
    )
    unaccepted = make_run(3, state=RunState.REFUSED, finished_ms=NOW + 50)
    many = make_run(4, state=RunState.SKIPPED, skip_count=1001, finished_ms=NOW)
    one = make_run(5, state=RunState.SKIPPED, finished_ms=NOW)  # by the misfire rule after a takeover: no range
    insert(db, [run, shard, unaccepted, many, one, make_run(6, state=RunState.RUNNING, accepted_ms=NOW + 1)])
    with db.read() as conn:
        (row,) = _count(conn, NOW)
    assert row == JobHour(
        1,
        1,
        Counts(
            open_runs=1,
            succeeded=1,
            failed=1,
            refused=1,
            skipped=1002,
            duration_sum_ms=41,
            duration_max_ms=40,
            lateness_max_ms=9,
        ),
    )
    assert row.counts.fires == 1 + 1 + 1 + 1 + 1002


def test_clocks_that_disagree_make_no_negative_times(db: Database) -> None:
    insert(db, [make_run(1, state=RunState.FAILED, accepted_ms=NOW - 5, finished_ms=NOW - 9)])
    with db.read() as conn:
        (row,) = _count(conn, NOW)
    assert row.counts == Counts(failed=1)


def test_jobs_are_counted_in_a_range_and_up_to_a_limit(db: Database) -> None:
    insert(db, [make_run(number, job_id=1 + number % 9) for number in range(1, 100)])
    with db.read() as conn:
        page = reports.count_part(conn, NOW, NOW + 1, 2, 7, 4)
        rest = reports.count_part(conn, NOW, NOW + 1, page[-1].job_id, 7, 4)
    assert [(row.job_id, row.counts.fires) for row in page + rest] == [(job_id, 11) for job_id in range(3, 8)]


def test_a_part_of_an_hour_ends_where_it_has_so_many_runs(db: Database) -> None:
    dues = [NOW, NOW + 10, NOW + 10, NOW + 10, NOW + 30, NOW + 40]
    insert(db, [make_run(number, job_id=number, due_ms=due_ms) for number, due_ms in enumerate(dues, 1)])
    with db.read() as conn:

        def end(from_ms: int, limit: int) -> int:
            return reports.find_part_end(conn, from_ms, NOW + 40, limit)

        assert end(NOW, 1) == end(NOW, 2) == end(NOW, 3) == NOW + 10
        assert end(NOW, 4) == NOW + 30
        assert end(NOW + 10, 2) == NOW + 11  # three at once: one millisecond at least
        assert end(NOW + 11, 1) == NOW + 40  # what is due at the end does not count
        assert end(NOW, 100) == end(NOW + 31, 1) == NOW + 40


def test_parts_of_an_hour_are_added_up() -> None:
    early = JobHour(7, 1, Counts(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 40, 20))
    late = JobHour(7, 2, Counts(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 30, 50))
    assert reports.add(early, late) == JobHour(7, 2, Counts(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 40, 50))


def test_rows_are_replaced_job_by_job(db: Database) -> None:
    _fill(db, {NOW: [JobHour(job_id, 1, Counts(failed=1)) for job_id in (1, 2, 3)]})
    db.transaction(lambda conn: reports.replace_hour(conn, NOW, [1], [JobHour(3, 2, Counts(lost=5))]))
    with db.read() as conn:
        assert reports.list_hour(conn, NOW, 0, 9) == [JobHour(2, 1, Counts(failed=1)), JobHour(3, 2, Counts(lost=5))]
        assert [row.job_id for row in reports.list_hour(conn, NOW, 2, 3)] == [3]


def test_hours_and_days_add_up_over_jobs_groups_and_time(db: Database) -> None:
    chance = random.Random(3)
    rows = {
        NOW + number * HOUR_MS: [
            JobHour(job_id, 1 + job_id % 2, Counts(*(chance.randint(0, 9) for _ in Counts._fields)))
            for job_id in range(1, 6)
        ]
        for number in range(60)
    }
    _fill(db, rows)

    def expected(from_ms: int, to_ms: int, *, group: int | None = None, job: int | None = None) -> Counts:
        found = [
            row.counts
            for hour_ms, part in rows.items()
            for row in part
            if from_ms <= hour_ms < to_ms and group in (None, row.group_id) and job in (None, row.job_id)
        ]
        return Counts(
            *(
                max(values) if "max" in name else sum(values)
                for name, values in zip(Counts._fields, zip(*found, strict=True), strict=True)
            )
        )

    end_ms = NOW + 60 * HOUR_MS
    with db.read() as conn:
        assert reports.get_totals(conn, NOW, end_ms) == expected(NOW, end_ms)
        assert reports.get_totals(conn, NOW, end_ms, group_id=2) == expected(NOW, end_ms, group=2)
        days = reports.list_report(conn, NOW, end_ms, by="day", job_id=3)
        assert [day.from_ms for day in days] == [NOW, NOW + DAY_MS, NOW + 2 * DAY_MS]
        for day in days:
            assert day.counts == expected(day.from_ms, day.from_ms + DAY_MS, job=3)
        hours = reports.list_report(conn, NOW + HOUR_MS, NOW + 3 * HOUR_MS, group_id=1)
        assert [hour.from_ms for hour in hours] == [NOW + HOUR_MS, NOW + 2 * HOUR_MS]
        for hour in hours:
            assert hour.counts == expected(hour.from_ms, hour.from_ms + HOUR_MS, group=1)


def test_nothing_is_nothing_and_much_is_bounded(db: Database) -> None:
    with db.read() as conn:
        assert reports.list_report(conn, 0, 10 * NOW) == []
        assert reports.get_totals(conn, 0, 10 * NOW) == Counts()
        assert reports.find_last_hour(conn) is None
    _fill(db, {NOW + number * HOUR_MS: [JobHour(1, 1, Counts(failed=1))] for number in range(1010)})
    with db.read() as conn:
        assert len(reports.list_report(conn, 0, 10 * NOW, limit=5000)) == 1000
        assert [row.from_ms for row in reports.list_report(conn, 0, 10 * NOW, limit=1)] == [NOW]
        assert reports.find_last_hour(conn) == NOW + 1009 * HOUR_MS


def test_hours_that_still_count_open_runs_are_found_latest_first(db: Database) -> None:
    counts = [Counts(open_runs=1), Counts(failed=1), Counts(open_runs=2), Counts(open_runs=3)]
    _fill(db, {NOW + number * HOUR_MS: [JobHour(1, 1, one)] for number, one in enumerate(counts)})
    with db.read() as conn:
        assert reports.find_open_hours(conn, NOW + 3 * HOUR_MS, 10) == [NOW + 2 * HOUR_MS, NOW]
        assert reports.find_open_hours(conn, NOW + 9 * HOUR_MS, 1) == [NOW + 3 * HOUR_MS]
