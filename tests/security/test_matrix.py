"""T2: every route there is, with no token, wrong ones, another group's and the right one; only the last gets in.

The routes are read from the applications themselves, so that a new one is among them without anybody's doing.
"""

from __future__ import annotations

import json
import re
from typing import Any

import falcon
import falcon.inspect
import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, TOKEN, Api
from tests.support.job_calls import Tenant
from xwheel.executor.intake.endpoints import Endpoints
from xwheel.plugin.resources import Methods, Of
from xwheel.storage.access import tokens
from xwheel.wire.contract import APP_NAME_HEADER, TEXT_TOKEN, TOKEN_HEADER

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EXECUTORS_ONLY = {"registry", "registryRemove", "callback"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


STRANGERS = {
    "no token": {},
    "empty": bearer(""),
    "wrong": bearer("wrong"),
    "longer": bearer(f"{TOKEN}!"),
    "shorter": bearer(TOKEN[:-1]),
    "executors' token": bearer(EXECUTOR_TOKEN),
    "executors' header": {TOKEN_HEADER: EXECUTOR_TOKEN},
    "digest": bearer(tokens.digest_token(TOKEN).hex()),
    "group's token": bearer("token-of-orders"),
    "group's token, named": bearer("token-of-orders") | {APP_NAME_HEADER: "orders"},
    "other group's token": bearer("token-of-billing"),
    "cookie": {"Cookie": f"Authorization=Bearer {TOKEN}; token={TOKEN}"},
}


def management_routes(api: Api) -> dict[str, Methods]:
    """Every path with what its methods need, ids filled with what exists."""
    app: Any = api.management.app
    routes = falcon.inspect.inspect_routes(app)
    return {re.sub(r"\{[^}]*\}", "1", path): app.needs[path] for path in sorted({item.path for item in routes})}


@pytest.fixture
def filled(api: Api, orders: Tenant, billing: Tenant) -> Api:
    """Objects of both groups with the number 1, for every route to find."""
    for tenant in (orders, billing):
        api.job(group_id=tenant.group_id)
    api.running(1, group_id=orders.group_id)
    return api


@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
def test_the_management_api_knows_nobody_but_the_right_token(filled: Api, headers: dict[str, str]) -> None:
    routes = management_routes(filled)
    assert len(routes) > 30
    before = filled.rows()
    for path, needs in routes.items():
        is_public = all(need.of is Of.ANYONE for need in needs.values())
        for method in METHODS:
            answer = filled.management.simulate_request(
                method, path, headers=headers, body=b"{}", params={"token": TOKEN, "access_token": TOKEN}
            )
            need = needs.get(method)
            if need is not None and need.group_token and re.search("token-of-(orders|billing)", str(headers)):
                # with a token of a group it tells only what is wrong with the call; tests of its own say more
                assert answer.status_code == 422, path
            elif need is not None and need.of is Of.ANYONE and method == "POST":
                assert answer.status_code == 422, path  # signing in, which wants a name
            elif not is_public:
                assert answer.status_code in (401, 429), (method, path)  # many of them are throttled
                assert answer.headers["www-authenticate"] == 'Bearer realm="xwheel"'
            else:
                # what is public can be read and nothing else
                assert method in {"GET", "HEAD", "OPTIONS"} or answer.status_code == 405, (method, path)
            assert TOKEN not in answer.text
            assert EXECUTOR_TOKEN not in answer.text
    assert filled.rows() == before


def test_the_right_token_gets_into_every_management_route(filled: Api) -> None:
    entered = 0
    for path in management_routes(filled):
        for method in ("OPTIONS", "GET"):
            status = filled.management.simulate_request(method, path, headers=bearer(TOKEN)).status_code
            assert status not in (401, 429), (method, path)
            entered += status == 200
    assert entered > 30


CALLERS = {
    "no token": {},
    "empty": {TOKEN_HEADER: "", APP_NAME_HEADER: "orders"},
    "wrong": {TOKEN_HEADER: "wrong", APP_NAME_HEADER: "orders"},
    "longer": {TOKEN_HEADER: f"{EXECUTOR_TOKEN}!"},
    "management token": {TOKEN_HEADER: TOKEN, APP_NAME_HEADER: "orders"},
    "bearer": bearer(EXECUTOR_TOKEN),
    "digest": {TOKEN_HEADER: tokens.digest_token("token-of-orders").hex(), APP_NAME_HEADER: "orders"},
    "group's token, no name": {TOKEN_HEADER: "token-of-orders"},
    "other group's token": {TOKEN_HEADER: "token-of-billing", APP_NAME_HEADER: "orders"},
}


def executor_calls(api: Api) -> dict[str, bytes]:
    """Every call of the executor API, as its own table has it, each with a body that would do something."""
    ((_, sink, _),) = api.executor.app._sinks  # type: ignore[union-attr]
    bodies: dict[str, Any] = {
        "registry": {"registryGroup": "EXECUTOR", "registryKey": "orders", "registryValue": "http://127.0.0.1:9"},
        "callback": [{"logId": 1, "handleCode": 200}],
    }
    names = {*sink._calls, *sink._of_plugins.names}
    assert names >= EXECUTORS_ONLY
    return {name: json.dumps(bodies.get(name, {"id": 1})).encode() for name in sorted(names)}


@pytest.mark.parametrize("headers", CALLERS.values(), ids=CALLERS)
def test_the_executor_api_knows_nobody_but_the_right_token(filled: Api, headers: dict[str, str]) -> None:
    before = filled.rows()
    for name, body in executor_calls(filled).items():
        for method in METHODS:
            for path in (f"/api/{name}", f"/xxl-job-admin/api/{name}", f"/{name}", f"/api/{name}/"):
                answer = filled.executor.simulate_request(method, path, body=body, headers=headers)
                if method == "HEAD":
                    continue  # no body
                assert (answer.status_code, answer.json["code"]) == (200, 500), (method, path)
                assert (TOKEN_HEADER in answer.json["msg"]) == (method == "POST"), answer.json["msg"]
                assert EXECUTOR_TOKEN not in answer.text
    assert filled.rows() == before


def test_the_right_token_gets_into_every_executor_call(filled: Api) -> None:
    groups = {TOKEN_HEADER: "token-of-orders", APP_NAME_HEADER: "orders"}
    for name, body in executor_calls(filled).items():
        headers = {TOKEN_HEADER: EXECUTOR_TOKEN} if name in EXECUTORS_ONLY else groups
        answer = filled.executor.simulate_post(f"/api/{name}", body=body, headers=headers)
        assert TOKEN_HEADER not in (answer.json["msg"] or ""), name


class Untouchable:
    """Stands for everything behind an executor's endpoints."""

    def __getattr__(self, name: str) -> Any:
        raise PermissionError(f"somebody got in: {name}")


def endpoints() -> Endpoints:
    behind: Any = Untouchable()
    return Endpoints(
        token=EXECUTOR_TOKEN,
        app_name="orders",
        workers=behind,
        journal=behind,
        logs=behind,
        handlers=behind,
        glue_types={},
    )


def no_body() -> bytes:
    raise PermissionError("the body of a stranger is read")


@pytest.mark.parametrize("headers", CALLERS.values(), ids=CALLERS)
def test_an_executor_knows_nobody_but_its_scheduler(headers: dict[str, str]) -> None:
    """Not even the body of a stranger is read; whether a path exists, it does not say."""
    target = endpoints()
    assert set(target._routes) >= {"/beat", "/idleBeat", "/run", "/trigger", "/kill", "/log"}
    for path in [*target._routes, "/none", "/run/", "//run", "/RUN"]:
        answer = target.answer("POST", path, headers.get, no_body)
        assert (answer.code, answer.message) == (500, TEXT_TOKEN), path
        for method in METHODS:
            if method != "POST":
                assert target.answer(method, path, headers.get, no_body).code == 500


def test_an_executors_own_scheduler_gets_into_every_route() -> None:
    target = endpoints()
    headers = {TOKEN_HEADER: EXECUTOR_TOKEN}
    for path in target._routes:
        assert target.answer("POST", path, headers.get, lambda: b"{}").message != TEXT_TOKEN, path
    wrong_group = {**headers, APP_NAME_HEADER: "billing"}
    assert target.answer("POST", "/run", wrong_group.get, no_body).message == TEXT_TOKEN
