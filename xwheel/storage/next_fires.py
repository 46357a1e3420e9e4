"""Which jobs fire next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from xwheel.model import PARTITIONS, Job
from xwheel.storage.database.rows import IN_LIMIT, groups_among, in_parts
from xwheel.storage.jobs import JobFilter, columns_of, due_query, fits, get_jobs
from xwheel.storage.schema.tables import job

LOOK: Final = 10_000  # jobs that are looked through for those of some groups that fire next
ENOUGH: Final = 8  # jobs of each partition that are read first, besides twice its share
NEVER_MS: Final = 2**62


class Fire(NamedTuple):
    """When a job fires next."""

    due_ms: int
    job_id: int


def list_next_jobs(conn: Connection, wanted: JobFilter, limit: int, *, look: int = LOOK) -> list[Job]:
    """Return at most ``limit`` wanted jobs that fire again, soonest first, of the ``look`` that fire next."""
    groups = groups_among(wanted.groups, wanted.group_id)
    if groups is None and wanted == JobFilter():
        look = limit
    fires = None if groups is None else fires_of(conn, groups, NEVER_MS, look)
    ids = [fire.job_id for fire in (soonest(conn, NEVER_MS, look) if fires is None else sorted(fires))]
    query = select(*columns_of(wanted), job.c.group_id)
    rows = in_parts(conn, ids, IN_LIMIT, lambda part: query.where(job.c.id.in_(part)))
    fitting = {row.id for row in rows if fits(row, wanted) and (groups is None or row.group_id in groups)}
    ids = [job_id for job_id in ids if job_id in fitting][:limit]
    known = get_jobs(conn, ids, deleted=False)
    return [known[job_id] for job_id in ids if job_id in known]


def fires_of(conn: Connection, groups: Collection[int], last_ms: int, look: int) -> list[Fire] | None:
    """Return the next fires of groups, or None if they have too many jobs."""
    query = select(job.c.next_fire_ms, job.c.id).where(job.c.group_id.in_(sorted(groups))).limit(look + 1)
    rows = conn.execute(query).all()
    if len(rows) > look:
        return None
    return [Fire(*row) for row in rows if row.next_fire_ms is not None and row.next_fire_ms <= last_ms]


def soonest(conn: Connection, last_ms: int, limit: int) -> list[Fire]:
    """Return the next fires of all jobs: of each partition as many as it is likely to have among them, else more."""
    few = min(limit, 2 * limit // PARTITIONS + ENOUGH)
    for each in (few, limit):
        query = due_query(tuple(range(PARTITIONS)), "next_fire_ms, id")
        rows = sorted(tuple(row) for row in conn.execute(query, {"horizon_ms": last_ms, "each": each}))[:limit]
        counts = Counter(part for _, _, part in rows)
        if max(counts.values(), default=0) < each:
            break
    return [Fire(due_ms, job_id) for due_ms, job_id, _ in rows]
