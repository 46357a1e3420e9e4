"""A foreign executor that never registers: its address is entered by hand, asked for beats, and gets runs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from xwheel_devtools.testing.processes import NodeProcess
from xwheel_devtools.testing.web import WebRequest, WebServer, web_reply

from tests.support.executors import wait_until
from xwheel.wire.contract import TOKEN_HEADER

DEATH_S = 60


class Stranger:
    """Speaks XXL-JOB's protocol, and says nothing unasked but outcomes."""

    def __init__(self, node: NodeProcess) -> None:
        self.token = ""
        self.is_up = True
        self.ran: list[dict[str, Any]] = []
        self.tokens: set[str | None] = set()
        self._node = node
        self.server = WebServer(self._reply)

    def _reply(self, handler: BaseHTTPRequestHandler, request: WebRequest) -> None:
        if not self.is_up:
            raise ConnectionResetError  # no answer at all
        headers = {name.lower(): value for name, value in request.headers.items()}
        shown = headers.get(TOKEN_HEADER.lower())
        self.tokens.add(shown)
        if shown != self.token:
            web_reply(body={"code": 500, "msg": "The access token is wrong."})(handler, request)
            return
        web_reply(body={"code": 200})(handler, request)
        if request.path == "/run":
            self.ran.append(request.document)
            threading.Thread(target=self._report, args=(request.document,), daemon=True).start()

    def _report(self, run: dict[str, Any]) -> None:
        item = {"logId": run["logId"], "logDateTim": run["logDateTime"], "handleCode": 200}
        item["handleMsg"] = "done by a stranger"
        call = urllib.request.Request(
            f"{self._node.executor_url}/api/callback",
            json.dumps([item]).encode(),
            {TOKEN_HEADER: self.token, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(call, timeout=10) as answer:
            assert json.load(answer)["code"] == 200


@pytest.mark.long(50)
def test_its_address_is_entered_and_it_dies_and_comes_back(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node") as node:
        stranger = Stranger(node)
        with stranger.server:
            check(node, stranger, tmp_path)


def check(node: NodeProcess, stranger: Stranger, folder: Path) -> None:
    def xwheel(*words: str) -> str:
        command = [sys.executable, "-m", "xwheel", *words, "--url", node.url, "--token-file", str(folder / "token")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def entered() -> dict[str, Any]:
        (item,) = node.call("GET", f"groups/{group['id']}")["addresses"]
        found: dict[str, Any] = item
        return found

    (folder / "token").write_text(node.token)
    (folder / "token").chmod(0o600)
    group = node.call("POST", "groups", {"app_name": "strangers"})
    wrong = node.call("POST", "secrets", {"name": "wrong", "group_id": group["id"]})["secret"]
    right = node.call("POST", "secrets", {"name": "right", "group_id": group["id"]})["secret"]
    stranger.token = right
    job = node.call("POST", "jobs", {"group_id": group["id"], "name": "j", "handler": "h", "param": "p"})
    # what it is not called with is said, and nothing is sent there
    xwheel("group", "edit", "strangers", "--address", f"{stranger.server.url}=wrong")
    assert wait_until(lambda: entered()["error"], 30) == "The access token is wrong."
    assert node.wait_for_run(node.start_run(job["id"]))["state"] == "refused"
    assert stranger.tokens == {wrong}
    xwheel("group", "edit", "strangers", "--address", f"{stranger.server.url}=right")
    wait_until(lambda: entered()["live"], 30)
    assert entered() == {"address": stranger.server.url, "secret": "right", "live": True, "error": ""}
    assert "by hand" in xwheel("group", "executors", "strangers", "--wide")
    done = node.wait_for_run(node.start_run(job["id"]))
    assert (done["state"], done["message"], done["address"]) == ("succeeded", "done by a stranger", stranger.server.url)
    assert [run["executorParams"] for run in stranger.ran] == ["p"]
    # it dies, and it comes back
    stranger.is_up = False
    wait_until(lambda: not entered()["live"], DEATH_S)
    assert entered()["error"]
    assert node.wait_for_run(node.start_run(job["id"]))["state"] == "refused"
    stranger.is_up = True
    wait_until(lambda: entered()["live"], 30)
    assert node.wait_for_run(node.start_run(job["id"]))["state"] == "succeeded"
    assert stranger.tokens == {wrong, right}
    xwheel("group", "edit", "strangers", "--no-addresses")
    wait_until(lambda: not node.call("GET", f"groups/{group['id']}/executors")["items"], 10)
