"""Traps of Go executors: section 10.1 of the protocol reference, row by row; ``test_traps`` has the list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, Api, api
from tests.contract.test_peer_traffic import Recording, parcel
from tests.support.network import attach, check
from tests.support.node import HandNode
from tests.support.peers import Peer, answer
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import ExecutorRefusedError
from xwheel.model import Run, RunState
from xwheel.scheduler.records import Fate
from xwheel.scheduler.send.lane import read_answers
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.wire import codec, contract
from xwheel.wire.http import HttpResult, post

__all__ = ["api"]

ADDRESS = "http://127.0.0.1:9001"
GO = "go-1.2.0"
RUN = {
    "jobId": 1,
    "logId": 7,
    "executorHandler": "demo",
    "executorParams": "",
    "executorBlockStrategy": "SERIAL_EXECUTION",
    "executorTimeout": 0,
}


@pytest.fixture
def node(db: Database) -> HandNode:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    return node


def start(node: HandNode) -> int:
    """Let a foreign executor take a run."""
    node.register(ADDRESS, kind="foreign", instance="", boot="")
    run_id = node.scheduler.management.run_now.run(node.job(enabled=False).id).id
    node.run_for(300)
    node.answer()
    node.scheduler.core.registry.step(node.clock.now_ms())
    node.scheduler.core.registry.take_news()
    return run_id


def pass_time(node: HandNode, duration_ms: int) -> None:
    for _ in range(duration_ms // 1000):
        node.register(ADDRESS, kind="foreign", instance="", boot="")
        check(node, 1000)


def load(node: HandNode, run_id: int) -> Run:
    with node.db.read() as conn:
        return runs.get_run(conn, run_id)


def replied(body: bytes, status: int = 200) -> HttpResult:
    return HttpResult(key=None, status=status, body=body, error="", sent=True, cost_ms=5)


def test_an_address_without_a_slash_is_the_same_as_one_with(api: Api) -> None:
    group_id = api.group("demo")
    for address in ("http://10.0.0.1:9999", "http://10.0.0.1:9999/"):
        body = {"registryGroup": "EXECUTOR", "registryKey": "demo", "registryValue": address}
        assert api.report_in("/api/registry", body).json["code"] == 200
        (live,) = api.parts.registry.live(group_id, api.clock.now_ms())
        assert live.address == "http://10.0.0.1:9999"


@pytest.mark.parametrize("path", ["//api/registry", "/xxl-job-admin//api/registry"])
def test_a_doubled_slash_in_the_admin_url_is_taken(api: Api, path: str) -> None:
    group_id = api.group("recorded")
    (beat,) = Recording(GO).said(contract.REGISTRY)
    assert api.report_in(path, beat["body"].encode()).json["code"] == 200
    assert len(api.parts.registry.live(group_id, api.clock.now_ms())) == 1


@pytest.mark.parametrize("token", ["", None])
def test_an_empty_token_is_refused_with_a_message(api: Api, token: str | None) -> None:
    group_id = api.group("recorded")
    (beat,) = Recording(GO).said(contract.REGISTRY)
    headers = {} if token is None else {contract.TOKEN_HEADER: token}
    reply = api.executor.simulate_post("/api/registry", body=beat["body"].encode(), headers=headers)
    assert (reply.status_code, reply.json["code"]) == (200, 500)
    assert contract.TOKEN_HEADER in reply.json["msg"]
    assert api.parts.registry.live(group_id, api.clock.now_ms()) == []


@pytest.mark.parametrize("base", ["http://h:1", "http://h:1/", "http://h:1//"])
def test_no_call_has_a_doubled_slash(base: str) -> None:
    for path in (contract.RUN, contract.KILL, contract.LOG, contract.BEAT, contract.IDLE_BEAT):
        assert contract.join_url(contract.normalise_address(base), path) == f"http://h:1{path}"


def test_a_redirect_is_not_followed_and_is_no_success() -> None:
    moved = answer("301 Moved Permanently", b"", "Location: /run\r\n")
    with Peer(lambda *_: moved) as peer:
        with pytest.raises(ExecutorRefusedError, match="301"):
            post(f"{peer.url}/run", b"{}", token="a-token-for-tests-only")
        assert len(peer.requests) == 1
    (result,) = read_answers(parcel(RUN), replied(b"", 301))
    assert result.fate is Fate.UNKNOWN  # it is never taken for accepted, nor sent to somebody else


def test_a_reply_without_a_json_content_type_is_read() -> None:
    plain = answer("200 OK", b'{"code":200,"msg":""}', "Content-Type: text/plain; charset=utf-8\r\n")
    with Peer(lambda *_: plain) as peer:
        assert post(f"{peer.url}/beat", b"", token="a-token-for-tests-only").ok
    assert all(item["type"].startswith("text/plain") for item in Recording(GO).told(contract.RUN))


@pytest.mark.parametrize("message", ["Task not registered", "There are tasks running", "params err"])
def test_a_refusal_of_a_run_is_an_array(message: str) -> None:
    item = {
        "logId": 7,
        "logDateTim": 5,
        "executeResult": {"code": 500, "msg": message},
        "handleCode": 500,
        "handleMsg": message,
    }
    (result,) = read_answers(parcel(RUN), replied(json.dumps([item]).encode()))
    assert (result.run_id, result.fate, result.message) == (7, Fate.REFUSED, message)


@pytest.mark.parametrize("body", [b"[]", b"[1]", b'[{"logId":7}]', b'[{"handleCode":"what"}]'])
def test_an_array_that_says_nothing_is_no_refusal(body: bytes) -> None:
    (result,) = read_answers(parcel(RUN), replied(body))
    assert result.fate is Fate.UNKNOWN


def test_a_busy_job_is_a_refusal_that_is_retried(node: HandNode) -> None:
    node.register(ADDRESS, kind="foreign", instance="", boot="")
    job = node.job(enabled=False, max_retries=1, retry_delay_ms=5000)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer(Fate.REFUSED, "There are tasks running")
    first, second = node.runs(job.id)
    assert (first.state, first.reason) == (RunState.REFUSED, "executor_refused")
    assert "There are tasks running" in first.message
    assert (second.state, second.attempt) == (RunState.PLANNED, 2)


def test_a_kill_of_an_idle_job_that_is_refused_still_ends_the_run(node: HandNode) -> None:
    run_id = start(node)
    said: dict[str, Any] = {"/kill": {"code": 500, "msg": "Task kill err"}, "/idleBeat": {"code": 200, "msg": ""}}
    attach(node, lambda _address, path, _body: said[path])
    node.scheduler.management.killer.kill(run_id)
    pass_time(node, 180_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.KILLED, "no_report")


def test_a_busy_idle_beat_keeps_the_run_open(node: HandNode) -> None:
    run_id = start(node)
    network = attach(node, lambda *_: {"code": 500, "msg": "Task is busy"})
    node.clock.advance(600_000)
    pass_time(node, 3000)
    assert [path for _, path, _ in network.calls] == ["/idleBeat"]
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.RUNNING, "")


def test_a_log_under_content_only_is_read() -> None:
    reply = b'{"code":200,"msg":"","content":{"fromLineNum":1,"toLineNum":2,"logContent":"x","isEnd":true}}'
    page = codec.read_log_data(codec.decode_response(reply).data)
    assert (page.from_line, page.to_line, page.content, page.is_end) == (1, 2, "x", True)


def test_a_log_is_asked_for_with_the_old_spelling_of_the_time() -> None:
    bodies = [json.loads(item["body"]) for item in Recording(GO).told(contract.LOG)]
    assert bodies
    assert all(body["logDateTim"] == body["logDateTime"] > 0 for body in bodies)


def test_a_callback_in_both_styles_is_one_outcome(api: Api) -> None:
    api.running(1)
    item = {
        "logId": 1,
        "logDateTim": 5,
        "executeResult": {"code": 500, "msg": "task panic:no"},
        "handleCode": 500,
        "handleMsg": "task panic:no",
    }
    assert api.report_in("/api/callback", [item]).json["code"] == 200
    assert (api.run(1).state, api.run(1).message) == (RunState.FAILED, "task panic:no")


def test_a_callback_that_never_comes_ends_as_lost(node: HandNode) -> None:
    run_id = start(node)
    attach(node, lambda *_: {"code": 200, "msg": ""})
    node.clock.advance(600_000)
    pass_time(node, 125_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.LOST, "no_report")


def test_the_covered_run_that_reports_as_the_newer_one_changes_nothing(api: Api) -> None:
    api.running(1, 2)
    done = {"logId": 2, "handleCode": 200, "handleMsg": "held"}
    cut = {"logId": 2, "handleCode": 500, "handleMsg": "task panic:context canceled"}
    for item in (done, cut):
        assert api.report_in("/api/callback", [item]).json["code"] == 200
    assert (api.run(2).state, api.run(2).message) == (RunState.SUCCEEDED, "held")
    assert api.run(1).state is RunState.RUNNING  # the checks find out that no one has it


def test_a_script_that_meets_a_missing_handler_is_refused() -> None:
    (result,) = read_answers(
        parcel({**RUN, "executorHandler": ""}),
        replied(b'[{"logId":7,"handleCode":500,"handleMsg":"Task not registered"}]'),
    )
    assert (result.fate, result.message) == (Fate.REFUSED, "Task not registered")


def test_go_executors_are_told_the_third_generation(api: Api) -> None:
    group_id = api.group("recorded")
    (beat,) = Recording(GO).said(contract.REGISTRY)
    assert "xxl-job-appname" not in beat["headers"]
    headers = {**beat["headers"], "xxl-job-access-token": EXECUTOR_TOKEN}
    api.executor.simulate_post(beat["path"], body=beat["body"].encode(), headers=headers)
    (live,) = api.parts.registry.live(group_id, api.clock.now_ms())
    assert live.generation == 3
