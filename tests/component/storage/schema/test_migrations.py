"""Migrations with data, from several processes at once, and after one that failed half-way."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest
from sqlalchemy import Connection, MetaData, Table, delete, event, insert, select, text

from tests.support.databases import begin_at, differences, drop_tables, twin_of
from tests.support.rows import NOW
from xwheel.clock import wall_ms
from xwheel.errors import SchemaError
from xwheel.storage import history_days, leases
from xwheel.storage.database import startup
from xwheel.storage.database.engine import Database
from xwheel.storage.database.rows import database_now_ms
from xwheel.storage.retention import DAY_MS
from xwheel.storage.schema import migrate, tables

FIRST_RELEASE: Final = "0003"  # the schema of 0.1.0


def _row(table: Any, number: int) -> dict[str, Any]:
    """Return a row whose every value fits its column; what must be unique differs by number."""
    made: dict[str, Any] = {}
    for column in table.columns:
        kind = column.type.python_type
        if column.autoincrement is True or (column.name == "id" and kind is int):
            made["id"] = 1000 + number
        elif kind is bool:
            made[column.name] = number % 2 == 0
        elif kind is int:
            made[column.name] = 100 + number if column.type.__class__.__name__ == "SmallInteger" else 7000 + number
        elif kind is bytes:
            made[column.name] = bytes([number]) * 32
        else:
            made[column.name] = f"ü-{number}"
    return made


def _write_everything(db: Database) -> None:
    with db.write() as conn:
        for table in tables.metadata.sorted_tables:
            conn.execute(insert(table), [_row(table, number) for number in (1, 2)])


def _read_everything(conn: Connection) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table.name: sorted(map(tuple, conn.execute(select(table))), key=repr) for table in tables.metadata.sorted_tables
    }


def test_an_upgrade_of_this_schema_leaves_all_data(db: Database) -> None:
    _write_everything(db)
    with db.read() as conn:
        before = _read_everything(conn)
    assert all(before.values())
    migrate.upgrade(db)
    with db.read() as conn:
        assert _read_everything(conn) == before


def test_a_schema_from_the_first_to_the_last_revision_is_a_new_one(db: Database) -> None:
    with db.write() as conn:
        conn.execute(delete(tables.plugin_migration))  # which tables of plugins there are
    with db.read() as conn:
        fresh = _read_everything(conn)
    drop_tables(db)
    with pytest.raises(SchemaError, match="xwheel db upgrade"):
        migrate.check_schema(db)
    for revision in (FIRST_RELEASE, "head"):
        migrate.upgrade(db, revision)
    with db.read() as conn:
        assert _read_everything(conn) == fresh
        assert differences(conn) == []
    _write_everything(db)


def test_an_older_schema_gets_new_columns_and_keeps_its_data(db: Database) -> None:
    begin_at(db, FIRST_RELEASE)
    added = {
        "executor": {"secret_id": None, "earlier_secret_id": None, "release": None, "declared": None, "by_hand": False},
        "api_token": {"grants": None, "account_id": None, "expires_ms": None, "networks": None, "used_ms": None},
        "executor_group": {"glue_types": None},
        "job": {"log_retention_days": 0},
    }
    written: dict[str, list[dict[str, Any]]] = {}
    with db.write() as conn:
        for name, columns in added.items():
            table = tables.metadata.tables[name]
            written[name] = [_row(table, number) for number in (1, 2)]
            for row, column in itertools.product(written[name], columns):
                del row[column]
            conn.execute(insert(table), written[name])
    with pytest.raises(SchemaError, match="is at 0003"):
        migrate.check_schema(db)
    migrate.upgrade(db)
    with db.read() as conn:
        for name, rows in written.items():
            query = select(tables.metadata.tables[name]).order_by(text("id"))
            found = [dict(row._mapping) for row in conn.execute(query)]
            assert [{**row, **mine} for row, mine in zip(found, rows, strict=True)] == found
        for name, columns in added.items():
            for column, value in columns.items():
                there = tables.metadata.tables[name].c[column]
                assert set(conn.execute(select(there)).scalars()) == {value}
        assert differences(conn) == []


def test_open_runs_move_to_a_table_of_their_own_and_what_ended_stays(db: Database) -> None:
    begin_at(db, FIRST_RELEASE)
    states = ("planned", "dispatching", "running", "succeeded", "lost", "skipped")
    came_later = {"secret_id", "started_ms"}
    before = [
        {
            **{name: value for name, value in _row(tables.run_history, number).items() if name not in came_later},
            "state": state,
            "open_partition": number % 64 if state == "planned" else None,
            "check_ms": NOW if state in {"dispatching", "running"} else None,
        }
        for number, state in enumerate(states, 1)
    ]
    with db.write() as conn:
        conn.execute(insert(Table("run", MetaData(), autoload_with=conn)), before)
    migrate.upgrade(db)
    with db.read() as conn:
        assert differences(conn) == []
        found = {
            table.name: {row.state: dict(row._mapping) for row in conn.execute(select(table))}
            for table in tables.RUN_TABLES
        }
    assert list(map(set, found.values())) == [set(states[:3]), set(states[3:])]
    after = {state: row for rows in found.values() for state, row in rows.items()}
    for row in before:
        same = {name: value for name, value in row.items() if name in after[row["state"]]}
        assert same.keys() >= row.keys() - {"open_partition", "check_ms"}
        assert same == {name: after[row["state"]][name] for name in same}
        assert after[row["state"]].get("check_ms") == row["check_ms"]


def test_the_history_becomes_the_first_of_its_partitions(db: Database) -> None:
    begin_at(db, "0018")
    table = Table("run_history", MetaData(), autoload_with=db.engine)
    rows = [
        {**_row(tables.run_history, number), "id": number, "root_id": number, "started_ms": None}
        for number in range(1, 30)
    ]
    before = [{name: value for name, value in row.items() if name in table.c} for row in rows]
    with db.write() as conn:
        conn.execute(insert(table), before)
    migrate.upgrade(db)
    with db.read() as conn:
        assert differences(conn) == []
        query = select(tables.run_history).order_by(tables.run_history.c.id)
        assert [dict(row._mapping) for row in conn.execute(query)] == rows
        days = history_days.list_days(conn)
    today = wall_ms() // DAY_MS
    ahead = [(day, day + 1) for day in range(today, today + history_days.AHEAD + 1)]
    assert [item[:2] for item in days] == ([] if db.backend == "sqlite" else [(0, today), *ahead])


def test_old_default_thresholds_become_null_and_all_else_of_a_job_stays(db: Database) -> None:
    begin_at(db, FIRST_RELEASE)
    job = tables.job
    thresholds = [5000, 0, 4999, 30_000, 5000]
    with db.write() as conn:
        rows = [
            {**_row(job, number), "misfire_threshold_ms": at, "misfire_policy": "skip"}
            for number, at in enumerate(thresholds, 1)
        ]
        for row in rows:
            del row["log_retention_days"]  # came later
        conn.execute(insert(job), rows)
        conn.execute(delete(job).where(job.c.id == 1005))
    migrate.upgrade(db)
    migrate.check_schema(db)
    with db.write() as conn:
        found = [dict(row._mapping) for row in conn.execute(select(job).order_by(job.c.id))]
        assert found == [
            {**row, "misfire_threshold_ms": None if at == 5000 else at, "log_retention_days": 0}
            for row, at in zip(rows[:4], thresholds, strict=False)
        ]
        assert differences(conn) == []
        fresh = {name: value for name, value in _row(job, 6).items() if name != "id"}
        made = conn.execute(insert(job).values(**fresh)).inserted_primary_key
        if db.backend == "sqlite":  # elsewhere ids that were given do not count
            assert made == (1006,)  # ids of deleted jobs never come back


def test_upgrades_at_once_wait_for_each_other(db: Database) -> None:
    drop_tables(db)
    twins = [twin_of(db) for _ in range(4)]
    start, failures = threading.Barrier(len(twins)), []

    def upgrade(twin: Database) -> None:
        try:
            start.wait(30)
            migrate.upgrade(twin)
            migrate.check_schema(twin)
        except BaseException as error:
            failures.append(error)
        finally:
            twin.close()

    threads = [threading.Thread(target=upgrade, args=(twin,)) for twin in twins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    with db.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM partition_lease")).scalar_one() == 64
        assert conn.execute(text("SELECT count(*) FROM alembic_version")).scalar_one() == 1


def _fail_at(db: Database, words: str) -> Callable[[], None]:
    """Let the first statement that has these words fail; return what ends that."""

    def strike(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if words in statement:
            raise InterruptedError(words)

    event.listen(db.engine, "before_cursor_execute", strike)
    return lambda: event.remove(db.engine, "before_cursor_execute", strike)


CUTS = (
    "CREATE TABLE job_child",
    "CREATE INDEX ix_run_group",
    "INSERT INTO run_id_block",
    "ALTER TABLE executor ADD",
    "ALTER TABLE job ADD",
    "UPDATE job SET misfire_threshold_ms",
    "CREATE INDEX ix_run_chain",
    "CREATE TABLE job_version",
    "UPDATE alembic_version SET version_num='0017'",
    "CREATE INDEX ix_open_run_root",
    "INSERT INTO open_run",
    "DELETE FROM run WHERE",
    "DROP INDEX ix_run_check",
    "RENAME TO run_history",
    "DROP COLUMN open_partition",
    "UPDATE alembic_version SET version_num='0018'",
    "PARTITION BY RANGE",
    "UPDATE alembic_version SET version_num='0019'",
    "UPDATE alembic_version SET version_num='0020'",
)
"""Words of statements, in the order in which an upgrade from nothing comes to them."""


def test_after_each_that_failed_half_way_the_next_goes_on(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    drop_tables(db)
    for words in CUTS:
        if db.backend == "sqlite" and "PARTITION" in words:
            continue  # nothing is divided there
        caplog.clear()
        heal = _fail_at(db, words)
        with pytest.raises(InterruptedError, match=re.escape(words)):
            migrate.upgrade(db)
        heal()
        with pytest.raises(SchemaError, match="xwheel db upgrade"):
            migrate.check_schema(db)
        assert ("half-way" in caplog.text) == (db.backend == "mysql"), words
    migrate.upgrade(db)
    migrate.check_schema(db)
    with db.read() as conn:
        assert differences(conn) == []
        assert conn.execute(text("SELECT count(*) FROM partition_lease")).scalar_one() == 64
        assert conn.execute(text("SELECT next_id FROM run_id_block")).scalar_one() == 1


def test_tables_with_data_are_never_taken_for_remains(db: Database) -> None:
    with db.write() as conn:
        conn.execute(insert(tables.executor_group).values(_row(tables.executor_group, 1)))
        conn.execute(text("DELETE FROM alembic_version"))
    for use in (migrate.upgrade, migrate.check_schema):
        with pytest.raises(SchemaError, match="foreign tables"):
            use(db)
    with db.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM executor_group")).scalar_one() == 1


def test_tables_of_another_program_are_never_taken_for_remains(db: Database) -> None:
    """It may use alembic too, and have tables with names of ours."""
    with db.write() as conn:
        conn.execute(text("DELETE FROM alembic_version"))
        conn.execute(text("CREATE TABLE customer (id INTEGER)"))
    try:
        for use in (migrate.upgrade, migrate.check_schema):
            with pytest.raises(SchemaError, match="foreign tables"):
                use(db)
    finally:
        with db.write() as conn:
            conn.execute(text("DROP TABLE IF EXISTS customer"))


def test_an_older_and_a_newer_schema_are_refused_with_what_mends_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as a version after this one would see this one's schema
    head = migrate.head_revision()
    monkeypatch.setattr(migrate, "head_revision", lambda: "9999")
    hint = rf"is at {head}.*needs 9999: stop all nodes, run 'xwheel db upgrade'"
    with pytest.raises(SchemaError, match=hint):
        migrate.check_schema(db)
    monkeypatch.undo()
    with db.write() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for use in (migrate.check_schema, migrate.upgrade):
        with pytest.raises(SchemaError, match=r"is at 9999.*install the newer xwheel"):
            use(db)


def test_no_schema_changes_under_nodes_at_work(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    url = db.engine.url.render_as_string(hide_password=False)
    with db.write() as conn:
        now_ms = database_now_ms(conn)
        for name, until_ms in (("node-1", now_ms + 60_000), ("node-2", now_ms - 1)):
            leases.renew_node(conn, name, now_ms, until_ms)
    assert startup.upgrade(url)[0] == migrate.head_revision()  # as it is, there is nothing to change
    monkeypatch.setattr(migrate, "head_revision", lambda: "9999")
    with pytest.raises(SchemaError, match=r"stop all nodes first.* at work: node-1$"):
        startup.upgrade(url)
    with db.write() as conn:
        leases.delete_node(conn, "node-1")
    assert startup.upgrade(url)[1] == "9999"


@pytest.mark.parametrize("step", ["0004", "0016"])
def test_steps_between_releases_are_refused_with_what_knows_them(db: Database, step: str) -> None:
    with db.write() as conn:
        conn.execute(text(f"UPDATE alembic_version SET version_num = '{step}'"))
    for use in (migrate.check_schema, migrate.upgrade):
        with pytest.raises(SchemaError, match=rf"is at {step}, which no release has.*db upgrade.*ed13bbd2"):
            use(db)


def test_times_are_far_from_the_end_of_their_columns() -> None:
    assert {
        f"{table.name}.{column.name}"
        for table in tables.metadata.sorted_tables
        for column in table.columns
        if column.name in ("seen_ms", "due_ms", "created_ms", "next_fire_ms", "check_ms", "hour_ms")
        and type(column.type).__name__ != "BigInteger"
    } == set()
    assert NOW > 2**31
