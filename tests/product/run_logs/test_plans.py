"""With a million runs, every question about logs reads what it is about and no more."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress

import pytest
from xwheel_run_logs import storage

from tests.component.storage.schema.test_query_plans_million import FEW_RUNS, _too_long, _undone
from tests.product.run_logs import plans
from tests.support import million
from xwheel.errors import StorageError
from xwheel.storage.database.engine import LONG_MS, Database


def test_each_question_has_a_case() -> None:
    asked = {
        f"storage.{function.__name__}"
        for _, function in inspect.getmembers(storage, inspect.isfunction)
        if function.__module__ == storage.__name__ and "conn" in inspect.signature(function).parameters
    }
    assert {case.name.partition(":")[0] for case in plans.cases()} == asked


def test_each_question_is_understood(db: Database) -> None:
    million.fill(db, million.History(runs=FEW_RUNS))
    for case in plans.cases():
        with _undone(db) as conn, suppress(StorageError):  # what it is about is not there
            case.work(conn)


@pytest.fixture
def long_answers(db: Database) -> Iterator[None]:
    """A million rows take their time."""
    with db.limited(statement_ms=LONG_MS):
        yield


@pytest.mark.nightly
@pytest.mark.usefixtures("long_answers")
def test_no_question_reads_more_than_it_is_about(db: Database) -> None:
    million.fill(db, million.MILLION)
    every = list(plans.cases())
    found = _too_long(db, [case for case in every if case.name.startswith(plans.AT_ONCE)])
    million.analyze(db)
    found += _too_long(db, every)
    if db.backend == "postgresql":
        found += _too_long(db, every, "SET LOCAL plan_cache_mode = force_generic_plan")
    assert not found, "\n".join(found)
