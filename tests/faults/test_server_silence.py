"""R9: a server that acknowledges and says nothing holds no thread for longer than the limit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, text, update

from tests.faults.injectors.database import freezing
from tests.faults.injectors.proxy import Cut, Proxy, before
from tests.faults.test_server_outage import JOBS, PATIENCE_S, site_on
from tests.support.databases import break_connections
from tests.support.executors import wait_until
from tests.support.rows import make_run
from xwheel.config import build_config
from xwheel.errors import DatabaseUnreachableError
from xwheel.storage import news, runs
from xwheel.storage.database.engine import CommitUnknownError, ConnectionLostError, Database
from xwheel.storage.database.startup import open_database
from xwheel.storage.schema.tables import open_run

BACK_S = 30
LIMIT_S = 2


@pytest.fixture
def behind(server_url: str) -> Iterator[tuple[Database, Proxy]]:
    """A database behind a proxy, whose answers may take two seconds."""
    with before(server_url) as (url, proxy):
        db = Database(url, statement_s=LIMIT_S)
        with db.write() as conn:
            runs.insert_runs(conn, [make_run(1)])
        yield db, proxy
        proxy.restore()
        db.close()


def outcome_of(work: Callable[[], object]) -> Any:
    """Return what a thread of its own came back with; it must come back."""
    found: list[object] = []

    def go() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(BACK_S)
    assert not thread.is_alive(), "the thread waits for ever"
    return found[0]


def answer(db: Database) -> object:
    with db.read() as conn:
        return conn.execute(text("SELECT 1")).scalar()


def test_a_read_comes_back_and_new_connections_work(behind: tuple[Database, Proxy]) -> None:
    db, proxy = behind
    assert answer(db) == 1
    proxy.silence()
    error = outcome_of(lambda: answer(db))
    assert isinstance(error, DatabaseUnreachableError)
    assert "no answer" in str(error)
    proxy.restore()
    assert outcome_of(lambda: answer(db)) == 1


def test_a_question_on_a_kept_connection_comes_back_and_is_put_again(behind: tuple[Database, Proxy]) -> None:
    db, proxy = behind
    question = news.spell_out([news.CHECK, news.CALENDARS], "me", db.engine.dialect)
    assert db.ask(question) == db.ask(question)
    proxy.silence()
    error = outcome_of(lambda: db.ask(question))
    assert isinstance(error, DatabaseUnreachableError)
    assert "no answer" in str(error)
    proxy.restore()
    assert len(outcome_of(lambda: db.ask(question))) == 2
    break_connections(db)
    assert isinstance(outcome_of(lambda: db.ask(question)), DatabaseUnreachableError)
    assert len(outcome_of(lambda: db.ask(question))) == 2


def test_an_outage_is_over_once_work_of_its_kind_was_done_that_began_later(behind: tuple[Database, Proxy]) -> None:
    """R15: what was under way when the connection broke proves nothing, nor does a read that writing works."""
    db, proxy = behind
    with db.read() as first, db.read() as second:  # a new connection says COMMIT too
        assert first is not second
    with db.write() as early:
        early.execute(text("SELECT 1"))
        proxy.cut_next_commit(Cut.BEFORE)
        with pytest.raises(CommitUnknownError) as failed, db.write() as conn:
            conn.execute(text("SELECT 1"))
    assert not failed.value.is_over()
    answer(db)
    assert not failed.value.is_over()
    with db.write() as conn:
        conn.execute(text("SELECT 1"))
    assert failed.value.is_over()


def test_a_statement_says_what_happened_and_is_done_again(behind: tuple[Database, Proxy]) -> None:
    db, proxy = behind
    tries: list[int] = []

    def work(conn: Connection) -> object:
        tries.append(1)
        if len(tries) == 1:
            proxy.silence()
            threading.Timer(LIMIT_S / 2, proxy.restore).start()
        conn.execute(update(open_run).where(open_run.c.id == 1).values(check_ms=len(tries)))
        return conn.execute(select(open_run.c.check_ms).where(open_run.c.id == 1)).scalar()

    assert outcome_of(lambda: db.transaction(work)) == 2
    assert db.broken == 1


def test_a_statement_that_is_overdue_is_named_with_the_setting(behind: tuple[Database, Proxy]) -> None:
    db, proxy = behind

    def work() -> None:
        with db.write() as conn:
            proxy.silence()
            conn.execute(text("SELECT 1"))

    error = outcome_of(work)
    assert isinstance(error, ConnectionLostError)
    assert "hangs (no answer within 2.0 s)" in str(error)
    assert "database.statement_timeout_s" in str(error)


def test_a_commit_without_an_answer_is_unknown(behind: tuple[Database, Proxy]) -> None:
    db, proxy = behind

    def work() -> None:
        with db.write() as conn:
            conn.execute(update(open_run).values(check_ms=7))
            proxy.silence()

    assert isinstance(outcome_of(work), CommitUnknownError)


def test_a_deadline_is_for_all_of_it(server_url: str) -> None:
    """A renewal with a deadline comes back, whatever it waits for: ping, statement, login or a free connection."""
    with before(server_url) as (url, proxy), contextlib.ExitStack() as stack:
        db = Database(url, statement_s=60 * BACK_S)  # nothing but the deadline ends a wait
        stack.callback(db.close)

        def renew() -> None:
            with db.limited(deadline_ms=300):
                db.transaction(lambda conn: conn.execute(text("SELECT 1")))

        answer(db)
        proxy.silence()
        assert isinstance(outcome_of(renew), DatabaseUnreachableError)
        proxy.restore()
        for _ in range(db.most_connections - 1):  # one is kept for questions
            stack.enter_context(db.read())
        assert isinstance(outcome_of(renew), DatabaseUnreachableError)
        with pytest.raises(DatabaseUnreachableError, match="no connection"), db.limited(deadline_ms=0):
            answer(db)


def test_a_statement_that_may_take_long_is_left_alone(behind: tuple[Database, Proxy]) -> None:
    db, _ = behind
    pause = "pg_sleep(3)" if db.backend == "postgresql" else "SLEEP(3)"

    def work() -> None:
        with db.limited(statement_ms=600_000), db.read() as conn:
            conn.execute(text(f"SELECT {pause}"))

    assert outcome_of(work) is None
    assert db.broken == 0


def test_a_frozen_server_holds_nobody(server_url: str) -> None:
    db = Database(server_url, statement_s=LIMIT_S)
    answer(db)
    with freezing(server_url):
        assert isinstance(outcome_of(lambda: answer(db)), DatabaseUnreachableError)
    assert outcome_of(lambda: answer(db)) == 1
    db.close()


def test_the_watch_ends_with_the_last_connection(server_url: str) -> None:
    before = set(threading.enumerate())
    db = Database(server_url)
    answer(db)
    (watch,) = (item for item in threading.enumerate() if item.name == "xwheel-database" and item not in before)
    db.close()
    watch.join(BACK_S)
    assert not watch.is_alive()


def test_a_node_that_stops_inside_a_transaction_loses_its_locks_before_its_lease_ends(server_url: str) -> None:
    """R9: the server's limit for silent transactions follows the lease, which was renewed before."""
    schedule = {"lease_s": 8, "lease_renew_s": 2.5}
    db = open_database(build_config({"database": {"url": server_url}, "schedule": schedule}))
    question, expected = (
        ("SHOW idle_in_transaction_session_timeout", "5s")
        if db.backend == "postgresql"
        else ("SELECT @@idle_transaction_timeout", 5)
    )
    with db.read() as conn:
        assert conn.execute(text(question)).scalar() == expected
    db.close()


@pytest.mark.long
@pytest.mark.nightly_on("postgresql")
def test_a_node_works_on_once_its_database_speaks_again(server_url: str, tmp_path: Path) -> None:
    with before(server_url) as (url, proxy), site_on(url, server_url, tmp_path, statement_timeout_s=LIMIT_S) as site:
        site.make_jobs(10)
        wait_until(lambda: len(site.seen) >= 2 * JOBS, PATIENCE_S)
        proxy.silence()
        scheduler = site.node.scheduler
        (lease,) = (item for item in scheduler.services if item.name == "lease")
        wait_until(lambda: not scheduler.core.lease.may_act() and lease.failures >= 3, PATIENCE_S)
        # no loop stands still: each comes back, and the others rest until there is a lease
        limit_ms = 5 * 1000 * LIMIT_S
        assert all(item.step_ms() < limit_ms for item in scheduler.services)
        proxy.restore()
        site.check()
