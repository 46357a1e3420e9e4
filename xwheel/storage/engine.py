"""Connections and transactions, the same for every database."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from xwheel.errors import ConfigError, StorageError
from xwheel.plugin.contracts import RunChange
from xwheel.storage import address, changes, outage
from xwheel.storage.outage import CommitUnknownError, ConnectionLostError, Phase, is_retryable

__all__ = ["CommitUnknownError", "Connection", "ConnectionLostError", "Database", "FairLock", "is_retryable"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 5
BUSY_TIMEOUT_S = 5


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

    Raises:
        ConfigError: The URL cannot be understood or its driver is missing.
    """

    def __init__(self, url: str, *, pool_size: int = 8) -> None:
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
                options |= {"isolation_level": "READ COMMITTED"}
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
        self._write_lock: FairLock | None = None
        self._sink: Callable[[Sequence[RunChange]], None] | None = None
        if self.backend == "sqlite":
            self._write_lock = FairLock()
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        else:
            outage.watch(self.engine)

    def listen(self, sink: Callable[[Sequence[RunChange]], None] | None) -> None:
        """Hand the changes of runs that a transaction notes to ``sink`` once it is committed; None for nobody.

        Called by the thread that wrote them, on SQLite before the next one writes: so it must be quick.
        """
        self._sink = sink

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading; one consistent view on SQLite, read committed elsewhere.

        Raises:
            DatabaseUnreachableError: There is no connection, or it broke.
            DatabaseRefusedError: The server lets us in no more.
        """
        with self._use(write=False) as conn:
            yield conn

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
            StorageError: It lost the race five times.
            CommitUnknownError: The connection broke at COMMIT.
            DatabaseUnreachableError: There is no connection, or five broke.
            DatabaseRefusedError: The server is read-only, its disk is full, or it lets us in no more.
        """
        for attempt in range(1, ATTEMPTS + 1):
            self.retries += attempt > 1
            try:
                with self.write() as conn:
                    return work(conn)
            except ConnectionLostError as error:
                if attempt == ATTEMPTS:
                    raise
                logger.info("a transaction is done again (attempt %d of %d): %s", attempt, ATTEMPTS, error)
            except DBAPIError as error:
                if not is_retryable(error):
                    raise
                self.deadlocks += 1
                logger.warning(
                    "transaction lost a race (attempt %d of %d): %s", attempt, ATTEMPTS, error.orig
                )
                if attempt == ATTEMPTS:
                    raise StorageError(
                        f"a transaction lost the race for its locks {ATTEMPTS} times: {error.orig}"
                    ) from error
                time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - spreads the losers, no secret
        raise AssertionError("unreachable")

    @contextmanager
    def _use(self, *, write: bool) -> Iterator[Connection]:
        """Give a connection, and say in our words what its failure means."""
        phase = Phase.CONNECT
        noted: list[RunChange] = []
        try:
            with (
                self.engine.connect().execution_options(xwheel_write=write) as conn,
                conn.begin() if write else nullcontext(),
            ):
                phase = Phase.WORK
                if write and self._sink is not None:
                    noted = changes.begin(conn)
                yield conn
                phase = Phase.COMMIT
        except (DBAPIError, PoolTimeout) as error:
            told = outage.translate(error, phase, self.engine.url)
            if told is None:
                raise
            self.broken += isinstance(told, ConnectionLostError | CommitUnknownError)
            raise told from error
        if noted and self._sink is not None:
            self._sink(noted)
            noted.clear()  # the pooled connection still knows the list

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin by itself: we do, immediately
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=OFF",
        "temp_store=MEMORY",
        "cache_size=-32768",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(conn: Connection) -> None:
    conn.exec_driver_sql("BEGIN IMMEDIATE" if conn.get_execution_options().get("xwheel_write") else "BEGIN")
