"""Writers take turns, lost races are repeated, and the schema is what the node needs."""

from __future__ import annotations

import _sqlite3
import ctypes
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError, OperationalError

from tests.support.databases import differences, twin_of
from tests.support.rows import NOW, make_run
from xwheel.access.rights import Rights
from xwheel.errors import ConfigError, DatabaseRefusedError, DuplicateError, PluginError, SchemaError, StorageError
from xwheel.plugin.validation import guarded
from xwheel.storage import leases, news, run_ids, runs
from xwheel.storage.database.bulk import update_many
from xwheel.storage.database.engine import ATTEMPTS, LOG_BYTES, Connection, Database, FairLock
from xwheel.storage.run_ids import BLOCK, SPARE, RunIds
from xwheel.storage.schema import migrate
from xwheel.storage.schema.tables import open_run, run_id_block


def test_the_lock_serves_in_order_of_arrival() -> None:
    lock, order, threads = FairLock(), [], []
    with lock:
        for number in range(5):
            queued = len(lock._waiters)
            thread = threading.Thread(target=lambda n=number: _enter(lock, order, n))
            thread.start()
            threads.append(thread)
            while len(lock._waiters) == queued:
                threading.Event().wait(0.001)
        assert order == []
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2, 3, 4]


def _enter(lock: FairLock, order: list[int], number: int) -> None:
    with lock:
        order.append(number)


def test_a_lost_race_is_repeated_and_counted(db: Database) -> None:
    tries: list[int] = []

    def work(conn: Connection) -> str:
        tries.append(1)
        runs.insert_runs(conn, [make_run(len(tries))])
        if len(tries) < 3:
            raise OperationalError("UPDATE", {}, Exception("database is locked"))
        return "done"

    assert db.transaction(work) == "done"
    assert db.deadlocks == 2
    with db.read() as conn:
        assert [item.id for item in runs.list_runs(conn)] == [3]


def test_a_race_lost_too_often_is_an_error(db: Database) -> None:
    def work(conn: Connection) -> None:
        raise OperationalError("UPDATE", {}, Exception("database is locked"))

    with pytest.raises(StorageError, match=f"{ATTEMPTS} times"):
        db.transaction(work)


def test_other_failures_are_not_repeated(db: Database) -> None:
    db.transaction(lambda conn: runs.insert_runs(conn, [make_run(1)]))
    with pytest.raises(DuplicateError):
        db.transaction(lambda conn: runs.insert_runs(conn, [make_run(2), make_run(1)]))
    assert db.deadlocks == 0
    with db.read() as conn:
        assert [item.id for item in runs.list_runs(conn)] == [1]


def test_writers_of_two_processes_wait_for_each_other(db: Database) -> None:
    other = twin_of(db)
    errors: list[BaseException] = []

    def write(target: Database, first: int) -> None:
        try:
            for number in range(20):
                target.transaction(lambda conn, n=first + number: runs.insert_runs(conn, [make_run(n)]))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=item) for item in ((db, 100), (db, 200), (other, 300))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    other.close()
    assert errors == []
    with db.read() as conn:
        assert len(runs.list_runs(conn)) == 60


def test_sqlite_is_durable(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path / 'xwheel.db'}")
    with db.read() as conn:
        assert conn.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert conn.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    db.close()


@pytest.mark.parametrize("url", ["sqlite://", "nonsense", "sqlite:///:memory:", "oracle+nothing://x/y"])
def test_an_impossible_url_names_the_setting(url: str) -> None:
    with pytest.raises(ConfigError, match=r"database\.url"):
        Database(url)


def test_bulk_update_writes_each_row_its_own(db: Database) -> None:
    db.transaction(lambda conn: runs.insert_runs(conn, [make_run(1), make_run(2), make_run(3)]))
    values = [(1, "a", False), (3, "c'; DROP TABLE run", True), (4, "nobody", True)]

    changed = db.transaction(lambda conn: update_many(conn, open_run, ("message", "kill_requested"), values))

    assert changed == 2
    with db.read() as conn:
        assert {item.id: (item.message, item.kill_requested) for item in runs.list_runs(conn)} == {
            1: ("a", False),
            2: ("", False),
            3: ("c'; DROP TABLE run", True),
        }


