"""With a million runs, every question reads what it is about and no more; the database's own counters say so."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import xwheel_job_versions
import xwheel_reports
import xwheel_run_logs
import xwheel_why
from sqlalchemy import Connection, text
from xwheel_alarms import storage as alarm_storage

from tests.product.alarms import plans
from tests.product.job_versions import plans as plan_of_versions
from tests.product.reports import plans as plan_reports
from tests.product.run_logs import plans as plan_logs
from tests.product.why import plans as plan_why
from tests.support import million, plan_access, plan_cases, plan_next_fires, plan_versions
from tests.support.plan_cases import Case
from tests.support.row_meter import metered
from tests.support.rows import NOW
from xwheel import storage
from xwheel.errors import StorageError
from xwheel.storage import settings
from xwheel.storage.access import executor_secrets, tokens
from xwheel.storage.database.engine import LONG_MS, Database

# what it makes of statements is seen where these are asked
NO_QUESTIONS = ("database.bulk", "database.direct", "database.rows", "database.changes", "schema.")
HOMES = (
    (storage, ""),
    (alarm_storage, "alarms."),
    (xwheel_job_versions, "versions."),
    (xwheel_reports, "reports."),
    (xwheel_run_logs, "logs."),
    (xwheel_why, "why."),
)
"""Packages with questions, and what the names of their cases begin with."""

FEW_RUNS = million.WAITING + million.SENT
# asked by every loop of every node, also while the tables have not been analyzed since they grew
AT_ONCE = (
    "runs.find_unadopted",
    "runs.find_overdue",
    "jobs.find_due_jobs",
    "open_runs.list_due",
    "runs.list_unanswered",
    *plans.AT_ONCE,
    *plan_logs.AT_ONCE,
)


def test_each_question_has_a_case() -> None:
    asked = {
        f"{name}.{function.__name__}"
        for home, prefix in HOMES
        for found in pkgutil.walk_packages(home.__path__, f"{home.__name__}.")
        for name in [prefix + found.name.removeprefix(f"{home.__name__}.")]
        if not found.ispkg and not name.startswith(NO_QUESTIONS)
        for _, function in inspect.getmembers(importlib.import_module(found.name), inspect.isfunction)
        if function.__module__ == found.name
        and not function.__name__.startswith("_")
        and [str(item.annotation) for item in inspect.signature(function).parameters.values()][:1]
        in (["Connection"], ["sa.Connection"])
    }
    assert {case.name.partition(":")[0] for case in _every_case()} == asked


def test_each_question_is_understood(db: Database) -> None:
    """Few of the tests that ask run on servers: there every question is asked at least here."""
    _fill(db, million.History(runs=FEW_RUNS))
    for case in _every_case():
        with undone(db) as conn, suppress(StorageError):  # what it is about is not there
            case.work(conn)


def _every_case() -> list[Case]:
    """Return a call of every question."""
    parts = (plan_cases, plan_access, plans, plan_logs, plan_reports, plan_of_versions, plan_next_fires, plan_versions)
    return [case for part in (*parts, plan_why) for case in part.cases()]


def _fill(db: Database, of: million.History) -> None:
    """Write what the questions are about."""
    million.fill(db, of)
    plans.fill(db)
    with db.write() as conn:
        tokens.insert_token(conn, "first", "a token", NOW)
        tokens.insert_token(conn, "second", "another token", NOW)
        executor_secrets.insert_secret(conn, "first", "a secret", plan_cases.KEYS, NOW, group_id=1)
        settings.save_calendar(conn, "feasts", {}, NOW)


@pytest.fixture
def long_answers(db: Database) -> Iterator[None]:
    """A million rows take their time."""
    with db.limited(statement_ms=LONG_MS):
        yield


@pytest.mark.nightly
@pytest.mark.usefixtures("long_answers")
def test_no_question_reads_more_than_it_is_about(db: Database) -> None:
    _fill(db, million.MILLION)
    every = _every_case()
    # right after this many rows came, the tables are not analyzed
    found = too_long(db, [case for case in every if case.name.startswith(AT_ONCE)])
    million.analyze(db)
    plans.analyze(db)
    found += too_long(db, every)
    if db.backend == "postgresql":
        # what the server falls back to once it has met a statement a few times
        found += too_long(db, every, "SET LOCAL plan_cache_mode = force_generic_plan")
    assert not found, "\n".join(found)


def too_long(db: Database, given: list[Case], setting: str = "") -> list[str]:
    found = []
    for case in given:
        with undone(db) as conn:
            if setting:
                conn.execute(text(setting))
                conn.connection.driver_connection.prepare_threshold = 0
            with metered(conn) as costs:
                case.work(conn)
        found += [
            f"{case.name} read {cost.rows} rows instead of {case.rows}{' ' + setting if setting else ''}\n"
            f"    {cost.plan}\n    {' '.join(cost.statement.split())[:1500]}"
            for cost in costs
            if cost.rows > case.rows
        ]
    return found


@contextmanager
def undone(db: Database) -> Iterator[Connection]:
    """Give a connection inside a writing transaction that is rolled back."""
    with db.engine.connect().execution_options(xwheel_write=True) as conn:
        transaction = conn.begin()
        try:
            yield conn
        finally:
            transaction.rollback()
