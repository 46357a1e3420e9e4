"""A TCP proxy between a node and its database that cuts connections where it is told, COMMIT above all."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import threading
from collections.abc import Iterator
from enum import Enum

from sqlalchemy import make_url

# whole statements only, in either protocol: BEGIN names READ COMMITTED
COMMIT = re.compile(rb"COMMIT(\x00|$)")
BUFFER = 65_536


class Cut(Enum):
    """Where the connection breaks.

    BEFORE: the server never sees the COMMIT. AFTER: it does, and its answer is lost.
    """

    BEFORE = "before"
    AFTER = "after"


class CuttingProxy:
    """Passes bytes on, and breaks connections when armed.

    Thread-safety: armed by the test, read by the threads of the connections.

    Args:
        host: Where the database is.
        port: Its port.
    """

    def __init__(self, host: str, port: int) -> None:
        self.cuts = 0
        self._where = (host, port)
        self._at_commit: Cut | None = None
        self._share = 0.0
        self._dice = random.Random(0)
        self._guard = threading.Lock()
        self._is_mute = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next_commit(self, where: Cut) -> None:
        """Break the connection at the next COMMIT, once."""
        with self._guard:
            self._at_commit = where

    def cut_at_random(self, share: float, seed: int = 0) -> None:
        """Break connections at this share of the client's messages, COMMIT or not; 0 ends it."""
        with self._guard:
            self._share, self._dice = share, random.Random(seed)

    def mute(self) -> None:
        """Take what is said, and new connections too, and deliver nothing: the peer is half-open."""
        self._is_mute = True

    def speak(self) -> None:
        """Serve again; a connection of which something got lost stays mute for ever."""
        self._is_mute = False

    def close(self) -> None:
        """Break everything and listen no more."""
        self._listener.close()
        for item in list(self._open):
            _break(item)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._where)
                self._open.update((client, server))
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        deaf = threading.Event()
        back = threading.Thread(target=self._answer, args=(client, server, deaf), daemon=True)
        back.start()
        is_lost = False
        with contextlib.suppress(OSError):
            while said := client.recv(BUFFER):
                is_lost = is_lost or self._is_mute
                if is_lost:
                    continue
                where = self._decide(said)
                if where is Cut.BEFORE:
                    break
                if where is Cut.AFTER:
                    deaf.set()  # the server's answer ends the connection instead
                server.sendall(said)
        if not deaf.is_set():
            _break(server)
            _break(client)
        back.join()
        self._open.difference_update((client, server))

    def _answer(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        with contextlib.suppress(OSError):
            is_lost = False
            while said := server.recv(BUFFER):
                if deaf.is_set():
                    break
                is_lost = is_lost or self._is_mute
                if is_lost:
                    continue
                client.sendall(said)
        _break(client)
        _break(server)

    def _decide(self, said: bytes) -> Cut | None:
        with self._guard:
            if COMMIT.search(said) and self._at_commit is not None:
                where, self._at_commit = self._at_commit, None
            elif self._share and self._dice.random() < self._share:
                where = self._dice.choice([Cut.BEFORE, Cut.AFTER])
            else:
                return None
            self.cuts += 1
            return where


@contextlib.contextmanager
def cutting(url: str) -> Iterator[tuple[str, CuttingProxy]]:
    """Put a proxy before a database; give the URL through it, and the proxy."""
    real = make_url(url)
    proxy = CuttingProxy(str(real.host), int(real.port or 0))
    try:
        yield real.set(port=proxy.port).render_as_string(hide_password=False), proxy
    finally:
        proxy.close()


def _break(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