def test_run_ids_come_in_blocks_and_never_twice(db: Database) -> None:
    first, second = RunIds(db), RunIds(db)
    for source in (first, second):
        source.ensure(BLOCK // 2)
    taken = [*first.take(3), *second.take(3), *first.take(3)]
    assert len(set(taken)) == 9
    with pytest.raises(StorageError, match="ensured"):
        first.take(BLOCK)


def test_n19_blocks_touch_and_do_not_overlap(db: Database) -> None:
    """N19: all ids of three blocks of two nodes, borders included."""
    first, second = RunIds(db), RunIds(db)
    taken: list[int] = []
    for source in (first, second, first):
        source.ensure(BLOCK - SPARE)
        taken += source.take(BLOCK)
    assert len(set(taken)) == 3 * BLOCK
    assert max(taken) - min(taken) == 3 * BLOCK - 1


def test_ids_begin_anew_beyond_those_that_others_may_have(db: Database) -> None:
    """R27: the database has lost who took which, and gives the same block to two nodes."""
    first, second = RunIds(db), RunIds(db)
    first.ensure(BLOCK // 2)
    with db.write() as conn:
        conn.execute(update(run_id_block).values(next_id=1))
    second.ensure(BLOCK // 2)
    taken = [*first.take(5), *second.take(5)]
    assert len(set(taken)) == 5
    first.restart()
    second.restart()
    for source in (first, second):
        with pytest.raises(StorageError, match="0 were ensured"):
            source.take(1)
    later = [*first.reserve(5), *second.reserve(5)]
    assert len(set(later)) == 10
    assert min(later) > max(taken) + 64 * BLOCK


def test_a_block_that_was_taken_before_ids_begin_anew_is_not_used_after(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be another node's, too."""
    ids, taken = RunIds(db), db.transaction

    def late(work: Any) -> Any:
        found = taken(work)
        monkeypatch.setattr(db, "transaction", taken)
        ids.restart()
        return found

    monkeypatch.setattr(db, "transaction", late)
    ids.ensure(5)
    with pytest.raises(StorageError, match="0 were ensured"):
        ids.take(1)
    assert ids.reserve(1)[0] > run_ids.LOST


def test_a_question_that_is_asked_again_and_again_sees_what_others_commit(db: Database) -> None:
    mine, others = (news.spell_out([news.FIRE, *news.NODES], owner, db.engine.dialect) for owner in ("me", "other"))
    before = db.ask(mine)
    assert before == (None, 0, 0)
    twin = twin_of(db)
    twin.transaction(lambda conn: leases.renew_node(conn, "other", NOW, NOW + 1))
    twin.close()
    assert db.ask(mine) == (None, 1, 0)
    assert db.ask(others) == before


def test_a_question_that_the_database_refuses_costs_no_connection(db: Database) -> None:
    for _ in range(2 * db.most_connections):
        with pytest.raises(DBAPIError):
            db.ask("SELECT id FROM nowhere")
    assert db.ask("SELECT count(*) FROM node") == (0,)


def test_the_migrations_make_what_the_tables_say(db: Database) -> None:
    with db.read() as conn:
        assert differences(conn) == []


def test_a_newer_and_a_foreign_schema_are_refused(db: Database, tmp_path: Path) -> None:
    with db.write() as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    for use in (migrate.check_schema, migrate.upgrade):
        with pytest.raises(SchemaError, match="newer xwheel"):
            use(db)
    foreign = Database(f"sqlite:///{tmp_path / 'foreign.db'}")
    with foreign.write() as conn:
        conn.exec_driver_sql("CREATE TABLE cakes (id INTEGER)")
    for use in (migrate.check_schema, migrate.upgrade):
        with pytest.raises(SchemaError, match="cakes"):
            use(foreign)
    foreign.close()


def test_the_log_of_writes_shrinks_after_a_long_read(sqlite_db: Database) -> None:
    """Steady: the file stayed as large as the longest read of its life had made it."""
    log = Path(f"{sqlite_db.path}-wal")

    def write(rows: int) -> None:
        with sqlite_db.write() as conn:
            conn.exec_driver_sql("INSERT INTO filling VALUES (zeroblob(1000000))" + ", (zeroblob(1000000))" * rows)

    with sqlite_db.write() as conn:
        conn.exec_driver_sql("CREATE TABLE filling (content BLOB)")
    with sqlite_db.read() as reader:
        reader.exec_driver_sql("SELECT count(*) FROM filling").scalar_one()
        for _ in range(3):
            write(6)
        assert log.stat().st_size > 2 * LOG_BYTES
    for _ in range(3):
        write(0)  # one empties the log, the next begins it again
    assert log.stat().st_size <= LOG_BYTES


def test_u24_a_checkpoint_brings_all_that_is_written_into_the_file_itself(sqlite_db: Database, tmp_path: Path) -> None:
    """A copy of the file alone had no table at all."""

    def rows_of_a_copy() -> int:
        copy = tmp_path / "copy.db"
        copy.write_bytes(Path(str(sqlite_db.path)).read_bytes())
        with closing(sqlite3.connect(f"file:{copy}?immutable=1", uri=True)) as conn:
            return int(conn.execute("SELECT count(*) FROM sqlite_schema s, pragma_table_info(s.name)").fetchone()[0])

    before = rows_of_a_copy()
    with sqlite_db.write() as conn:
        conn.exec_driver_sql("CREATE TABLE filling (content BLOB)")
    assert rows_of_a_copy() == before
    with sqlite_db.read() as reader:  # which holds up neither this nor a writer
        reader.exec_driver_sql("SELECT count(*) FROM filling").scalar_one()
        sqlite_db.checkpoint()
        assert rows_of_a_copy() == before + 1


def test_a_large_read_leaves_nothing_in_the_cache(sqlite_db: Database) -> None:
    """Steady: counting runs left some megabytes in each connection that it used, in turn."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_longlong
    with sqlite_db.write() as conn:
        conn.exec_driver_sql("CREATE TABLE filling (content BLOB)")
        conn.exec_driver_sql("INSERT INTO filling VALUES (zeroblob(3000))" + ", (zeroblob(3000))" * 2000)
    sqlite_db.engine.dispose()
    before = used()
    for much in (False, True):
        with sqlite_db.read(much=much) as conn:
            assert conn.exec_driver_sql("SELECT sum(length(hex(content))) FROM filling").scalar_one()
        assert (used() - before < 1_000_000) is much


def test_only_the_greeting_has_a_time_limit(db: Database) -> None:
    with db.read() as conn:
        if db.backend == "mysql":
            driver = conn.connection.driver_connection
            assert driver is not None
            assert driver._read_timeout is None
        assert conn.execute(select(1)).scalar() == 1


@pytest.fixture
def full_disk() -> OperationalError:
    """Return what SQLAlchemy raises when the disk of SQLite is full."""
    origin = sqlite3.OperationalError("database or disk is full")
    origin.sqlite_errorname = "SQLITE_FULL"
    return OperationalError("INSERT", {}, origin)


def test_a_plugin_that_meets_a_failing_database_did_not_fail_itself(db: Database, full_disk: OperationalError) -> None:
    with pytest.raises(DatabaseRefusedError) as told, db.read():
        guarded("gate own", mock.Mock(side_effect=full_disk))
    assert "full" in str(told.value)
    with pytest.raises(PluginError, match="gate own failed"), db.read():
        guarded("gate own", mock.Mock(side_effect=ValueError))


def test_owners_of_tokens_are_not_unknown_while_the_database_fails(db: Database, full_disk: OperationalError) -> None:
    rights = Rights({"own": mock.Mock(spec_set=["owners"], owners=mock.Mock(side_effect=full_disk))})
    with pytest.raises(DatabaseRefusedError), db.read() as conn:
        rights.owners(conn, [1])


def test_a_race_that_is_lost_under_a_plugin_is_run_again(db: Database) -> None:
    lost = OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))
    answers = mock.Mock(side_effect=[lost, "done"])
    assert db.transaction(lambda _: guarded("gate own", answers)) == "done"
    assert db.deadlocks == 1
