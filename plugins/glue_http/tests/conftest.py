"""An executor with the plugin, a scheduler that only listens and calls, and a server that jobs call."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from hypothesis import settings
from xwheel import Config
from xwheel.executor import Executor

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None)
settings.load_profile("xwheel")

TOKEN = "a-token-for-tests-only"
DEADLINE_S = 120.0
CREATED_MS = 1_790_000_000_000
T = TypeVar("T")


def wait_until(done: Callable[[], T]) -> T:
    """Wait until something is true, and return it."""
    end = time.monotonic() + DEADLINE_S
    while True:
        found = done()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not seen in {DEADLINE_S} s")
        time.sleep(0.02)


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
        if seen.method != "HEAD":
            handler.wfile.write(body)

    return reply


class Web:
    """A server that answers as a test says."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.seen: list[Seen] = []
        self.freed = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                seen = Seen(method=self.command, path=self.path, headers=dict(self.headers), body=body)
                web.seen.append(seen)
                with contextlib.suppress(OSError):
                    web.reply(self, seen)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.freed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Site:
    """A scheduler, an executor, a server to call, and short ways to use them."""

    def __init__(
        self, folder: Path, options: dict[str, Any], egress: dict[str, Any], allowed: list[str]
    ) -> None:
        self.outcomes: dict[int, dict[str, Any]] = {}
        self.scheduler = Web(self._schedule)
        self.web = Web(say(200, b"fine"))
        egress = {"allow_networks": ["127.0.0.1"], "allow_ports": [self.web.port], **egress}
        self.executor = Executor(
            Config(egress=egress, plugins={"options": {"glue_http": options}}),  # type: ignore[arg-type]
            app_name="demo",
            admin_addresses=[self.scheduler.url],
            access_token=TOKEN,
            port=0,
            data_dir=folder,
            kill_grace_s=0.3,
            stop_timeout_s=5,
            allowed_glue_types=allowed,
        )
        self.executor.start()

    def _schedule(self, handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        if seen.path.endswith("/api/callback"):
            body = json.loads(seen.body)
            items = body["callbackList"] if isinstance(body, dict) else body
            self.outcomes.update((item["logId"], item) for item in items)
        say(200, b'{"code": 200, "msg": "Success", "content": null, "data": null}')(handler, seen)

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Call the executor as a scheduler does."""
        parts = urlsplit(self.executor.address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body), {"XXL-JOB-ACCESS-TOKEN": TOKEN})
            found: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return found

    def start(self, source: Mapping[str, Any] | str, run_id: int = 1, **fields: Any) -> dict[str, Any]:
        body = {
            "jobId": run_id,
            "executorHandler": "",
            "executorParams": "",
            "executorBlockStrategy": "SERIAL_EXECUTION",
            "executorTimeout": 0,
            "logId": run_id,
            "logDateTime": CREATED_MS,
            "glueType": "GLUE_HTTP",
            "glueSource": source if isinstance(source, str) else json.dumps(source),
            "glueUpdatetime": CREATED_MS,
            "broadcastIndex": 0,
            "broadcastTotal": 1,
            **fields,
        }
        return self.call("/run", body)

    def outcome(self, run_id: int = 1) -> tuple[int, str]:
        item = wait_until(lambda: self.outcomes.get(run_id))
        return item["handleCode"], item["handleMsg"]

    def run(self, source: Mapping[str, Any] | str, run_id: int = 1, **fields: Any) -> tuple[int, str]:
        answer = self.start(source, run_id, **fields)
        assert answer["code"] == 200, answer
        return self.outcome(run_id)

    def log(self, run_id: int = 1) -> str:
        body = {"logId": run_id, "fromLineNum": 1, "logDateTim": CREATED_MS, "logDateTime": CREATED_MS}
        reply = self.call("/log", body)
        return str((reply["data"] or reply["content"])["logContent"])

    def close(self) -> None:
        self.web.freed.set()
        self.executor.stop()
        self.scheduler.close()
        self.web.close()


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(
        options: dict[str, Any] | None = None,
        egress: dict[str, Any] | None = None,
        allowed: list[str] | None = None,
    ) -> Site:
        wanted = ["GLUE_HTTP"] if allowed is None else allowed
        made.append(Site(tmp_path / f"data{len(made)}", options or {}, egress or {}, wanted))
        return made[-1]

    yield make
    for site in made:
        site.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()
