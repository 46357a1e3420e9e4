"""A call of every function of :mod:`xwheel.storage.live`; see :mod:`tests.support.plan_cases`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.support.million import BUSY_GROUP, BUSY_JOB, QUIET_JOB, SENT, WAITING
from tests.support.plan_cases import FEW_GROUPS, MANY, PAST, Case
from tests.support.rows import NOW
from xwheel.model import PARTITIONS
from xwheel.storage.jobs import JobFilter
from xwheel.storage.live import last_and_next, news
from xwheel.storage.reports import DAY_MS

EACH: Final = 20
ALARMED: Final = 1_000_000
AT_ONCE: Final = ("live.news.list_waiting", "live.news.list_sent", "live.news.list_recent")
"""Asked every second, also while the tables have not been analyzed since they grew."""


ROWS_OF_QUEUE: Final = 3 * (WAITING + SENT) + 500
QUEUE: Final = "reads what is open, as far as pages are told of single runs"


def cases() -> Iterator[Case]:
    """Give all calls."""
    yield Case("live.news.list_waiting", lambda conn: news.list_waiting(conn, 2000), ROWS_OF_QUEUE, QUEUE)
    yield Case("live.news.list_waiting: few", lambda conn: news.list_waiting(conn, MANY))
    yield Case("live.news.list_sent", lambda conn: news.list_sent(conn, 2000), ROWS_OF_QUEUE, QUEUE)
    yield Case("live.news.list_sent: few", lambda conn: news.list_sent(conn, MANY))
    # the newest thousand runs are due after now
    for words, until_ms in (("now", NOW), ("long ago", NOW - 10**9)):
        yield Case(
            f"live.news.list_recent: {words}",
            lambda conn, u=until_ms: news.list_recent(conn, u - 10**6, u, 2000),
        )
    yield Case("live.news.list_recent: many", lambda conn: news.list_recent(conn, 0, NOW, MANY))
    yield Case("live.news.list_by_id", lambda conn: news.list_by_id(conn, PAST))
    for words, after in (("news", ALARMED - MANY), ("many", 5), ("none", ALARMED + 5)):
        yield Case(f"live.news.list_alarmed: {words}", lambda conn, a=after: news.list_alarmed(conn, a, MANY))
    yield Case("live.news.find_newest_alarm", news.find_newest_alarm)
    yield Case(
        "live.news.count_failed",
        lambda conn: news.count_failed(conn, NOW - DAY_MS),
        12_000,
        "reads the report of a day, an hour and job a row, twice a minute",
    )
    yield Case(
        "live.last_and_next.list_last_runs",
        lambda conn: last_and_next.list_last_runs(conn, [*range(1, 99), BUSY_JOB, QUIET_JOB], EACH),
        2 * 100 * EACH + 1500,
        "reads some runs of each of a hundred jobs, which MariaDB writes down and reads again",
    )
    yield Case(
        "live.last_and_next.list_last_runs: busy",
        lambda conn: last_and_next.list_last_runs(conn, [BUSY_JOB], EACH),
    )
    for limit in (MANY, 1000):
        yield Case(
            f"live.last_and_next.list_next_fires: {limit}",
            lambda conn, n=limit: last_and_next.list_next_fires(conn, None, n),
            PARTITIONS * (2 * limit // PARTITIONS + last_and_next.ENOUGH) + 4 * limit + 500,
            "reads as many of each partition as may be among the soonest",
        )
    yield Case(
        "live.last_and_next.list_next_jobs",
        lambda conn: last_and_next.list_next_jobs(conn, JobFilter(), MANY),
    )
    yield Case(
        "live.last_and_next.list_next_jobs: a part",
        lambda conn: last_and_next.list_next_jobs(conn, JobFilter(search="nothing"), MANY, look=500),
        4000,
        "looks through the jobs that fire next",
    )
    yield Case(
        "live.last_and_next.list_next_fires: until",
        lambda conn: last_and_next.list_next_fires(conn, NOW - 10**6 + 500, MANY),
    )
    yield Case(
        "live.last_and_next.list_next_fires: some groups",
        lambda conn: last_and_next.list_next_fires(conn, None, MANY, FEW_GROUPS),
        25_000,
        "reads the jobs of the groups, of which a server may read all",
    )
    yield Case(
        "live.last_and_next.list_next_fires: a group with many jobs",
        lambda conn: last_and_next.list_next_fires(conn, None, MANY, [BUSY_GROUP], look=200),
        2500,
        "looks through the jobs that fire next at all",
    )
