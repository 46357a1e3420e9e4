"""MariaDB's driver, whose connections note when their answers must be there."""

from __future__ import annotations

from functools import cache
from ssl import SSLContext
from typing import Any, Final

from pymysql.connections import Connection  # type: ignore[import-untyped]
from pymysql.constants import ER, SERVER_STATUS  # type: ignore[import-untyped]
from pymysql.err import OperationalError  # type: ignore[import-untyped]

from xwheel.storage.database.address import MUST_WRITE
from xwheel.storage.database.deadline import Watched
from xwheel.storage.database.rows import SERVERS
from xwheel.storage.database.servers import Identity

WRITABLE: Final = ("0", "OFF")
SERVER_LOST: Final = 2013
LEAST_CONNECT_S: Final = 0.1
# the backslash first: the others bring new ones
ESCAPED: Final = (
    ("\\", "\\\\"), ("\0", "\\0"), ("\n", "\\n"), ("\r", "\\r"), ("\x1a", "\\Z"), ('"', '\\"'), ("'", "\\'"),
)  # fmt: skip
"""What the driver writes for characters of a text."""


class WatchedPyMySQL(Watched, Connection):  # type: ignore[misc]
    """Watched in each of these methods; the driver's others call them."""

    failure = OperationalError
    number = (SERVER_LOST,)

    def query(self, *args: Any, **options: Any) -> Any:
        """Run a statement."""
        return self.awaited(super().query, *args, **options)

    def commit(self) -> None:
        """Commit."""
        self.awaited(super().commit)

    def rollback(self) -> None:
        """Roll back."""
        self.awaited(super().rollback)

    def ping(self, *args: Any, **options: Any) -> None:
        """Ask whether the server is there."""
        self.awaited(super().ping, *args, **options)

    def autocommit(self, value: Any) -> None:
        """Commit each statement, or not."""
        self.awaited(super().autocommit, value)

    def escape(self, obj: Any, mapping: Any = None) -> str:
        """Return a value as a statement has it: texts as the driver writes them, in a seventh of the time."""
        if type(obj) is not str or self.server_status & SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES:
            return str(super().escape(obj, mapping))
        for plain, escaped in ESCAPED:
            obj = obj.replace(plain, escaped)
        return f"'{obj}'"

    def _create_ssl_ctx(self, sslp: Any) -> SSLContext:
        """Return what TLS needs: one for all connections that name no certificates, since it takes 20 ms to make."""
        made: SSLContext = _without_certificates() if sslp == {} else super()._create_ssl_ctx(sslp)
        return made

    def fileno(self) -> int:
        """Return the number of its socket, which the driver keeps private."""
        return int(self._sock.fileno())


@cache
def _without_certificates() -> SSLContext:
    made: SSLContext = Connection(defer_connect=True).ctx
    return made


def refusal(why: str) -> Exception:
    """Return the error of a server that is not to be written to."""
    error: Exception = OperationalError(ER.OPTION_PREVENTS_STATEMENT, why)
    return error


def identify(connection: WatchedPyMySQL) -> Identity:
    """Ask a server that takes writes what it is; raises the driver's error for a member that takes none now."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_state_uuid', 'wsrep_ready')")
        told = dict(cursor.fetchall())
        cluster = told.get("wsrep_cluster_state_uuid")
        if cluster and told.get("wsrep_ready") != "ON":  # one that joins names no cluster, or another
            raise OperationalError(ER.UNKNOWN_COM_ERROR, "the member of a Galera cluster is not ready")
        cursor.execute(SERVERS["mysql"])
        return Identity(cluster or cursor.fetchone()[0])


def connect(arguments: Any, options: dict[str, Any], left_s: float) -> WatchedPyMySQL:
    """Open a connection within a time in seconds; with ``must_write`` among the options, none to a read-only server."""
    options = dict(options)
    must_write = options.pop(MUST_WRITE, False)
    left_s = max(LEAST_CONNECT_S, left_s)
    names = ("connect_timeout", "read_timeout", "write_timeout")
    limits = {name: min(float(options.get(name) or left_s), left_s) for name in names}
    connection = WatchedPyMySQL(*arguments, **{**options, **limits})
    if must_write:
        try:
            _refuse_read_only(connection)
        except BaseException:
            connection.close()
            raise
    # for each piece that is sent or comes they were limits of the login
    connection._read_timeout = connection._write_timeout = None
    return connection


def _refuse_read_only(connection: WatchedPyMySQL) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@global.read_only")
        if str(cursor.fetchone()[0]).upper() not in WRITABLE:
            raise refusal("it is read-only")
