"""Connections and transactions, the same for every database."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError

from xwheel.errors import ConfigError, StorageError
from xwheel.storage import address

__all__ = ["Connection", "Database", "FairLock", "is_retryable"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 5
BUSY_TIMEOUT_S = 5
# SQLSTATE of PostgreSQL, error numbers of MariaDB, words of SQLite: worth another try
RETRYABLE_STATES = frozenset({"40001", "40P01"})
RETRYABLE_NUMBERS = frozenset({1205, 1213})
RETRYABLE_WORDS = ("database is locked", "database table is locked")


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
    """One database: readers, writers, and the retry of transactions that lost a race.

    READ COMMITTED everywhere. On SQLite every writer begins immediately, behind one fair lock of this process, so
    a writer never fails half-way with "locked".

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
        self._write_lock: FairLock | None = None
        if self.backend == "sqlite":
            self._write_lock = FairLock()
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading; one consistent view on SQLite, read committed elsewhere."""
        with self.engine.connect() as conn:
            yield conn

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection inside a writing transaction; commit at the end, roll back on any error.

        Not retried: use :meth:`transaction` where other writers may lock the same rows.
        """
        if self._write_lock is None:
            with self.engine.begin() as conn:
                yield conn
            return
        with (
            self._write_lock,
            self.engine.connect().execution_options(xwheel_write=True) as conn,
            conn.begin(),
        ):
            yield conn

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a writing transaction and return its result.

        A deadlock or serialization failure repeats it, at most five times; ``work`` must therefore keep its effects
        inside the transaction.

        Raises:
            StorageError: It lost the race five times.
        """
        for attempt in range(ATTEMPTS):
            try:
                with self.write() as conn:
                    return work(conn)
            except DBAPIError as error:
                if not is_retryable(error):
                    raise
                self.deadlocks += 1
                logger.warning(
                    "transaction lost a race (attempt %d of %d): %s", attempt + 1, ATTEMPTS, error.orig
                )
                last = error
                time.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311 - spreads the losers, no secret
        raise StorageError(
            f"a transaction lost the race for its locks {ATTEMPTS} times: {last.orig}"
        ) from last

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def is_retryable(error: DBAPIError) -> bool:
    """Tell whether the transaction failed only because another one was faster."""
    origin = error.orig
    if getattr(origin, "sqlstate", None) in RETRYABLE_STATES:
        return True
    arguments = getattr(origin, "args", ())
    if arguments and arguments[0] in RETRYABLE_NUMBERS:
        return True
    return isinstance(error, OperationalError) and any(word in str(origin) for word in RETRYABLE_WORDS)


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
