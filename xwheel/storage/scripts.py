"""Sources of script jobs: every saved version is a row, and the job's row says which one is current."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec.structs import asdict
from sqlalchemy import Connection, delete, func, insert, select

from xwheel.errors import NotFoundError
from xwheel.model import GlueVersion, NewSource
from xwheel.storage.database.bulk import tuple_in
from xwheel.storage.database.rows import in_parts, one_row
from xwheel.storage.schema.tables import glue_version

PAIRS: Final = 100  # versions in one statement
STATEMENT_CHARS: Final = 8 * 1024 * 1024
"""Characters of sources in the answer to one statement; a single source may have fewer."""

LAST_NUMBER: Final = 2**31 - 1  # the column takes no larger one, and PostgreSQL none in a query either
_ALL = tuple(glue_version.c[name] for name in GlueVersion.__struct_fields__)
_WITHOUT_SOURCE = tuple(column for column in _ALL if column.name != "source")


def insert_version(
    conn: Connection, job_id: int, glue_type: str, new: NewSource, now_ms: int, *, keep: int
) -> GlueVersion:
    """Save a source as the newest version of a job whose row is locked, and drop all but the newest ``keep``.

    Its time is later than that of every other version.
    """
    key = glue_version.c
    last = conn.execute(select(func.max(key.number), func.max(key.created_ms)).where(key.job_id == job_id)).one()
    # executors know versions by their time
    number, created_ms = (last[0] or 0) + 1, max(now_ms, (last[1] or 0) + 1)
    made = GlueVersion(job_id=job_id, number=number, glue_type=glue_type, created_ms=created_ms, **asdict(new))
    conn.execute(insert(glue_version).values(asdict(made)))
    conn.execute(delete(glue_version).where(key.job_id == job_id, key.number <= made.number - keep))
    return made


def get_version(conn: Connection, job_id: int, number: int) -> GlueVersion:
    """Return a version with its source. Raises NotFoundError: it does not exist, or is not kept any more."""
    query = select(*_ALL).where(glue_version.c.job_id == job_id, glue_version.c.number == number)
    kind = f"source version of job {job_id}"
    if number > LAST_NUMBER:
        raise NotFoundError(kind, number)
    return GlueVersion(**one_row(conn, query, kind, number)._mapping)


def list_versions(conn: Connection, job_id: int, *, before: int, limit: int) -> list[GlueVersion]:
    """Return versions of a job below a number, 0 for all, newest first, without their sources."""
    query = select(*_WITHOUT_SOURCE).where(glue_version.c.job_id == job_id)
    if before:
        query = query.where(glue_version.c.number < min(before, LAST_NUMBER))
    rows = conn.execute(query.order_by(glue_version.c.number.desc()).limit(limit))
    return [GlueVersion(**row._asdict(), source="") for row in rows]


def load_versions(
    conn: Connection, wanted: Collection[tuple[int, int]], most: int
) -> tuple[list[GlueVersion], set[int]]:
    """Return the versions of ``(job id, number)`` that exist, with their sources, up to this many characters.

    Their lengths are asked for first. At least one version comes, however long it is; with them come the jobs of those
    that were too much.
    """
    key = (glue_version.c.job_id, glue_version.c.number)
    lengths = select(*key, func.length(glue_version.c.source))
    rows = in_parts(conn, sorted(wanted), PAIRS, lambda part: lengths.where(tuple_in(conn, key, part)))
    parts: list[list[tuple[int, int]]] = []
    left_out: set[int] = set()
    total = room = 0
    for job_id, number, length in rows:
        if total and total + length > most:
            left_out.add(job_id)
            continue
        if not parts or length > room or len(parts[-1]) == PAIRS:
            parts.append([])
            room = STATEMENT_CHARS
        parts[-1].append((job_id, number))
        total += length
        room -= length
    query = select(*_ALL)
    rows = (row for part in parts for row in conn.execute(query.where(tuple_in(conn, key, part))))
    return [GlueVersion(**row._mapping) for row in rows], left_out
