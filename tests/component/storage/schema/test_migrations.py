"""Migrations with data, from several processes at once, and after one that failed half-way."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, delete, event, insert, inspect, select, text, update
from sqlalchemy.exc import IntegrityError

from tests.support.databases import differences, twin_of
from tests.support.rows import NOW
from xwheel.errors import SchemaError
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import migrate, tables


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
            made[column.name] = (
                100 + number if column.type.__class__.__name__ == "SmallInteger" else 7000 + number
            )
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
        table.name: sorted(map(tuple, conn.execute(select(table))), key=repr)
        for table in tables.metadata.sorted_tables
    }


def test_an_upgrade_of_this_schema_leaves_all_data(db: Database) -> None:
    _write_everything(db)
    with db.read() as conn:
        before = _read_everything(conn)
    assert all(before.values())
    migrate.upgrade(db)
    with db.read() as conn:
        assert _read_everything(conn) == before


def test_down_and_up_again_with_data_in_every_table(db: Database) -> None:
    with db.write() as conn:
        conn.execute(delete(tables.plugin_migration))  # which tables of plugins there are
    with db.read() as conn:
        fresh = _read_everything(conn)
    _write_everything(db)
    migrate.downgrade(db, "base")
    with db.read() as conn:
        assert not tables.metadata.tables.keys() & inspect(conn).get_table_names()
    migrate.upgrade(db)
    with db.read() as conn:
        assert _read_everything(conn) == fresh
        assert differences(conn) == []
    _write_everything(db)


def test_an_older_schema_gets_new_columns_and_keeps_its_data(db: Database) -> None:
    migrate.downgrade(db, "0001")
    added = {
        "executor": {
            "labels": None,
            "secret_id": None,
            "earlier_secret_id": None,
            "release": None,
            "declared": None,
            "by_hand": False,
        },
        "api_token": {
            "grants": None,
            "account_id": None,
            "expires_ms": None,
            "networks": None,
            "used_ms": None,
        },
        "executor_group": {"glue_types": None},
        "job": {"route_options": "", "log_retention_days": 0},
        "run": {"secret_id": None},
    }
    written: dict[str, list[dict[str, Any]]] = {}
    with db.write() as conn:
        for name, columns in added.items():
            table = tables.metadata.tables[name]
            written[name] = [_row(table, number) for number in (1, 2)]
            for row, column in itertools.product(written[name], columns):
                del row[column]
            conn.execute(insert(table), written[name])
    with pytest.raises(SchemaError, match="is at 0001"):
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


def test_old_default_thresholds_become_null_and_all_else_of_a_job_stays(db: Database) -> None:
    migrate.downgrade(db, "0003")
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
    migrate.downgrade(db, "0003")
    with db.read() as conn:
        query = select(job.c.misfire_threshold_ms).order_by(job.c.id).where(job.c.id.between(1001, 1004))
        assert list(conn.execute(query).scalars()) == thresholds[:4]
    with pytest.raises(IntegrityError), db.write() as conn:
        conn.execute(update(job).values(misfire_threshold_ms=None))


def test_upgrades_at_once_wait_for_each_other(db: Database) -> None:
    migrate.downgrade(db, "base")
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


@pytest.mark.parametrize(
    "words",
    [
        "CREATE TABLE job_child",
        "CREATE INDEX ix_run_group",
        "INSERT INTO run_id_block",
        "ALTER TABLE executor ADD",
        "ALTER TABLE job ADD",
        "UPDATE job SET misfire_threshold_ms",
        "UPDATE alembic_version SET version_num='0004'",
    ],
)
def test_after_one_that_failed_half_way_the_next_finishes(
    db: Database, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    migrate.downgrade(db, "base")
    heal = _fail_at(db, words)
    with pytest.raises(InterruptedError):
        migrate.upgrade(db)
    heal()
    with pytest.raises(SchemaError, match="xwheel db upgrade"):
        migrate.check_schema(db)
    if db.backend == "mysql":
        assert "half-way" in caplog.text
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


def test_times_are_far_from_the_end_of_their_columns() -> None:
    assert {
        f"{table.name}.{column.name}"
        for table in tables.metadata.sorted_tables
        for column in table.columns
        if column.name in ("seen_ms", "due_ms", "created_ms", "next_fire_ms", "check_ms", "hour_ms")
        and type(column.type).__name__ != "BigInteger"
    } == set()
    assert NOW > 2**31
