"""MariaDB's driver, whose connections note when their answers must be there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pymysql.connections import Connection  # type: ignore[import-untyped]
from pymysql.err import OperationalError  # type: ignore[import-untyped]

from xwheel.storage.database.deadline import Watched

T = TypeVar("T")

SERVER_LOST: Final = 2013
"""What the driver calls a connection that broke while it waited for an answer."""

LEAST_CONNECT_S: Final = 0.1


class WatchedPyMySQL(Watched, Connection):  # type: ignore[misc]
    """Watched in each of these methods; the driver's others call them."""

    def fileno(self) -> int:
        """Return the number of its socket, which the driver keeps private."""
        return int(self._sock.fileno())

    def lift_limits(self) -> None:
        """Take back the limits for each piece that is sent or comes: they were for the login."""
        self._read_timeout = self._write_timeout = None

    def query(self, *args: Any, **options: Any) -> Any:
        """Run a statement."""
        return self._wait(super().query, *args, **options)

    def commit(self) -> None:
        """Commit."""
        self._wait(super().commit)

    def rollback(self) -> None:
        """Roll back."""
        self._wait(super().rollback)

    def ping(self, *args: Any, **options: Any) -> None:
        """Ask whether the server is there."""
        self._wait(super().ping, *args, **options)

    def autocommit(self, value: Any) -> None:
        """Commit each statement, or not."""
        self._wait(super().autocommit, value)

    def close(self) -> None:
        """Close it, and end the watch."""
        super().close()
        self.forget()

    def _wait(self, ask: Callable[..., T], *args: Any, **options: Any) -> T:
        answer = self.answer
        if answer is None:
            return ask(*args, **options)
        answer.expect()
        try:
            return ask(*args, **options)
        except OperationalError as error:
            if answer.is_shut():
                raise OperationalError(SERVER_LOST, answer.words()) from error
            raise
        finally:
            answer.until_s = math.inf


def connect(arguments: Any, options: dict[str, Any], left_s: float) -> WatchedPyMySQL:
    """Open a connection within a time in seconds."""
    left_s = max(LEAST_CONNECT_S, left_s)
    limits = {
        name: min(float(options.get(name) or left_s), left_s)
        for name in ("connect_timeout", "read_timeout", "write_timeout")
    }
    connection = WatchedPyMySQL(*arguments, **{**options, **limits})
    connection.lift_limits()
    return connection
