"""Hold what was expected, what the run rows say and what the handlers counted against each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from xwheel.cli.quickstart.jobs import Demo, demo_jobs
from xwheel.model import FINAL_STATES, Origin, Run, RunState
from xwheel.storage import runs
from xwheel.storage.database.engine import Database

SHOWN: Final = 20
PAGE: Final = 5000

Key = tuple[int, int, int]
"""Job, planned time and attempt, by which an execution is matched with its row."""


@dataclass(frozen=True, slots=True)
class Report:
    """The summary of a demonstration.

    Attributes:
        expected: Executions that the job definitions call for.
        rows: Run rows of the demonstration's jobs.
        executions: What the handlers counted.
        lateness_ms: Due to accepted, of first attempts of scheduled fires, sorted.
        mismatches: Sentences about what does not agree; empty if everything does.
    """

    expected: int
    rows: int
    executions: int
    lateness_ms: Sequence[int]
    mismatches: Sequence[str]

    @property
    def ok(self) -> bool:
        """Whether the three counts agree exactly, and there was something to count."""
        return not self.mismatches and self.expected > 0

    def percentile_ms(self, part: float) -> int | None:
        """Return a percentile of the lateness, or None without any."""
        return (
            self.lateness_ms[min(len(self.lateness_ms) - 1, int(part * len(self.lateness_ms)))]
            if self.lateness_ms
            else None
        )


def verify(db: Database, plan: Mapping[str, Any], executions: Path) -> Report:
    """Compare the three counts.

    Args:
        db: The node's database.
        plan: What the demonstration wrote down before it began: ``start_ms``, ``end_ms``, ``rate``, ``jobs`` (name to
            id) and ``calls`` (run ids by job name).
        executions: The file in which handlers count.
    """
    demos = {demo.name: demo for demo in demo_jobs(plan["rate"])}
    by_job = {job_id: demos[name] for name, job_id in plan["jobs"].items()}
    rows = [run for run in _all_runs(db) if run.job_id in by_job]
    counted = (
        [json.loads(line) for line in executions.read_text().splitlines()] if executions.exists() else []
    )
    expected = _expected(plan, by_job)
    asked = {run_id for ids in plan["calls"].values() for run_id in ids}
    problems = [
        *_compare("run rows", expected, Counter(_row_key(run) for run in rows), by_job),
        *_compare("executions", expected, Counter(_execution_key(item, asked) for item in counted), by_job),
        *_states(rows, by_job),
        *_one_to_one(rows, counted),
        *_calls(rows, asked),
    ]
    first = [run for run in rows if run.origin is Origin.SCHEDULE and run.accepted_ms is not None]
    lateness = sorted(run.accepted_ms - run.due_ms for run in first if run.accepted_ms is not None)
    return Report(sum(expected.values()), len(rows), len(counted), lateness, problems)


def _expected(plan: Mapping[str, Any], by_job: Mapping[int, Demo]) -> Counter[Key]:
    """Return every execution the definitions call for; runs by hand have no planned time and count as 0."""
    expected: Counter[Key] = Counter()
    for job_id, demo in by_job.items():
        for planned_ms in demo.due(plan["start_ms"], plan["end_ms"]):
            expected.update((job_id, planned_ms, attempt) for attempt in range(1, demo.attempts + 1))
        if demo.calls:
            expected[job_id, 0, 1] = demo.calls
    return expected


def _row_key(run: Run) -> Key:
    return (run.job_id, 0 if run.origin is Origin.API else run.planned_ms, run.attempt)


def _execution_key(item: Mapping[str, int], asked: Collection[int]) -> Key:
    return (item["job_id"], 0 if item["run_id"] in asked else item["planned_ms"], item["attempt"])


def _compare(
    what: str, expected: Counter[Key], found: Counter[Key], by_job: Mapping[int, Demo]
) -> Iterable[str]:
    for key in sorted((expected - found) | (found - expected)):
        job_id, planned_ms, attempt = key
        name = by_job[job_id].name if job_id in by_job else f"job {job_id}"
        yield f"{what}: {name!r}, due {planned_ms}, attempt {attempt}: {expected[key]} expected, {found[key]} found"


def _states(rows: Iterable[Run], by_job: Mapping[int, Demo]) -> Iterable[str]:
    for run in rows:
        last = run.attempt == by_job[run.job_id].attempts
        wanted = RunState.SUCCEEDED if last else RunState.FAILED
        if run.state is not wanted:
            word = "is" if run.state in FINAL_STATES else "is still"
            name = by_job[run.job_id].name
            yield f"run {run.id} of {name!r} {word} {run.state}, {wanted} expected: {run.message[:80]}"


def _one_to_one(rows: Iterable[Run], counted: Iterable[Mapping[str, int]]) -> Iterable[str]:
    by_run = Counter(item["run_id"] for item in counted)
    ids = {run.id for run in rows}
    for run_id in sorted(ids | set(by_run)):
        if run_id not in ids:
            yield f"run {run_id} was executed but has no row"
        elif by_run[run_id] != 1:
            yield f"run {run_id} was executed {by_run[run_id]} times"


def _calls(rows: Iterable[Run], asked: set[int]) -> Iterable[str]:
    by_hand = {run.id for run in rows if run.origin is Origin.API}
    for run_id in sorted(asked ^ by_hand):
        yield f"run {run_id} was {'asked for by hand and is missing' if run_id in asked else 'never asked for'}"


def _all_runs(db: Database) -> list[Run]:
    found: list[Run] = []
    before: tuple[int, int] | None = None
    with db.read() as conn:
        while page := runs.list_runs(conn, before=before, limit=PAGE):
            found += page
            before = (page[-1].due_ms, page[-1].id)
    return found
