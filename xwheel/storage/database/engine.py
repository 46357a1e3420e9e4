"""Connections and transactions, the same for every database."""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from xwheel import private_files
from xwheel.errors import ConfigError, DatabaseUnreachableError, OutageError, PluginError, StorageError
from xwheel.plugin.contracts import RunChange
from xwheel.runtime.loops import Service
from xwheel.storage.database import address, changes, outage
from xwheel.storage.database.deadline import Deadlines
from xwheel.storage.database.outage import CommitUnknownError, ConnectionLostError, Phase, is_retryable

__all__ = [
    "CommitUnknownError",
    "Connection",
    "ConnectionLostError",
    "Database",
    "FairLock",
    "RaceLostError",
    "is_retryable",
]

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

    Attributes:
        deadlocks: Transactions that lost a race: deadlocks, lock waits that took too long, serialization failures.
        retries: Transactions that were done again after a lost race or a broken connection.
        broken: Connections that broke while they were used.

    Args:
        url: SQLAlchemy URL.
        pool_size: Connections kept open.
        statement_s: How long a server's answer may take before its connection is shut.
        idle_s: After how long a server ends a transaction whose client is silent: a stopped process keeps no locks.

    Raises:
        ConfigError: The URL cannot be understood or its driver is missing.
    """

    def __init__(
        self, url: str, *, pool_size: int = 8, statement_s: float = STATEMENT_S, idle_s: int = outage.IDLE_S
    ) -> None:
        try:
            parsed = address.parse(url)
            options: dict[str, Any] = {
                "pool_size": pool_size,
                "max_overflow": pool_size,
                "pool_pre_ping": True,
                "connect_args": address.driver_options(parsed),
            }
            if parsed.get_backend_name() == "sqlite":
                # reads are local: no ping is needed, and waiting beats failing
                options["pool_pre_ping"] = False
                options["connect_args"]["timeout"] = BUSY_TIMEOUT_S
            else:
                options |= {"isolation_level": "READ COMMITTED", "pool_timeout": statement_s}
            self.engine: Engine = create_engine(parsed, **options)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"database.url cannot be used: {type(error).__name__}") from error
        self.backend = self.engine.dialect.name
        self.path = parsed.database
        self.most_connections = 2 * pool_size
        self.deadlocks = 0
        self.retries = 0
        self.broken = 0
        # every use has a number, and so has every failure: a later use that works shows that the failure is over
        self._uses = count()
        self._last_good = self._last_written = -1
        self._deadlines = Deadlines(statement_s)
        # as many as the pool gives; one with a deadline of its own waits no longer for it
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(self.most_connections):
            self._places.put(None)
        self._write_lock: FairLock | None = None
        self._sink: Callable[[Sequence[RunChange]], None] | None = None
        if self.backend == "sqlite":
            self._write_lock = FairLock()
            event.listen(self.engine, "do_connect", _make_private)
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        else:
            self._deadlines.attach(self.engine, _connector(self.backend))
            # of one that is not closed; the collector may run on the loop's own thread, which cannot wait for itself
            weakref.finalize(self, self._deadlines.close, None).atexit = False
            outage.watch(self.engine, statement_s=statement_s, idle_s=idle_s)

    def listen(self, sink: Callable[[Sequence[RunChange]], None] | None) -> None:
        """Hand the changes of runs that a transaction notes to ``sink`` once it is committed; None ends that.

        Called by the thread that wrote them, on SQLite before the next one writes: so it must be quick.
        """
        self._sink = sink

    @contextmanager
    def limited(self, *, deadline_ms: int | None = None, statement_ms: int | None = None) -> Iterator[None]:
        """Limit how long a server may keep this thread waiting inside the block; a file needs no limit.

        What is not done in time fails as it does when the connection breaks, and is not begun again.

        Args:
            deadline_ms: For all of the block, waits for a connection included: what must be written in time, such as
                the renewal of a lease, fails in time. An outer block's deadline holds as well.
            statement_ms: For each answer; None for what is usual.
        """
        with self._deadlines.limited(deadline_ms, statement_ms):
            yield

    @contextmanager
    def read(self, *, much: bool = False) -> Iterator[Connection]:
        """Give a connection for reading; one consistent view on SQLite, read committed elsewhere.

        Args:
            much: What is read fills the connection's cache. On SQLite it is emptied then: with writers at work no one
                reads these pages there again, but they would be held until the connection's next turn.

        Raises:
            DatabaseUnreachableError: There is no connection, or it broke.
            DatabaseRefusedError: The server lets us in no more.
        """
        with self._use(write=False) as conn:
            yield conn
            if much and self.backend == "sqlite":
                conn.exec_driver_sql("PRAGMA shrink_memory")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection inside a writing transaction; commit at the end, roll back on any error.

        Not retried: use :meth:`transaction` where other writers may lock the same rows.

        Raises:
            ConnectionLostError: The connection broke before COMMIT; nothing is written.
            CommitUnknownError: It broke at COMMIT.
            DatabaseUnreachableError: There is no connection.
            DatabaseRefusedError: The server is read-only, its disk is full, or it lets us in no more.
        """
        with self._write_lock or nullcontext(), self._use(write=True) as conn:
            yield conn

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a writing transaction and return its result.

        A deadlock, a serialization failure, a lock that came too late or a connection that broke before COMMIT repeats
        it, at most five times; ``work`` must therefore keep its effects inside the transaction. One that broke at
        COMMIT does not: the caller must read what became of it.

        Raises:
            RaceLostError: It lost the race five times.
            CommitUnknownError: The connection broke at COMMIT.
            DatabaseUnreachableError: There is no connection, or five broke, or the time that it had is over.
            DatabaseRefusedError: The server is read-only, its disk is full, or it lets us in no more.
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
                logger.warning(
                    "transaction lost a race (attempt %d of %d): %s", attempt, ATTEMPTS, error.orig
                )
                if attempt == ATTEMPTS or self._deadlines.is_over():
                    raise RaceLostError(
                        f"a transaction lost the race for its locks {attempt} times: {error.orig}"
                    ) from error
                time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - spreads the losers, no secret
        raise AssertionError("unreachable")

    @contextmanager
    def _use(self, *, write: bool) -> Iterator[Connection]:
        """Give a connection, and turn the driver's errors into ours."""
        phase = Phase.CONNECT
        number = next(self._uses)
        noted: list[RunChange] = []
        try:
            self._places.get(timeout=max(0.0, self._deadlines.left_s()))
        except Empty:
            raise DatabaseUnreachableError(outage.NO_PLACE) from None
        try:
            with (
                self.engine.connect().execution_options(xwheel_write=write) as conn,
                conn.begin() if write else nullcontext(),
            ):
                phase = Phase.WORK
                if write and self._sink is not None:
                    noted = changes.begin(conn)
                yield conn
                phase = Phase.COMMIT if write else Phase.WORK
        except (DBAPIError, PoolTimeout, PluginError) as error:
            # what the database refuses a plugin on our connection is no failure of the plugin
            cause = error.__cause__ if isinstance(error, PluginError) else error
            told = None
            if isinstance(cause, DBAPIError | PoolTimeout):
                told = outage.translate(cause, phase, self.engine.url)
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
        self.engine.dispose()
        self._deadlines.close()


def _connector(backend: str) -> Callable[[Any, dict[str, Any], float], Any]:
    """Return what opens connections; the other server's driver need not be installed."""
    if backend == "postgresql":
        from xwheel.storage.database import watched_psycopg

        return watched_psycopg.connect
    from xwheel.storage.database import watched_pymysql

    return watched_pymysql.connect


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
