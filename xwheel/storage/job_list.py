"""Pages of jobs by id, for people who look for some of them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from xwheel.model import Job
from xwheel.storage.jobs import get_jobs
from xwheel.storage.tables import job

LOOK: Final = 10_000


class JobFilter(NamedTuple):
    """Which jobs are wanted; what is None wants all.

    Attributes:
        name: The whole name.
        name_contains: A part of the name, whatever the case.
    """

    group_id: int | None = None
    name: str | None = None
    name_contains: str | None = None
    handler: str | None = None
    enabled: bool | None = None
    schedule_type: str | None = None


class JobPage(NamedTuple):
    """Some jobs; ``next`` is the id after which the following page begins, None after the last one.

    A page may have fewer jobs than wanted, even none, and still be followed by others.
    """

    jobs: list[Job]
    next: int | None


def page_jobs(
    conn: Connection,
    wanted: JobFilter,
    *,
    after_id: int = 0,
    limit: int = 50,
    look: int = LOOK,
) -> JobPage:
    """Return a page of jobs by id.

    Args:
        conn: Connection.
        wanted: Which jobs.
        after_id: Only jobs with a greater id.
        limit: How many at most.
        look: How many rows may be looked at.
    """
    columns = (job.c.id, job.c.name, job.c.handler, job.c.enabled, job.c.schedule_type)
    # the sum keeps MariaDB from walking all jobs that are not deleted up to the first one of the page
    query = select(*columns).where(job.c.id > after_id, (job.c.deleted_ms + 0).is_(None))
    if wanted.group_id is not None:
        query = query.where(job.c.group_id == wanted.group_id)
    # compared here and not in the database: each of them has its own idea of letters and their case
    part = None if wanted.name_contains is None else wanted.name_contains.casefold()
    is_plain = wanted._replace(group_id=None) == JobFilter()
    rows = conn.execute(query.order_by(job.c.id).limit(limit + 1 if is_plain else look)).all()
    ids = [row.id for row in rows if _fits(row, wanted, part)]
    following: int | None = None
    if len(ids) > limit:
        following = ids[limit - 1]
    elif not is_plain and len(rows) == look:
        following = rows[-1].id
    known = get_jobs(conn, ids[:limit], deleted=False)
    return JobPage([known[item] for item in ids[:limit] if item in known], following)


def _fits(row: Any, wanted: JobFilter, part: str | None) -> bool:
    same = all(
        getattr(wanted, name) in (None, getattr(row, name))
        for name in ("name", "handler", "enabled", "schedule_type")
    )
    return same and (part is None or part in row.name.casefold())
