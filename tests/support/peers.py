"""Small TCP peers that answer, stall or hang up, for tests of HTTP clients."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

OK_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n{"code":200}'


def answer(status: str, body: bytes = b'{"code":200}', extra: str = "") -> bytes:
    """Return a complete HTTP answer."""
    return f"HTTP/1.1 {status}\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Peer:
    """Accepts connections and lets ``script(connection number, request number)`` choose each answer.

    ``None`` closes the connection without an answer; ``b""`` leaves it hanging until the peer stops.
    """

    def __init__(self, script: Callable[[int, int], bytes | None]) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._script = script
        self._stop = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def stop_listening(self) -> None:
        """Refuse further connections; open ones go on."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def close(self) -> None:
        self.stop_listening()
        self._threads[0].join(5)  # what it takes last must be among the open ones
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        count = 0
        data = b""
        while True:
            try:
                got = connection.recv(65536)
            except OSError:
                return
            if not got:
                return
            data += got
            head, separator, rest = data.partition(b"\r\n\r\n")
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                ),
                0,
            )
            if not separator or len(rest) < length:
                continue
            data = b""
            count += 1
            self.requests.append(head + separator + rest)
            chosen = self._script(number, count)
            if chosen is None:
                connection.shutdown(socket.SHUT_RDWR)
                return
            if chosen:
                with contextlib.suppress(OSError):  # the client may have enough of it
                    connection.sendall(chosen)
