"""A scheduler of each generation, written from the protocol reference and not from our own codec.

It keeps what executors tell it and can call them. Tests wait for what it saw with :meth:`FakeAdmin.wait_for`.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

TOKEN = "a-token-for-tests-only"
APP_NAME = "demo-app"
DEADLINE_S = 60.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        admin = self.server.admin
        status, reply = admin.answer(self.path, dict(self.headers.items()), body)
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64
    admin: FakeAdmin

    def handle_error(self, *_: object) -> None:
        pass


class FakeAdmin:
    """One scheduler.

    Args:
        generation: 1 to 4 as in the reference; 0 is an xwheel scheduler.
    """

    def __init__(self, generation: int = 0, context_path: str = "") -> None:
        self.generation = generation
        self.context_path = context_path
        self.registered: list[dict[str, Any]] = []
        self.removed: list[dict[str, Any]] = []
        self.outcomes: list[dict[str, Any]] = []
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.refuse: Callable[[str, Any], dict[str, Any] | None] = lambda _uri, _body: None
        self._changed = threading.Condition()
        self._port = 0
        self._server: _Server | None = None
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{self.context_path}"

    def up(self) -> None:
        """Listen, on the same port as before."""
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.admin = self
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop listening; connections are refused."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def wait_for(self, done: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
        """Wait until something was seen; return what ``done`` says."""
        end = time.monotonic() + deadline_s
        with self._changed:
            while True:
                found = done()
                if found:
                    return found
                if not self._changed.wait(max(0.0, min(0.05, end - time.monotonic()))) and time.monotonic() > end:
                    raise AssertionError(f"not seen in {deadline_s} s; outcomes: {self.outcomes[-5:]}")

    def outcome(self, log_id: int, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """Wait for a run's outcome and return it as it was on the wire."""
        found: dict[str, Any] = self.wait_for(
            lambda: next((item for item in self.outcomes if item["logId"] == log_id), None), deadline_s
        )
        return found

    def outcomes_of(self, log_id: int) -> list[dict[str, Any]]:
        return [item for item in self.outcomes if item["logId"] == log_id]

    # -- what executors call --------------------------------------------------------------------------------

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        given = {name.upper(): value for name, value in headers.items()}
        prefix = f"{self.context_path}/api/"
        if not path.startswith(prefix):
            return 404, {"path": path}
        uri = path.removeprefix(prefix)
        problem = self._check_caller(given)
        if problem:
            return 200, self._fail(problem)
        try:
            message = json.loads(body)
        except ValueError as error:
            return 200, self._fail(f"openapi invoke error: {error}" if self.generation >= 3 else str(error))
        with self._changed:
            self.headers.append(given)
            self.bodies.append(message)
            refusal = self.refuse(uri, message)
            reply = refusal if refusal is not None else self._take(uri, message)
            self._changed.notify_all()
        return 200, reply

    def _check_caller(self, headers: dict[str, str]) -> str:
        token = headers.get("XXL-JOB-ACCESS-TOKEN", "")
        if self.generation == 4:
            app_name = headers.get("XXL-JOB-APPNAME", "")
            if not token or not app_name:
                return "invalid request, accessToken or appname is empty."
            if token != TOKEN or app_name != APP_NAME:
                return "invalid request, accessToken or appname invalid."
        return "" if token == TOKEN else "The access token is wrong."

    def _take(self, uri: str, message: Any) -> dict[str, Any]:
        if uri in ("registry", "registryRemove"):
            if not all(
                str(message.get(key) or "").strip() for key in ("registryGroup", "registryKey", "registryValue")
            ):
                return self._fail("Illegal Argument.")
            (self.registered if uri == "registry" else self.removed).append(message)
            return self._ok()
        if uri == "callback":
            return self._take_callbacks(message)
        return self._fail(f"invalid request, uri-mapping({uri}) not found.")

    def _take_callbacks(self, message: Any) -> dict[str, Any]:
        if self.generation == 4:
            if not isinstance(message, dict):
                return self._fail("openapi invoke error: cannot read an array as CallbackRequest")
            items = message["callbackList"]
        elif self.generation == 0:
            items = message["callbackList"] if isinstance(message, dict) else message
        elif not isinstance(message, list):
            text = "cannot read an object as a list"
            return self._fail(f"openapi invoke error: {text}" if self.generation == 3 else text)
        else:
            items = message
        for item in items:
            strings = [item.get("handleMsg"), (item.get("executeResult") or {}).get("msg")]
            if not all(text is None or isinstance(text, str) for text in strings):
                return self._fail("openapi invoke error: not a string")
            if self.generation == 1 and item["executeResult"]["code"] <= 0:
                return self._fail("NullPointerException")
            if self.generation >= 2 and item["handleCode"] <= 0:
                return self._fail("no handle code")
        self.outcomes += items
        return self._ok()

    def _ok(self) -> dict[str, Any]:
        if self.generation == 0:
            return {"code": 200, "msg": "Success", "content": None, "data": None, "success": True, "xwheel": 1}
        if self.generation <= 2:
            return {"code": 200, "msg": None, "content": None}
        return {"code": 200, "msg": "Success", "data": None, "success": True}

    def _fail(self, text: str) -> dict[str, Any]:
        return {"code": 500, "msg": text, "content" if self.generation in (1, 2) else "data": None}

    # -- calling executors ----------------------------------------------------------------------------------

    def call(self, address: str, path: str, message: Any = None, *, token: str | None = TOKEN) -> dict[str, Any]:
        """Call an executor as this generation does; return the envelope."""
        status, reply = raw_call(
            address,
            path,
            b'""'
            if message is None and self.generation == 2
            else None
            if message is None
            else json.dumps(message).encode(),
            token=token,
            app_name=APP_NAME if self.generation == 4 else None,
        )
        assert status == 200, status
        found: dict[str, Any] = json.loads(reply)
        assert found["msg"] is None or isinstance(found["msg"], str)
        return found

    def run(self, address: str, handler: str, log_id: int, job_id: int = 1, **fields: Any) -> dict[str, Any]:
        """Trigger a run; keyword arguments replace fields by their wire names."""
        path = "/trigger" if self.generation == 4 else "/run"
        return self.call(address, path, trigger(handler, log_id, job_id, **fields))

    def payload(self, reply: dict[str, Any]) -> Any:
        """Read a payload where this generation looks for it."""
        return reply["content"] if self.generation in (1, 2) else reply["data"]


