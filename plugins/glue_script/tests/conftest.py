"""An executor with the plugin, and a scheduler that only listens and calls."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from xwheel import Config
from xwheel.executor import Executor

TOKEN = "a-token-for-tests-only"
DEADLINE_S = 120.0
CREATED_MS = 1_790_000_000_000
ALL = ["GLUE_SHELL", "GLUE_PYTHON", "GLUE_PYTHON2", "GLUE_NODEJS", "GLUE_PHP", "GLUE_POWERSHELL"]
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


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


def call(address: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Call an executor as a scheduler does."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"XXL-JOB-ACCESS-TOKEN": TOKEN})
        found: dict[str, Any] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return found


class Scheduler:
    """Takes beats and outcomes."""

    def __init__(self) -> None:
        self.outcomes: dict[int, dict[str, Any]] = {}
        outcomes = self.outcomes

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/api/callback"):
                    items = body["callbackList"] if isinstance(body, dict) else body
                    outcomes.update((item["logId"], item) for item in items)
                data = b'{"code": 200, "msg": "Success", "content": null, "data": null}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Site:
    """A scheduler, an executor, and short ways to use them."""

    def __init__(self, scheduler: Scheduler, executor: Executor, folder: Path) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.folder = folder

    def start(
        self, source: str, run_id: int = 1, glue_type: str = "GLUE_SHELL", **fields: Any
    ) -> dict[str, Any]:
        body = {
            "jobId": run_id,
            "executorHandler": "",
            "executorParams": "",
            "executorBlockStrategy": "SERIAL_EXECUTION",
            "executorTimeout": 0,
            "logId": run_id,
            "logDateTime": CREATED_MS,
            "glueType": glue_type,
            "glueSource": source,
            "glueUpdatetime": CREATED_MS,
            "broadcastIndex": 0,
            "broadcastTotal": 1,
            **fields,
        }
        return call(self.executor.address, "/run", body)

    def outcome(self, run_id: int = 1) -> tuple[int, str]:
        item = wait_until(lambda: self.scheduler.outcomes.get(run_id))
        return item["handleCode"], item["handleMsg"]

    def run(
        self, source: str, run_id: int = 1, glue_type: str = "GLUE_SHELL", **fields: Any
    ) -> tuple[int, str]:
        answer = self.start(source, run_id, glue_type, **fields)
        assert answer["code"] == 200, answer
        return self.outcome(run_id)

    def log(self, run_id: int = 1, from_line: int = 1) -> str:
        body = {
            "logId": run_id,
            "fromLineNum": from_line,
            "logDateTim": CREATED_MS,
            "logDateTime": CREATED_MS,
        }
        reply = call(self.executor.address, "/log", body)
        return str((reply["data"] or reply["content"])["logContent"])

    def kill(self, job_id: int = 1) -> None:
        assert call(self.executor.address, "/kill", {"jobId": job_id})["code"] == 200


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(options: dict[str, Any] | None = None, allowed: list[str] | None = None) -> Site:
        scheduler = Scheduler()
        folder = tmp_path / "data"
        executor = Executor(
            Config(plugins={"options": {"glue_script": options or {}}}),  # type: ignore[arg-type]
            app_name="demo",
            admin_addresses=[scheduler.url],
            access_token=TOKEN,
            port=0,
            data_dir=folder,
            kill_grace_s=0.3,
            stop_timeout_s=5,
            allowed_glue_types=ALL if allowed is None else allowed,
        )
        executor.start()
        made.append(Site(scheduler, executor, folder))
        return made[-1]

    yield make
    for site in made:
        site.executor.stop()
        site.scheduler.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()
