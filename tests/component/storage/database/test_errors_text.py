"""Text means the same on every database, whatever the server's locale and strictness are."""

from __future__ import annotations

import contextlib

import pytest
from sqlalchemy import insert, inspect, select
from sqlalchemy.exc import DBAPIError

from tests.support.rows import job_values
from xwheel.errors import ConflictError, XwheelError
from xwheel.storage import executors, jobs, settings
from xwheel.storage.access import tokens
from xwheel.storage.database import startup
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.jobs import JobFilter, page_jobs
from xwheel.storage.schema.tables import calendar, metadata, server_collation

# alike for a locale, an eye that does not look at case, or one that does not see blanks
NAMES = ["Zeta", "zeta", "zeta ", "zetA", "zéta", "ze\u0301ta", "straße", "strasse", "ａ", "a", "😀", "😁", "_", "-"]

NEW = {"enabled": False, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None}
NEW |= {"revision": 1, "schedule_error": "", "created_ms": 1, "updated_ms": 1}


def test_names_that_differ_in_any_byte_are_different_names(db: Database) -> None:
    def write(conn: Connection) -> None:
        for name in NAMES:
            executors.insert_group(conn, app_name=name, title="", now_ms=1)
            tokens.insert_token(conn, name, f"secret of {name}", 1)
            conn.execute(insert(calendar).values(name=name, definition="{}", updated_ms=1))
            settings.insert_setting(conn, f"for {name}", name)

    db.transaction(write)
    with db.read() as conn:
        for name in NAMES:
            found = executors.find_group(conn, name)
            assert found is not None
            assert found.app_name == name
            assert settings.find_setting(conn, f"for {name}") == name
        assert executors.find_group(conn, "ZETA") is None
        assert {known.name for known in tokens.list_tokens(conn)} == set(NAMES)


def test_a_name_that_is_taken_is_refused(db: Database) -> None:
    db.transaction(lambda conn: executors.insert_group(conn, app_name="zéta", title="", now_ms=1))
    with pytest.raises(XwheelError):
        db.transaction(lambda conn: executors.insert_group(conn, app_name="zéta", title="", now_ms=1))
    db.transaction(lambda conn: tokens.insert_token(conn, "ops", "one", 1))
    with pytest.raises(ConflictError):
        db.transaction(lambda conn: tokens.insert_token(conn, "ops", "two", 1))


def test_names_are_sorted_by_their_characters(db: Database) -> None:
    rows = [{"name": name, "definition": "{}", "updated_ms": 1} for name in NAMES]
    db.transaction(lambda conn: conn.execute(insert(calendar), rows))
    with db.read() as conn:
        found = list(conn.execute(select(calendar.c.name).order_by(calendar.c.name)).scalars())
        greater = conn.execute(select(calendar.c.name).where(calendar.c.name > "a")).scalars().all()
    assert found == sorted(NAMES)
    assert set(greater) == {name for name in NAMES if name > "a"}


def test_jobs_and_handlers_are_found_by_their_very_name(db: Database) -> None:
    def write(conn: Connection) -> None:
        group = executors.insert_group(conn, app_name="orders", title="", now_ms=1)
        for name in NAMES:
            values = job_values(group_id=group.id, name=name, handler=name) | NEW
            jobs.insert_job(conn, values)

    db.transaction(write)
    with db.read() as conn:
        for name in NAMES:
            assert [job.name for job in page_jobs(conn, JobFilter(name=name)).jobs] == [name]
            assert [job.handler for job in page_jobs(conn, JobFilter(handler=name)).jobs] == [name]


def test_a_text_too_long_is_refused_and_not_cut(db: Database) -> None:
    name = "x" * 65
    # SQLite knows no lengths: it keeps the whole, and the API's limits hold
    with contextlib.nullcontext() if db.backend == "sqlite" else pytest.raises(DBAPIError):
        db.transaction(lambda conn: settings.insert_setting(conn, name, "whole"))
    with db.read() as conn:
        assert settings.find_setting(conn, name[:64]) is None
        assert settings.find_setting(conn, name) == ("whole" if db.backend == "sqlite" else None)


def test_every_table_says_how_it_compares(db: Database) -> None:
    startup.check_rights(db)
    with db.read() as conn:
        look = inspect(conn)
        for name in metadata.tables:
            if db.backend == "mysql":
                options = look.get_table_options(name)
                assert options["mysql_engine"] == "InnoDB", name
                assert options["mysql_collate"] == server_collation(conn), name
            for column in look.get_columns(name):
                kind = column["type"]
                if db.backend == "postgresql" and kind.python_type is str:
                    assert getattr(kind, "collation", None) == "C", f"{name}.{column['name']}"
