"""A real HTTP or HTTPS server on loopback, for tests of what makes calls."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

HANDSHAKE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class WebRequest:
    """A request that a :class:`WebServer` got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


WebReply = Callable[[BaseHTTPRequestHandler, WebRequest], None]


def web_reply(status: int = 200, body: object = b"ok", headers: Mapping[str, str] | None = None) -> WebReply:
    """Return a reply that gives this answer; a body that is not bytes goes as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def reply(handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        if request.method != "HEAD":
            handler.wfile.write(data)

    return reply


class WebServer:
    """Answers each request with ``reply`` and keeps it in ``requests``; closes when its ``with`` block ends.

    Each connection has a thread of its own and carries one request. ``reply`` may be replaced at any time, and may
    wait for ``closing``; what it raises because the client has gone is ignored.

    Args:
        reply: How requests are answered.
        host: A loopback address.
        tls: For HTTPS; the names that clients ask for are kept in ``names``.
    """

    def __init__(
        self, reply: WebReply | None = None, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self.reply = reply or web_reply()
        self.requests: list[WebRequest] = []
        self.names: list[str | None] = []
        self.closing = threading.Event()
        if tls is not None:
            tls.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self._server = _Server((host, 0), _Handler)
        self._server.web = self
        self._server.tls = tls
        self.port = self._server.server_port
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def egress(self) -> dict[str, Any]:
        """The section ``[egress]`` of settings that allow calls to it."""
        return {"allow_networks": [self._server.server_address[0]], "allow_ports": [self.port]}

    def hang(self, handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        """Be a reply that does not come until the server closes."""
        del handler, request
        self.closing.wait()

    def close(self) -> None:
        """Stop listening; replies that wait for ``closing`` go on."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _answer(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        request = WebRequest(method=self.command, path=self.path, headers=dict(self.headers), body=body)
        self.server.web.requests.append(request)
        with contextlib.suppress(OSError):
            self.server.web.reply(self, request)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    web: WebServer
    tls: ssl.SSLContext | None

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(HANDSHAKE_S)
        with self.tls.wrap_socket(request, server_side=True) as safe:
            super().finish_request(safe, client_address)

    def handle_error(self, *_: object) -> None:
        pass  # a client that breaks the connection off is part of a test
