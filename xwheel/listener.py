"""Serve a WSGI application under waitress, in a thread of its own."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from waitress import wasyncore
from waitress.server import create_server

from xwheel.errors import ConfigError


class Listener:
    """One listening socket with its worker threads.

    Args:
        name: Thread name, ``xwheel-`` is put before it.
        app: The WSGI application.
        host: Bind address.
        port: Port; 0 takes a free one.
        threads: Worker threads.
        max_body_bytes: The server refuses larger bodies before the application sees them.

    Raises:
        ConfigError: The address cannot be bound.
    """

    def __init__(
        self, name: str, app: Callable[..., Any], *, host: str, port: int, threads: int, max_body_bytes: int
    ) -> None:
        # bound here: waitress leaks a socket that it cannot bind
        bound = _bind(host, port)
        server: Any = create_server(
            app,
            sockets=[bound],
            threads=threads,
            ident="xwheel",
            max_request_body_size=max_body_bytes,
            channel_timeout=90,
            asyncore_use_poll=True,  # select stops at 1024 descriptors
            clear_untrusted_proxy_headers=True,
        )
        self._server = server
        self.host = host
        self.port = int(bound.getsockname()[1])
        self._thread = threading.Thread(target=self._server.run, name=f"xwheel-{name}", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        # requests that wait for a thread are what the queue is for, and no warning
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._thread.start()

    def disown(self) -> None:
        """Close this process's copy of the socket after a fork; the parent goes on listening."""
        self._server.socket.close()

    def stop(self, timeout_s: float = 5) -> None:
        """Take no more connections, let running requests end and their answers leave, then close all connections."""
        server = self._server
        server.accepting = False
        server.task_dispatcher.shutdown(cancel_pending=False, timeout=timeout_s)
        if self._thread.ident is None:
            server.close()
            return
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(
            channel.total_outbufs_len for channel in list(server.active_channels.values())
        ):
            time.sleep(0.005)
        # on the server's own thread: its loop ends once no socket is left
        server.trigger.pull_trigger(lambda: wasyncore.close_all(server._map))
        self._thread.join(timeout_s)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return bound
