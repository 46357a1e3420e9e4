"""How much there is of everything, counted only as far as it costs nothing."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, func, literal_column, select

from xwheel.model import PARTITIONS
from xwheel.storage.tables import IS_SENT, executor_group, job, run

MOST: Final = 10_000
"""Nothing is counted further: this many means at least so many."""


class Overview(NamedTuple):
    """How many there are, each at most :data:`MOST`.

    Attributes:
        scheduled_jobs: Jobs that wait for their next due time.
        open_runs: Dispatching or running.
    """

    groups: int
    jobs: int
    scheduled_jobs: int
    planned_runs: int
    open_runs: int


def get_overview(conn: Connection) -> Overview:
    """Count from indexes."""
    partitions = range(PARTITIONS)
    return Overview(
        groups=_count(conn, select(executor_group.c.id)),
        jobs=_count(conn, select(job.c.id).where(job.c.deleted_ms.is_(None))),
        scheduled_jobs=_count(
            conn, select(job.c.id).where(job.c.partition.in_(partitions), job.c.next_fire_ms > 0)
        ),
        planned_runs=_count(conn, select(run.c.id).where(run.c.open_partition.in_(partitions))),
        open_runs=_count(conn, select(run.c.id).where(IS_SENT)),
    )


def _count(conn: Connection, query: Select[Any]) -> int:
    some = query.limit(MOST).subquery("some")
    return int(conn.execute(select(func.count(literal_column("1"))).select_from(some)).scalar_one())
