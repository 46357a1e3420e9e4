"""A time limit for all that one call waits for."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from types import TracebackType
from typing import Any, Self


class Deadline:
    """Ends the waits of a call: when its time is over, the sockets of its connections are shut.

    A driver waits for a frozen server without end, and psycopg knows no limit of its own for that.

    Args:
        seconds: How long the call may take.
    """

    def __init__(self, seconds: float) -> None:
        self._until_s = time.monotonic() + seconds
        self._guard = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_closed = False
        self._timer = threading.Timer(seconds, self._shut)
        self._timer.daemon = True
        self._timer.name = "xwheel-log-sql-deadline"

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._guard:
            self._is_closed = True
            for twin in self._sockets:
                twin.close()
            self._sockets.clear()

    def is_over(self) -> bool:
        """Return whether the time is over."""
        return time.monotonic() >= self._until_s

    def watch(self, connection: Any) -> None:
        """Shut this connection, too, when the time is over."""
        # pymysql keeps its socket private
        number = connection.fileno() if hasattr(connection, "fileno") else connection._sock.fileno()
        with self._guard:
            if self._is_closed:
                return
            self._sockets.append(socket.socket(fileno=os.dup(number)))
        if self.is_over():
            self._shut()

    def _shut(self) -> None:
        with self._guard:
            for twin in self._sockets:
                with contextlib.suppress(OSError):  # it broke by itself
                    twin.shutdown(socket.SHUT_RDWR)
