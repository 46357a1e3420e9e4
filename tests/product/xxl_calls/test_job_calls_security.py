"""Who may make XXL-JOB's calls with a group's token, about what, and how often; whatever the bytes are."""

from __future__ import annotations

import hmac
import json
import logging
from typing import Any

import pytest
from xwheel_xxl_calls.answers import PER_SECOND

from tests.component.api.conftest import EXECUTOR_TOKEN, LIMIT, TOKEN, Api
from tests.component.api.xxl.test_group_tokens import REFUSED, WRONG
from tests.support.job_calls import SUCCESS, Tenant, definition
from xwheel.storage.access import tokens
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

CALLS = ("addJob", "updateJob", "removeJob", "startJob", "stopJob", "triggerJob")


@pytest.fixture
def billing(api: Api, orders: Tenant) -> Tenant:
    return Tenant(api.db, api.executor.app, "billing")


def body_for(call: str, job_id: int) -> dict[str, Any]:
    return {"addJob": definition(), "updateJob": definition(id=job_id)}.get(call, {"id": job_id})


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_only_a_token_with_its_own_group_opens_a_call(
    api: Api, billing: Tenant, orders: Tenant, call: str, headers: dict[str, str]
) -> None:
    job_id = orders.add()
    before = api.rows()
    for body in (json.dumps(body_for(call, job_id)).encode(), b"not json", b"", b"x" * (LIMIT + 1)):
        answer = api.executor.simulate_post(f"/api/{call}", body=body, headers=headers)
        assert (answer.status_code, answer.json["code"], answer.json["msg"]) == (200, 500, REFUSED)
    assert api.rows() == before


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("app_name", [{}, {APP_NAME_HEADER: "orders"}])
def test_the_token_of_all_executors_opens_no_job_call(
    api: Api, orders: Tenant, call: str, app_name: dict[str, str]
) -> None:
    job_id = orders.add()
    before = api.rows()
    headers = {TOKEN_HEADER: EXECUTOR_TOKEN, **app_name}
    answer = api.executor.simulate_post(
        f"/api/{call}", body=json.dumps(body_for(call, job_id)).encode(), headers=headers
    )
    assert (answer.status_code, answer.json["code"]) == (200, 500)
    assert "the token of executors opens no job calls" in answer.json["msg"]
    assert EXECUTOR_TOKEN not in answer.text
    assert api.rows() == before


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_every_call_is_a_post(api: Api, orders: Tenant, method: str) -> None:
    job_id = orders.add()
    before = api.rows()
    for call in CALLS:
        answer = api.executor.simulate_request(
            method,
            f"/api/{call}",
            body=json.dumps(body_for(call, job_id)).encode(),
            headers={TOKEN_HEADER: orders.token, APP_NAME_HEADER: "orders"},
        )
        assert answer.status_code == 200
    assert api.rows() == before


@pytest.mark.parametrize("call", CALLS[1:])
def test_a_job_of_another_group_answers_like_none(api: Api, orders: Tenant, billing: Tenant, call: str) -> None:
    job_id = orders.add()
    assert orders.call("startJob", {"id": job_id}) == SUCCESS
    gone = orders.add()
    assert orders.call("removeJob", {"id": gone}) == SUCCESS
    before = api.rows()
    foreign = billing.post(call, body_for(call, job_id))
    for missing in (gone, 987_654):
        none = billing.post(call, body_for(call, missing))
        assert foreign.status_code == none.status_code
        assert set(foreign.headers.items()) ^ set(none.headers.items()) <= {
            ("content-length", str(len(answer.content))) for answer in (foreign, none)
        }
        assert foreign.text == none.text.replace(f"job {missing} ", f"job {job_id} ")
    assert api.rows() == before


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"scheduleConf": "never"}, {"glueType": "GLUE_SHELL"}])
def test_a_bad_update_tells_nothing_of_another_groups_job(
    orders: Tenant, billing: Tenant, body: dict[str, Any]
) -> None:
    job_id = orders.add(scheduleType="NONE")
    foreign = billing.refused("updateJob", definition(id=job_id) | body)
    none = billing.refused("updateJob", definition(id=4711) | body)
    assert foreign == none.replace("4711", str(job_id))


