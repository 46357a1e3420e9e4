"""Fires that a job missed and that have runs all the same."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, or_, select

from xwheel.model import Origin, RunState
from xwheel.storage.bulk import any_of
from xwheel.storage.tables import job, run


def find_last_missed(
    conn: Connection, job_ids: Collection[int], now_ms: int, *, after_ms: int, threshold_ms: int
) -> dict[int, int]:
    """Return the planned time of the last fire that a job missed and that has a run, by job.

    Args:
        conn: Connection.
        job_ids: Of these jobs.
        now_ms: The shared time.
        after_ms: Only fires planned later than this.
        threshold_ms: The misfire threshold of jobs that have none of their own.
    """
    threshold = func.coalesce(job.c.misfire_threshold_ms, threshold_ms)
    is_missed = or_(run.c.due_ms + threshold < now_ms, run.c.reason == "misfire")
    query = (
        select(run.c.job_id, func.max(run.c.origin_key))
        .join(job, job.c.id == run.c.job_id)
        .where(any_of(conn, run.c.job_id, sorted(job_ids)), run.c.origin == Origin.SCHEDULE)
        .where(run.c.origin_key > after_ms, is_missed)
        .where(run.c.state.not_in((RunState.SKIPPED, RunState.CANCELLED)))
        .group_by(run.c.job_id)
    )
    return {row[0]: row[1] for row in conn.execute(query)}
