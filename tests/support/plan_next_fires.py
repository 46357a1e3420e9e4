"""A call of every function of :mod:`xwheel.storage.next_fires`; see :mod:`tests.support.plan_cases`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.plan_cases import FEW_GROUPS, MANY, Case
from xwheel.model import PARTITIONS
from xwheel.storage import next_fires
from xwheel.storage.jobs import JobFilter


def cases() -> Iterator[Case]:
    """Give all calls."""
    for limit in (MANY, 1000):
        yield Case(
            f"next_fires.soonest: {limit}",
            lambda conn, n=limit: next_fires.soonest(conn, next_fires.NEVER_MS, n),
            PARTITIONS * (2 * limit // PARTITIONS + next_fires.ENOUGH) + 4 * limit + 500,
            "reads as many of each partition as may be among the soonest",
        )
    yield Case(
        "next_fires.fires_of",
        lambda conn: next_fires.fires_of(conn, FEW_GROUPS, next_fires.NEVER_MS, next_fires.LOOK),
        25_000,
        "reads the jobs of the groups, of which a server may read all",
    )
    yield Case("next_fires.list_next_jobs", lambda conn: next_fires.list_next_jobs(conn, JobFilter(), MANY))
    yield Case(
        "next_fires.list_next_jobs: a part",
        lambda conn: next_fires.list_next_jobs(conn, JobFilter(search="nothing"), MANY, look=500),
        4000,
        "looks through the jobs that fire next",
    )
