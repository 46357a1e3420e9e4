"""XXL-JOB's executor API: what executors of every generation send, and what they are told."""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import quote

import pytest

from tests.component.api.conftest import LIMIT, Api
from tests.support.rows import make_run
from xwheel.errors import DatabaseUnreachableError, StorageError
from xwheel.model import RegisteredExecutor, RunState
from xwheel.scheduler.finish.finish import Finisher
from xwheel.wire.codec import encode_callbacks, encode_registry, read_refusals
from xwheel.wire.contract import APP_NAME_HEADER
from xwheel.wire.messages import CallbackItem, RegistryRequest

ADDRESS = "http://10.0.0.1:9999/"


def registration(**changes: Any) -> dict[str, Any]:
    return {"registryGroup": "EXECUTOR", "registryKey": "demo", "registryValue": ADDRESS, **changes}


def live(api: Api, group_id: int) -> list[RegisteredExecutor]:
    return api.parts.registry.live(group_id, api.clock.now_ms())


@pytest.mark.parametrize(
    "path",
    [
        "/api/registry",
        "/api/registry/",
        "//api//registry",
        "/xxl-job-admin/api/registry",
        "//xxl-job-admin//api/registry//",
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded", ""])
def test_a_beat_is_taken_however_it_is_spelled(api: Api, path: str, content_type: str) -> None:
    group = api.group()
    answer = api.report_in(path, registration(), headers={"Content-Type": content_type})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json == {"code": 200, "msg": "Success", "content": None, "data": None, "success": True, "xwheel": 1}
    assert [executor.address for executor in live(api, group)] == ["http://10.0.0.1:9999"]


def test_a_foreign_executor_is_known_by_its_address(api: Api) -> None:
    group = api.group()
    api.report_in("/api/registry", registration())
    (executor,) = live(api, group)
    assert (executor.kind, executor.generation, executor.instance) == ("foreign", 3, "")
    assert executor.registered_as == ADDRESS


def test_the_app_name_header_tells_the_fourth_generation(api: Api) -> None:
    group = api.group()
    api.report_in("/api/registry", registration(), headers={APP_NAME_HEADER: "demo"})
    assert live(api, group)[0].generation == 4


def test_an_xwheel_executor_says_who_it_is(api: Api) -> None:
    group = api.group()
    facts: dict[str, Any] = {"instance": "i-1", "boot": "b-1", "labels": {"zone": "北京", "bad": "\x00"}}
    body = encode_registry(RegistryRequest(group="EXECUTOR", app_name="demo", address=ADDRESS, **facts))
    api.report_in("/api/registry", body)
    api.parts.registry.step(api.clock.now_ms())  # as another node sees it
    (executor,) = live(api, group)
    assert (executor.kind, executor.instance, executor.boot) == ("xwheel", "i-1", "b-1")
    assert executor.labels == facts["labels"]


def test_an_executor_leaves_at_once_and_may_leave_twice(api: Api) -> None:
    group = api.group()
    api.report_in("/api/registry", registration())
    for _ in range(2):
        # another spelling of the same address
        answer = api.report_in("/api/registryRemove", registration(registryValue="HTTP://10.0.0.1:9999"))
        assert answer.json["code"] == 200
        assert live(api, group) == []


@pytest.mark.parametrize(
    "spellings",
    [
        ["http://[0:0:0:0:0:0:0:1]:9999/", "http://[::1]:9999", "http://[0000::0:1]:9999"],
        ["http://[FD00::0:7]", "HTTP://[fd00:0:0:0:0:0:0:7]:80//"],
        ["https://Host.Example", "https://host.example.:443/"],
    ],
)
def test_r42_an_executor_is_one_however_its_address_is_spelled(api: Api, spellings: list[str]) -> None:
    job = api.job(name="j")
    for address in spellings:
        api.report_in("/api/registry", registration(registryKey="group-j", registryValue=address))
        assert len(live(api, job["group_id"])) == 1
    known = live(api, job["group_id"])[0].address
    for address in spellings:
        assert api.call("POST", f"jobs/{job['id']}/run", {"address": address}).json["address"] == known
    for address in spellings:
        assert len(api.call("GET", f"runs?address={quote(address)}").json["items"]) == len(spellings)
        twice = [{"address": known}, {"address": address}]
        assert "twice" in api.call("PATCH", f"groups/{job['group_id']}", {"addresses": twice}).json["detail"]
    api.report_in("/api/registryRemove", registration(registryKey="group-j", registryValue=spellings[-1]))
    assert live(api, job["group_id"]) == []


def test_other_registry_groups_feed_no_list(api: Api) -> None:
    group = api.group()
    before = api.rows()
    for call in ("registry", "registryRemove"):
        assert api.report_in(f"/api/{call}", registration(registryGroup="ADMIN")).json["code"] == 200
    assert live(api, group) == []
    assert api.rows() == before


@pytest.mark.parametrize("call", ["registry", "registryRemove"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (registration(registryKey="nobody"), "registryKey"),
        (registration(registryKey=" "), "registryKey"),
        (registration(registryKey="x" * 65), "registryKey"),
        (registration(registryKey="x" * 256), "registryKey"),
        (registration(registryKey="de\x00mo"), "registryKey"),
        (registration(registryKey={"a": 1}), "registryKey"),
        (registration(registryGroup=""), "registryGroup"),
        (registration(registryGroup=None), "registryGroup"),
        (registration(registryValue=""), "registryValue"),
        (registration(registryValue=["http://h:1"]), "registryValue"),
        (registration(registryValue="ftp://h:1"), "registryValue"),
        (registration(registryValue="http://user:pw@h:1"), "registryValue"),
        (registration(registryValue="http://h:99999"), "registryValue"),
        (registration(registryValue="http://h:1/?a=b"), "registryValue"),
        (registration(registryValue="http://h:1/" + "x" * 255), "registryValue"),
        (registration(xwheel={"instance": "i" * 65}), "instance"),
        (registration(xwheel={"instance": "i\n"}), "instance"),
        (registration(xwheel={"instance": "i", "boot": "\x1b"}), "boot"),
        ({}, "registryGroup"),
        ([], "request body"),
        (b"", "request body"),
        (b"{", "request body"),
        (b"\xff\xfe", "request body"),
        (b"[" * 100_00, "request body"),
    ],
)
def test_a_bad_registration_is_refused_by_the_name_of_its_field(api: Api, call: str, body: Any, field: str) -> None:
    api.group()
    before = api.rows()
    answer = api.report_in(f"/api/{call}", body)
    assert (answer.status_code, answer.json["code"], answer.json["success"]) == (200, 500, False)
    assert answer.json["msg"].startswith(field)
    assert api.rows() == before
    assert api.report_in("/api/registry", registration()).json["code"] == 200


def test_an_unknown_group_is_told_with_the_way_out(api: Api) -> None:
    answer = api.report_in("/api/registry", registration())
    assert "registryKey" in answer.json["msg"]
    assert "POST /api/v1/groups" in answer.json["msg"]
    assert api.call("POST", "groups", {"app_name": "demo"}).status_code == 201
    assert api.report_in("/api/registry", registration()).json["code"] == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api/callback", "/", "/api"])
def test_another_method_is_code_500(api: Api, method: str, path: str) -> None:
    answer = api.executor.simulate_request(method, path)
    assert (answer.status_code, answer.json["code"]) == (200, 500)
    assert "POST" in answer.json["msg"]


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/none", "/api/Callback", "/callback", "/api/callback/x", "/x/api/callback"]
)
def test_an_unknown_call_is_code_500(api: Api, path: str) -> None:
    answer = api.report_in(path, [])
    assert (answer.status_code, answer.json["code"]) == (200, 500)
    assert "no such call" in answer.json["msg"]


@pytest.mark.parametrize(
    "body",
    [
        [{"logId": 1, "logDateTim": 5, "executeResult": {"code": 200, "msg": "done", "content": None}}],
        [{"logId": 1, "logDateTim": 5, "handleCode": 200, "handleMsg": "done"}],
        [{"logId": "1", "logDateTim": "5", "handleCode": "200", "handleMsg": "done"}],
        {"callbackList": [{"logId": 1, "logDateTime": 5, "handleCode": 200, "handleMsg": "done"}]},
        {"logId": 1, "handleCode": 200, "handleMsg": "done"},
        [{"logId": 1, "handleCode": 200, "handleMsg": "done", "executeResult": {"code": 500}, "new": [1]}],
    ],
)
def test_an_outcome_of_every_generation_closes_its_run(api: Api, body: Any) -> None:
    api.running(1)
    assert api.report_in("/api/callback", body).json["code"] == 200
    run = api.run(1)
    assert (run.state, run.result_code, run.message) == (RunState.SUCCEEDED, 200, "done")
    assert run.finished_ms == api.clock.now_ms()


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (200, RunState.SUCCEEDED),
        (502, RunState.TIMED_OUT),
        (500, RunState.FAILED),
        (1, RunState.FAILED),
        (201, RunState.FAILED),
        (2**31 - 1, RunState.FAILED),
    ],
)
def test_the_code_tells_the_state(api: Api, code: int, state: RunState) -> None:
    api.running(1)
    api.report_in("/api/callback", [{"logId": 1, "handleCode": code}])
    assert (api.run(1).state, api.run(1).result_code) == (state, code)


