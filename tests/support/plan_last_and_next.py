"""A call of every function of :mod:`xwheel.storage.last_and_next`; see :mod:`tests.support.plan_cases`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.support.million import BUSY_GROUP, BUSY_JOB, QUIET_JOB
from tests.support.plan_cases import FEW_GROUPS, MANY, Case
from tests.support.rows import NOW
from xwheel.model import PARTITIONS
from xwheel.storage import last_and_next
from xwheel.storage.jobs import JobFilter

EACH: Final = 20


def cases() -> Iterator[Case]:
    """Give all calls."""
    yield Case(
        "last_and_next.list_last_runs",
        lambda conn: last_and_next.list_last_runs(conn, [*range(1, 99), BUSY_JOB, QUIET_JOB], EACH),
        2 * 100 * EACH + 1500,
        "reads some runs of each of a hundred jobs, which MariaDB writes down and reads again",
    )
    yield Case(
        "last_and_next.list_last_runs: busy",
        lambda conn: last_and_next.list_last_runs(conn, [BUSY_JOB], EACH),
    )
    for limit in (MANY, 1000):
        yield Case(
            f"last_and_next.list_next_fires: {limit}",
            lambda conn, n=limit: last_and_next.list_next_fires(conn, None, n),
            PARTITIONS * (2 * limit // PARTITIONS + last_and_next.ENOUGH) + 4 * limit + 500,
            "reads as many of each partition as may be among the soonest",
        )
    yield Case(
        "last_and_next.list_next_jobs",
        lambda conn: last_and_next.list_next_jobs(conn, JobFilter(), MANY),
    )
    yield Case(
        "last_and_next.list_next_jobs: a part",
        lambda conn: last_and_next.list_next_jobs(conn, JobFilter(search="nothing"), MANY, look=500),
        4000,
        "looks through the jobs that fire next",
    )
    yield Case(
        "last_and_next.list_next_fires: until",
        lambda conn: last_and_next.list_next_fires(conn, NOW - 10**6 + 500, MANY),
    )
    yield Case(
        "last_and_next.list_next_fires: some groups",
        lambda conn: last_and_next.list_next_fires(conn, None, MANY, FEW_GROUPS),
        25_000,
        "reads the jobs of the groups, of which a server may read all",
    )
    yield Case(
        "last_and_next.list_next_fires: a group with many jobs",
        lambda conn: last_and_next.list_next_fires(conn, None, MANY, [BUSY_GROUP], look=200),
        2500,
        "looks through the jobs that fire next at all",
    )
