"""S1 and S5: with one group's credentials alone, its token and its secret, nothing is obtained that opens another.

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
        return "\n".join(f"{path} {headers} {body.decode('utf-8', 'replace')}" for path, headers, body in self.calls)

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
    site.run()
    thief.wait_for("/trigger")
    run_id = int(json.loads(thief.wait_for("/trigger")[2])["logId"])
    site.manage("GET", f"/api/v1/runs/{run_id}/log")
    thief.wait_for("/log")
    assert site.manage("POST", f"/api/v1/runs/{run_id}/kill")[0] in {200, 202}
    thief.wait_for("/kill")
    beats = site.node.scheduler.routing.probes
    (executor,) = site.node.scheduler.core.registry.live(site.orders, site.node.scheduler.core.clock.now_ms())
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
            site.run(place.address)
            place.wait_for("/trigger")
        assert honest.wait_for("/trigger")[1][TOKEN_HEADER] == EXECUTOR_TOKEN
        assert EXECUTOR_TOKEN not in thief.loot()
    finally:
        honest.close()


def test_s1_an_address_that_comes_again_with_the_groups_token_gets_no_other_any_more(site: Site, thief: Thief) -> None:
    """The executor that held the shared token is gone, and the thief took over its port."""
    assert register(site, thief.address, EXECUTOR_TOKEN)["code"] == 200
    assert register(site, thief.address, GROUP_TOKEN)["code"] == 200
    site.run()
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
    site.run()
    run_id = int(json.loads(thief.wait_for("/trigger")[2])["logId"])
    for claimed_ms in (0, 1):
        item = {"logId": run_id, "logDateTim": claimed_ms, "handleCode": 500}
        answer = site.report("callback", [item], EXECUTOR_TOKEN)
        assert f"logId {run_id}" in answer["msg"], answer
    with site.db.read() as conn:
        assert runs.get_run(conn, run_id).state in {RunState.DISPATCHING, RunState.RUNNING}
    assert site.report("callback", [{"logId": run_id, "handleCode": 200}], GROUP_TOKEN)["msg"] == "Success"


class Loot:
    """All that a thief has: what it was given for its own group, and what it was sent."""

    def __init__(self, site: Site, thief: Thief) -> None:
        self._site = site
        self._thief = thief

    def tokens(self) -> set[str]:
        return {value for _, headers, _ in self._thief.calls for value in headers.values() if len(value) >= 16}

    def opens(self, token: str, honest: Thief) -> list[str]:
        """Return what a token does to the other group."""
        opened = []
        body = {"registryGroup": "EXECUTOR", "registryKey": "billing", "registryValue": self._thief.address}
        for named in ("billing", "orders", ""):
            opened += [
                f"{call} as {named!r}"
                for call in ("registry", "registryRemove")
                if self._site.report(call, body, token, named)["code"] == 200
            ]
            there = {**body, "registryValue": honest.address}
            if self._site.report("registryRemove", there, token, named)["code"] == 200:
                opened.append(f"removal of the other executor as {named!r}")
            item = {"logId": 7, "logDateTim": 0, "handleCode": 200}
            if self._site.report("callback", [item], token, named)["msg"] == "Success":
                opened.append(f"outcome as {named!r}")
            opened += [
                f"{call} as {named!r}"
                for call in ("triggerJob", "stopJob")
                if self._site.report(call, {"id": self._site.job_of_billing}, token, named)["code"] == 200
            ]
        return opened


@pytest.mark.parametrize("with_secret", [False, True], ids=["token alone", "token and secret"])
def test_s1_with_one_groups_credentials_nothing_of_another_group_opens(
    site: Site, thief: Thief, with_secret: bool
) -> None:
    """The script of the trial: an own listener, a run, and then all that the other group's executors obey."""
    honest = Thief()
    try:
        made = {
            name: site.manage("POST", "/api/v1/secrets", {"name": f"{name}-1", "group_id": group})[1]["secret"]
            for name, group in (("orders", site.orders), ("billing", site.billing))
        }
        there = {"registryGroup": "EXECUTOR", "registryKey": "billing", "registryValue": honest.address}
        assert site.report("registry", there, made["billing"], "")["code"] == 200
        row = make_run(
            7, job_id=site.job_of_billing, group_id=site.billing, address=honest.address, state=RunState.RUNNING
        )
        site.db.transaction(lambda conn: runs.insert_runs(conn, [row]))
        own = made["orders"] if with_secret else GROUP_TOKEN
        assert register(site, thief.address, own)["code"] == 200
        site.run()
        thief.wait_for("/trigger")
        loot = Loot(site, thief)
        assert EXECUTOR_TOKEN not in thief.loot()
        assert made["billing"] not in thief.loot()
        assert (made["orders"] in thief.loot()) == with_secret
        for token in {own, GROUP_TOKEN, *loot.tokens()}:
            assert loot.opens(token, honest) == []
        now_ms = site.node.scheduler.core.clock.now_ms()
        live = site.node.scheduler.core.registry.live(site.billing, now_ms)
        assert [item.address for item in live] == [honest.address]
        # the other group's executor is called with its own
        assert site.manage("POST", f"/api/v1/jobs/{site.job_of_billing}/run", {})[0] in {200, 201, 202}
        assert honest.wait_for("/run")[1][TOKEN_HEADER] == made["billing"]
    finally:
        honest.close()
