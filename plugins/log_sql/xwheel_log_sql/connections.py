"""Transactions on one database: bounded in time, repeated after a lost race; errors hold no log and no secret."""

from __future__ import annotations

import importlib.util
import math
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from xwheel.plugin import ConfigError, SecretMask

from xwheel_log_sql.deadline import Deadline
from xwheel_log_sql.options import PLUGIN, Options, parse_url

if TYPE_CHECKING:
    from xwheel import Config

T = TypeVar("T")

ATTEMPTS: Final = 6
MODULES: Final = {"sqlite": "sqlite3", "mysql": "pymysql", "postgresql": "psycopg"}
MAX_WORDS: Final = 400
BUSY_S: Final = 5.0
PRIVATE: Final = 0o600
# PostgreSQL: serialization, deadlock, lock came too late; MariaDB: lock wait, deadlock; SQLite says it in words
LOST_RACES: Final = frozenset({"40001", "40P01", "55P03", 1205, 1213})
LOCKED: Final = "database is locked"
LOCK_SHARE: Final = 2 / 3
IDLE_S: Final = 10
"""After how long a server ends the transaction of a process that stands still: it keeps no locks of a log."""

SQL_MODE: Final = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


class LogSqlError(Exception):
    """The database did not do what it was asked; the message names its place and the reason."""


