"""An HTTP server before the real one: it counts requests, and answers some by itself."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit


class Request(NamedTuple):
    """What came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, bytes]
Rule = Callable[[Request], "Answer | None"]


def error(status: int, code: str, words: str = "no") -> Answer:
    """Return an answer as S3 refuses something."""
    return status, f"<Error><Code>{code}</Code><Message>{words}</Message></Error>".encode()


class Meddling:
    """Passes requests on.

    Attributes:
        url: Where it listens.
        seen: All requests.
        rule: Answers a request by itself, unless it returns None.
        drops: Names of request headers that the real server does not get to see.
        most: How many requests were there at the same time.
    """

    def __init__(self, target: str) -> None:
        self.seen: list[Request] = []
        self.rule: Rule = lambda request: None
        self.drops: frozenset[str] = frozenset()
        self.most = self._open = 0
        self._guard = threading.Lock()
        self._target = urlsplit(target).netloc
        meddling = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                meddling.serve(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815 -- the library's names

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # the client went away

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)

    def count(self, method: str, part: str = "") -> int:
        return sum(each.method == method and part in each.path for each in self.seen)

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        request = Request(handler.command, handler.path, dict(handler.headers), body)
        with self._guard:
            self.seen.append(request)
            self._open += 1
            self.most = max(self.most, self._open)
        try:
            status, data, headers = self._answer(request)
        finally:
            with self._guard:
                self._open -= 1
        handler.send_response(status)
        for name, value in headers.items():
            if name.lower() not in {"connection", "content-length", "date", "server", "transfer-encoding"}:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _answer(self, request: Request) -> tuple[int, bytes, dict[str, str]]:
        own = self.rule(request)
        if own is not None:
            return own[0], own[1], {"Content-Type": "application/xml"}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in self.drops}
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            connection.request(request.method, request.path, request.body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.headers)
        finally:
            connection.close()
