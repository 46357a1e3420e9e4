"""How jobs ran lately, and which fire next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from sqlalchemy import Connection, TextClause, select, text

from xwheel.model import PARTITIONS, Job
from xwheel.storage.database.rows import IN_LIMIT, groups_among, in_parts
from xwheel.storage.jobs import JobFilter, columns_of, fits, get_jobs
from xwheel.storage.schema.tables import executor_group, job

LOOK: Final = 10_000
"""Jobs that are looked through for those of some groups that fire next."""

ENOUGH: Final = 8
"""Jobs of each partition that are read first, besides twice its share."""

NEVER_MS: Final = 2**62


class ShortRun(NamedTuple):
    """A run as a mark on the line of its job's last runs."""

    id: int
    job_id: int
    group_id: int
    state: str
    due_ms: int
    accepted_ms: int | None
    finished_ms: int | None


class NextFire(NamedTuple):
    """When a job fires next."""

    job_id: int
    job_name: str
    app_name: str
    group_id: int
    due_ms: int


class _Fire(NamedTuple):
    due_ms: int
    job_id: int


def list_last_runs(conn: Connection, job_ids: Collection[int], each: int) -> dict[int, list[ShortRun]]:
    """Return at most ``each`` runs of each of these jobs, newest first; jobs without runs are missing."""
    found: dict[int, list[ShortRun]] = {}
    ids = sorted(set(job_ids))
    if not ids:
        return found
    values = {f"job{place}": job_id for place, job_id in enumerate(ids)}
    for row in conn.execute(_last_query(conn.dialect.name, len(ids)), {**values, "each": each}):
        found.setdefault(row.job_id, []).append(ShortRun(*row))
    for items in found.values():
        items.sort(key=lambda item: (item.due_ms, item.id), reverse=True)
    return found


@lru_cache(maxsize=256)
def _last_query(dialect: str, count: int) -> TextClause:
    """Return the union of one limited range of the index for each job."""
    columns = ", ".join(ShortRun._fields)
    parts = []
    for place in range(count):
        where, lead = f"job_id = :job{place}", ""
        if dialect == "postgresql":
            # sorted by what is one value: else, if a job has many runs, those of all jobs are walked by their time
            where, lead = f"job_id BETWEEN :job{place} AND :job{place}", "job_id DESC, "
        parts.append(
            f"SELECT {columns} FROM (SELECT {columns} FROM run WHERE {where} "  # noqa: S608 - names of ours
            f"ORDER BY {lead}due_ms DESC, id DESC LIMIT :each) AS part{place}"
        )
    return text(" UNION ALL ".join(parts))


def list_next_fires(
    conn: Connection,
    until_ms: int | None,
    limit: int,
    groups: Collection[int] | None = None,
    *,
    look: int = LOOK,
) -> list[NextFire]:
    """Return at most ``limit`` jobs that fire next, soonest first; only of some ``groups`` unless None.

    If groups have more than ``look`` jobs, theirs are found among the ``look`` jobs that fire next at all.
    """
    last_ms = NEVER_MS if until_ms is None else until_ms
    if groups is None:
        return _named(conn, _soonest(conn, last_ms, limit))
    found = _fires_of(conn, groups, last_ms, look)
    if found is not None:
        return _named(conn, sorted(found)[:limit])
    fires = _named(conn, _soonest(conn, last_ms, look))
    return [fire for fire in fires if fire.group_id in groups][:limit]


def list_next_jobs(conn: Connection, wanted: JobFilter, limit: int, *, look: int = LOOK) -> list[Job]:
    """Return at most ``limit`` wanted jobs that fire again, soonest first, of the ``look`` that fire next."""
    groups = groups_among(wanted.groups, wanted.group_id)
    if groups is None and wanted == JobFilter():
        look = limit
    fires = None if groups is None else _fires_of(conn, groups, NEVER_MS, look)
    ids = [fire.job_id for fire in (_soonest(conn, NEVER_MS, look) if fires is None else sorted(fires))]
    query = select(*columns_of(wanted), job.c.group_id)
    rows = in_parts(conn, ids, IN_LIMIT, lambda part: query.where(job.c.id.in_(part)))
    fitting = {row.id for row in rows if fits(row, wanted) and (groups is None or row.group_id in groups)}
    ids = [job_id for job_id in ids if job_id in fitting][:limit]
    known = get_jobs(conn, ids, deleted=False)
    return [known[job_id] for job_id in ids if job_id in known]


def _fires_of(conn: Connection, groups: Collection[int], last_ms: int, look: int) -> list[_Fire] | None:
    """Return the next fires of groups, or None if they have too many jobs."""
    query = select(job.c.next_fire_ms, job.c.id).where(job.c.group_id.in_(sorted(groups))).limit(look + 1)
    rows = conn.execute(query).all()
    if len(rows) > look:
        return None
    return [_Fire(*row) for row in rows if row.next_fire_ms is not None and row.next_fire_ms <= last_ms]


def _soonest(conn: Connection, last_ms: int, limit: int) -> list[_Fire]:
    """Return the next fires of all jobs: of each partition as many as it is likely to have among them, else more."""
    few = min(limit, 2 * limit // PARTITIONS + ENOUGH)
    for each in (few, limit):
        rows = conn.execute(_next_query(), {"last_ms": last_ms, "each": each})
        fires = sorted(_Fire(*row) for row in rows)
        counts: dict[int, int] = {}
        for fire in fires[:limit]:
            counts[fire.job_id % PARTITIONS] = counts.get(fire.job_id % PARTITIONS, 0) + 1
        if max(counts.values(), default=0) < each:
            break
    return fires[:limit]


@lru_cache(maxsize=1)
def _next_query() -> TextClause:
    parts = (
        "SELECT next_fire_ms, id FROM (SELECT next_fire_ms, id FROM job "  # noqa: S608 - numbers
        f"WHERE job.partition = {part} AND next_fire_ms <= :last_ms ORDER BY next_fire_ms LIMIT :each) AS part{part}"
        for part in range(PARTITIONS)
    )
    return text(" UNION ALL ".join(parts))


def _named(conn: Connection, fires: Sequence[_Fire]) -> list[NextFire]:
    query = select(job.c.id, job.c.name, executor_group.c.app_name, job.c.group_id).outerjoin(
        executor_group, executor_group.c.id == job.c.group_id
    )
    ids = [fire.job_id for fire in fires]
    rows = in_parts(conn, ids, IN_LIMIT, lambda part: query.where(job.c.id.in_(part)))
    known = {row.id: row for row in rows}
    return [
        NextFire(fire.job_id, row.name, row.app_name or "", row.group_id, fire.due_ms)
        for fire in fires
        if (row := known.get(fire.job_id)) is not None
    ]
