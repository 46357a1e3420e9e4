"""What a driver's or the system's error about a database means, in one line that says what helps."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Final

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from xwheel.errors import (
    ConfigError,
    DatabaseReadOnlyError,
    DatabaseRefusedError,
    DatabaseUnreachableError,
    XwheelError,
)
from xwheel.storage.database.address import hide, place_of
from xwheel.storage.schema.tables import MARIADB_COLLATION

OVERDUE: Final = "no answer within"
"""Begins the message about a connection that was shut because its server was silent."""

RIGHTS: Final = "SELECT, INSERT, UPDATE, DELETE"
NOWHERE: Final = URL.create("mysql")


class Fault(Enum):
    """What went wrong, whatever the driver calls it, and the message about it, with the facts of :func:`_sentence`."""

    OPTION = "database.url: {said}: take it out of the query"
    LOGIN = "the database at {place} does not know this user or password ({said}): correct database.url or the user"
    ENTRY = "the database at {place} does not let us in: {said}"
    DATABASE = "the database {name} does not exist at {place}: {create}"
    RIGHT = "the database at {place} does not allow this ({said}): {grant}"
    READ_ONLY = "the database at {place} is read-only, as a replica is ({said}): name the primary, or make it writable"
    STATEMENT_LOG = (
        "the database at {place} logs statements, which READ COMMITTED forbids: set binlog_format to MIXED or ROW"
    )
    FULL = "the disk of the database at {place} is full ({said}): make room"
    ENGINE = "the database at {place} has no InnoDB ({said}): enable it"
    COLLATION = "the database at {place} lacks the collation of our tables ({said}): a newer server is needed"
    CONNECTIONS = "the database at {place} has no connection left ({said}): raise its limit or lower database.pool_size"
    NAME = "the name {host} does not resolve: correct database.url or the name service"
    NO_LISTENER = "nothing listens at {place}: start the database server, or correct database.url"
    SILENCE = "no answer from {place}: correct database.url, or check the network and firewalls"
    HUNG = "the database at {place} hangs ({said}): check it, or raise database.statement_timeout_s"
    AWAY = "the database at {place} is not reachable now: {said}"
    FILE_CLOSED = "the file {place} cannot be opened: {why}"
    FILE_FOREIGN = "the file {place} is no SQLite database: name another one"
    FILE_READ_ONLY = "the file {place} is read-only: this user must be able to write to it and its folder"
    FILE_DAMAGED = "the file {place} is damaged ({said}): restore a backup"
    FILE_IO = "the file {place} cannot be read or written ({said}): is the disk full, the folder on a network share?"
    FILE_LOCKED = "the file {place} is locked by another process ({said}): stop that one, or try again"

    @property
    def error(self) -> type[XwheelError]:
        """The error that stands for it."""
        if self is Fault.OPTION:
            return ConfigError
        if self is Fault.READ_ONLY:
            return DatabaseReadOnlyError
        return DatabaseUnreachableError if self.is_passing else DatabaseRefusedError

    @property
    def is_passing(self) -> bool:
        """Whether it may pass by itself."""
        return self.name in PASSING


PASSING: Final = ("CONNECTIONS", "NAME", "NO_LISTENER", "SILENCE", "HUNG", "AWAY", "FILE_LOCKED")
"""Faults that may pass by themselves; a person must act for the others."""

MARIADB: Final = {
    **dict.fromkeys((1045, 1251, 1524, 1698, 2059), Fault.LOGIN),
    # blocked, not from this host, password expired, account locked, TLS
    **dict.fromkeys((1129, 1130, 1820, 1862, 2026, 3118, 4151), Fault.ENTRY),
    1049: Fault.DATABASE,
    **dict.fromkeys((1044, 1142, 1143, 1227, 1370), Fault.RIGHT),
    **dict.fromkeys((1290, 1792, 1836, 3100), Fault.READ_ONLY),
    1665: Fault.STATEMENT_LOG,
    **dict.fromkeys((1021, 1114), Fault.FULL),
    1286: Fault.ENGINE,
    **dict.fromkeys((1115, 1273), Fault.COLLATION),
    **dict.fromkeys((1040, 1203, 1226), Fault.CONNECTIONS),
    # closed by us, shutting down, aborted; a member of a Galera cluster that has no quorum, or is joining
    **dict.fromkeys((0, 1047, 1053, 1077, 1080, 1152, 1159, 1161), Fault.AWAY),
}
CLIENT_ERRORS, SERVER_AGAIN = 2000, 3000
POSTGRESQL: Final = {
    "28P01": Fault.LOGIN,
    "28000": Fault.ENTRY,
    "3D000": Fault.DATABASE,
    "42501": Fault.RIGHT,
    "25006": Fault.READ_ONLY,
    "53100": Fault.FULL,
    "53300": Fault.CONNECTIONS,
}
# its driver has no code for a connection that is refused, only the server's words, English or not
PHRASES: Final = (
    (r"invalid connection option|invalid URI query parameter|invalid \w+ value", Fault.OPTION),
    (r"authentication failed|no password supplied|role .* does not exist", Fault.LOGIN),
    (r"database .* does not exist", Fault.DATABASE),
    (r"pg_hba\.conf|not permitted to log in|SSL", Fault.ENTRY),
    (r"permission denied", Fault.RIGHT),
    (r"session is read-only|server is in hot standby mode", Fault.READ_ONLY),
    (r"too many clients|connection slots|too many connections", Fault.CONNECTIONS),
    (r"resolve host|translate host name", Fault.NAME),
    (r"Connection refused|No such file or directory", Fault.NO_LISTENER),
    (OVERDUE, Fault.HUNG),
    (r"timeout expired|timed out", Fault.SILENCE),
    # what the first connection to a database writes
    (r"No space left on device|could not write init file", Fault.FULL),
)
SQLITE: Final = {
    "CANTOPEN": Fault.FILE_CLOSED,
    "NOTADB": Fault.FILE_FOREIGN,
    "READONLY": Fault.FILE_READ_ONLY,
    "PERM": Fault.FILE_READ_ONLY,
    "FULL": Fault.FULL,
    "CORRUPT": Fault.FILE_DAMAGED,
    "IOERR": Fault.FILE_IO,
    "BUSY": Fault.FILE_LOCKED,
    "LOCKED": Fault.FILE_LOCKED,
}


def explain(error: BaseException, url: URL | None = None, *, connecting: bool = False) -> XwheelError | None:
    """Return what a driver's error means; None if it is none that an operator can do something about.

    ``connecting`` says that no statement was sent yet, so that any failure is one of the connection.
    """
    if isinstance(error, TypeError) and str(error).startswith("Connection.__init__() got an unexpected"):
        return ConfigError(
            f"database.url: the driver knows no option {str(error).split()[-1]}: take it out of the query"
        )
    if isinstance(error, RuntimeError) and "'cryptography' package is required" in str(error):
        return ConfigError("database.url: this user's kind of password needs the package cryptography: install it")
    if not isinstance(error, DBAPIError) or error.orig is None:
        return None
    kind = fault_of(error.orig)
    if kind is None and connecting:
        kind = Fault.AWAY
    if kind is None:
        return None
    if tried := getattr(error.orig, "tried", None):
        words = "; ".join(f"{place}: {_words(failure)}" for place, failure in tried.items())
        return kind.error(hide(url or NOWHERE, f"none of the database's servers takes us: {words}"))
    return _sentence(kind, _words(error.orig), url)


@contextmanager
def explained(url: URL, *, connecting: bool = False) -> Iterator[None]:
    """Turn drivers' errors that leave the block into xwheel's, where they mean something to an operator."""
    try:
        yield
    except Exception as error:
        # what comes from a connection that broke is no mistake of ours
        is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
        told = explain(error, url, connecting=connecting or is_lost)
        if told is None:
            raise
        raise told from error


def fault_of(origin: BaseException) -> Fault | None:
    """Return what a driver's own error means; None if it says nothing that is known here."""
    match type(origin).__module__.partition(".")[0]:
        case "pymysql":
            return _kind_of_mariadb(origin)
        case "psycopg":
            if "statement pooling mode" in str(origin):  # PgBouncer's, whose state says that the connection broke
                return Fault.ENTRY
            if state := getattr(origin, "sqlstate", None):
                return POSTGRESQL.get(state) or (Fault.AWAY if state.startswith(("08", "57P")) else None)
            found = next((kind for pattern, kind in PHRASES if re.search(pattern, str(origin))), None)
            return found or (Fault.AWAY if "OperationalError" in type(origin).__name__ else None)
        case "sqlite3":
            name = getattr(origin, "sqlite_errorname", None) or ""
            return SQLITE.get(name.removeprefix("SQLITE_").partition("_")[0])
        case _:
            return None


