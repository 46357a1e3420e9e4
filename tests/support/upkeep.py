"""What tests of the upkeep need: a lease that says what it is told, and a count made another way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from xwheel.model import FINAL_STATES, Run, RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.reports import HOUR_MS, Counts, JobHour, list_hour

DAY_MS = 24 * HOUR_MS


class GivenLease:
    """A lease on the partitions that a test names."""

    def __init__(self, *partitions: int) -> None:
        self.epochs: Mapping[int, int] = dict.fromkeys(partitions or (0,), 1)
        self.is_valid = True

    def lock(self, conn: Connection) -> Mapping[int, int]:
        del conn
        return self.epochs

    def may_act(self, margin_ms: int = 0) -> bool:
        del margin_ms
        return self.is_valid


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
                took_ms = run.finished_ms - run.accepted_ms
                row["duration_sum_ms"] += took_ms
                row["duration_max_ms"] = max(row["duration_max_ms"], took_ms)
    return {key: Counts(**row) for key, row in tally.items()}


def all_runs(db: Database) -> list[Run]:
    with db.read() as conn:
        return runs.list_runs(conn, limit=1_000_000)


def stored(db: Database, hours: Iterable[int]) -> dict[tuple[int, int], Counts]:
    """Return the report's rows of some hours."""
    with db.read() as conn:
        return {
            (hour_ms, row.job_id): row.counts
            for hour_ms in hours
            for row in list_hour(conn, hour_ms, 0, 2**53)
        }


def insert(db: Database, items: Iterable[Run]) -> None:
    db.transaction(lambda conn: runs.insert_runs(conn, list(items)))


def job_hours(db: Database, hour_ms: int) -> list[JobHour]:
    with db.read() as conn:
        return list_hour(conn, hour_ms, 0, 2**53)
