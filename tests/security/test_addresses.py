"""T10: no call makes a node connect to an address that is not a live executor of the job's group, or show it a token.

What plugins call on the outside goes through the egress policy: T11, ``plugins/egress/tests``.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.rows import NOW, make_run
from xwheel.config import build_config
from xwheel.model import RunState
from xwheel.node.node import Node
from xwheel.storage import executors, runs
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

TOKEN = "management-token-of-the-tests"
EXECUTOR_TOKEN = "executor-token-of-the-tests"
GROUP_TOKEN = "token-of-the-group-of-the-tests"
LONG_S = 60.0


class Trap:
    """A listener that no one may call."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"

    def was_called(self) -> bool:
        self._socket.setblocking(False)
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return False
        connection.close()
        return True

    def wait_for_call(self) -> bytes:
        self._socket.settimeout(LONG_S)
        connection, _ = self._socket.accept()
        with connection:
            connection.settimeout(LONG_S)
            return connection.recv(65_536)

    def close(self) -> None:
        self._socket.close()


class Site:
    """A node with two groups, and a trap that no executor registered."""

    def __init__(self, node: Node, db: Database) -> None:
        self.node = node
        self.db = db
        self.trap = Trap()
        self.orders, self.billing = (
            db.transaction(lambda conn, name=name: executors.insert_group(conn, app_name=name, title="", now_ms=NOW)).id
            for name in ("orders", "billing")
        )
        db.transaction(lambda conn: tokens.insert_token(conn, "tests", TOKEN, NOW))
        db.transaction(lambda conn: tokens.insert_token(conn, "orders", GROUP_TOKEN, NOW, group_id=self.orders))
        body = {"group_id": self.orders, "name": "job", "handler": "demo"}
        self.job_id = self.manage("POST", "/api/v1/jobs", body)[1]["id"]
        body = {"group_id": self.billing, "name": "job", "handler": "demo"}
        self.job_of_billing = self.manage("POST", "/api/v1/jobs", body)[1]["id"]

    def manage(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return _call(self.node.management.port, method, path, body, headers)

    def report(self, call: str, body: Any, token: str = EXECUTOR_TOKEN, app_name: str = "orders") -> dict[str, Any]:
        headers = {TOKEN_HEADER: token} | ({APP_NAME_HEADER: app_name} if app_name else {})
        return _call(self.node.executors.port, "POST", f"/api/{call}", body, headers)[1]

    def register(self, app_name: str, address: str) -> None:
        body = {"registryGroup": "EXECUTOR", "registryKey": app_name, "registryValue": address}
        headers = {TOKEN_HEADER: EXECUTOR_TOKEN}
        answer = _call(self.node.executors.port, "POST", "/api/registry", body, headers)[1]
        assert answer["code"] == 200, answer

    def run(self, address: str = "") -> None:
        """Run the job of orders once, at an address if one is given."""
        body = {"address": address} if address else {}
        status, _ = self.manage("POST", f"/api/v1/jobs/{self.job_id}/run", body)
        assert status in {200, 201, 202}

    def planned(self) -> int:
        with self.db.read() as conn:
            return len(runs.list_runs(conn, job_id=self.job_id))


def _call(port: int, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


@pytest.fixture
def site(sqlite_db: Database, tmp_path: Path) -> Iterator[Site]:
    settings = {
        "database": {"url": sqlite_db.engine.url.render_as_string()},
        "api": {"port": 0, "executor_port": 0, "executor_token": EXECUTOR_TOKEN},
    }
    node = Node(build_config(settings), announce=lambda _: None)
    node.start()
    made = Site(node, sqlite_db)
    try:
        yield made
    finally:
        made.trap.close()
        node.stop()


def spellings_of(trap: Trap) -> list[str]:
    return [
        trap.address,
        f"{trap.address}/",
        f"http://localhost:{trap.port}",
        f"http://user:secret@127.0.0.1:{trap.port}",
        f"http://2130706433:{trap.port}",
        f"http://[::ffff:127.0.0.1]:{trap.port}",
        f"//127.0.0.1:{trap.port}",
    ]


def test_no_call_leads_to_an_address_that_is_not_registered_for_the_group(site: Site) -> None:
    site.register("billing", site.trap.address)  # another group's executor is no one to this one
    for spelling in spellings_of(site.trap):
        status, problem = site.manage("POST", f"/api/v1/jobs/{site.job_id}/run", {"address": spelling})
        assert (status, problem["field"]) == (422, "address"), spelling
    assert site.planned() == 0
    assert not site.trap.was_called()


def test_a_log_is_read_only_where_a_live_executor_ran_the_run(site: Site) -> None:
    site.register("billing", site.trap.address)
    row = make_run(5, job_id=site.job_id, group_id=site.orders, address=site.trap.address, state=RunState.SUCCEEDED)
    site.db.transaction(lambda conn: runs.insert_runs(conn, [row]))
    status, problem = site.manage("GET", "/api/v1/runs/5/log")
    assert (status, problem["type"]) == (502, "urn:xwheel:problem:executor-unreachable")
    assert "no live executor" in problem["detail"]
    for query in ("address", "executorAddress", "url"):
        status, problem = site.manage("GET", f"/api/v1/runs/5/log?{query}={site.trap.address}")
        assert (status, problem["field"]) == (422, query)
    assert not site.trap.was_called()


def test_the_trap_works(site: Site) -> None:
    """Once it is registered for the group, the same call leads there, with the token."""
    site.register("orders", site.trap.address)
    status, _ = site.manage("POST", f"/api/v1/jobs/{site.job_id}/run", {"address": site.trap.address})
    assert status in {200, 201, 202}
    said = site.trap.wait_for_call()
    assert said.startswith(b"POST /run")
    assert EXECUTOR_TOKEN.encode() in said
