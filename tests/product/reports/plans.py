"""A call of every function that asks the database about the report, over the rows of :mod:`tests.support.million`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xwheel_reports import storage

from tests.support.million import BUSY_GROUP, FIRST_HOUR, HOUR_MS, QUIET_JOB
from tests.support.plan_cases import FEW_GROUPS, MANY, ROWS, SOME_JOBS, Case
from tests.support.rows import NOW

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
            6000,
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
    yield Case(
        "reports.storage.replace_hour", lambda conn: storage.replace_hour(conn, FIRST_HOUR, [8000], rows)
    )
    yield Case("reports.storage.find_last_hour", storage.find_last_hour)
    whole = 250_000
    yield Case(
        "reports.storage.find_open_hours", lambda conn: storage.find_open_hours(conn, NOW, 9), whole, REPORT
    )
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
        "reports.storage.get_totals",
        lambda conn: storage.get_totals(conn, NOW - 9 * HOUR_MS, NOW),
        5000,
        REPORT,
    )
    counted = f"counts at most {storage.MOST} of each kind, in an index"
    yield Case("reports.storage.get_overview", storage.get_overview, 3 * storage.MOST, counted)
    yield Case(
        "reports.storage.get_overview: some groups",
        lambda conn: storage.get_overview(conn, FEW_GROUPS),
        3 * storage.MOST,
        counted,
    )
    yield Case(
        "reports.storage.delete_reports",
        lambda conn: storage.delete_reports(conn, FIRST_HOUR + HOUR_MS, MANY),
    )
