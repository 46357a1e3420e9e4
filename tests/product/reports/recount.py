"""A count of runs that is made another way, and what the table says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from xwheel_reports.storage import HOUR_MS, Counts, JobHour, list_hour

from xwheel.model import FINAL_STATES, Run, RunState
from xwheel.storage.database.engine import Database


def recount(items: Iterable[Run]) -> dict[tuple[int, int], Counts]:
    """Count runs by hour and job, one at a time."""
    tally: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for run in items:
        row = tally[run.due_ms // HOUR_MS * HOUR_MS, run.job_id]
        if run.state not in FINAL_STATES:
            row["open_runs"] += 1
        elif run.state is RunState.SKIPPED:
            row["skipped"] += run.skip_count or 1
        else:
            row[str(run.state)] += 1
        if run.accepted_ms is not None:
            row["lateness_max_ms"] = max(row["lateness_max_ms"], run.accepted_ms - run.due_ms)
            if run.finished_ms is not None:
                took_ms = run.finished_ms - (run.started_ms or run.accepted_ms)
                row["duration_sum_ms"] += took_ms
                row["duration_max_ms"] = max(row["duration_max_ms"], took_ms)
    return {key: Counts(**row) for key, row in tally.items()}


def stored(db: Database, hours: Iterable[int]) -> dict[tuple[int, int], Counts]:
    """Return the report's rows of some hours."""
    with db.read() as conn:
        return {(hour_ms, row.job_id): row.counts for hour_ms in hours for row in list_hour(conn, hour_ms, 0, 2**53)}


def job_hours(db: Database, hour_ms: int) -> list[JobHour]:
    with db.read() as conn:
        return list_hour(conn, hour_ms, 0, 2**53)
