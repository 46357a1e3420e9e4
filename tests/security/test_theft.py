"""S1 and S5: with one group's credentials alone, nothing is obtained that opens another group.

A listener of the thief's own is registered under its group and writes down all that a node sends to it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.security.test_addresses import EXECUTOR_TOKEN, GROUP_TOKEN, LONG_S, Site, site
from tests.support.rows import NOW, make_run
from xwheel.model import RunState
from xwheel.storage import runs
from xwheel.wire.contract import TOKEN_HEADER

__all__ = ["site"]


class Thief:
    """A foreign executor that says yes to everything, and keeps the headers of what it is sent."""

    def __init__(self, *, busy: bool = False) -> None:
        self.calls: list[tuple[str, dict[str, str], bytes]] = []
        self._news = threading.Condition()
        thief = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with thief._news:
                    thief.calls.append((self.path, dict(self.headers), body))
                    thief._news.notify_all()
                answer = json.dumps({"code": 500 if busy and self.path == "/idleBeat" else 200}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait_for(self, path: str) -> tuple[str, dict[str, str], bytes]:
        def found() -> tuple[str, dict[str, str], bytes] | None:
            return next((call for call in self.calls if call[0] == path), None)

        with self._news:
            call = self._news.wait_for(found, LONG_S)
        assert call is not None, f"{path} never came, but {[call[0] for call in self.calls]}"
        return call

    def loot(self) -> str:
        """All that was sent to it, as text."""
        return "\n".join(
            f"{path} {headers} {body.decode('utf-8', 'replace')}" for path, headers, body in self.calls
        )

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def thief() -> Iterator[Thief]:
    made = Thief(busy=True)
    yield made
    made.close()


def register(site: Site, address: str, token: str) -> dict[str, Any]:
    body = {"registryGroup": "EXECUTOR", "registryKey": "orders", "registryValue": address}
    return site.report("registry", body, token)


def only_run(site: Site) -> int:
    with site.db.read() as conn:
        (run,) = runs.list_runs(conn, job_id=site.job_id)
    return run.id


def test_s1_a_groups_token_yields_no_secret(site: Site, thief: Thief) -> None:
    """Every kind of call that a node makes to foreign executors: run, log, kill, beat, idle beat."""
    assert register(site, thief.address, GROUP_TOKEN)["code"] == 200
    assert site.report("triggerJob", {"id": site.job_id}, GROUP_TOKEN)["code"] == 200
    thief.wait_for("/trigger")
    run_id = int(json.loads(thief.wait_for("/trigger")[2])["logId"])
    site.manage("GET", f"/api/v1/runs/{run_id}/log")
    thief.wait_for("/log")
    assert site.manage("POST", f"/api/v1/runs/{run_id}/kill")[0] in {200, 202}
    thief.wait_for("/kill")
    beats = site.node.scheduler.beats
    (executor,) = site.node.scheduler.registry.live(site.orders, site.node.scheduler.clock.now_ms())
    assert beats.beat(executor).result(LONG_S)
    assert not beats.idle_beat(executor, site.job_id).result(LONG_S)
    assert {path for path, *_ in thief.calls} >= {"/trigger", "/log", "/kill", "/beat", "/idleBeat"}
    assert EXECUTOR_TOKEN not in thief.loot()
    assert GROUP_TOKEN not in thief.loot()
    assert TOKEN_HEADER.lower() not in thief.loot().lower()


def test_s1_the_shared_token_goes_only_to_who_registered_with_it(site: Site, thief: Thief) -> None:
    honest = Thief()
    try:
        assert register(site, honest.address, EXECUTOR_TOKEN)["code"] == 200
        assert register(site, thief.address, GROUP_TOKEN)["code"] == 200
        for place in (honest, thief):
            wanted = {"id": site.job_id, "addressList": place.address}
            assert site.report("triggerJob", wanted, GROUP_TOKEN)["code"] == 200
            place.wait_for("/trigger")
        assert honest.wait_for("/trigger")[1][TOKEN_HEADER] == EXECUTOR_TOKEN
        assert EXECUTOR_TOKEN not in thief.loot()
    finally:
        honest.close()


def test_s1_an_address_that_comes_again_with_the_groups_token_gets_no_other_any_more(
    site: Site, thief: Thief
) -> None:
    """The executor that held the shared token is gone, and the thief took over its port."""
    assert register(site, thief.address, EXECUTOR_TOKEN)["code"] == 200
    assert register(site, thief.address, GROUP_TOKEN)["code"] == 200
    assert site.report("triggerJob", {"id": site.job_id}, GROUP_TOKEN)["code"] == 200
    thief.wait_for("/trigger")
    assert EXECUTOR_TOKEN not in thief.loot()


@pytest.mark.parametrize("claimed_ms", [0, 1, NOW])
def test_s5_a_groups_token_reports_no_run_of_another_group(site: Site, claimed_ms: int) -> None:
    row = make_run(7, job_id=99, group_id=site.billing, address="http://10.0.0.1:1", state=RunState.RUNNING)
    site.db.transaction(lambda conn: runs.insert_runs(conn, [row]))
    site.report("callback", [{"logId": 7, "logDateTim": claimed_ms, "handleCode": 200}], GROUP_TOKEN)
    with site.db.read() as conn:
        assert runs.get_run(conn, 7).state is RunState.RUNNING


def test_s5_the_shared_token_reports_only_runs_that_were_sent_under_it(site: Site, thief: Thief) -> None:
    """Another group's executor holds the shared token too; ids are counted, so it guesses them."""
    assert register(site, thief.address, GROUP_TOKEN)["code"] == 200
    assert site.report("triggerJob", {"id": site.job_id}, GROUP_TOKEN)["code"] == 200
    run_id = int(json.loads(thief.wait_for("/trigger")[2])["logId"])
    for claimed_ms in (0, 1):
        item = {"logId": run_id, "logDateTim": claimed_ms, "handleCode": 500}
        answer = site.report("callback", [item], EXECUTOR_TOKEN)
        assert f"logId {run_id}" in answer["msg"], answer
    with site.db.read() as conn:
        assert runs.get_run(conn, run_id).state in {RunState.DISPATCHING, RunState.RUNNING}
    assert site.report("callback", [{"logId": run_id, "handleCode": 200}], GROUP_TOKEN)["msg"] == "Success"
