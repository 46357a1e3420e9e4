"""Who may make XXL-JOB's calls with a group's token, and about what."""

from __future__ import annotations

import json

import pytest

from tests.component.api.conftest import LIMIT, TOKEN, Api
from tests.support.job_calls import SUCCESS, Tenant
from xwheel.model import RunState
from xwheel.storage.access import tokens
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

REFUSED = (
    "XXL-JOB-ACCESS-TOKEN: missing or wrong; it must be the scheduler's executor token, a secret of the executor's "
    "group, or a group's token while XXL-JOB-APPNAME names that group"
)


WRONG: dict[str, dict[str, str]] = {
    "nothing": {},
    "no token": {APP_NAME_HEADER: "orders"},
    "empty token": {TOKEN_HEADER: "", APP_NAME_HEADER: "orders"},
    "wrong token": {TOKEN_HEADER: "wrong", APP_NAME_HEADER: "orders"},
    "no app name": {TOKEN_HEADER: "token-of-orders"},
    "empty app name": {TOKEN_HEADER: "token-of-orders", APP_NAME_HEADER: " "},
    "other group's name": {TOKEN_HEADER: "token-of-orders", APP_NAME_HEADER: "billing"},
    "no one's name": {TOKEN_HEADER: "token-of-orders", APP_NAME_HEADER: "missing"},
    "other case": {TOKEN_HEADER: "token-of-orders", APP_NAME_HEADER: "Orders"},
    "token of the other group": {TOKEN_HEADER: "token-of-billing", APP_NAME_HEADER: "orders"},
    "longer": {TOKEN_HEADER: "token-of-orders!", APP_NAME_HEADER: "orders"},
    "huge token": {TOKEN_HEADER: "x" * 200_000, APP_NAME_HEADER: "orders"},
    "huge app name": {TOKEN_HEADER: "token-of-orders", APP_NAME_HEADER: "orders" + "x" * 200_000},
    "not ascii": {TOKEN_HEADER: "\xe9\xff", APP_NAME_HEADER: "\xe9"},
    "digest": {TOKEN_HEADER: tokens.digest_token("token-of-orders").hex(), APP_NAME_HEADER: "orders"},
    "management token": {TOKEN_HEADER: TOKEN, APP_NAME_HEADER: "orders"},
    "bearer": {"Authorization": "Bearer token-of-orders", APP_NAME_HEADER: "orders"},
    "cookie": {"Cookie": f"{TOKEN_HEADER}=token-of-orders", APP_NAME_HEADER: "orders"},
}


@pytest.mark.parametrize("call", ["registry", "registryRemove", "callback", "none"])
@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_only_a_token_with_its_own_group_opens_a_call(
    api: Api, billing: Tenant, orders: Tenant, call: str, headers: dict[str, str]
) -> None:
    before = api.rows()
    for body in (b'{"id": 1}', b"not json", b"", b"x" * (LIMIT + 1)):
        answer = api.executor.simulate_post(f"/api/{call}", body=body, headers=headers)
        assert (answer.status_code, answer.json["code"], answer.json["msg"]) == (200, 500, REFUSED)
    assert api.rows() == before


def test_executors_may_use_their_groups_token(api: Api, orders: Tenant) -> None:
    registration = {"registryGroup": "EXECUTOR", "registryKey": "orders", "registryValue": "http://o:1/"}

    def live() -> list[str]:
        return [item.address for item in api.parts.registry.live(orders.group_id, api.clock.now_ms())]

    assert orders.call("registry", registration) == SUCCESS
    assert live() == ["http://o:1"]
    api.running(1, group_id=orders.group_id)
    assert orders.call("callback", {"callbackList": [{"logId": 1, "handleCode": 200}]}) == SUCCESS
    assert api.run(1).state is RunState.SUCCEEDED
    assert orders.call("registryRemove", registration) == SUCCESS
    assert live() == []


@pytest.mark.parametrize("call", ["registry", "registryRemove"])
def test_a_registration_in_another_group_is_refused(api: Api, orders: Tenant, billing: Tenant, call: str) -> None:
    registration = {"registryGroup": "EXECUTOR", "registryKey": "orders", "registryValue": "http://o:1/"}
    assert orders.call("registry", registration) == SUCCESS
    before = api.rows()
    foreign = billing.refused(call, registration)
    none = billing.refused(call, registration | {"registryKey": "missing"})
    assert foreign == none.replace("missing", "orders")
    assert api.rows() == before


def test_outcomes_count_only_for_runs_of_the_group(api: Api, orders: Tenant, billing: Tenant) -> None:
    api.running(1, group_id=orders.group_id)
    api.running(2, group_id=billing.group_id)
    items = [{"logId": run_id, "handleCode": 200} for run_id in (1, 2, 3)]
    answer = billing.call("callback", items)
    assert answer["code"] == 200
    rows = json.loads(answer["data"])
    assert [row["logId"] for row in rows] == [1, 3]
    assert rows[0]["msg"] == rows[1]["msg"]
    assert (api.run(1).state, api.run(2).state) == (RunState.RUNNING, RunState.SUCCEEDED)
