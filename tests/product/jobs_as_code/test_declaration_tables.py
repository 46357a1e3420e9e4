"""The tables of declared jobs: taken over from the versions of xwheel that had them, or made."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, insert, inspect, select, text
from xwheel_jobs_as_code.declarations.tables import DeclarationTables, declaration_owner, declared_job, metadata

from tests.support import plugin_schema
from tests.support.rows import NOW
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import migrate, plugin_tables

PLUGIN = {"jobs_as_code": DeclarationTables()}
SAID = {
    "job_id": 7,
    "group_id": 3,
    "place": "shop.jobs:report",
    "fields": '["timezone"]',
    "released": "[]",
    "is_released": False,
    "is_retired": True,
    "was_started": True,
    "problem": "",
    "updated_ms": NOW,
}
OWNER = {"group_id": 3, "release": "1.0", "digest": "a" * 64, "seen_ms": NOW, "synced_ms": None}


@pytest.fixture
def former(db: Database) -> Database:
    """A database as a version of xwheel left it that had the tables itself."""
    plugin_schema.forget(db, "jobs_as_code", "0001")
    return db


def differences(conn: Connection) -> list[Any]:
    context = MigrationContext.configure(
        conn, opts={"include_name": lambda name, kind, _: kind != "table" or name in metadata.tables}
    )
    return list(compare_metadata(context, metadata))


def test_what_is_there_is_taken_over_with_what_is_in_it(former: Database) -> None:
    with former.write() as conn:
        conn.execute(insert(declared_job).values(SAID))
        conn.execute(insert(declaration_owner).values(OWNER))
    assert plugin_tables.upgrade(former, PLUGIN) == {"jobs_as_code": ["0001"]}
    plugin_tables.check(former, PLUGIN)
    migrate.check_schema(former)
    with former.read() as conn:
        assert [dict(row._mapping) for row in conn.execute(select(declared_job))] == [SAID]
        assert [dict(row._mapping) for row in conn.execute(select(declaration_owner))] == [OWNER]
        assert differences(conn) == []


def test_what_is_not_there_is_made_and_the_rest_after_a_failure(former: Database) -> None:
    with former.write() as conn:
        metadata.drop_all(conn)
    plugin_tables.upgrade(former, PLUGIN)
    with former.read() as conn:
        assert differences(conn) == []
    plugin_schema.forget(former, "jobs_as_code", "0001")
    with former.write() as conn:
        declaration_owner.drop(conn)
        (index,) = declared_job.indexes
        index.drop(conn)
    plugin_tables.upgrade(former, PLUGIN)
    with former.read() as conn:
        assert differences(conn) == []
        assert {"declared_job", "declaration_owner"} <= set(inspect(conn).get_table_names())


def test_texts_compare_by_bytes(former: Database) -> None:
    with former.write() as conn:
        metadata.drop_all(conn)
    plugin_tables.upgrade(former, PLUGIN)
    with former.write() as conn:
        conn.execute(insert(declaration_owner).values({**OWNER, "release": "1.0A"}))
        found = conn.execute(text("SELECT COUNT(*) FROM declaration_owner WHERE digest = :it"), {"it": "A" * 64})
        assert found.scalar_one() == 0
