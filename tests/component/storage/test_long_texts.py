"""P11: the longest parameters and sources that settings allow, on each database."""

from __future__ import annotations

import pytest

from tests.support.rows import NOW, job_values, make_run
from xwheel.model import NewSource
from xwheel.model.jobs import MAX_PARAM_BYTES, MAX_SOURCE_BYTES
from xwheel.storage import jobs, runs, scripts
from xwheel.storage.database.engine import Database

WORST = ["x", "\u6587", "\U0001f600", '"', "\\", "\x01", "'"]
"""One to four bytes as UTF-8, some of which are escaped on their way."""


def of_size(character: str, size: int) -> str:
    width = len(character.encode())
    return character * (size // width) + "x" * (size % width)


@pytest.mark.parametrize("character", WORST, ids=ascii)
def test_p11_the_longest_parameter_comes_back(db: Database, character: str) -> None:
    param = of_size(character, MAX_PARAM_BYTES)
    assert len(param.encode()) == MAX_PARAM_BYTES
    values = {"created_ms": NOW, "updated_ms": NOW, "revision": 1, "enabled": False, "schedule_error": ""}
    made = db.transaction(lambda conn: jobs.insert_job(conn, {**job_values(param=param), **values}))
    # as many as one transaction of an outcome plans, all with parameters of their own
    batch = [make_run(number, job_id=made.id, param=param) for number in range(1, 101)]
    db.transaction(lambda conn: runs.insert_runs(conn, batch))
    with db.read() as conn:
        assert jobs.get_job(conn, made.id).param == param
        assert {run.param for run in runs.get_runs(conn, range(1, 101)).values()} == {param}


@pytest.mark.parametrize("character", WORST, ids=ascii)
def test_p11_the_longest_source_comes_back(db: Database, character: str) -> None:
    source = of_size(character, MAX_SOURCE_BYTES)
    new = NewSource(source=source, author="me")
    db.transaction(lambda conn: scripts.insert_version(conn, 1, "GLUE_SHELL", new, NOW, keep=2))
    with db.read() as conn:
        assert scripts.get_version(conn, 1, 1).source == source
        (found,), left_out = scripts.load_versions(conn, [(1, 1)], 1)
    assert (found.source, left_out) == (source, set())


def test_p11_sources_are_read_up_to_a_number_of_characters(db: Database) -> None:
    def save(job_id: int, source: str) -> None:
        new = NewSource(source=source, author="me")
        db.transaction(lambda conn: scripts.insert_version(conn, job_id, "GLUE_SHELL", new, NOW, keep=2))

    for job_id in range(1, 6):
        save(job_id, "x" * 10)
    save(6, "y" * 100)
    wanted = [(job_id, 1) for job_id in range(1, 8)]
    with db.read() as conn:
        found, left_out = scripts.load_versions(conn, wanted, 35)
        assert len(found) == 3 or [item.job_id for item in found] == [6]
        assert {item.job_id for item in found} | left_out == set(range(1, 7))
        found, left_out = scripts.load_versions(conn, wanted, 1000)
        assert ({item.job_id for item in found}, left_out) == (set(range(1, 7)), set())
