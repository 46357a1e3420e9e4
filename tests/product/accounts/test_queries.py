"""What is asked of accounts and of the audit reads what it is about and no more, with very many rows too."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from contextlib import suppress

import pytest
import xwheel_accounts
from xwheel_accounts.audit import trail

from tests.product.accounts import plan_audit, plan_people
from tests.product.test_query_plans_million import FEW_RUNS, long_answers, too_long, undone
from tests.support import million
from tests.support.plan_cases import Case
from xwheel.errors import StorageError
from xwheel.storage.database.engine import Database

__all__ = ["long_answers"]


def cases() -> list[Case]:
    """Return a call of every question."""
    return [*plan_people.cases(), *plan_audit.cases()]


def test_each_question_has_a_case() -> None:
    start = f"{xwheel_accounts.__name__}."
    modules = [
        *(found.name for found in pkgutil.walk_packages(xwheel_accounts.__path__, start) if ".storage." in found.name),
        trail.__name__,
    ]
    asked = {
        f"{name.removeprefix(start)}.{function.__name__}"
        for name in modules
        for _, function in inspect.getmembers(importlib.import_module(name), inspect.isfunction)
        if function.__module__ == name
        and not function.__name__.startswith("_")
        and [item.annotation for item in inspect.signature(function).parameters.values()][:1] == ["Connection"]
    }
    assert {case.name.partition(":")[0] for case in cases()} == asked


def test_each_question_is_understood(db: Database) -> None:
    """Few of the tests that ask run on servers: there every question is asked at least here."""
    million.fill(db, million.History(runs=FEW_RUNS))
    plan_audit.fill(db, FEW_RUNS)
    plan_people.fill(db)
    for case in cases():
        with undone(db) as conn, suppress(StorageError):  # what it is about is not there
            case.work(conn)


@pytest.mark.nightly
@pytest.mark.usefixtures("long_answers")
def test_no_question_reads_more_than_it_is_about(db: Database) -> None:
    plan_audit.fill(db, plan_audit.ROWS)
    plan_people.fill(db)
    million.analyze(db)
    plan_audit.analyze(db)
    plan_people.analyze(db)
    found = too_long(db, cases())
    if db.backend == "postgresql":
        # what the server falls back to once it has met a statement a few times
        found += too_long(db, cases(), "SET LOCAL plan_cache_mode = force_generic_plan")
    assert not found, "\n".join(found)