class Connections:
    """Transactions on one database; the first one opens the first connection.

    Args:
        options: The plugin's options.
        config: The node's settings, with its own database.
    """

    def __init__(self, options: Options, config: Config) -> None:
        self._options = options
        self._database = config.database
        self._guard = threading.Lock()
        self._engine: Engine | None = None
        self._owner = 0
        self._local = threading.local()

    def check(self) -> None:
        """Refuse a database whose driver is not there.

        Raises:
            ConfigError: Names the package that has it.
        """
        backend = self._url().get_backend_name()
        if importlib.util.find_spec(MODULES[backend]) is None:
            raise ConfigError(
                f"plugins.options.{PLUGIN}.url: the driver {MODULES[backend]} is not installed: "
                f"pip install 'xwheel-log-sql[{backend}]'"
            )

    def run(self, work: Callable[[Connection], T], *, write: bool) -> T:
        """Run ``work`` in a transaction and return its result; a lost race or a broken connection repeats it.

        Whatever is repeated may have been committed before, so ``work`` must find out by itself what is there.

        Raises:
            LogSqlError: The database is away, full, too slow, or refuses it.
        """
        engine = self._get_engine()
        with Deadline(self._options.timeout_s) as deadline:
            self._local.deadline = deadline
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    with engine.connect().execution_options(log_write=write) as conn, conn.begin():
                        return work(conn)
                except (DBAPIError, PoolTimeout) as error:
                    if attempt == ATTEMPTS or deadline.is_over() or not _may_be_repeated(error):
                        raise LogSqlError(self._explain(engine.url, error, deadline)) from None
                    time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - spreads the losers, no secret
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        with self._guard:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def _url(self) -> URL:
        """Return where logs are kept, without the password that is kept apart."""
        own = self._options.url
        if own is not None:
            return parse_url(own.get_secret_value())
        several = "names several servers, and logs take one: name it in plugins.options.log_sql.url"
        try:
            url = parse_url(self._database.url)
        except ValueError as error:
            raise ConfigError(f"database.url {error}; or it {several}") from None
        if "," in (url.host or "") or not isinstance(url.query.get("host", ""), str):
            raise ConfigError(f"database.url {several}")
        if url.get_backend_name() != "sqlite":
            return url
        # a file of its own: SQLite has one writer at a time, and the scheduler's must not wait for logs
        path = Path(url.database or "")
        return url.set(database=str(path.with_name(f"{path.stem}-logs{path.suffix}")))

    def _password(self) -> str | None:
        if self._options.url is not None:
            given = self._options.password
        else:
            given = self._database.password
            path = self._database.password_file
            if given is None and path is not None:
                try:
                    return path.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
                except (OSError, UnicodeDecodeError) as error:
                    raise ConfigError(f"database.password_file: cannot read {path}: {type(error).__name__}") from None
        return None if given is None else given.get_secret_value()

    def _get_engine(self) -> Engine:
        with self._guard:
            if self._engine is None or self._owner != os.getpid():
                # what a parent process opened is the parent's: its connections are left to it
                if self._engine is not None:
                    self._engine.dispose(close=False)
                self._engine, self._owner = self._open(), os.getpid()
            return self._engine

    def _open(self) -> Engine:
        url, options = self._url(), self._options
        backend = url.get_backend_name()
        if backend != "sqlite" and not url.password and (password := self._password()):
            url = url.set(password=password)
        more: dict[str, Any] = {} if backend == "sqlite" else {"isolation_level": "READ COMMITTED"}
        engine = create_engine(
            url,
            pool_size=options.pool_size,
            max_overflow=options.pool_size,
            pool_timeout=options.connect_timeout_s,
            pool_use_lifo=True,
            hide_parameters=True,  # they are lines of logs
            connect_args=_arguments(url, options),
            **more,
        )
        if backend == "sqlite":
            event.listen(engine, "do_connect", _make_private)
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        event.listen(engine, "do_connect", self._connect)
        event.listen(engine, "connect", self._prepare)
        event.listen(engine, "checkout", lambda connection, *_: self._local.deadline.watch(connection))
        return engine

    def _connect(self, dialect: Any, _record: object, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        connection = dialect.connect(*arguments, **options)
        self._local.deadline.watch(connection)  # also what SQLAlchemy asks a new connection
        return connection

    def _prepare(self, connection: Any, _record: object) -> None:
        """Let locks and silent transactions end on the server, too."""
        lock_s = max(1, int(self._options.timeout_s * LOCK_SHARE))
        with connection.cursor() as cursor:
            if hasattr(connection, "pgconn"):
                before, connection.autocommit = connection.autocommit, True
                cursor.execute(
                    f"SELECT set_config('lock_timeout', '{lock_s}s', false),"
                    f" set_config('idle_in_transaction_session_timeout', '{IDLE_S}s', false)"
                )
                connection.autocommit = before
                return
            words = [f"innodb_lock_wait_timeout = {lock_s}"]
            if "mariadb" in connection.get_server_info().lower():  # MySQL has no such limit
                words.append(f"idle_transaction_timeout = {IDLE_S}")
            cursor.execute(f"SET SESSION {', '.join(words)}")

    def _explain(self, url: URL, error: DBAPIError | PoolTimeout, deadline: Deadline) -> str:
        if deadline.is_over():
            words = f"no answer within {self._options.timeout_s:g} s"
        elif isinstance(error, PoolTimeout):
            words = "no connection became free in time: raise pool_size"
        else:
            words = " ".join(str(error.orig).split())
        secrets = [str(url.password or "")]
        return f"the logs' database at {_place(url)}: {SecretMask(secrets).hide(words)[:MAX_WORDS]}"


def _arguments(url: URL, options: Options) -> dict[str, Any]:
    """Return the driver's options besides the URL."""
    match url.get_backend_name():
        case "sqlite":
            return {"check_same_thread": False, "timeout": min(BUSY_S, options.timeout_s / 2)}
        case "postgresql":
            return {"client_encoding": "utf8", "connect_timeout": math.ceil(options.connect_timeout_s)}
        case _:
            return {
                "connect_timeout": options.connect_timeout_s,
                # also the limit for the server's greeting
                "read_timeout": options.timeout_s,
                "write_timeout": options.timeout_s,
                "sql_mode": SQL_MODE,
                "binary_prefix": True,  # else the server reads what is compressed as text, and warns
            }


def _may_be_repeated(error: DBAPIError | PoolTimeout) -> bool:
    if isinstance(error, PoolTimeout):
        return False
    origin = error.orig
    number = origin.args[0] if origin is not None and origin.args else None
    return (
        # another node made the same row just now
        isinstance(error, IntegrityError)
        or error.connection_invalidated
        or getattr(origin, "sqlstate", None) in LOST_RACES
        or (isinstance(number, int) and number in LOST_RACES)
        or LOCKED in str(origin)
    )


def _place(url: URL) -> str:
    """Return where a database is, without user and password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    port = "" if url.port is None else f":{url.port}"
    return f"{url.host or 'localhost'}{port}/{url.database}"


def _make_private(_dialect: object, _record: object, arguments: Sequence[Any], _options: object) -> None:
    """Make the file for this user alone before the driver opens it; the files next to it get its mode."""
    path = str(arguments[0])
    if not path.startswith("file:") and not Path(path).exists():
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin by itself: we do, immediately
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "journal_size_limit=8388608"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(conn: Connection) -> None:
    conn.exec_driver_sql("BEGIN IMMEDIATE" if conn.get_execution_options().get("log_write") else "BEGIN")
