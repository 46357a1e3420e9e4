"""Versions of jobs: a row for each revision, written in the transaction that makes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple, replace
from sqlalchemy import Connection, Row, delete, func, select

from xwheel.model.versions import JobVersion
from xwheel.storage.database.bulk import insert_many
from xwheel.storage.database.rows import one_row
from xwheel.storage.schema.tables import job_version

_NAMES: Final = JobVersion.__struct_fields__
COLUMNS: Final = tuple(job_version.c[name] for name in _NAMES)


def insert_versions(conn: Connection, versions: Sequence[JobVersion]) -> None:
    """Write versions of jobs whose rows are locked, in one statement; those that are there already stay as they are."""
    texts = [msgspec.json.encode(version.definition).decode() for version in versions]
    rows = [astuple(replace(item, definition=text)) for item, text in zip(versions, texts, strict=True)]
    insert_many(conn, job_version, _NAMES, rows, keep="id")


def get_version(conn: Connection, job_id: int, revision: int) -> JobVersion:
    """Return a version of a job with its definition; raises NotFoundError if it was never there or is not kept."""
    query = select(*COLUMNS).where(job_version.c.job_id == job_id, job_version.c.revision == revision)
    return version_of(one_row(conn, query, f"version of job {job_id} at revision", revision))


def page_ids(conn: Connection, after_id: int, limit: int) -> tuple[set[int], int | None]:
    """Return the jobs of the versions that were written next after one, and the last of these, if any."""
    query = select(job_version.c.id, job_version.c.job_id).where(job_version.c.id > after_id)
    rows = conn.execute(query.order_by(job_version.c.id).limit(limit)).all()
    return {row.job_id for row in rows}, rows[-1].id if rows else None


def find_many(conn: Connection, job_ids: Collection[int], keep: int) -> dict[int, int]:
    """Return those of a few hundred jobs that have more versions than are kept, and the newest revision to delete."""
    key = job_version.c.job_id
    counts = select(key).where(key.in_(sorted(job_ids))).group_by(key).having(func.count() > keep)
    found = {}
    for job_id in conn.execute(counts).scalars():
        query = select(job_version.c.revision).where(key == job_id).order_by(job_version.c.revision.desc())
        found[job_id] = conn.execute(query.offset(keep).limit(1)).scalar_one_or_none() or 0
    return found


def delete_until(conn: Connection, last: Mapping[int, int]) -> int:
    """Delete versions of jobs up to a revision of each; return how many."""
    key = job_version.c
    return sum(
        conn.execute(delete(job_version).where(key.job_id == job_id, key.revision <= revision)).rowcount
        for job_id, revision in sorted(last.items())
    )


def delete_of(conn: Connection, job_ids: Collection[int]) -> None:
    """Delete all versions of jobs."""
    conn.execute(delete(job_version).where(job_version.c.job_id.in_(sorted(job_ids))))


def version_of(row: Row[Any]) -> JobVersion:
    """Return the version of a row with all :data:`COLUMNS`."""
    values = row._asdict()
    return JobVersion(**{**values, "definition": msgspec.json.decode(values["definition"])})
