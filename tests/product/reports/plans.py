"""A call of every question of the reports and about jobs, over the rows of :mod:`tests.support.million`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xwheel_reports import recent, storage

from tests.support.million import BUSY_GROUP, BUSY_JOB, FIRST_HOUR, HOUR_MS, QUIET_JOB
from tests.support.plan_cases import FEW_GROUPS, MANY, ROWS, SOME_JOBS, Case
from tests.support.rows import NOW
from xwheel.model import PARTITIONS
from xwheel.storage.next_fires import ENOUGH

EACH: Final = 20
REPORT: Final = "reads the report of the time asked for, an hour and job a row, and no run"


def cases() -> Iterator[Case]:
    """Give all calls, each named after its function and, behind a colon, what is special."""
    hour = NOW // HOUR_MS * HOUR_MS
    an_hour = "reads the runs of one hour, by due time"
    for name, from_ms, after_job in (("", hour - HOUR_MS, 0), (": on", hour, 900)):
        to_ms = from_ms + HOUR_MS
        yield Case(
            f"reports.storage.count_part{name}",
            lambda conn, f=from_ms, t=to_ms, a=after_job: storage.count_part(conn, f, t, a, 10**9, MANY),
            8000,
            an_hour,
        )
    yield Case(
        "reports.storage.find_part_end",
        lambda conn: storage.find_part_end(conn, hour - HOUR_MS, hour, 5000),
        6000,
        "walks an index as far as it counts",
    )
    yield Case("reports.storage.list_hour", lambda conn: storage.list_hour(conn, FIRST_HOUR, 0, 20_000))
    rows = [storage.JobHour(item, 1, storage.Counts()) for item in SOME_JOBS]
    yield Case("reports.storage.replace_hour", lambda conn: storage.replace_hour(conn, FIRST_HOUR, [8000], rows))
    yield Case("reports.storage.find_last_hour", storage.find_last_hour)
    whole = 250_000
    yield Case("reports.storage.find_open_hours", lambda conn: storage.find_open_hours(conn, NOW, 9), whole, REPORT)
    for by in ("hour", "day"):
        mine = {"job_id": QUIET_JOB, "groups": FEW_GROUPS}
        for part in ({}, {"group_id": BUSY_GROUP}, {"job_id": QUIET_JOB}, {"groups": FEW_GROUPS}, mine):
            may = ROWS if "job_id" in part else whole
            yield Case(
                f"reports.storage.list_report: {by}",
                lambda conn, b=by, p=part: storage.list_report(conn, NOW - 99 * HOUR_MS, NOW, by=b, **p),
                may,
                "" if may == ROWS else REPORT,
            )
    yield Case(
        "reports.storage.get_totals", lambda conn: storage.get_totals(conn, NOW - 9 * HOUR_MS, NOW), 5000, REPORT
    )
    counted = f"counts at most {storage.MOST} of each kind, in an index"
    yield Case("reports.storage.get_overview", storage.get_overview, 3 * storage.MOST, counted)
    yield Case(
        "reports.storage.get_overview: some groups",
        lambda conn: storage.get_overview(conn, FEW_GROUPS),
        3 * storage.MOST,
        counted,
    )
    yield Case("reports.storage.delete_reports", lambda conn: storage.delete_reports(conn, FIRST_HOUR + HOUR_MS, MANY))
    yield from _of_jobs()


def _of_jobs() -> Iterator[Case]:
    yield Case(
        "reports.recent.list_last_runs",
        lambda conn: recent.list_last_runs(conn, [*range(1, 99), BUSY_JOB, QUIET_JOB], EACH),
        2 * 100 * EACH + 1500,
        "reads some runs of each of a hundred jobs, which MariaDB writes down and reads again",
    )
    yield Case("reports.recent.list_last_runs: busy", lambda conn: recent.list_last_runs(conn, [BUSY_JOB], EACH))
    for limit in (MANY, 1000):
        yield Case(
            f"reports.recent.list_next_fires: {limit}",
            lambda conn, n=limit: recent.list_next_fires(conn, None, n),
            PARTITIONS * (2 * limit // PARTITIONS + ENOUGH) + 4 * limit + 500,
            "reads as many of each partition as may be among the soonest",
        )
    yield Case(
        "reports.recent.list_next_fires: until", lambda conn: recent.list_next_fires(conn, NOW - 10**6 + 500, MANY)
    )
    yield Case(
        "reports.recent.list_next_fires: some groups",
        lambda conn: recent.list_next_fires(conn, None, MANY, FEW_GROUPS),
        25_000,
        "reads the jobs of the groups, of which a server may read all",
    )
    yield Case(
        "reports.recent.list_next_fires: a group with many jobs",
        lambda conn: recent.list_next_fires(conn, None, MANY, [BUSY_GROUP], look=200),
        2500,
        "looks through the jobs that fire next at all",
    )
