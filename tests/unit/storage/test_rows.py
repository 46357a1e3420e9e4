"""Records come back from their rows as they went in, each value in its own field."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import fields

from tests.support.rows import job_values, make_run
from xwheel.model import Origin, RetryBackoff, RunState
from xwheel.storage import jobs, migrate, runs
from xwheel.storage.engine import Database


def test_every_field_of_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path / 'x.db'}")
    migrate.upgrade(db)
    # no two fields hold the same value, so that two that change places show
    texts = {"param": "p", "reason": "r", "address": "a", "instance": "i", "message": "m"}
    special = {"id": 7, "origin": Origin.RETRY, "state": RunState.TIMED_OUT, "kill_requested": True, **texts}
    numbers = {
        field.name: 1000 + place
        for place, field in enumerate(fields(make_run(1)))
        if field.name not in special
    }
    run = make_run(7, **{**numbers, **{name: value for name, value in special.items() if name != "id"}})
    db.transaction(lambda conn: runs.insert_runs(conn, [run]))
    with db.read() as conn:
        found = runs.get_run(conn, 7)
    assert found == run
    assert type(found.state) is RunState
    assert type(found.origin) is Origin
    assert type(found.kill_requested) is bool
    db.close()


def test_lists_and_words_of_a_job_come_back_as_their_types(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path / 'x.db'}")
    migrate.upgrade(db)
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
    db.close()