def test_an_xwheel_executor_tells_the_state_itself(api: Api) -> None:
    api.running(1, 2)
    items = [
        CallbackItem(run_id=1, job_id=1, code=500, state=RunState.KILLED, reason="killed", message="<b>as is</b>"),
        CallbackItem(run_id=2, job_id=1, code=500, state=RunState.FAILED, reason="not\x00printable"),
    ]
    assert api.report_in("/api/callback", encode_callbacks(items)).json["code"] == 200
    assert (api.run(1).state, api.run(1).reason, api.run(1).message) == (RunState.KILLED, "killed", "<b>as is</b>")
    assert (api.run(2).state, api.run(2).reason) == (RunState.FAILED, "")


HALF, NO_UTF8 = rb'"a\ud800b"', b'"a\xff\xfeb"'


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b'"handleCode":500,"handleMsg":' + HALF, "a\ufffdb"),
        (b'"handleCode":500,"handleMsg":' + NO_UTF8, "a\ufffd\ufffdb"),
        (b'"handleCode":500,"handleMsg":"\\\\ud800"', "\\ud800"),
        (b'"handleCode":500,"handleMsg":NaN', "null"),
        (b'"handleCode":NaN', None),
        (b'"handleCode":1e999', None),
        (b'"handleCode":-Infinity', None),
        (b'"handleCode":-' + b"9" * 5000, None),
    ],
)
def test_r40_what_one_item_says_wrongly_is_its_own_fault(api: Api, said: bytes, message: str | None) -> None:
    api.running(1, 2)
    body = b'[{"logId":1,' + said + b'},{"logId":2,"handleCode":200}]'
    answer = api.report_in("/api/callback", body).json
    assert api.run(2).state is RunState.SUCCEEDED
    if message is None:
        assert api.run(1).state is RunState.RUNNING
        assert [row["logId"] for row in json.loads(answer["data"])] == [1]
    else:
        assert (api.run(1).state, api.run(1).message) == (RunState.FAILED, message)


