"""Records come back from their rows as they went in, each value in its own field."""

from __future__ import annotations

from itertools import cycle

import pytest
from msgspec.structs import fields

from tests.support.rows import job_values, make_run
from xwheel.errors import DuplicateError
from xwheel.model import Origin, RetryBackoff, RunState
from xwheel.storage import jobs, runs
from xwheel.storage.database import bulk
from xwheel.storage.database.engine import Database

ODD = ["", "'", "\\", "%s", "%(id)s", '"`;--', "a\nb\tc\x1a", "é 中文 😀", "NULL", '{"a",b}']


def test_every_field_of_a_run_comes_back_as_it_was(db: Database) -> None:
    # no two fields hold the same value, so that two that change places show
    texts = {"param": "p", "reason": "r", "address": "a", "instance": "i", "message": "m"}
    special = {"id": 7, "origin": Origin.RETRY, "state": RunState.TIMED_OUT, "kill_requested": True, **texts}
    special["check_ms"] = None  # no one is asked about a run that ended
    numbers = {field.name: 1000 + place for place, field in enumerate(fields(make_run(1))) if field.name not in special}
    run = make_run(7, **{**numbers, **{name: value for name, value in special.items() if name != "id"}})
    db.transaction(lambda conn: runs.insert_runs(conn, [run]))
    with db.read() as conn:
        found = runs.get_run(conn, 7)
    assert found == run
    assert type(found.state) is RunState
    assert type(found.origin) is Origin
    assert type(found.kill_requested) is bool


def test_a_batch_of_runs_comes_back_as_it_was(db: Database) -> None:
    most = 2 * bulk.MOST_ROWS
    batch = [
        make_run(
            2**52 + number,
            param=[None, *ODD][number % 11],
            message=ODD[number % 10],
            state=list(RunState)[number % len(RunState)],
            kill_requested=number % 2 == 0,
            result_code=[None, 0, -1, 200][number % 4],
            due_ms=2**51 + number,
        )
        for number in range(most + 1)
    ]
    # several of the longest parameters are more than one statement may have
    batch += [make_run(number, param="😀" * 16_000) for number in range(1, 80)]
    db.transaction(lambda conn: runs.insert_runs(conn, batch))
    with db.read() as conn:
        found = [runs.get_run(conn, run.id) for run in batch[:: len(batch) // 97]]
        assert len(runs.list_runs(conn, limit=10 * most)) == len(batch)
    assert found == batch[:: len(batch) // 97]


def test_a_batch_of_outcomes_comes_back_as_it_was(db: Database) -> None:
    ids = range(1, len(ODD) + 1)
    ends = [
        (number, str(RunState.FAILED), "", code, text, 2**50, started_ms, 2**51)
        for number, text, code, started_ms in zip(
            ids, ODD, cycle([None, 500, -1]), cycle([None, 2**50 + 7]), strict=False
        )
    ]
    db.transaction(lambda conn: runs.insert_runs(conn, [make_run(number) for number in ids]))
    assert db.transaction(lambda conn: runs.close_runs(conn, ends)) == len(ODD)
    with db.read() as conn:
        found = [runs.get_run(conn, number) for number in ids]
    assert [
        (
            *(run.id, str(run.state), run.reason, run.result_code, run.message),
            *(run.accepted_ms, run.started_ms, run.finished_ms),
        )
        for run in found
    ] == ends


def test_a_batch_with_a_run_that_exists_says_little_and_leaves_nothing(db: Database) -> None:
    db.transaction(lambda conn: runs.insert_runs(conn, [make_run(1)]))
    batch = [make_run(number, param="long" * 100) for number in range(2, 1002)]
    with pytest.raises(DuplicateError) as caught:
        db.transaction(lambda conn: runs.insert_runs(conn, [make_run(5000, origin_key=1), *batch]))
    assert len(str(caught.value.__cause__)) < 20_000
    with db.read() as conn:
        assert [run.id for run in runs.list_runs(conn, limit=2000)] == [1]


def test_lists_and_words_of_a_job_come_back_as_their_types(db: Database) -> None:
    values = {
        **job_values(retry_backoff=RetryBackoff.LIST, retry_delays_ms=(5, 6), calendar_exclude=("a", "b")),
        "enabled": True,
        "next_fire_ms": 11,
        "last_fire_ms": 12,
        "awaits_root": None,
        "revision": 13,
        "schedule_error": "",
        "created_ms": 14,
        "updated_ms": 15,
    }
    made = db.transaction(lambda conn: jobs.insert_job(conn, values))
    with db.read() as conn:
        found = jobs.get_job(conn, made.id)
    assert {name: getattr(found, name) for name in values} == values
    assert type(found.retry_backoff) is RetryBackoff
    assert type(found.enabled) is bool