def trigger(handler: str, log_id: int, job_id: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a trigger as Gson writes it."""
    return {
        "jobId": job_id,
        "executorHandler": handler,
        "executorParams": "",
        "executorBlockStrategy": "SERIAL_EXECUTION",
        "executorTimeout": 0,
        "logId": log_id,
        "logDateTime": 1_790_000_000_000,
        "glueType": "BEAN",
        "glueSource": "",
        "glueUpdatetime": 1_790_000_000_000,
        "broadcastIndex": 0,
        "broadcastTotal": 1,
        **fields,
    }


def raw_call(
    address: str,
    path: str,
    body: bytes | None,
    *,
    token: str | None = TOKEN,
    app_name: str | None = None,
    method: str = "POST",
    **headers: str,
) -> tuple[int, bytes]:
    """Make one HTTP call; without a body neither a length nor chunks are sent, as Java does for /beat."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.putrequest(method, parts.path.rstrip("/") + path, skip_accept_encoding=True)
        if token is not None:
            connection.putheader("XXL-JOB-ACCESS-TOKEN", token)
        if app_name is not None:
            connection.putheader("XXL-JOB-APPNAME", app_name)
        for header in headers.items():
            connection.putheader(*header)
        if body is not None:
            connection.putheader("Content-Type", "application/json;charset=UTF-8")
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        if body:
            connection.send(body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
