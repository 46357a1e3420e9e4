"""A call of every function that asks the database about one due time, over the rows of :mod:`tests.support.million`."""

from __future__ import annotations

from collections.abc import Iterator

from xwheel_why import storage

from tests.support.million import BUSY_JOB, HOUR_MS, QUIET_JOB
from tests.support.plan_cases import MANY, Case
from tests.support.rows import NOW

DAY_MS = 24 * HOUR_MS


def cases() -> Iterator[Case]:
    """Give all calls."""
    yield Case("why.storage.list_versions", lambda conn: storage.list_versions(conn, 5, MANY))
    yield Case("why.storage.get_versions", lambda conn: storage.get_versions(conn, 5, range(1000, 1000 + MANY)))
    yield Case("why.storage.get_calendar_times", lambda conn: storage.get_calendar_times(conn, ["feasts"]))
    searched = "looks through runs of a job, an entry of the index and a row each"
    for job_id in (BUSY_JOB, QUIET_JOB):
        for at_ms in (NOW, NOW - 20 * DAY_MS):
            what = f"job {job_id}, {'now' if at_ms == NOW else 'long ago'}"
            yield Case(
                f"why.storage.find_newest_fire: {what}",
                lambda conn, j=job_id, at=at_ms: storage.find_newest_fire(conn, j, at),
            )
            yield Case(
                f"why.storage.list_due: {what}",
                lambda conn, j=job_id, at=at_ms: storage.list_due(conn, j, at, at + 1000),
            )
            yield Case(
                f"why.storage.list_due: {what}, and the day before",
                lambda conn, j=job_id, at=at_ms: storage.list_due(conn, j, at - DAY_MS, at),
            )
            yield Case(
                f"why.storage.page_skipped: {what}",
                lambda conn, j=job_id, at=at_ms: storage.page_skipped(conn, j, at),
                3 * storage.LOOK + MANY,
                searched,
            )
    yield Case("why.storage.page_fire", lambda conn: storage.page_fire(conn, 5))