def test_a_job_is_never_added_to_another_group(api: Api, orders: Tenant, billing: Tenant) -> None:
    before = api.rows()
    foreign = billing.refused("addJob", definition(jobGroup=orders.group_id))
    none = billing.refused("addJob", definition(jobGroup=4711))
    assert foreign == none.replace("4711", str(orders.group_id))
    assert api.rows() == before


def test_a_trigger_does_not_reach_another_groups_executor(api: Api, orders: Tenant, billing: Tenant) -> None:
    job_id = orders.add()
    registration = {"registryGroup": "EXECUTOR", "registryKey": "billing", "registryValue": "http://b:1"}
    assert billing.call("registry", registration)["code"] == 200
    foreign = orders.refused("triggerJob", {"id": job_id, "addressList": "http://b:1"})
    none = orders.refused("triggerJob", {"id": job_id, "addressList": "http://c:1"})
    assert foreign == none.replace("http://c:1", "http://b:1")


def test_tokens_are_rotated_without_a_gap_and_end_within_a_second(api: Api, orders: Tenant) -> None:
    job_id = orders.add()
    api.db.transaction(lambda conn: tokens.insert_token(conn, "orders-2", "next-token", 1, group_id=orders.group_id))
    api.clock.advance(1000)
    for token in (orders.token, "next-token"):
        answer = orders.post("stopJob", {"id": job_id}, {TOKEN_HEADER: token})
        assert answer.json == SUCCESS
    api.db.transaction(lambda conn: tokens.delete_token(conn, "orders"))
    api.clock.advance(1000)
    assert orders.call("stopJob", {"id": job_id})["msg"] == REFUSED
    orders.token = "next-token"
    assert orders.call("stopJob", {"id": job_id}) == SUCCESS


def test_a_token_whose_group_is_gone_opens_nothing(api: Api, orders: Tenant) -> None:
    with api.db.write() as conn:
        conn.execute(tokens.executor_group.delete())
    for app_name in ("orders", "None", "", "1"):
        answer = orders.post("addJob", definition(), {APP_NAME_HEADER: app_name})
        assert answer.json["msg"] == REFUSED
    answer = api.management.simulate_get("/api/v1/groups", headers={"Authorization": f"Bearer {orders.token}"})
    assert answer.status_code == 401
    listed = {item["name"]: item for item in api.call("GET", "tokens").json["items"]}
    assert (listed["orders"]["group_id"], listed["orders"]["app_name"]) == (orders.group_id, None)


def test_every_token_is_compared_in_constant_time(
    api: Api, orders: Tenant, billing: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bytes] = []
    compare = hmac.compare_digest

    def spy(left: bytes, right: bytes) -> bool:
        compared.append(left)
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    for token in ("token-of-orders", "wrong"):
        compared.clear()
        orders.post("stopJob", {"id": 1}, {TOKEN_HEADER: token})
        # the shared one, then all digests, whether one of the first fits or not
        stored = [digest for _, _, digest, *_ in api.rows()["api_token"]]
        assert len(stored) > 1
        assert set(stored) <= set(compared)


def test_a_token_may_call_so_often(api: Api, orders: Tenant, billing: Tenant) -> None:
    job_id = orders.add()
    for _ in range(PER_SECOND - 1):
        assert orders.call("stopJob", {"id": job_id}) == SUCCESS
    before = api.rows()
    for call in CALLS:
        answer = orders.call(call, body_for(call, job_id))
        assert answer["code"] == 502
        assert answer["msg"].startswith("too many requests, try again later")
    assert orders.post("addJob", b"x" * (LIMIT + 1)).json["code"] == 502
    assert api.rows() == before
    # others are not held up, nor are executors' calls
    assert billing.call("removeJob", {"id": 1}) == SUCCESS
    assert orders.call("callback", [])["code"] == 200
    api.clock.advance(10)
    assert orders.call("stopJob", {"id": job_id}) == SUCCESS
    assert orders.call("stopJob", {"id": job_id})["code"] == 502


def test_no_answer_and_no_log_line_has_a_token(api: Api, orders: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        job_id = orders.add()
        answers = [orders.post(call, body_for(call, job_id)) for call in CALLS]
        answers.append(orders.post("addJob", b"{", {TOKEN_HEADER: "wrong-secret-token"}))
    for text in (*(answer.text for answer in answers), caplog.text):
        for secret in (orders.token, EXECUTOR_TOKEN, TOKEN, "wrong-secret-token"):
            assert secret not in text
    assert f"token orders of group orders: addJob job {job_id}" in caplog.text
