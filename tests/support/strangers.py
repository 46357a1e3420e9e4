"""Callers who hold connections and give or take nothing: half requests, and readers who do not read."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator

SMALL_WINDOW = 4096


def connect(port: int, source: str = "127.0.0.2", *, window: int = 0) -> socket.socket:
    """Connect to a local port from one of the loopback addresses."""
    peer = socket.socket()
    try:
        if window:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        peer.bind((source, 0))
        peer.settimeout(10)
        peer.connect(("127.0.0.1", port))
    except BaseException:
        peer.close()
        raise
    return peer


def is_closed(peer: socket.socket) -> bool:
    """Return whether the server has closed the connection; whatever it sent stays where it is."""
    ready, _, _ = select.select([peer], [], [], 0)
    if not ready:
        return False
    try:
        return peer.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


class Strangers:
    """Connections that a test holds, closed at its end.

    Args:
        port: Where to.
        source: From which loopback address.
    """

    def __init__(self, port: int, source: str = "127.0.0.2") -> None:
        self._port = port
        self._source = source
        self.halves: list[socket.socket] = []
        self.readers: list[socket.socket] = []

    def half(self, number: int, head: bytes = b"POST /api/callback HTTP/1.1\r\nHost: h\r\n") -> None:
        """Send the beginning of a request over each of so many connections."""
        for _ in range(number):
            with contextlib.suppress(OSError):
                peer = connect(self._port, self._source)
                self.halves.append(peer)
                peer.sendall(head)

    def read_nothing(self, number: int, request: bytes, pipelined: int = 1) -> None:
        """Ask over each of so many connections, again and again, and read no answer."""
        for _ in range(number):
            with contextlib.suppress(OSError):
                peer = connect(self._port, self._source, window=SMALL_WINDOW)
                self.readers.append(peer)
                peer.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    peer.send(request * pipelined)

    def drip(self) -> int:
        """Send a further byte of every half request, replace what was closed, and return how many were."""
        gone = [peer for peer in self.halves if is_closed(peer)]
        for peer in gone:
            self.halves.remove(peer)
            peer.close()
        for peer in self.halves:
            with contextlib.suppress(OSError):
                peer.send(b"x")
        self.half(len(gone))
        return len(gone)

    def close(self) -> None:
        """Close all connections."""
        for peer in [*self.halves, *self.readers]:
            peer.close()


@contextlib.contextmanager
def strangers(port: int, source: str = "127.0.0.2") -> Iterator[Strangers]:
    """Return strangers, who leave at the end."""
    made = Strangers(port, source)
    try:
        yield made
    finally:
        made.close()
