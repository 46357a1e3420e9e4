"""A real HTTP or HTTPS server on a loopback address that answers as a test says and keeps what it got."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Reply = Callable[[BaseHTTPRequestHandler, Seen], None]


@dataclass
class Web:
    """The server."""

    host: str
    port: int
    scheme: str
    seen: list[Seen] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    freed: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def say(
    status: int = 200, body: bytes = b"ok", headers: Mapping[str, str] | None = None
) -> Callable[[BaseHTTPRequestHandler, Seen], None]:
    """Return what gives this answer."""

    def reply(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if seen.method != "HEAD":
            handler.wfile.write(body)

    return reply


@contextmanager
def serving(reply: Reply, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[Web]:
    """Run a server; ``reply`` may wait for ``freed``, which is set at the end."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.close_connection = True
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            seen = Seen(method=self.command, path=self.path, headers=dict(self.headers), body=body)
            web.seen.append(seen)
            with contextlib.suppress(OSError):  # the client has gone, as some tests want
                reply(self, seen)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = answer  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that breaks TLS off is part of a test

        def finish_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
            if tls is None:
                super().finish_request(request, client_address)
                return
            request.settimeout(30)
            with tls.wrap_socket(request, server_side=True) as safe:
                super().finish_request(safe, client_address)

    server = Server((host, 0), Handler)
    web = Web(host, server.server_port, "https" if tls else "http")
    if tls is not None:
        tls.sni_callback = lambda _socket, name, _context: web.names.append(name)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.freed.set()
        server.shutdown()
        thread.join()
        server.server_close()
