"""Executor secrets over the management API, and what they open."""

from __future__ import annotations

from typing import Any

import falcon.testing
import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, Api
from tests.support.job_calls import Tenant
from xwheel.model import RunState
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

ADDRESS = "http://10.0.0.1:9999"


def make(api: Api, name: str, group_id: int) -> str:
    answer = api.call("POST", "secrets", {"name": name, "group_id": group_id})
    assert answer.status_code == 201, answer.text
    secret: str = answer.json["secret"]
    return secret


def say(api: Api, call: str, secret: str, body: Any, **headers: str) -> dict[str, Any]:
    answer: falcon.testing.Result = api.executor.simulate_post(
        f"/api/{call}", json=body, headers={TOKEN_HEADER: secret, **headers}
    )
    assert answer.status_code == 200
    envelope: dict[str, Any] = answer.json
    return envelope


def registration(app_name: str, address: str = ADDRESS) -> dict[str, str]:
    return {"registryGroup": "EXECUTOR", "registryKey": app_name, "registryValue": address}


def look(api: Api) -> None:
    """What a node's registry loop does each second."""
    api.parts.registry.step(api.clock.advance(1000))


def test_a_secret_is_shown_once_and_listed_without_its_value(api: Api, orders: Tenant) -> None:
    answer = api.call("POST", "secrets", {"name": "orders-1", "group_id": orders.group_id})
    secret = answer.json["secret"]
    common = {
        "name": "orders-1",
        "group_id": orders.group_id,
        "app_name": "orders",
        "created_ms": api.clock.now_ms(),
        "expires_ms": None,
    }
    assert answer.json == {**common, "secret": secret}
    assert len(secret) >= 43
    assert answer.headers["location"] == "/api/v1/secrets/orders-1"
    shown = {**common, "encrypted": False, "executors": 0}
    assert api.call("GET", "secrets").json == {"items": [shown], "next": None}
    assert api.call("GET", "secrets/orders-1").json == shown
    assert api.call("POST", "secrets", {"name": "orders-1", "group_id": orders.group_id}).status_code == 409
    for path in ("secrets", "secrets/orders-1", "tokens", "executors"):
        assert secret not in api.call("GET", path).text


def test_secrets_are_listed_by_page_and_group(api: Api, orders: Tenant, billing: Tenant) -> None:
    for name, group in (("b", orders), ("a", billing), ("c", orders)):
        make(api, name, group.group_id)
    page = api.call("GET", "secrets", params={"limit": 2}).json
    assert ([item["name"] for item in page["items"]], page["next"]) == (["a", "b"], "b")
    page = api.call("GET", "secrets", params={"after": "b"}).json
    assert ([item["name"] for item in page["items"]], page["next"]) == (["c"], None)
    page = api.call("GET", "secrets", params={"group_id": orders.group_id}).json
    assert [item["name"] for item in page["items"]] == ["b", "c"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("POST", "secrets", {"name": "x", "group_id": 404}, 422, "group_id"),
        ("POST", "secrets", {"name": "x"}, 422, "group_id"),
        ("POST", "secrets", {"name": "x", "group_id": None}, 422, "group_id"),
        ("POST", "secrets", {"name": "-x", "group_id": 1}, 422, "name"),
        ("POST", "secrets", {"name": "x", "group_id": 1, "secret": "mine"}, 422, "secret"),
        ("PATCH", "secrets/s", {}, 422, "expires_in_s"),
        ("PATCH", "secrets/s", {"expires_in_s": -1}, 422, "expires_in_s"),
        ("PATCH", "secrets/s", {"expires_in_s": 31_536_001}, 422, "expires_in_s"),
        ("POST", "secrets/s/rotate", {"name": "s2", "expires_in_s": None}, 422, "expires_in_s"),
        ("PATCH", "secrets/none", {"expires_in_s": 1}, 404, None),
        ("GET", "secrets/none", None, 404, None),
        ("DELETE", "secrets/none", None, 404, None),
        ("POST", "secrets/none/rotate", {"name": "s2"}, 404, None),
        ("POST", "secrets/s/rotate", {"name": "s"}, 409, None),
    ],
)
def test_a_bad_call_changes_nothing(
    api: Api, orders: Tenant, method: str, path: str, body: Any, status: int, field: str | None
) -> None:
    make(api, "s", orders.group_id)
    before = api.rows()
    answer = api.call(method, path, body)
    assert (answer.status_code, answer.json.get("field")) == (status, field), answer.text
    assert api.rows() == before


