"""Every question about declared jobs reads what it is about and no more, with many of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from xwheel_jobs_as_code.declarations import owners, records
from xwheel_jobs_as_code.declarations.records import DeclaredJob

from tests.product.test_query_plans_million import FEW_RUNS, too_long, undone
from tests.support import million
from tests.support.million import GROUPS, JOBS, QUIET_JOB, _copy
from tests.support.plan_cases import FEW_GROUPS, MANY, SOME_JOBS, Case
from tests.support.rows import NOW
from xwheel.storage.database.engine import Database


def cases() -> Iterator[Case]:
    names = ["no such job", *(f"job {item}" for item in range(MANY))]
    said = DeclaredJob(job_id=JOBS + 5, group_id=1)
    yield Case("owners.get_owner", lambda conn: owners.get_owner(conn, 1, lock=True))
    yield Case("owners.get_owners", lambda conn: owners.get_owners(conn, range(1, MANY)))
    yield Case("owners.list_owners", owners.list_owners)
    yield Case("owners.list_owners: some groups", lambda conn: owners.list_owners(conn, groups=FEW_GROUPS))
    yield Case("owners.has_owner", lambda conn: owners.has_owner(conn, 1))
    yield Case("owners.insert_owner", lambda conn: owners.insert_owner(conn, GROUPS + 1))
    yield Case("owners.update_owner", lambda conn: owners.update_owner(conn, 1, {"seen_ms": NOW}))
    yield Case("records.get_declared", lambda conn: records.get_declared(conn, SOME_JOBS))
    yield Case("records.list_declared", lambda conn: records.list_declared(conn, 1))
    yield Case("records.find_by_names", lambda conn: records.find_by_names(conn, 1, names))
    yield Case("records.insert_declared", lambda conn: records.insert_declared(conn, [said]))
    yield Case("records.save_declared", lambda conn: records.save_declared(conn, said))
    yield Case("records.delete_declared", lambda conn: records.delete_declared(conn, [QUIET_JOB]))


def fill(db: Database) -> None:
    """Let each group follow code, which declares each job."""
    million.fill(db, million.History(runs=FEW_RUNS))
    with db.write() as conn:
        owner = {"group_id": "n", "release": "'1.0'", "digest": "'a'", "seen_ms": str(NOW)}
        _copy(conn, "declaration_owner", GROUPS, owner)
        no = "(1 = 0)"
        said = {"place": "''", "fields": "'[]'", "released": "'[]'", "problem": "''", "updated_ms": str(NOW)}
        flags = {"is_released": no, "is_retired": no, "was_started": no}
        _copy(conn, "declared_job", JOBS, {"job_id": "n", "group_id": f"n % {GROUPS} + 1", **said, **flags})


def analyze(db: Database) -> None:
    """Let the database analyze the tables."""
    million.analyze(db)
    if db.backend == "mysql":
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("ANALYZE TABLE declaration_owner, declared_job")).all()


def test_each_question_has_a_case() -> None:
    asked = {
        f"{name}.{function.__name__}"
        for name, module in (("owners", owners), ("records", records))
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not function.__name__.startswith("_")
    }
    assert {case.name.partition(":")[0] for case in cases()} == asked


def test_each_question_is_understood(db: Database) -> None:
    fill(db)
    for case in cases():
        with undone(db) as conn:
            case.work(conn)


@pytest.mark.nightly
def test_no_question_reads_more_than_it_is_about(db: Database) -> None:
    fill(db)
    analyze(db)
    found = too_long(db, list(cases()))
    if db.backend == "postgresql":
        found += too_long(db, list(cases()), "SET LOCAL plan_cache_mode = force_generic_plan")
    assert not found, "\n".join(found)
