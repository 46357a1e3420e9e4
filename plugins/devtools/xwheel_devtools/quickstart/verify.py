"""What the demonstration calls for, judged like any load of :mod:`xwheel_devtools.verify`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from xwheel.storage import runs
from xwheel.storage.database.engine import Database

from xwheel_devtools.quickstart.jobs import demo_jobs
from xwheel_devtools.verify.records import Did, ExpectedJob, RunRow, UserAction, Verdict
from xwheel_devtools.verify.site import executions
from xwheel_devtools.verify.verdict import judge

SHOWN: Final = 20
PAGE: Final = 5000
ROW: Final = tuple(field.name for field in fields(RunRow))


def verify(db: Database, plan: Mapping[str, Any], file: Path) -> Verdict:
    """Compare what was due, what the run rows say and what the handlers wrote down.

    Args:
        db: The node's database.
        plan: What the demonstration wrote down before it began: ``start_ms``, ``end_ms``, ``rate``, ``jobs`` (name to
            id) and ``calls`` (run ids by job name).
        file: Where handlers wrote that they run.
    """
    jobs = expected_jobs(plan)
    asked = [
        UserAction(did=Did.RUN, job_id=plan["jobs"][name], asked_ms=plan["start_ms"], run_id=run_id)
        for name, ids in plan["calls"].items()
        for run_id in ids
    ]
    rows = [row for row in _all_rows(db) if row.job_id in jobs]
    return judge(jobs, rows, executions([file] if file.exists() else [], list(jobs)), actions=asked)


def expected_jobs(plan: Mapping[str, Any]) -> dict[int, ExpectedJob]:
    """Return what the jobs of the demonstration call for, by id."""
    demos = {demo.name: demo for demo in demo_jobs(plan["rate"])}
    return {
        job_id: ExpectedJob(
            name=name, due=demos[name].due(plan["start_ms"], plan["end_ms"]), failures=demos[name].attempts - 1
        )
        for name, job_id in plan["jobs"].items()
    }


def expected_executions(plan: Mapping[str, Any]) -> int:
    """Return how many executions that makes: each attempt of each fire, and each call by hand."""
    due = sum((job.failures + 1) * len(job.due) for job in expected_jobs(plan).values())
    return due + sum(demo.calls for demo in demo_jobs(plan["rate"]))


def _all_rows(db: Database) -> list[RunRow]:
    found: list[RunRow] = []
    before: tuple[int, int] | None = None
    with db.read() as conn:
        while page := runs.list_runs(conn, before=before, limit=PAGE):
            found += [RunRow(**{name: getattr(run, name) for name in ROW}) for run in page]
            before = (page[-1].due_ms, page[-1].id)
    return found
