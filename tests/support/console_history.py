"""What the tests of the console cannot wait for: months of runs, and what a role may do."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from xwheel_devtools.testing import sample_run
from xwheel_reports import storage as reports

from benchmarks import _history
from tests.support.databases import upgrade
from xwheel.model import Run, RunState
from xwheel.model.access import Grant, Permission, Role
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection, Database

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
FIRST_ID: Final = 50_000
STATES: Final = (
    *(RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.FAILED, RunState.SUCCEEDED, RunState.TIMED_OUT),
    *(RunState.LOST, RunState.KILLED, RunState.REFUSED, RunState.CANCELLED),
)
WEIGHTS: Final[Mapping[RunState, float]] = {
    RunState.SUCCEEDED: 95,
    RunState.FAILED: 4,
    RunState.TIMED_OUT: 0.7,
    RunState.LOST: 0.3,
}


def ended_run(number: int, *, due_ms: int, took_ms: int, state: RunState, **fields: Any) -> Run:
    """Return a run that ended."""
    key = FIRST_ID + number
    times = dict.fromkeys(("due_ms", "planned_ms", "created_ms", "dispatched_ms", "accepted_ms"), due_ms)
    return sample_run(
        id=key,
        origin_key=key,
        root_id=key,
        chain_id=key,
        state=state,
        finished_ms=due_ms + took_ms,
        **times,
        **{"message": "", "result_code": 200 if state is RunState.SUCCEEDED else 500, **fields},
    )


@contextmanager
def busy_hour(db: Database, job_id: int, group_id: int, now_ms: int, counts: Sequence[int]) -> Iterator[None]:
    """Let the report of two hours ago have this count of each result of a job, while the block runs."""
    hour_ms = now_ms // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    row = reports.JobHour(job_id, group_id, reports.Counts(*counts))
    db.transaction(lambda conn: reports.replace_hour(conn, hour_ms, [], [row]))
    try:
        yield
    finally:
        db.transaction(lambda conn: reports.replace_hour(conn, hour_ms, [job_id], []))


def write_history(db: Database, made: Sequence[Run]) -> None:
    """Write runs that ended, and the report of each hour."""
    last = max(run.job_id for run in made)

    def write(conn: Connection) -> None:
        runs.insert_runs(conn, list(made))
        for hour_ms in sorted({run.due_ms // HOUR_MS * HOUR_MS for run in made}):
            rows = reports.count_part(conn, hour_ms, hour_ms + HOUR_MS, 0, last, 1000)
            reports.replace_hour(conn, hour_ms, [], rows)

    db.transaction(write)


def made_up_year(jobs: Sequence[int], group_id: int, now_ms: int, count: int = 6000) -> list[Run]:
    """Return runs of about a year, more of them lately; most succeeded."""
    dice = random.Random(7)
    found = []
    for number in range(count):
        (state,) = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))
        found.append(
            ended_run(
                count - number,
                job_id=dice.choice(jobs),
                group_id=group_id,
                due_ms=now_ms - HOUR_MS - int(number**1.25 * 100_000),
                took_ms=int(dice.lognormvariate(8, 0.6)),
                state=state,
                message="" if state is RunState.SUCCEEDED else "the supplier's server did not answer",
            )
        )
    return found


def a_month(jobs: Sequence[int], group_id: int, now_ms: int, count: int = 900) -> list[Run]:
    """Return runs of 30 days with all results."""
    return [
        ended_run(
            number,
            job_id=jobs[number % len(jobs)],
            group_id=group_id,
            due_ms=now_ms - (number * 47 * 60_000) % (30 * DAY_MS) - 61_000,
            took_ms=1000 + number,
            state=STATES[number % len(STATES)],
        )
        for number in range(count)
    ]


def permissions_of(role: str, *, script: bool = False) -> set[str]:
    """Return what a role may do."""
    grant = Grant(Role(role), script)
    return {str(permission) for permission in Permission if grant.allows(permission)}


def make_long_history(file: Path, jobs: int, runs: int) -> None:
    """Make an SQLite database in which so many jobs ran so many times, for a node that starts afterwards."""
    db = Database(f"sqlite:///{file}")
    upgrade(db)
    _history.fill(db, jobs, runs)
    db.close()