@pytest.mark.parametrize(
    "message", ["count<b and b>0", "first<br>second", "&lt;b&gt; &amp; x", "at Foo.<init>(Foo.java:1)", "<!-- a -->"]
)
def test_r50_messages_of_foreign_executors_stay_as_they_were_sent(api: Api, message: str) -> None:
    api.running(1)
    api.report_in("/api/callback", [{"logId": 1, "handleCode": 500, "handleMsg": message}])
    assert api.run(1).message == message


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"logId": 2, "handleCode": 0}, "handleCode"),
        ({"logId": 2, "handleCode": -1}, "handleCode"),
        ({"logId": 2}, "handleCode"),
        ({"logId": 2, "handleCode": 2**31}, "handleCode"),
        ({"logId": 2, "handleCode": [200]}, "handleCode"),
        ({"logId": 2, "executeResult": {"code": 0}}, "handleCode"),
        ({"handleCode": 200}, "logId"),
        ({"logId": 0, "handleCode": 200}, "logId"),
        ({"logId": -2, "handleCode": 200}, "logId"),
        ({"logId": 2**53, "handleCode": 200}, "logId"),
        ({"logId": 1e300, "handleCode": 200}, "logId"),
        ({"logId": {"a": 1}, "handleCode": 200}, "logId"),
        ({"logId": 2, "handleCode": 200, "logDateTime": "soon"}, "logDateTime"),
        ("text", "item 1"),
        (None, "item 1"),
        ([], "item 1"),
        ({"logId": 404, "handleCode": 200}, "logId"),
        ({"logId": 3, "handleCode": 200}, "logId"),
        ({"logId": 1, "handleCode": 500}, "logId"),
        ({"logId": 5, "handleCode": 500}, "logId"),
    ],
)
def test_a_bad_item_fails_alone_and_is_reported(api: Api, item: Any, field: str) -> None:
    api.running(1, 2, 4)
    api.runs(make_run(3, state=RunState.FAILED, message="kept"), make_run(5, state=RunState.PLANNED))
    body = [{"logId": 1, "handleCode": 200}, item, {"logId": 4, "handleCode": 200}]
    answer = api.report_in("/api/callback", body)
    assert (answer.status_code, answer.json["code"], answer.json["success"]) == (200, 200, True)
    assert f": {field}" in answer.json["msg"]
    # text, since Java executors cannot parse anything else there
    assert isinstance(answer.json["data"], str)
    assert f'"msg":"{field}' in answer.json["data"]
    assert answer.json["content"] == answer.json["data"]
    states = {run_id: str(api.run(run_id).state) for run_id in (1, 2, 3, 4, 5)}
    assert states == {1: "succeeded", 2: "running", 3: "failed", 4: "succeeded", 5: "planned"}
    assert api.run(3).message == "kept"


