"""The rows of declared jobs on every database: what is written is read, and two who begin at once are told."""

from __future__ import annotations

import dataclasses

import pytest
from xwheel_jobs_as_code.declarations import owners, records
from xwheel_jobs_as_code.declarations.records import DeclaredJob
from xwheel_jobs_as_code.declarations.tables import DeclarationTables

from tests.support.rows import NOW, job_values
from xwheel.errors import DuplicateError
from xwheel.model.jobs import DECLARABLE
from xwheel.storage import executors, jobs, plugin_rows
from xwheel.storage.database.engine import Connection, Database


def add_job(conn: Connection, name: str, group_id: int = 1) -> int:
    extra = {"enabled": False, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None, "revision": 1}
    values = {**job_values(name=name, group_id=group_id), **extra, "schedule_error": ""}
    return jobs.insert_job(conn, {**values, "created_ms": NOW, "updated_ms": NOW}).id


def test_an_owner_is_made_once_and_changed(db: Database) -> None:
    with db.write() as conn:
        assert not owners.has_owner(conn, 7)
        assert owners.get_owner(conn, 7).release == ""
        owners.insert_owner(conn, 7)
    with pytest.raises(DuplicateError), db.write() as conn:
        owners.insert_owner(conn, 7)
    with db.write() as conn:
        assert owners.list_owners(conn) == []  # nothing was synced yet
        owners.update_owner(conn, 7, {"release": "1.0", "digest": "a", "seen_ms": NOW})
        owners.insert_owner(conn, 9)
        owners.update_owner(conn, 9, {"release": "2.0"})
    with db.read() as conn:
        seven, nine = owners.list_owners(conn)
        assert (seven.group_id, seven.release, seven.seen_ms, seven.synced_ms) == (7, "1.0", NOW, None)
        assert owners.list_owners(conn, after_id=7) == [nine]
        assert owners.list_owners(conn, limit=1) == [seven]
        assert owners.get_owners(conn, [7, 8]) == {7: seven}
        assert owners.get_owner(conn, 9) == nine


def test_a_record_keeps_all_that_is_said(db: Database) -> None:
    said = DeclaredJob(
        job_id=3,
        group_id=1,
        place="ü" * 300,
        fields=("timezone", "cron"),
        released=("timezone",),
        is_retired=True,
        was_started=True,
        problem="é" * 600,
        updated_ms=NOW,
    )
    with db.write() as conn:
        records.save_declared(conn, said)
        records.save_declared(conn, said)
    with db.read() as conn:
        found = records.get_declared(conn, [3, 4])
    assert found == {3: dataclasses.replace(said, place="ü" * 255, fields=("cron", "timezone"), problem="é" * 512)}
    with db.write() as conn:
        records.save_declared(conn, dataclasses.replace(said, is_retired=False, problem=""))
        assert list(records.list_declared(conn, 1)) == [3]
        assert records.list_declared(conn, 2) == {}
        assert records.get_declared(conn, [3])[3].owned == {"name", "cron"}
        records.delete_declared(conn, [3])
        assert records.get_declared(conn, [3]) == {}


def test_many_records_are_written_at_once(db: Database) -> None:
    said = [DeclaredJob(job_id=number, group_id=1, fields=("cron",)) for number in range(1, 200)]
    with db.write() as conn:
        records.insert_declared(conn, [])
        records.insert_declared(conn, said)
        assert list(records.list_declared(conn, 1).values()) == said


def test_all_fields_that_code_may_say_have_room(db: Database) -> None:
    every = (*DECLARABLE, "handler", "schedule_type", "schedule_conf", "glue_type")
    said = DeclaredJob(job_id=3, group_id=1, fields=every, released=every)
    with db.write() as conn:
        records.save_declared(conn, said)
        assert set(records.get_declared(conn, [3])[3].released) == set(every)


def test_jobs_are_found_by_name_within_their_group(db: Database) -> None:
    with db.write() as conn:
        one, two, other = add_job(conn, "report"), add_job(conn, "report"), add_job(conn, "report", 2)
        capital, gone = add_job(conn, "Report"), add_job(conn, "gone")
        jobs.delete_jobs(conn, [gone], NOW)
        assert records.find_by_names(conn, 1, ["report", "gone", "none"]) == {"report": [one, two]}
        assert records.find_by_names(conn, 2, ["report"]) == {"report": [other]}
        assert records.find_by_names(conn, 1, ["Report"]) == {"Report": [capital]}
        assert records.find_by_names(conn, 1, []) == {}


def test_a_group_takes_its_owner_along(db: Database) -> None:
    with db.write() as conn:
        group = executors.insert_group(conn, app_name="shop", title="", now_ms=NOW)
        owners.insert_owner(conn, group.id)
        plugin_rows.delete_of_group(conn, {"jobs_as_code": DeclarationTables()}, group.id)
        executors.delete_group(conn, group.id)
        assert not owners.has_owner(conn, group.id)
