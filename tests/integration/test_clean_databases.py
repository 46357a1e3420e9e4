"""Whatever one test does to a server's database, the next one gets it as if it were new."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from tests.support.databases import BACKENDS, CleanDatabases, drop_tables
from xwheel.storage import executors
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import migrate, tables


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_of_a_test_is_left_for_the_next(backend: str) -> None:
    with BACKENDS[backend]() as base:
        databases = CleanDatabases(base, backend)
        first, other = databases.url(0), databases.url(1)
        db = Database(first)
        assert other != first
        with db.write() as conn:
            executors.insert_group(conn, app_name="left", title="", now_ms=1)
            conn.execute(tables.partition_lease.delete())
        stuck = db.engine.connect()
        stuck.execute(text("UPDATE executor_group SET title = 'locked'"))  # and no one ever commits

        assert databases.url(0) == first
        check(Database(first))
        stuck.invalidate()
        stuck.close()
        db.close()

        db = Database(first)
        with db.write() as conn:
            conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
            conn.execute(text("CREATE TABLE left_over (id INTEGER)"))
        db.close()
        assert databases.url(0) == first
        check(Database(first))

        db = Database(first)
        drop_tables(db)
        db.close()
        assert databases.url(0) == first
        check(Database(first))
        databases.close()


def check(db: Database) -> None:
    """The schema is whole, only the first rows are there and ids begin at 1."""
    migrate.check_schema(db)
    with db.write() as conn:
        assert conn.execute(text("SELECT count(*) FROM partition_lease")).scalar() == 64
        assert executors.insert_group(conn, app_name="new", title="", now_ms=1).id == 1
    db.close()