def test_a_repeated_callback_changes_nothing(api: Api) -> None:
    api.running(1)
    api.report_in("/api/callback", [{"logId": 1, "handleCode": 500, "handleMsg": "first"}])
    before = api.rows()
    answer = api.report_in("/api/callback", [{"logId": 1, "handleCode": 200, "handleMsg": "second"}])
    assert answer.json["code"] == 200
    assert "logId 1" in answer.json["msg"]
    assert api.rows() == before


def test_an_xwheel_executor_gets_the_refused_items_as_data(api: Api) -> None:
    api.running(7)
    items = [CallbackItem(run_id=6, job_id=1, code=200), CallbackItem(run_id=7, job_id=1, code=200)]
    answer = api.report_in("/api/callback", encode_callbacks(items))
    (refused,) = read_refusals(answer.json["data"])
    assert (refused.index, refused.run_id) == (0, 6)
    assert api.run(7).state is RunState.SUCCEEDED
    # the same again, as after a lost reply: told, but not as a refusal
    again = api.report_in("/api/callback", encode_callbacks(items[1:])).json
    assert (again["code"], read_refusals(again["data"])) == (200, [])
    assert "logId 7" in again["msg"]


def test_an_outcome_corrects_a_lost_run(api: Api) -> None:
    api.runs(make_run(1, state=RunState.LOST))
    assert api.report_in("/api/callback", [{"logId": 1, "handleCode": 200}]).json["msg"] == "Success"
    assert api.run(1).state is RunState.SUCCEEDED


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"[",
        b'{"a":',
        b"\xff",
        b'"text"',
        b"1",
        b"null",
        b"[" * 20_000,
        b'{"callbackList":{}}',
        b'{"callbackList":1}',
    ],
)
def test_a_callback_that_cannot_be_read_is_code_500(api: Api, body: bytes) -> None:
    api.running(1)
    before = api.rows()
    answer = api.report_in("/api/callback", body)
    assert (answer.status_code, answer.json["code"]) == (200, 500)
    assert answer.json["msg"].startswith(("request body", "callbackList"))
    assert api.rows() == before
    assert api.report_in("/api/callback", [{"logId": 1, "handleCode": 200}]).json["code"] == 200


