"""Traps of pyxxl: section 10.2 of the protocol reference, row by row; ``test_traps`` has the list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, LIMIT, Api, api
from tests.contract.test_peer_traffic import Recording, parcel
from tests.contract.test_traps_go import RUN, load, node, pass_time, replied, start
from tests.support.network import attach
from tests.support.node import HandNode
from xwheel.model import Run, RunState
from xwheel.scheduler.records import Fate
from xwheel.scheduler.send.lane import read_answers
from xwheel.wire import codec, contract
from xwheel.wire.messages import LogData

__all__ = ["api", "node"]

ADDRESS = "http://127.0.0.1:9999"


@pytest.mark.parametrize("path", ["/api/registry", "/xxl-job-admin/api/registry"])
def test_the_full_admin_url_works_with_and_without_context_path(api: Api, path: str) -> None:
    api.group("recorded")
    (beat,) = Recording("pyxxl").said(contract.REGISTRY)
    assert beat["path"] == "/xxl-job-admin/api/registry"
    assert api.report_in(path, beat["body"].encode()).json["code"] == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"XXL-JOB-ACCESS-TOKEN": EXECUTOR_TOKEN, "XXL-RPC-ACCESS-TOKEN": EXECUTOR_TOKEN}, 200),
        ({"XXL-JOB-ACCESS-TOKEN": EXECUTOR_TOKEN, "XXL-RPC-ACCESS-TOKEN": "other"}, 200),
        ({"XXL-RPC-ACCESS-TOKEN": EXECUTOR_TOKEN}, 500),
        ({}, 500),
    ],
)
def test_the_token_counts_under_its_own_name(api: Api, headers: dict[str, str], code: int) -> None:
    api.group("recorded")
    (beat,) = Recording("pyxxl").said(contract.REGISTRY)
    reply = api.executor.simulate_post(beat["path"], body=beat["body"].encode(), headers=headers)
    assert reply.json["code"] == code


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/registry", b"{}", 200),
        ("/api/callback", b"[]", 200),
        ("/api/none", b"{}", 200),
        ("/api/callback", b"[" + b" " * LIMIT + b"]", 413),
    ],
)
def test_every_reply_is_json_with_a_code(api: Api, path: str, body: bytes, status: int) -> None:
    reply = api.report_in(path, body)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/json")
    assert reply.json["code"] in {200, 500}


def test_an_address_without_a_slash_registers(api: Api) -> None:
    group_id = api.group("recorded")
    (beat,) = Recording("pyxxl").said(contract.REGISTRY)
    api.report_in("/api/registry", beat["body"].encode())
    (live,) = api.parts.registry.live(group_id, api.clock.now_ms())
    assert (live.address, live.registered_as) == (ADDRESS, ADDRESS)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (None, ""),
        (7, "7"),
        (2.5, "2.5"),
        (True, "true"),
        ([1, None], "[1,null]"),
        ({"rows": 3}, '{"rows":3}'),
        ("text", "text"),
    ],
)
def test_a_message_of_any_type_becomes_text(api: Api, said: Any, message: str) -> None:
    api.running(1)
    item = {
        "logId": 1,
        "logDateTim": 5,
        "handleCode": 200,
        "handleMsg": said,
        "executeResult": {"code": 200, "msg": said},
    }
    assert api.report_in("/api/callback", [item]).json["code"] == 200
    assert (api.run(1).state, api.run(1).message) == (RunState.SUCCEEDED, message)


def test_the_time_of_its_callbacks_is_not_the_runs(api: Api) -> None:
    api.running(1)
    late = api.run(1).created_ms + 86_400_000
    api.report_in("/api/callback", [{"logId": 1, "logDateTim": late, "handleCode": 200, "handleMsg": None}])
    assert api.run(1).state is RunState.SUCCEEDED


def test_a_callback_that_must_not_be_sent_again_is_code_200(api: Api) -> None:
    # it sends a refused one never again, so a 500 would help no one: what is wrong stands in the message
    api.running(1)
    items = [{"logId": 404, "handleCode": 200}, {"logId": 1, "handleCode": 200}]
    reply = api.report_in("/api/callback", items).json
    assert (reply["code"], "logId 404" in reply["msg"]) == (200, True)


@pytest.mark.parametrize("message", ["TimeoutError", "CancelledError"])
def test_a_timeout_is_a_failure_with_its_message(api: Api, message: str) -> None:
    api.running(1)
    api.report_in("/api/callback", [{"logId": 1, "handleCode": 500, "handleMsg": message}])
    assert (api.run(1).state, api.run(1).message) == (RunState.FAILED, message)


def test_a_cancelled_run_that_somebody_killed_is_killed(node: HandNode) -> None:
    run_id = start(node)
    node.scheduler.management.killer.kill(run_id)
    node.finish([load(node, run_id)], RunState.FAILED)
    assert load(node, run_id).state is RunState.KILLED


def test_a_run_has_all_that_it_requires_and_its_answers_are_read() -> None:
    for exchange in Recording("pyxxl").told(contract.RUN):
        body = json.loads(exchange["body"])
        assert all(body[name] for name in ("jobId", "logId", "executorHandler", "executorBlockStrategy"))
    (running,) = read_answers(parcel(RUN), replied(b'{"code": 200, "msg": "Running"}'))
    (refused,) = read_answers(parcel(RUN), replied(b'{"code": 500, "msg": "handler x not found."}'))
    assert (running.fate, refused.fate) == (Fate.ACCEPTED, Fate.REFUSED)
    assert refused.message == "handler x not found."


def test_an_http_status_500_is_unknown_and_sent_nowhere_else() -> None:
    (result,) = read_answers(parcel(RUN), replied(b"500 Internal Server Error", 500))
    assert (result.fate, result.message) == (Fate.UNKNOWN, "HTTP status 500")


def test_a_full_queue_is_a_refusal() -> None:
    (result,) = read_answers(parcel(RUN), replied(b'{"code": 500, "msg": "discarded: max queue length"}'))
    assert result.fate is Fate.REFUSED


def test_queued_runs_that_a_kill_dropped_do_not_stay_open(node: HandNode) -> None:
    running = start(node)
    job_id = load(node, running).job_id
    queued = node.scheduler.management.run_now.run(job_id).id
    node.run_for(300)
    node.answer()
    idle = {"code": 200, "msg": None}
    busy = {"code": 500, "msg": "job is running."}
    killed: list[str] = []

    def say(_address: str, path: str, _body: dict[str, Any]) -> dict[str, Any]:
        if path == "/kill":
            killed.append(path)
            return idle
        return idle if killed else busy

    attach(node, say)
    node.scheduler.management.killer.kill(running)
    pass_time(node, 3000)
    node.finish([load(node, running)], RunState.FAILED)  # the queued one is dropped without a word
    pass_time(node, 180_000)
    assert load(node, running).state is RunState.KILLED
    assert (load(node, queued).state, load(node, queued).reason) == (RunState.LOST, "no_report")


def test_an_empty_page_is_no_progress_and_its_end_is_not_the_runs(api: Api) -> None:
    group_id = api.group("recorded")
    (beat,) = Recording("pyxxl").said(contract.REGISTRY)
    api.report_in("/api/registry", beat["body"].encode())
    api.running(1, group_id=group_id, address=ADDRESS)

    def page(_: Run, from_line: int) -> LogData:
        reply = {"fromLineNum": from_line, "toLineNum": from_line, "logContent": "", "isEnd": True}
        body = json.dumps({"code": 200, "msg": None, "content": reply, "data": reply}).encode()
        return codec.read_log_data(codec.decode_response(body).data)

    api.asked.logs = page
    for _ in range(3):
        answer = api.call("GET", "runs/1/log", params={"from_line": 3}).json
        assert (answer["next_line"], answer["is_end"]) == (3, False)


@pytest.mark.parametrize(
    "text", ["No such logid logs.", "readLog fail, logFile not exists", "readLog fail, logFile not found"]
)
def test_a_log_that_is_not_there_yet_takes_no_line_number(text: str) -> None:
    reply = {"fromLineNum": 1, "toLineNum": 1, "logContent": text, "isEnd": False}
    page = codec.read_log_data(reply)
    assert (page.to_line, page.content, page.is_end) == (0, text, True)


def test_bodies_of_idle_beat_and_kill_are_json() -> None:
    told = Recording("pyxxl").told(contract.IDLE_BEAT, contract.KILL)
    assert {item["path"] for item in told} == {contract.IDLE_BEAT, contract.KILL}
    assert all(json.loads(item["body"]) == {"jobId": 5} for item in told)
    assert all(item["headers"]["content-type"].startswith("application/json") for item in told)


def test_it_is_told_the_third_generation() -> None:
    assert not any("xxl-job-appname" in item["headers"] for item in Recording("pyxxl").said(contract.REGISTRY))
    assert {item["path"] for item in Recording("pyxxl").told("/run", "/trigger")} == {"/run"}
