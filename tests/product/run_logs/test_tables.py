"""The table: taken over from the core of xwheel 0.1.0 with all that is in it, made where there is none."""

from __future__ import annotations

import pytest
from sqlalchemy import MetaData, insert, inspect, select, text
from xwheel_run_logs.tables import RunLogTables, metadata, run_log

from tests.support.databases import differences
from xwheel.plugin.tables import HANDED_OVER
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import plugin_tables, tables

PLUGIN = {"run_log": RunLogTables()}


@pytest.fixture(autouse=True)
def _of_before(db: Database) -> None:
    """Let the database be one that the plugin has not seen."""
    plugin_tables.forget(db, "run_log", "0001")


ROW = {
    "id": 7,
    "job_id": 1,
    "partition": 1,
    "created_ms": 5,
    "store": "file",
    "ended": False,
    "fetch_ms": None,
    "delete_ms": 2**62,
}


def with_core() -> MetaData:
    both = MetaData()
    for table in (*tables.metadata.sorted_tables, *metadata.sorted_tables):
        table.to_metadata(both)
    return both


def test_what_the_core_made_is_taken_over_with_its_rows(db: Database) -> None:
    assert set(RunLogTables().tables()) <= HANDED_OVER
    with db.write() as conn:
        conn.execute(insert(run_log).values(ROW))
    assert plugin_tables.upgrade(db, PLUGIN) == {"run_log": ["0001"]}
    plugin_tables.check(db, PLUGIN)
    with db.read() as conn:
        assert [dict(row) for row in conn.execute(select(run_log)).mappings()] == [ROW]
        assert differences(conn, with_core()) == []


def test_it_is_made_where_there_is_none(db: Database) -> None:
    with db.write() as conn:
        conn.execute(text("DROP TABLE run_log"))
    plugin_tables.upgrade(db, PLUGIN)
    with db.read() as conn:
        assert "run_log" in inspect(conn).get_table_names()
        assert differences(conn, with_core()) == []


def test_an_index_that_a_failure_left_out_is_made(db: Database) -> None:
    (index,) = [item for item in run_log.indexes if item.name == "ix_run_log_job"]
    with db.write() as conn:
        index.drop(conn)
    plugin_tables.upgrade(db, PLUGIN)
    with db.read() as conn:
        assert differences(conn, with_core()) == []