def test_it_opens_the_three_calls_of_executors_for_its_group_and_nothing_else(
    api: Api, orders: Tenant, billing: Tenant
) -> None:
    secret = make(api, "orders-1", orders.group_id)
    # with and without the header that only the fourth generation sends
    for headers in ({}, {APP_NAME_HEADER: "orders"}):
        assert say(api, "registry", secret, registration("orders"), **headers)["code"] == 200
    refused = say(api, "registry", secret, registration("billing"))
    assert (refused["code"], refused["msg"].startswith("registryKey")) == (500, True)
    assert say(api, "registry", secret, registration("orders"), **{APP_NAME_HEADER: "billing"})["code"] == 500
    api.running(1, group_id=orders.group_id, secret_id=1)
    api.running(2, group_id=billing.group_id)
    say(api, "callback", secret, [{"logId": number, "handleCode": 200} for number in (1, 2)])
    assert [api.run(number).state for number in (1, 2)] == [RunState.SUCCEEDED, RunState.RUNNING]
    headers = {"Authorization": f"Bearer {secret}"}
    assert api.management.simulate_get("/api/v1/groups", headers=headers).status_code == 401
    assert say(api, "registryRemove", secret, registration("orders"))["code"] == 200
    assert api.parts.registry.live(orders.group_id, api.clock.now_ms()) == []


def test_which_secret_an_executor_proved_is_listed(api: Api, orders: Tenant) -> None:
    headers = {APP_NAME_HEADER: "orders"}
    assert say(api, "registry", EXECUTOR_TOKEN, registration("orders"), **headers)["code"] == 200
    first, second = (make(api, name, orders.group_id) for name in ("orders-1", "orders-2"))
    shown = [
        (EXECUTOR_TOKEN, 200, "shared", None),
        (orders.token, 200, None, "shared"),
        (first, 200, "orders-1", None),
        (second, 200, "orders-2", "orders-1"),
        (orders.token, 500, "orders-2", "orders-1"),
    ]
    for token, code, secret, earlier in shown:
        assert say(api, "registry", token, registration("orders"), **headers)["code"] == code
        (executor,) = api.call("GET", f"groups/{orders.group_id}/executors").json["items"]
        assert (executor["secret"], executor["earlier_secret"]) == (secret, earlier)
        assert api.call("GET", "executors").json["items"] == [executor]
        look(api)
    say(api, "registry", second, registration("orders"))
    counts = {item["name"]: item["executors"] for item in api.call("GET", "secrets").json["items"]}
    assert counts == {"orders-1": 0, "orders-2": 1}


def test_a_secret_is_rotated_without_a_gap_and_the_old_one_ends(api: Api, orders: Tenant) -> None:
    old = make(api, "orders-1", orders.group_id)
    say(api, "registry", old, registration("orders"))
    answer = api.call("POST", "secrets/orders-1/rotate", {"name": "orders-2", "expires_in_s": 60})
    assert (answer.status_code, answer.headers["location"]) == (201, "/api/v1/secrets/orders-2")
    new = answer.json["secret"]
    assert (answer.json["group_id"], answer.json["expires_ms"]) == (orders.group_id, None)
    ends_ms = api.clock.now_ms() + 60_000
    assert api.call("GET", "secrets/orders-1").json["expires_ms"] == ends_ms
    look(api)
    for secret in (old, new):
        assert say(api, "registry", secret, registration("orders"))["code"] == 200
    api.clock.advance(ends_ms - api.clock.now_ms())
    assert say(api, "registry", old, registration("orders"))["code"] == 500
    assert say(api, "registry", new, registration("orders"))["code"] == 200


@pytest.mark.parametrize(("ends_s", "kept_s", "found_s"), [(30, 60, 30), (90, 60, 60), (60, 60, 60), (None, 60, 60)])
def test_n39_rotation_prolongs_no_secret(
    api: Api, orders: Tenant, ends_s: int | None, kept_s: int, found_s: int
) -> None:
    make(api, "orders-1", orders.group_id)
    begun_ms = api.clock.now_ms()
    assert api.call("PATCH", "secrets/orders-1", {"expires_in_s": ends_s}).status_code == 200
    rotated = api.call("POST", "secrets/orders-1/rotate", {"name": "orders-2", "expires_in_s": kept_s})
    assert rotated.status_code == 201
    assert api.call("GET", "secrets/orders-1").json["expires_ms"] == begun_ms + 1000 * found_s


def test_a_secret_ends_at_once_later_or_never(api: Api, orders: Tenant) -> None:
    secret = make(api, "orders-1", orders.group_id)
    say(api, "registry", secret, registration("orders"))
    for in_s, expires_ms in ((5, api.clock.now_ms() + 5000), (None, None)):
        answer = api.call("PATCH", "secrets/orders-1", {"expires_in_s": in_s})
        assert (answer.status_code, answer.json["expires_ms"]) == (200, expires_ms)
    look(api)
    assert len(api.parts.registry.live(orders.group_id, api.clock.now_ms())) == 1
    api.call("PATCH", "secrets/orders-1", {"expires_in_s": 0})
    look(api)
    assert say(api, "registry", secret, registration("orders"))["code"] == 500
    assert api.parts.registry.live(orders.group_id, api.clock.now_ms()) == []


def test_a_deleted_secret_ends_within_a_second(api: Api, orders: Tenant) -> None:
    secret = make(api, "orders-1", orders.group_id)
    say(api, "registry", secret, registration("orders"))
    assert api.call("DELETE", "secrets/orders-1").status_code == 204
    look(api)
    assert say(api, "registry", secret, registration("orders"))["code"] == 500
    assert api.parts.registry.token_at(orders.group_id, ADDRESS) == ""
