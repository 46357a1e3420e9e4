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
    poll = select.poll()
    poll.register(peer, select.POLLRDHUP)
    return bool(poll.poll(0))


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
        """Send the beginning of a request over each of this many connections."""
        for _ in range(number):
            with contextlib.suppress(OSError):
                peer = connect(self._port, self._source)
                self.halves.append(peer)
                peer.sendall(head)

    def read_nothing(self, number: int, request: bytes, pipelined: int = 1) -> None:
        """Ask over each of this many connections, again and again, and read no answer."""
        for _ in range(number):
            with contextlib.suppress(OSError):
                peer = connect(self._port, self._source, window=SMALL_WINDOW)
                self.readers.append(peer)
                peer.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    peer.send(request * pipelined)

    def persist(self, reading: bytes, pipelined: int) -> int:
        """Send a further byte of every half request, open again what was closed, and return how much that was."""
        halves = _leave_closed(self.halves)
        for peer in self.halves:
            with contextlib.suppress(OSError):
                peer.send(b"x", socket.MSG_DONTWAIT)
        self.half(halves)
        readers = _leave_closed(self.readers)
        self.read_nothing(readers, reading, pipelined)
        return halves + readers

    def close(self) -> None:
        """Close all connections."""
        for peer in [*self.halves, *self.readers]:
            peer.close()


def _leave_closed(peers: list[socket.socket]) -> int:
    """Take out what the server has closed; return how many they were."""
    gone = [peer for peer in peers if is_closed(peer)]
    for peer in gone:
        peers.remove(peer)
        peer.close()
    return len(gone)


@contextlib.contextmanager
def strangers(port: int, source: str = "127.0.0.2") -> Iterator[Strangers]:
    """Return strangers, who leave at the end."""
    made = Strangers(port, source)
    try:
        yield made
    finally:
        made.close()
