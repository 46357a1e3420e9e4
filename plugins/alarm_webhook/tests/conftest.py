"""Real servers on loopback, and options that may call them."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import settings
from xwheel import Config
from xwheel.plugin import Alarm, AlarmKind

from xwheel_alarm_webhook import WebhookChannel, xwheel_register_alarms

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None)
settings.load_profile("xwheel")

KEY = "k3y-of-the-robot"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Reply = Callable[[BaseHTTPRequestHandler, Seen], None]


def say(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
    """Return what gives this answer."""

    def reply(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


@dataclass
class Provider:
    """A server that answers as a test says."""

    port: int = 0
    scheme: str = "http"
    reply: Reply = field(default_factory=lambda: say(200, b"ok"))
    seen: list[Seen] = field(default_factory=list)
    freed: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Provider]:
    """Run a provider."""
    provider = Provider(scheme="https" if tls else "http")

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            seen = Seen(method=self.command, path=self.path, headers=dict(self.headers), body=body)
            provider.seen.append(seen)
            with contextlib.suppress(OSError):
                provider.reply(self, seen)

        do_GET = do_POST = do_PUT = do_PATCH = answer  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def finish_request(self, request: Any, client_address: Any) -> None:
            if tls is None:
                super().finish_request(request, client_address)
                return
            request.settimeout(30)
            with tls.wrap_socket(request, server_side=True) as safe:
                super().finish_request(safe, client_address)

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    provider.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.freed.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as found:
        yield found


def config_of(options: dict[str, Any], *ports: int) -> Config:
    """Return settings with the plugin's options, which may call ports of 127.0.0.1."""
    egress = {"allow_networks": ["127.0.0.1"], "allow_ports": [443, *ports]}
    return Config(egress=egress, plugins={"options": {"alarm_webhook": options}})  # type: ignore[arg-type]


def channel_of(kind: str, robots: dict[str, Any], *ports: int, timeout_s: float = 60) -> WebhookChannel:
    """Return the channel of a kind, made as a node makes it."""
    (channel,) = xwheel_register_alarms(config_of({"timeout_s": timeout_s, kind: robots}, *ports))
    assert channel.name == kind
    return channel


def alarm_of(**changes: Any) -> Alarm:
    """Return an alarm."""
    given: dict[str, Any] = {
        "id": 7,
        "kind": AlarmKind.FAILED,
        "at_ms": 1_790_000_000_123,
        "title": "job clean up failed",
        "text": "run 12 failed:\nno room",
        "reason": "failed",
        "job": None,
        "group": None,
        "run": None,
    }
    return Alarm(**{**given, **changes})
