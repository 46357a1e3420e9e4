"""A real gateway on loopback, which answers as a test says and keeps what it got."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xwheel import Alarm, Config
from xwheel.plugin import AlarmKind

from xwheel_alarm_sms import SmsChannel, xwheel_register_alarms

SECRET = "s3cret/canary+"
NUMBER = "+4915112345678"
DEADLINE_S = 60.0

# machines of tests are slow at times
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def alarm_of(**changes: Any) -> Alarm:
    given: dict[str, Any] = {
        "id": 7,
        "kind": AlarmKind.FAILED,
        "at_ms": 1_790_000_000_123,
        "title": "job 3 (nightly) failed",
        "text": "first line\nsecond line",
        "reason": "exit",
        "job": None,
        "group": None,
        "run": None,
        "receivers": (NUMBER,),
    }
    return Alarm(**(given | changes))


def register(*, egress: Mapping[str, Any] | None = None, **options: Any) -> list[SmsChannel]:
    sections: dict[str, Any] = {"plugins": {"options": {"alarm_sms": options}}, "egress": dict(egress or {})}
    return list(xwheel_register_alarms(Config(**sections)))


@dataclass(frozen=True, kw_only=True)
class Seen:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


Reply = Callable[[BaseHTTPRequestHandler, Seen], None]


def say(status: int = 200, body: Any = b"ok", **headers: str) -> Reply:
    """Return what gives this answer; a body that is no bytes goes as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def reply(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return reply


class Web:
    """The gateway."""

    def __init__(self) -> None:
        self.reply: Reply = say()
        self.seen: list[Seen] = []
        self.freed = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.close_connection = True
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                seen = Seen(method=self.command, path=self.path, headers=dict(self.headers), body=body)
                web.seen.append(seen)
                with contextlib.suppress(OSError):  # the client has gone, as some tests want
                    web.reply(self, seen)

            do_GET = do_POST = do_PUT = answer  # noqa: N815

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def egress(self) -> dict[str, Any]:
        """Settings that allow calls to it."""
        return {"allow_networks": ["127.0.0.1"], "allow_ports": [self.port]}

    def hang(self, handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        """Be a reply that never comes."""
        self.freed.wait(DEADLINE_S)

    def close(self) -> None:
        self.freed.set()
        self._server.shutdown()
        self._thread.join(DEADLINE_S)
        self._server.server_close()


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.close()
