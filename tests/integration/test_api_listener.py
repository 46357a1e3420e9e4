"""Both applications behind the real server, over sockets: what only the server's own parsing can show."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, LIMIT, TOKEN, Api, api
from xwheel.api.app import build_management_app, executor_app
from xwheel.model import RunState
from xwheel.runtime.http_server import Listener
from xwheel.wire.contract import TOKEN_HEADER

__all__ = ["api"]  # the fixture of the unit tests

TEN_MB = 10 * 1024 * 1024


@pytest.fixture
def ports(api: Api) -> Iterator[tuple[int, int]]:
    """Ports of the management API and of the executor API."""
    listeners = [
        Listener(name, app, host="127.0.0.1", port=0, threads=2, max_body_bytes=LIMIT, admits=app.admits)
        for name, app in (("api", build_management_app(api.parts)), ("executor-api", executor_app(api.parts)))
    ]
    for listener in listeners:
        listener.start()
    yield listeners[0].port, listeners[1].port
    for listener in listeners:
        listener.stop()


def call(port: int, method: str, path: str, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers, encode_chunked=headers.get("Transfer-Encoding") == "chunked")
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else {}
    finally:
        connection.close()


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size // 65_536):
        yield b" " * 65_536


@pytest.mark.parametrize("chunked", [False, True])
def test_ten_megabytes_are_refused_with_a_json_error(api: Api, ports: tuple[int, int], chunked: bool) -> None:
    before = api.rows()
    further = {"Transfer-Encoding": "chunked"} if chunked else {}

    def body() -> Any:
        return pieces(TEN_MB) if chunked else b" " * TEN_MB

    status, problem = call(ports[0], "POST", "/api/v1/groups", body(), Authorization=f"Bearer {TOKEN}", **further)
    assert (status, problem["field"], problem["limit"]) == (413, "body", {"max_bytes": LIMIT})
    status, envelope = call(ports[1], "POST", "/api/callback", body(), **{TOKEN_HEADER: EXECUTOR_TOKEN}, **further)
    assert (status, envelope["code"]) == (413, 500)
    assert envelope["msg"].startswith("body: ")
    assert api.rows() == before
    assert call(ports[0], "GET", "/healthz", None) == (200, {"status": "ok"})


def test_a_chunked_callback_of_allowed_size_is_taken(api: Api, ports: tuple[int, int]) -> None:
    api.running(1)
    body = iter([b'[{"logId":1,', b'"handleCode":200}]'])
    headers = {TOKEN_HEADER: EXECUTOR_TOKEN, "Transfer-Encoding": "chunked"}
    assert call(ports[1], "POST", "/api/callback", body, **headers)[1]["code"] == 200
    assert api.run(1).state is RunState.SUCCEEDED


@pytest.mark.parametrize(
    "path", ["//api/callback", "/xxl-job-admin//api/callback/", "/api//callback", "/api/callback?x=1"]
)
def test_slashes_survive_the_server(api: Api, ports: tuple[int, int], path: str) -> None:
    api.running(1)
    body = b'[{"logId":1,"handleCode":200}]'
    assert call(ports[1], "POST", path, body, **{TOKEN_HEADER: EXECUTOR_TOKEN})[1]["code"] == 200
    assert api.run(1).state is RunState.SUCCEEDED


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * 300_000 + b"\r\n\r\n",
        b"POST /api/callback HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/callback HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x00\xff\xfe\r\n\r\n",
        b"POST /api/callback HTTP/1.1\r\nHost: h\r\nContent-Length: 50\r\n\r\n[",
    ],
)
def test_broken_requests_leave_the_process_unharmed(api: Api, ports: tuple[int, int], request_bytes: bytes) -> None:
    before = api.rows()
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
            peer.sendall(request_bytes)
            with contextlib.suppress(OSError):  # the server may have hung up on it already
                peer.shutdown(socket.SHUT_WR)
            try:
                while peer.recv(65_536):
                    pass
            except ConnectionResetError:
                pass  # the server may hang up on what it does not read
    assert api.rows() == before
    assert call(ports[0], "GET", "/readyz", None)[0] == 200
    assert call(ports[1], "POST", "/api/callback", b"[]", **{TOKEN_HEADER: EXECUTOR_TOKEN})[1]["code"] == 200


MUCH = 3 * LIMIT // 4
WITHOUT = {
    "no token": {},
    "wrong": {TOKEN_HEADER: "wrong", "Authorization": "Bearer wrong"},
    "other api's": {TOKEN_HEADER: TOKEN, "Authorization": f"Bearer {EXECUTOR_TOKEN}"},
}


@pytest.mark.parametrize("headers", WITHOUT.values(), ids=WITHOUT)
def test_s11_strangers_get_the_answer_they_always_got_before_they_send_their_body(
    api: Api, ports: tuple[int, int], headers: dict[str, str]
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    found = []
    for port, path in zip(ports, ("/api/v1/groups", "/api/callback"), strict=True):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
            peer.sendall(f"POST {path} HTTP/1.1\r\nHost: h\r\n{lines}Content-Length: {MUCH}\r\n\r\n".encode())
            answer = http.client.HTTPResponse(peer, method="POST")
            answer.begin()
            found.append((answer.status, json.loads(answer.read())))
            assert peer.recv(1) == b""
    (management, problem), (executor, envelope) = found
    assert (management, problem["type"]) == (401, "urn:xwheel:problem:unauthorized")
    assert (executor, envelope["code"]) == (200, 500)
    assert envelope["msg"].startswith(f"{TOKEN_HEADER}: missing or wrong")


def test_s11_known_callers_send_as_much_as_they_may(api: Api, ports: tuple[int, int]) -> None:
    api.running(1)
    body = b'[{"logId":1,"handleCode":200,"handleMsg":"' + b"x" * MUCH + b'"}]'
    assert call(ports[1], "POST", "/api/callback", body, **{TOKEN_HEADER: EXECUTOR_TOKEN})[1]["code"] == 200
    assert api.run(1).state is RunState.SUCCEEDED
    body = b'{"app_name":"large","title":"large"' + b" " * MUCH + b"}"
    assert call(ports[0], "POST", "/api/v1/groups", body, Authorization=f"Bearer {TOKEN}")[0] == 201
