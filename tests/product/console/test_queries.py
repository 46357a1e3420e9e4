"""What is asked once a second reads what it is about and no more, with a million runs too."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

import pytest
from xwheel_console.live import queries

from tests.product.test_query_plans_million import FEW_RUNS, long_answers, too_long, undone
from tests.support import million
from tests.support.million import SENT, WAITING
from tests.support.plan_cases import MANY, PAST, Case
from tests.support.rows import NOW
from xwheel.storage.database.engine import Database
from xwheel.storage.retention import DAY_MS

__all__ = ["long_answers"]

AT_ONCE: Final = ("list_waiting", "list_sent", "list_recent")
"""Asked every second, also while the tables have not been analyzed since they grew."""

ROWS_OF_QUEUE: Final = 3 * (WAITING + SENT) + 500
QUEUE: Final = "reads what is open, as far as pages are told of single runs"


def cases() -> Iterator[Case]:
    """Give a call of every question, named after its function and, behind a colon, what is special."""
    yield Case("list_waiting", lambda conn: queries.list_waiting(conn, 2000), ROWS_OF_QUEUE, QUEUE)
    yield Case("list_waiting: few", lambda conn: queries.list_waiting(conn, MANY))
    yield Case("list_sent", lambda conn: queries.list_sent(conn, 2000), ROWS_OF_QUEUE, QUEUE)
    yield Case("list_sent: few", lambda conn: queries.list_sent(conn, MANY))
    # the newest thousand runs are due after now
    for words, until_ms in (("now", NOW), ("long ago", NOW - 10**9)):
        yield Case(f"list_recent: {words}", lambda conn, u=until_ms: queries.list_recent(conn, u - 10**6, u, 2000))
    yield Case("list_recent: many", lambda conn: queries.list_recent(conn, 0, NOW, MANY))
    yield Case("list_by_id", lambda conn: queries.list_by_id(conn, PAST))
    yield Case(
        "count_failed",
        lambda conn: queries.count_failed(conn, NOW - DAY_MS),
        12_000,
        "reads the report of a day, an hour and job a row, twice a minute",
    )


def test_each_question_has_a_case() -> None:
    asked = {
        name
        for name, function in inspect.getmembers(queries, inspect.isfunction)
        if function.__module__ == queries.__name__ and not name.startswith("_")
    }
    assert {case.name.partition(":")[0] for case in cases()} == asked


def test_each_question_is_understood(db: Database) -> None:
    million.fill(db, million.History(runs=FEW_RUNS))
    for case in cases():
        with undone(db) as conn:
            case.work(conn)


@pytest.mark.nightly
@pytest.mark.usefixtures("long_answers")
def test_no_question_reads_more_than_it_is_about(db: Database) -> None:
    million.fill(db, million.MILLION)
    # right after this many rows came, the tables are not analyzed
    found = too_long(db, [case for case in cases() if case.name.startswith(AT_ONCE)])
    million.analyze(db)
    found += too_long(db, list(cases()))
    if db.backend == "postgresql":
        # what the server falls back to once it has met a statement a few times
        found += too_long(db, list(cases()), "SET LOCAL plan_cache_mode = force_generic_plan")
    assert not found, "\n".join(found)
