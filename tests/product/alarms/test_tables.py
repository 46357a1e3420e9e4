"""The tables: taken over from the core of xwheel 0.1.0 with all that is in them, made where there are none."""

from __future__ import annotations

from sqlalchemy import MetaData, insert, inspect, select, text
from xwheel_alarms.tables import AlarmTables, alarm, alarm_attempt, alarm_episode, alarm_rule, metadata

from tests.support import plugin_schema
from tests.support.databases import differences
from xwheel.plugin.tables import HANDED_OVER
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import plugin_tables

PLUGIN = {"alarm": AlarmTables()}
ROWS = {
    alarm_rule: {
        "id": 7,
        "name": "all",
        "kinds": "[]",
        "when": "last",
        "targets": "[]",
        "window_s": 1,
        "recovery": True,
        "quiet_from": "",
        "quiet_to": "",
        "quiet_timezone": "UTC",
        "quiet_pass": "[]",
        "not_run_s": 0,
        "still_running_s": 0,
        "enabled": True,
        "revision": 3,
        "created_ms": 1,
        "updated_ms": 2,
    },
    alarm: {
        "id": 8,
        "shard_index": 0,
        "partition": 1,
        "kind": "failed",
        "state": "told",
        "at_ms": 1,
        "last_ms": 2,
        "count": 1,
        "reason": "ü",
        "message": "m",
        "note": "",
    },
    alarm_episode: {
        "id": 9,
        "job_id": 1,
        "rule_id": 7,
        "kind": "failed",
        "is_open": True,
        "until_ms": 3,
        "shard_index": 0,
        "touched_ms": 4,
    },
    alarm_attempt: {
        "id": 10,
        "alarm_id": 8,
        "partition": 1,
        "channel": "email",
        "receivers": "[]",
        "number": 1,
        "state": "sent",
        "answer": "250",
    },
}


def test_what_the_core_made_is_taken_over_with_its_rows(db: Database) -> None:
    assert set(AlarmTables().tables()) <= HANDED_OVER
    plugin_schema.forget(db, "alarm", "0001_tables")
    with db.write() as conn:
        for table, row in ROWS.items():
            conn.execute(insert(table).values(row))
    assert plugin_tables.upgrade(db, PLUGIN) == {"alarm": ["0001_tables"]}
    plugin_tables.check(db, PLUGIN)
    with db.read() as conn:
        for table, row in ROWS.items():
            (found,) = conn.execute(select(table)).mappings()
            assert row.items() <= dict(found).items()
        assert differences(conn, _with_core()) == []


def test_they_are_made_where_there_are_none(db: Database) -> None:
    plugin_schema.forget(db, "alarm", "0001_tables")
    with db.write() as conn:
        for table in reversed(metadata.sorted_tables):
            conn.execute(text(f"DROP TABLE {table.name}"))
    plugin_tables.upgrade(db, PLUGIN)
    with db.read() as conn:
        assert set(AlarmTables().tables()) <= set(inspect(conn).get_table_names())
        assert differences(conn, _with_core()) == []


def _with_core() -> MetaData:
    from xwheel.storage.schema import tables

    both = MetaData()
    for table in (*tables.metadata.sorted_tables, *metadata.sorted_tables):
        table.to_metadata(both)
    return both
