"""A real node that tells a refused run to a signed robot, over TLS, and comes back when the robot says so."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import trustme
from conftest import KEY, Seen, say, serving

DEADLINE_S = 120.0
SECRET = "SEC0123456789abcdef"
T = TypeVar("T")


def wait_until(done: Callable[[], T]) -> T:
    """Wait until something is true, and return it."""
    end = time.monotonic() + DEADLINE_S
    while not (found := done()):
        assert time.monotonic() < end, f"not seen in {DEADLINE_S} s"
        time.sleep(0.05)
    return found


class Node:
    """A node in a process of its own, with its management API."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        folder.mkdir()
        output = folder / "output"
        with output.open("wb") as file:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "xwheel", "server", "--port", "0", "--executor-port", "0"],
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **settings},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.output = output

    def find(self, pattern: str) -> str:
        """Wait for a line of its output and return the pattern's group."""

        def look() -> re.Match[str] | None:
            assert self.child.poll() is None, self.output.read_text()
            return re.search(pattern, self.output.read_text())

        return wait_until(look)[1]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API."""
        url = f"http://{self.find('management API on (.*)')}/api/v1/{path}"
        headers = {"Authorization": f"Bearer {self.find('management token .*: (.*)')}"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(url, data, headers, method=method), timeout=60
        ) as got:
            return json.loads(got.read() or b"null")


@contextlib.contextmanager
def running(folder: Path, settings: dict[str, str]) -> Iterator[Node]:
    node = Node(folder, settings)
    try:
        yield node
    finally:
        node.child.terminate()
        try:
            node.child.wait(60)
        finally:
            node.child.kill()
            node.child.wait()


def test_a_node_tells_a_refused_run_to_a_signed_robot(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    answers = [say(429, b"{}", {"Retry-After": "1"}), say(200, b'{"errcode":0,"errmsg":"ok"}')]

    def reply(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        answers[min(len(provider.seen), len(answers)) - 1](handler, seen)

    with serving(tls=tls) as provider:
        provider.reply = reply
        robot = {"url": f"{provider.url}/robot/send?access_token={KEY}", "secret": SECRET}
        settings = {
            "XWHEEL_PLUGINS__OPTIONS": json.dumps({"alarm_webhook": {"dingtalk": {"ops": robot}}}),
            "XWHEEL_EGRESS__ALLOW_NETWORKS": '["127.0.0.1"]',
            "XWHEEL_EGRESS__ALLOW_PORTS": json.dumps([provider.port]),
            "XWHEEL_EGRESS__CA_FILE": str(tmp_path / "ca.pem"),
        }
        with running(tmp_path / "node", settings) as node:
            group_id = node.call("POST", "groups", {"app_name": "empty"})["id"]
            rule = {"kinds": ["refused"], "targets": [{"channel": "dingtalk", "receivers": ["ops", "@all"]}]}
            node.call("POST", "alarms/rules", {"group_id": group_id, **rule})
            job = {"group_id": group_id, "name": "close the day", "handler": "demo"}
            job_id = node.call("POST", "jobs", job)["id"]
            node.call("POST", f"jobs/{job_id}/run", {})

            def told() -> Any:
                found = node.call("GET", f"alarms/attempts?job_id={job_id}")["items"]
                return len(found) > 1 and all(one["answer"] for one in found) and found

            attempts = wait_until(told)
            output = node.output.read_text()
    second, first = attempts[:2]
    assert (first["number"], second["number"]) == (1, 2)
    assert first["answer"].startswith("ops: HTTP 429")
    assert second["answer"] == "ops: HTTP 200 errcode 0: ok"
    for text in (json.dumps(attempts), output):
        assert KEY not in text
        assert SECRET not in text
    for seen in provider.seen:
        query = parse_qs(urlsplit(seen.path).query)
        signed = f"{query['timestamp'][0]}\n{SECRET}".encode()
        assert base64.b64decode(query["sign"][0]) == hmac.digest(SECRET.encode(), signed, "sha256")
        body = json.loads(seen.body)
        assert "close the day" in body["text"]["content"]
        assert body["at"]["isAtAll"] is True
