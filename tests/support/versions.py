"""Which versions of a job are kept."""

from __future__ import annotations

from sqlalchemy import Connection, select

from xwheel.model.versions import JobVersion
from xwheel.storage.job_versions import COLUMNS, version_of
from xwheel.storage.schema.tables import job_version


def kept_versions(conn: Connection, job_id: int) -> list[JobVersion]:
    """Return them oldest first, with their definitions."""
    query = select(*COLUMNS).where(job_version.c.job_id == job_id).order_by(job_version.c.revision)
    return [version_of(row) for row in conn.execute(query)]