def _kind_of_mariadb(origin: BaseException) -> Fault | None:
    number = number_of(origin)
    is_clients = CLIENT_ERRORS <= number < SERVER_AGAIN
    if f"rrcode: {errno.ENOSPC} " in str(origin) or f"error {errno.ENOSPC} " in str(origin):
        return Fault.FULL
    match getattr(origin, "original_exception", None):
        case socket.gaierror():
            return Fault.NAME
        case ConnectionRefusedError() | FileNotFoundError():
            return Fault.NO_LISTENER
        case TimeoutError():
            return Fault.SILENCE
    if is_clients and (OVERDUE in str(origin) or "timed out" in str(origin)):
        return Fault.HUNG if OVERDUE in str(origin) else Fault.SILENCE
    # what the client says of itself: gone, lost
    return MARIADB.get(number) or (Fault.AWAY if is_clients else None)


def number_of(origin: BaseException | None) -> int:
    """Return MariaDB's number of an error; -1 where there is none."""
    arguments = getattr(origin, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else -1


def _words(origin: BaseException) -> str:
    """Return what the driver says, without number, place and severity."""
    if len(origin.args) > 1:
        return str(origin.args[1])
    return str(origin).rpartition(" failed: ")[2].removeprefix("FATAL:").strip()


def _sentence(kind: Fault, said: str, url: URL | None) -> XwheelError:
    place = "its address" if url is None else place_of(url)
    url = url or NOWHERE
    name = _name(url)
    if url.get_backend_name() == "postgresql":
        create = f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0"
        grant = f"a node needs {RIGHTS} on all tables, 'xwheel db upgrade' must own the database"
    else:
        create = f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE {MARIADB_COLLATION}"
        grant = f"a node needs GRANT {RIGHTS} ON {name}.*, 'xwheel db upgrade' ALL PRIVILEGES"
    facts = {
        "place": place,
        "host": place.rpartition(":")[0] or place,
        "said": said,
        "name": name,
        "create": create,
        "grant": grant,
        "why": _why_closed(url),
    }
    return kind.error(hide(url, kind.value.format(**facts)))


def _name(url: URL) -> str:
    name = url.database
    if not name or re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        return name or "DATABASE"
    mark = '"' if url.get_backend_name() == "postgresql" else "`"
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def _why_closed(url: URL) -> str:
    if url.get_backend_name() != "sqlite" or not url.database:
        return "check its folder"
    path = Path(url.database).absolute()
    folder = path.parent
    reasons = {
        "it is a folder": path.is_dir(),
        f"make the folder {folder} first": not folder.exists(),
        f"{folder} is no folder": not folder.is_dir(),
        f"this user may not write to the folder {folder}": not os.access(folder, os.W_OK | os.X_OK),
        "this user may not read and write it": path.exists() and not os.access(path, os.R_OK | os.W_OK),
    }
    found = (reason for reason, is_so in reasons.items() if is_so)
    return next(found, "check the rights and the disk of its folder")