@pytest.mark.parametrize("error", [StorageError("the disk is full"), DatabaseUnreachableError("it is away")])
def test_r45_an_outage_has_an_answer_of_its_own_and_leaves_the_outcomes_with_the_executor(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: StorageError
) -> None:
    api.running(1)

    def fail(self: object, outcomes: object) -> None:
        raise error

    monkeypatch.setattr(Finisher, "finish", fail)
    answer = api.report_in("/api/callback", [{"logId": 1, "handleCode": 200}])
    assert (answer.status_code, answer.json["code"], answer.headers["retry-after"]) == (503, 500, "1")
    assert (str(error) in answer.json["msg"]) == (type(error) is StorageError)
    assert api.run(1).state is RunState.RUNNING


def test_an_unexpected_failure_tells_only_its_incident(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: object, outcomes: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Finisher, "finish", fail)
    answer = api.report_in("/api/callback", [])
    assert (answer.status_code, answer.json["code"]) == (200, 500)
    assert "secret" not in answer.text
    incident = answer.json["msg"].split()[-1]
    assert incident in caplog.text
    assert "secret detail" in caplog.text


@pytest.mark.parametrize("terminated", [False, True])
@pytest.mark.parametrize("call", ["registry", "registryRemove", "callback"])
def test_a_large_body_is_413_announced_or_not(api: Api, call: str, terminated: bool) -> None:
    before = api.rows()
    options: dict[str, Any] = {"headers": {"Content-Length": None}} if terminated else {}
    if terminated:
        options["extras"] = {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
        options["headers"] = {}
    answer = api.report_in(f"/api/{call}", b"[" + b" " * LIMIT + b"]", **options)
    assert (answer.status_code, answer.json["code"]) == (413, 500)
    assert answer.json["msg"].startswith("body: ")
    assert str(LIMIT) in answer.json["msg"]
    assert api.rows() == before


def test_a_body_at_the_limit_is_read(api: Api) -> None:
    body = b"[" + b" " * (LIMIT - 2) + b"]"
    assert api.report_in("/api/callback", body).json["code"] == 200
    extras = {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    assert api.report_in("/api/callback", body, extras=extras).json["code"] == 200


def test_a_batch_is_one_transaction_with_a_fixed_number_of_statements(api: Api) -> None:
    from sqlalchemy import event

    counts: list[int] = []
    for base, size in ((100, 1), (200, 100)):
        ids = range(base, base + size)
        api.running(*ids)
        seen: list[str] = []

        def note(conn: Any, cursor: Any, statement: str, *rest: Any, seen: list[str] = seen) -> None:
            seen.append(statement)

        event.listen(api.db.engine, "before_cursor_execute", note)
        answer = api.report_in("/api/callback", [{"logId": run_id, "handleCode": 200} for run_id in ids])
        event.remove(api.db.engine, "before_cursor_execute", note)
        assert answer.json["msg"] == "Success"
        counts.append(len([text for text in seen if "run_id_block" not in text and not text.startswith("BEGIN")]))
    assert counts[0] == counts[1] <= 4


def test_strangers_calls_that_are_no_post_are_one_line_a_window(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """S18: 1,500 of them were 1,500 lines; a known executor's own wrong call is still named at once."""
    caplog.set_level(logging.INFO)
    for number in range(1500):
        method = ("GET", "PUT", "DELETE")[number % 3]
        answer = api.executor.simulate_request(method, f"/api/{'x' * 60}{number}")
        assert answer.json["msg"].endswith("every call must be a POST")
    assert len(caplog.messages) == 1
    assert len(caplog.text) < 400
    api.clock.advance(31_000)
    api.executor.simulate_request("GET", "/")
    (_, line, *_) = caplog.messages
    assert line.startswith("refused 1499 calls with a method other than POST in 31 s: 127.0.0.1 ")
    assert len(line) < 2000
