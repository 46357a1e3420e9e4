"""Versions of a job, read from the rows that the core writes with each change."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, select
from xwheel.model.versions import JobAction, JobVersion
from xwheel.storage.job_versions import COLUMNS, version_of
from xwheel.storage.schema.tables import job_version

_LISTED: Final = tuple(column for column in COLUMNS if column.name != "definition")


def find_before(conn: Connection, job_id: int, revision: int) -> JobVersion | None:
    """Return the newest version of a job before a revision with its definition, or None."""
    query = select(*COLUMNS).where(job_version.c.job_id == job_id, job_version.c.revision < revision)
    row = conn.execute(query.order_by(job_version.c.revision.desc()).limit(1)).one_or_none()
    return None if row is None else version_of(row)


def list_versions(conn: Connection, job_id: int, *, before: int, limit: int) -> list[JobVersion]:
    """Return versions of a job below a revision, 0 for all, newest first, without their definitions."""
    query = select(*_LISTED).where(job_version.c.job_id == job_id)
    if before:
        query = query.where(job_version.c.revision < before)
    rows = conn.execute(query.order_by(job_version.c.revision.desc()).limit(limit))
    return [JobVersion(**row._asdict()) for row in rows]


def list_children_changes(conn: Connection, job_id: int) -> list[JobVersion]:
    """Return the versions of a job that changed its children, oldest first, with their definitions."""
    key = job_version.c
    query = select(*COLUMNS).where(key.job_id == job_id, key.action == str(JobAction.CHILDREN))
    return [version_of(row) for row in conn.execute(query.order_by(key.revision))]
