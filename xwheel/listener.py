"""Serve a WSGI application under waitress, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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
        """Stop listening and let running requests end."""
        self._server.trigger.pull_trigger(self._server.close)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        self._server.task_dispatcher.shutdown()
