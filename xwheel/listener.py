"""Serve a WSGI application under waitress, in a thread of its own."""

from __future__ import annotations

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
        try:
            server: Any = create_server(
                app,
                host=host,
                port=port,
                threads=threads,
                ident="xwheel",
                max_request_body_size=max_body_bytes,
                channel_timeout=90,
                clear_untrusted_proxy_headers=True,
            )
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        if not hasattr(server, "trigger"):
            server.close()
            raise ConfigError(f"{host} stands for several addresses: name one")
        self._server = server
        self.host = host
        self.port = int(server.effective_port)
        self._thread = threading.Thread(target=self._server.run, name=f"xwheel-{name}", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

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
