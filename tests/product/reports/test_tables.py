"""The table: taken over from the core of xwheel 0.1.0 with all that is in it, made where there is none."""

from __future__ import annotations

import pytest
from sqlalchemy import MetaData, insert, inspect, select, text
from xwheel_reports.storage import Counts
from xwheel_reports.tables import ReportTables, hourly_report, metadata

from tests.support.databases import differences
from xwheel.plugin.tables import HANDED_OVER
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import plugin_tables, tables

PLUGIN = {"reports": ReportTables()}


@pytest.fixture(autouse=True)
def _of_before(db: Database) -> None:
    """Let the database be one that the plugin has not seen."""
    plugin_tables.forget(db, "reports", "0001")


ROW = {"hour_ms": 0, "job_id": 7, "group_id": 1, **Counts(failed=2, duration_sum_ms=2**40)._asdict()}


def with_core() -> MetaData:
    both = MetaData()
    for table in (*tables.metadata.sorted_tables, *metadata.sorted_tables):
        table.to_metadata(both)
    return both


def test_what_the_core_made_is_taken_over_with_its_rows(db: Database) -> None:
    assert set(ReportTables().tables()) <= HANDED_OVER
    with db.write() as conn:
        conn.execute(insert(hourly_report).values(ROW))
    assert plugin_tables.upgrade(db, PLUGIN) == {"reports": ["0001"]}
    plugin_tables.check(db, PLUGIN)
    with db.read() as conn:
        assert [dict(row) for row in conn.execute(select(hourly_report)).mappings()] == [ROW]
        assert differences(conn, with_core()) == []


def test_it_is_made_where_there_is_none(db: Database) -> None:
    with db.write() as conn:
        conn.execute(text("DROP TABLE hourly_report"))
    plugin_tables.upgrade(db, PLUGIN)
    with db.read() as conn:
        assert "hourly_report" in inspect(conn).get_table_names()
        assert differences(conn, with_core()) == []


def test_an_index_that_a_failure_left_out_is_made(db: Database) -> None:
    (index,) = [item for item in hourly_report.indexes if item.name == "ix_hourly_report_job"]
    with db.write() as conn:
        index.drop(conn)
    plugin_tables.upgrade(db, PLUGIN)
    with db.read() as conn:
        assert differences(conn, with_core()) == []
