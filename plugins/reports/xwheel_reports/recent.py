"""How jobs ran lately, and which fire next, as the database says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import Connection, TextClause, text
from xwheel.storage.database.bulk import fetch_rows
from xwheel.storage.database.rows import IN_LIMIT, chunks
from xwheel.storage.jobs import NAMES_OF
from xwheel.storage.next_fires import LOOK, NEVER_MS, Fire, fires_of, soonest
from xwheel.storage.runs import began
from xwheel.storage.schema.tables import RUN_TABLES


class ShortRun(NamedTuple):
    """A run as a mark on the line of its job's last runs."""

    id: int
    job_id: int
    group_id: int
    state: str
    due_ms: int
    accepted_ms: int | None
    began_ms: int | None
    finished_ms: int | None


class NextFire(NamedTuple):
    """When a job fires next."""

    job_id: int
    job_name: str
    app_name: str
    group_id: int
    due_ms: int


def list_last_runs(conn: Connection, job_ids: Collection[int], each: int) -> dict[int, list[ShortRun]]:
    """Return at most ``each`` runs of each of these jobs, newest first; jobs without runs are missing."""
    found: dict[int, list[ShortRun]] = {}
    ids = sorted(set(job_ids))
    if not ids:
        return found
    values = {f"job{place}": job_id for place, job_id in enumerate(ids)}
    rows = conn.execute(_last_query(conn.dialect.name, len(ids)), {**values, "each": each})
    known = {row[0]: ShortRun(*row) for row in rows}
    for item in sorted(known.values(), key=lambda run: (run.due_ms, run.id), reverse=True):
        last = found.setdefault(item.job_id, [])
        if len(last) < each:
            last.append(item)
    return found


@lru_cache(maxsize=256)
def _last_query(dialect: str, count: int) -> TextClause:
    """Return the union of one limited range of the index for each job, and of its open runs."""
    columns = ", ".join(ShortRun._fields)
    told = {table: str(began(table.c).compile(compile_kwargs={"literal_binds": True})) for table in RUN_TABLES}
    parts = []
    for place in range(count):
        where, lead = f"job_id = :job{place}", ""
        if dialect == "postgresql":
            # sorted by what is one value: else, if a job has many runs, those of all jobs are walked by their time
            where, lead = f"job_id BETWEEN :job{place} AND :job{place}", "job_id DESC, "
        parts += [
            f"SELECT {columns} FROM (SELECT {columns.replace('began_ms', f'{told[table]} AS began_ms')} "  # noqa: S608 - names of ours
            f"FROM {table.name} WHERE {where} ORDER BY {lead}due_ms DESC, id DESC LIMIT :each) AS {table.name}{place}"
            for table in RUN_TABLES
        ]
    return text(" UNION ALL ".join(parts))


def list_next_fires(
    conn: Connection, until_ms: int | None, limit: int, groups: Collection[int] | None = None, *, look: int = LOOK
) -> list[NextFire]:
    """Return at most ``limit`` jobs that fire next, soonest first; only of some ``groups`` unless None.

    If groups have more than ``look`` jobs, theirs are found among the ``look`` jobs that fire next at all.
    """
    last_ms = NEVER_MS if until_ms is None else until_ms
    if groups is None:
        return _named(conn, soonest(conn, last_ms, limit))
    found = fires_of(conn, groups, last_ms, look)
    if found is not None:
        return _named(conn, sorted(found)[:limit])
    fires = _named(conn, soonest(conn, last_ms, look))
    return [fire for fire in fires if fire.group_id in groups][:limit]


def _named(conn: Connection, fires: Sequence[Fire]) -> list[NextFire]:
    parts = chunks([fire.job_id for fire in fires], IN_LIMIT)
    known = {row[0]: row for part in parts for row in fetch_rows(conn, *NAMES_OF(conn, part))}
    return [
        NextFire(job_id, known[job_id][1], known[job_id][2] or "", known[job_id][3], due_ms)
        for due_ms, job_id in fires
        if job_id in known
    ]
