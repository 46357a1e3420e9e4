"""Connections and transactions, the same for every database."""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from xwheel import private_files
from xwheel.errors import ConfigError, DatabaseUnreachableError, OutageError, PluginError, StorageError
from xwheel.plugin.contracts import RunChange
from xwheel.runtime.loops import Service
from xwheel.storage.database import address, changes, direct, outage
from xwheel.storage.database.deadline import Deadlines
from xwheel.storage.database.outage import CommitUnknownError, ConnectionLostError, Phase, is_retryable
from xwheel.storage.database.servers import Servers

__all__ = ["CommitUnknownError", "Connection", "ConnectionLostError", "Database", "RaceLostError"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 5
BUSY_TIMEOUT_S = 5
LOG_BYTES = 8 * 1024 * 1024
STATEMENT_S = 15
LONG_MS = 600_000
"""For one answer, where the server may have to read much of a table."""


class RaceLostError(StorageError):
    """Other transactions were faster at the same locks, each time; nothing is written."""


class FairLock:
    """A mutual exclusion lock that serves its waiters in order of arrival."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiters: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiters.append(gate)
        gate.acquire()

    def __exit__(self, *_: object) -> None:
        with self._guard:
            if self._waiters:
                self._waiters.popleft().release()  # the lock stays held: it is handed over
            else:
                self._held = False


class Database:
    """One database: readers, writers, and the retry of transactions that lost a race or their connection.

    READ COMMITTED everywhere. On SQLite every writer begins immediately, behind one fair lock of this process, so
    a writer never fails half-way with "locked".

    Args:
        url: SQLAlchemy URL.
        pool_size: Connections kept open.
        statement_s: How long a server's answer may take before its connection is shut.
        idle_s: After how long a server ends a transaction whose client is silent: a stopped process keeps no locks.

    Raises ConfigError: the URL cannot be understood or its driver is missing.
    """

    before_commit: Callable[[Connection], Callable[[], None] | None] | None = None
    """Called with the connection before each COMMIT. What it raises undoes the transaction. What it returns is called
    once the transaction is committed."""

    def __init__(
        self, url: str, *, pool_size: int = 8, statement_s: float = STATEMENT_S, idle_s: int = outage.IDLE_S
    ) -> None:
        sizes = {"pool_size": pool_size, "max_overflow": pool_size + 1}  # one is kept by :meth:`ask`
        try:
            parsed = address.parse(url)
            arguments = address.driver_options(parsed)
            if parsed.get_backend_name() == "sqlite":
                arguments["timeout"] = BUSY_TIMEOUT_S  # waiting beats failing
                more: dict[str, Any] = {}  # reads are local: no ping is needed
            else:
                more = {"isolation_level": "READ COMMITTED", "pool_timeout": statement_s, "pool_pre_ping": True}
            self.engine: Engine = create_engine(parsed, connect_args=arguments, **sizes, **more)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"database.url cannot be used: {type(error).__name__}") from error
        self.backend = self.engine.dialect.name
        self.path = parsed.database
        self.most_connections = 2 * pool_size + 1
        # transactions that lost a race: deadlocks, lock waits that took too long, serialization failures
        self.deadlocks = 0
        self.retries = 0  # transactions that were done again after a lost race or a broken connection
        self.broken = 0  # connections that broke while they were used
        # every use has a number, and so has every failure: a later use that works shows that the failure is over
        self._uses = count()
        self._last_good = self._last_written = -1
        self._deadlines = Deadlines(statement_s)
        # as many as the pool gives to all others; one with a deadline of its own waits no longer for it
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(2 * pool_size):
            self._places.put(None)
        self._write_lock: FairLock | None = None
        self._watching: Connection | None = None  # of :meth:`version` or :meth:`ask`
        self._is_kept_old = False  # connections ended since it was opened
        self._sink: Callable[[Sequence[RunChange]], None] | None = None
        self.survey: Callable[[], bool] | None = None  # of several servers: see :meth:`Servers.survey`
        if self.backend == "sqlite":
            self._write_lock = FairLock()
            event.listen(self.engine, "do_connect", _make_private)
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        else:
            # the other server's driver need not be installed
            name = "psycopg" if self.backend == "postgresql" else "pymysql"
            driver = import_module(f"xwheel.storage.database.watched_{name}")
            connect = driver.connect
            if listed := address.servers_of(parsed):
                servers = Servers(
                    listed, connect, self._note_move, self._deadlines.end_waits, driver.refusal, driver.identify
                )
                connect, self.survey = servers.connect, servers.survey
            self._deadlines.attach(self.engine, connect)
            # of one that is not closed; the collector may run on the loop's own thread, which cannot wait for itself
            weakref.finalize(self, self._deadlines.close, None).atexit = False
            outage.watch(self.engine, statement_s=statement_s, idle_s=idle_s)
            event.listen(self.engine, "handle_error", self._note_ending)
            if listed:
                event.listen(self.engine, "handle_error", servers.leave)
                event.listen(self.engine, "checkout", servers.check)

    def listen(self, sink: Callable[[Sequence[RunChange]], None] | None) -> None:
        """Hand the changes of runs that a transaction notes to ``sink`` once it is committed; None ends that.

        Called by the thread that wrote them, on SQLite before the next one writes: so it must be quick.
        """
        self._sink = sink

    def limited(
        self, *, deadline_ms: int | None = None, statement_ms: int | None = None
    ) -> AbstractContextManager[None]:
        """Limit how long a server may keep this thread waiting inside the block; a file needs no limit.

        What is not done in time fails as it does when the connection breaks, and is not begun again. ``deadline_ms`` is
        for all of the block, waits for a connection included: what must be written in time, such as the renewal of a
        lease, fails in time; an outer block's holds as well. ``statement_ms`` is for each answer, None for the usual.
        """
        return self._deadlines.limited(deadline_ms, statement_ms)

    @contextmanager
    def read(self, *, much: bool = False) -> Iterator[Connection]:
        """Give a connection for reading; one consistent view on SQLite, read committed elsewhere.

        ``much`` fills the connection's cache, which on SQLite is emptied then: with writers at work no one reads these
        pages there again, but they would be held until the connection's next turn.

        Raises DatabaseUnreachableError: there is no connection, or it broke; DatabaseRefusedError: the server lets us
        in no more.
        """
        with self._use(write=False) as conn:
            yield conn
            if much and self.backend == "sqlite":
                conn.exec_driver_sql("PRAGMA shrink_memory")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection inside a writing transaction; commit at the end, roll back on any error.

        Not retried: use :meth:`transaction` where other writers may lock the same rows. Raises ConnectionLostError: the
        connection broke before COMMIT, and nothing is written; CommitUnknownError: it broke at COMMIT;
        DatabaseUnreachableError: there is none; DatabaseRefusedError: the server is read-only, its disk is full, or it
        lets us in no more.
        """
        committed: Callable[[], None] | None = None
        with self._write_lock or nullcontext(), self._use(write=True) as conn:
            yield conn
            if self.before_commit is not None:
                committed = self.before_commit(conn)
        if committed is not None:
            committed()

    def version(self) -> int | None:
        """Return a number that changes with each commit to a SQLite file, by any process; None for a server.

        For one thread, whose connection never begins, and is told what others commit.
        """
        if self._write_lock is None:
            return None
        if self._watching is None:
            self._watching = self.engine.connect()
            self._watching.detach()
        driver: Any = self._watching.connection.dbapi_connection
        return int(driver.execute("PRAGMA data_version").fetchone()[0])

    def checkpoint(self) -> None:
        """Write what SQLite's log of writes holds into the file itself, so that a copy of that file alone has it.

        It waits for no one, and no one waits for it. What a reader still needs stays in the log.
        """
        with self.engine.connect() as conn:
            driver: Any = conn.connection.dbapi_connection  # which has not begun: a checkpoint is no transaction
            driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def ask(self, text: str) -> Sequence[Any]:
        """Return the only row, of numbers, of what one thread asks again and again; raises as :meth:`read` does.

        It keeps its connection to a server: to take one and give it back costs as much as the question.
        """
        with self._use(write=False, keep=self._write_lock is None) as conn:
            return direct.ask(conn, text)

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a writing transaction and return its result.

        A deadlock, a serialization failure, a lock that came too late or a connection that broke before COMMIT repeats
        it, at most five times; ``work`` must therefore keep its effects inside the transaction. One that broke at
        COMMIT does not: the caller must read what became of it.

        Raises RaceLostError: it lost the race five times; DatabaseUnreachableError: there is no connection, or five
        broke, or the time that it had is over; the other errors of :meth:`write` as they are.
        """
        for attempt in range(1, ATTEMPTS + 1):
            self.retries += attempt > 1
            try:
                with self.write() as conn:
                    return work(conn)
            except ConnectionLostError as error:
                if attempt == ATTEMPTS or self._deadlines.is_over():
                    raise
                logger.info("a transaction is done again (attempt %d of %d): %s", attempt, ATTEMPTS, error)
            except DBAPIError as error:
                if not is_retryable(error):
                    raise
                self.deadlocks += 1
                logger.warning("transaction lost a race (attempt %d of %d): %s", attempt, ATTEMPTS, error.orig)
                if attempt == ATTEMPTS or self._deadlines.is_over():
                    raise RaceLostError(
                        f"a transaction lost the race for its locks {attempt} times: {error.orig}"
                    ) from error
                time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - spreads the losers, no secret
        raise AssertionError("unreachable")

    def _connect(self, write: bool) -> Connection:
        conn = self.engine.connect()
        # options cost as much as a statement
        return conn.execution_options(xwheel_write=True) if write and self._write_lock else conn

    def _note_ending(self, context: ExceptionContext) -> None:
        # its server may have been the primary, and answer still
        self._is_kept_old |= context.is_disconnect

    def _note_move(self) -> None:
        self._is_kept_old = True

    @contextmanager
    def _keep(self) -> Iterator[Connection]:
        """Give the connection that one thread keeps, in which each statement is a transaction of its own."""
        if self._is_kept_old and self._watching is not None:
            self._watching.invalidate()  # else the pool might give it again
            self._stop_watching()
        if self._watching is None:
            self._is_kept_old = False
            self._watching = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            yield self._watching
        except BaseException:
            self._stop_watching()
            raise

    def _stop_watching(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            with suppress(DBAPIError):  # it may have broken
                watching.close()

    @contextmanager
    def _each_alone(self, conn: Connection) -> Iterator[None]:
        """On PostgreSQL, let each statement be a transaction of its own, as it sees its own state anyway.

        So a question is one round trip instead of three, and the driver, which forgets what it has prepared at each
        ROLLBACK, keeps it.
        """
        if self.backend != "postgresql":
            yield
            return
        driver: Any = conn.connection.dbapi_connection
        driver.autocommit = True
        try:
            yield
        finally:
            if not driver.closed:
                driver.autocommit = False

    @contextmanager
    def _use(self, *, write: bool, keep: bool = False) -> Iterator[Connection]:
        phase = Phase.CONNECT
        number = next(self._uses)
        noted: list[RunChange] = []
        try:
            self._places.get(timeout=max(0.0, self._deadlines.left_s()))
        except Empty:
            raise DatabaseUnreachableError(outage.NO_PLACE) from None
        try:
            with (
                self._keep() if keep else self._connect(write) as conn,
                conn.begin() if write else nullcontext() if keep else self._each_alone(conn),
            ):
                phase = Phase.WORK
                if write and self._sink is not None:
                    noted = changes.begin(conn)
                yield conn
                phase = Phase.COMMIT if write else Phase.WORK
        except (DBAPIError, PoolTimeout, PluginError) as error:
            # what the database refuses a plugin on our connection is no failure of the plugin
            cause = error.__cause__ if isinstance(error, PluginError) else error
            if not isinstance(cause, DBAPIError | PoolTimeout):
                raise
            told = outage.translate(cause, phase, self.engine.url, write=write)
            if told is None:
                if cause is not error and isinstance(cause, DBAPIError) and is_retryable(cause):
                    raise cause from cause.orig
                raise
            self.broken += isinstance(told, ConnectionLostError | CommitUnknownError)
            if isinstance(told, OutageError):
                told.is_over = partial(self._has_worked_since, next(self._uses), write=write)
            raise told from error
        finally:
            self._places.put(None)
        self._last_good = max(self._last_good, number)
        if write:
            self._last_written = max(self._last_written, number)
        if noted and self._sink is not None:
            self._sink(noted)
            noted.clear()  # the pooled connection still knows the list

    def _has_worked_since(self, number: int, *, write: bool) -> bool:
        return number < (self._last_written if write else self._last_good)

    @property
    def services(self) -> Sequence[Service]:
        """The loop that ends what a server does not answer in time; none for a file."""
        return self._deadlines.services

    def close(self) -> None:
        """Close all connections, and end the loop that watches them."""
        self._stop_watching()
        self.engine.dispose()
        self._deadlines.close()


def _make_private(_dialect: object, _record: object, arguments: Sequence[Any], _options: object) -> None:
    """Make the file for this user alone before the driver opens it."""
    private_files.prepare_sqlite(arguments[0])


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin by itself: we do, immediately
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=OFF",
        "temp_store=MEMORY",
        "cache_size=-32768",
        # the log of writes grows during a long read, and would stay as large as it ever was
        f"journal_size_limit={LOG_BYTES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(conn: Connection) -> None:
    conn.exec_driver_sql("BEGIN IMMEDIATE" if conn.get_execution_options().get("xwheel_write") else "BEGIN")
