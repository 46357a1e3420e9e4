"""Versions and runs of one job, read from the rows of the core: each question reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, select
from xwheel.model import Origin, Run, RunState
from xwheel.model.versions import JobVersion
from xwheel.storage.job_versions import COLUMNS, version_of
from xwheel.storage.run_list import FoundRuns, RunFilter, page_runs
from xwheel.storage.schema.tables import calendar, job_version

LOOK: Final = 500
"""Runs of a job that are searched for what no index tells."""

FEW: Final = 50
MOST_OF_FIRE: Final = 50
_LISTED: Final = tuple(column for column in COLUMNS if column.name != "definition")


def list_versions(conn: Connection, job_id: int, limit: int) -> list[JobVersion]:
    """Return the newest versions of a job, newest first, without their definitions."""
    query = select(*_LISTED).where(job_version.c.job_id == job_id).order_by(job_version.c.revision.desc())
    return [JobVersion(**row._asdict()) for row in conn.execute(query.limit(limit))]


def get_versions(conn: Connection, job_id: int, revisions: Collection[int]) -> dict[int, JobVersion]:
    """Return versions of a job with their definitions, by revision; those that are gone are missing."""
    if not revisions:
        return {}
    key = job_version.c
    query = select(*COLUMNS).where(key.job_id == job_id, key.revision.in_(sorted(revisions)))
    return {row.revision: version_of(row) for row in conn.execute(query)}


def get_calendar_times(conn: Connection, names: Collection[str]) -> dict[str, int]:
    """Return when calendars were changed last, by name; those that are not there are missing."""
    query = select(calendar.c.name, calendar.c.updated_ms).where(calendar.c.name.in_(sorted(names)))
    return {row.name: row.updated_ms for row in conn.execute(query)}


def find_newest_fire(conn: Connection, job_id: int, until_ms: int) -> Run | None:
    """Return the newest fire of a job's schedule that was due until an instant, of the newest runs until then."""
    wanted = RunFilter(job_id=job_id, origin=str(Origin.SCHEDULE), to_ms=until_ms + 1)
    return next(iter(page_runs(conn, wanted, limit=1, look=LOOK).runs), None)


def list_due(conn: Connection, job_id: int, from_ms: int, to_ms: int) -> list[Run]:
    """Return some runs of a job that were due at ``from_ms`` or later and before ``to_ms``, the latest first.

    In whatever state: MariaDB would sort all runs of a job for those in one of them.
    """
    return page_runs(conn, RunFilter(job_id=job_id, from_ms=from_ms, to_ms=to_ms), limit=FEW).runs


def page_skipped(conn: Connection, job_id: int, until_ms: int) -> FoundRuns:
    """Return the newest skip rows of a job whose first due time was until an instant."""
    wanted = RunFilter(job_id=job_id, states=frozenset({RunState.SKIPPED}), to_ms=until_ms + 1)
    return page_runs(conn, wanted, limit=FEW, look=LOOK)


def page_fire(conn: Connection, root_id: int) -> FoundRuns:
    """Return runs of a fire: its shards, retries and recoveries, the latest due first."""
    return page_runs(conn, RunFilter(root_id=root_id), limit=MOST_OF_FIRE)
