"""Statements that the driver executes itself: the same rows, errors and transactions as SQLAlchemy's."""

from __future__ import annotations

from collections.abc import Iterator
from select import POLLIN, poll

import pytest
from sqlalchemy import bindparam, event, literal_column, select, text, update
from sqlalchemy.exc import IntegrityError, ProgrammingError

from tests.support.databases import twin_of
from tests.support.rows import make_run
from xwheel.model import RunState
from xwheel.storage import runs, settings
from xwheel.storage.database.bulk import ById, insert_many
from xwheel.storage.database.direct import MARK, Prepared
from xwheel.storage.database.engine import Connection, ConnectionLostError, Database
from xwheel.storage.schema.tables import open_run, setting

IS_PLANNED = open_run.c.state == RunState.PLANNED
PLANNED = ById(open_run.c.id, select(open_run.c.id, open_run.c.job_id).where(IS_PLANNED).where)
RENAME = Prepared(update(setting).values(value=bindparam("new")).where(setting.c.name == bindparam("key")))
HARD = "'; DROP TABLE run; -- \\' \" %s %(new)s :new \N{SNOWMAN} 🙂"


@pytest.fixture(params=[False, True], ids=["alone", "listened"])
def either_db(request: pytest.FixtureRequest, db: Database) -> Iterator[Database]:
    """A database whose statements somebody listens to takes SQLAlchemy's way, with the same text."""
    if request.param:
        event.listen(db.engine, "before_cursor_execute", _listen)
    yield db
    if request.param:
        event.remove(db.engine, "before_cursor_execute", _listen)


def _listen(*_: object) -> None:
    """Do nothing."""


def test_rows_come_by_id(either_db: Database) -> None:
    either_db.transaction(lambda conn: runs.insert_runs(conn, [make_run(1), make_run(2), make_run(3)]))
    with either_db.read() as conn:
        for ids, found in (([], []), ([2], [2]), ([3, 1, 9], [1, 3])):
            statement, values = PLANNED(conn, ids)
            assert sorted(row[0] for row in statement.fetch(conn, values)) == found


def test_texts_arrive_as_they_are(either_db: Database) -> None:
    def work(conn: Connection) -> int:
        settings.insert_setting(conn, HARD, "old")
        return RENAME.change(conn, {"new": HARD, "key": HARD})

    assert either_db.transaction(work) == 1
    with either_db.read() as conn:
        assert settings.find_setting(conn, HARD) == HARD
        assert RENAME.change(conn, {"new": "x", "key": "absent"}) == 0


def test_what_is_no_number_never_becomes_a_part_of_a_statement(db: Database) -> None:
    statement = Prepared(select(open_run.c.id).where(open_run.c.id.bool_op("IN")(literal_column(f"({MARK})"))))
    with db.read() as conn, pytest.raises(ValueError, match="invalid literal"):
        statement.fetch(conn, {"ids": ["1) OR (1 = 1"]})


def test_errors_are_the_same_and_the_transaction_is_undone(either_db: Database) -> None:
    row = ("twice", "")

    def work(conn: Connection) -> None:
        insert_many(conn, setting, ("name", "value"), [row])
        insert_many(conn, setting, ("name", "value"), [row])

    with pytest.raises(IntegrityError):
        either_db.transaction(work)
    with either_db.read() as conn:
        assert settings.find_setting(conn, "twice") is None


def test_an_error_inside_a_savepoint_leaves_the_rest(either_db: Database) -> None:
    def work(conn: Connection) -> None:
        insert_many(conn, setting, ("name", "value"), [("kept", "")])
        point = conn.begin_nested()
        with pytest.raises(IntegrityError):
            insert_many(conn, setting, ("name", "value"), [("kept", "")])
        point.rollback()

    either_db.transaction(work)
    with either_db.read() as conn:
        assert settings.find_setting(conn, "kept") == ""


def test_what_begins_with_such_a_statement_can_be_committed(db: Database) -> None:
    with db.engine.connect() as conn:
        insert_many(conn, setting, ("name", "value"), [("first", "")])
        conn.commit()
        insert_many(conn, setting, ("name", "value"), [("second", "")])
    with db.read() as conn:
        assert settings.find_setting(conn, "first") == ""
        assert settings.find_setting(conn, "second") is None


def ask(conn: Connection) -> list[tuple[int, int]]:
    statement, values = PLANNED(conn, [1])
    return [tuple(row) for row in statement.fetch(conn, values)]


def named(conn: Connection) -> tuple[int, int]:
    """Return what the server calls a connection, and the descriptor of its socket."""
    name = "pg_backend_pid()" if conn.dialect.name == "postgresql" else "CONNECTION_ID()"
    driver = conn.connection.driver_connection
    assert driver is not None
    return conn.execute(text(f"SELECT {name}")).scalar_one(), driver.fileno()


def end(db: Database, number: int, descriptor: int) -> None:
    """Let the server end a connection, by means of another one."""
    twin = twin_of(db)
    with twin.read() as conn:
        conn.execute(text(f"SELECT pg_terminate_backend({number})" if db.backend == "postgresql" else f"KILL {number}"))
    twin.close()
    arrived = poll()
    arrived.register(descriptor, POLLIN)
    assert arrived.poll(30_000)


def end_and_ask(db: Database) -> None:
    with db.write() as conn:
        end(db, *named(conn))
        ask(conn)


def test_a_connection_that_the_server_ended_is_replaced(db: Database) -> None:
    """Just used, it is not asked whether it is there; that it ended is seen without a question."""
    if db.backend == "sqlite":
        return
    with db.read() as conn:
        known = named(conn)
    end(db, *known)
    with db.read() as conn:
        assert ask(conn) == []
    assert db.broken == 0
    tries: list[int] = []

    def work(conn: Connection) -> list[tuple[int, int]]:
        tries.append(1)
        if len(tries) == 1:
            end(db, *named(conn))
        return ask(conn)

    assert db.transaction(work) == []
    assert (len(tries), db.broken) == (2, 1)
    with pytest.raises(ConnectionLostError):
        end_and_ask(db)


def test_postgresql_keeps_what_it_prepared_when_a_read_ends(db: Database) -> None:
    if db.backend != "postgresql":
        return
    for _ in range(8):
        with db.read() as conn:
            ask(conn)
    with db.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one() > 0
    with pytest.raises(ProgrammingError), db.read() as conn:
        conn.execute(text("SELECT nothing"))
    with db.engine.connect() as conn:  # one that others take begins transactions
        assert conn.connection.driver_connection.autocommit is False


def test_a_prepared_statement_outlives_a_change_of_the_schema(db: Database) -> None:
    if db.backend != "postgresql":
        return
    query = Prepared(text("SELECT one FROM changing"))
    db.transaction(lambda conn: conn.execute(text("CREATE TABLE changing (one integer)")))
    twin = twin_of(db)
    try:
        for _ in range(8):
            db.transaction(lambda conn: query.fetch(conn, {}))
        for words in ("ALTER TABLE changing ALTER one TYPE text", "INSERT INTO changing VALUES ('word')"):
            twin.transaction(lambda conn, words=words: conn.execute(text(words)))
        assert db.transaction(lambda conn: list(query.fetch(conn, {}))) == [("word",)]
    finally:
        twin.transaction(lambda conn: conn.execute(text("DROP TABLE changing")))
        twin.close()
