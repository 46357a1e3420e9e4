"""Who gets in: every route, with no token, wrong ones and the right one."""

from __future__ import annotations

import hmac
import re
from typing import Any

import falcon.inspect
import falcon.testing
import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, LIMIT, TOKEN, Api
from tests.support.routes import DESCRIPTION, PUBLIC, ROUTES, SIGN_IN
from xwheel.access.rights import Rights
from xwheel.access.tokens import MOST_LOOKS, TokenStore
from xwheel.api.app import ROUTES as ROUTES_OF_THE_CORE
from xwheel.api.http.auth import ApiGate, GuardedApp
from xwheel.api.http.client import TrustedProxies
from xwheel.api.http.gates import PluginGates
from xwheel.errors import ConfigError
from xwheel.plugin.registries import Registry
from xwheel.plugin.resources import CALLER, Of
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.storage.access import tokens
from xwheel.wire.contract import TOKEN_HEADER

REFUSED = [(401, "urn:xwheel:problem:unauthorized"), (429, "urn:xwheel:problem:throttled")]
WRONG = {
    "none": {},
    "empty": {"Authorization": ""},
    "no scheme": {"Authorization": TOKEN},
    "other scheme": {"Authorization": f"Basic {TOKEN}"},
    "no token": {"Authorization": "Bearer "},
    "wrong": {"Authorization": "Bearer wrong"},
    "longer": {"Authorization": f"Bearer {TOKEN}x"},
    "shorter": {"Authorization": f"Bearer {TOKEN[:-1]}"},
    "other case": {"Authorization": f"Bearer {TOKEN.upper()}"},
    "huge": {"Authorization": "Bearer " + "x" * 100_000},
    "not ascii": {"Authorization": "Bearer \xe9\xff"},
    "cookie": {"Cookie": f"token={TOKEN}; Authorization=Bearer {TOKEN}"},
    "executor's": {"Authorization": f"Bearer {EXECUTOR_TOKEN}"},
    "executor's header": {TOKEN_HEADER: EXECUTOR_TOKEN},
    "digest": {"Authorization": f"Bearer {tokens.digest_token(TOKEN).hex()}"},
}


def routes_of(app: Any) -> set[tuple[str, str]]:
    return {
        (method.method, re.sub(r"\{[^}]*\}", "1", route.path))
        for route in falcon.inspect.inspect_routes(app)
        for method in route.methods
        if not method.internal
    }


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_without_the_token_nothing_is_done(api: Api, headers: dict[str, str]) -> None:
    api.job()
    api.running(1)
    before = api.rows()
    closed = [*(ROUTES - PUBLIC), ("GET", "/api/v1/none"), ("OPTIONS", "/api/v1/jobs"), ("GET", "/api")]
    for method, path in sorted(closed):
        answer = api.management.simulate_request(method, path, headers=headers, body=b"{}")
        found = (answer.status_code, answer.json["type"])
        assert found in REFUSED, path
        assert answer.json["field"] == "Authorization"
        assert answer.headers["www-authenticate"] == 'Bearer realm="xwheel"'
        assert TOKEN not in answer.text
    assert api.rows() == before


def test_with_the_token_every_route_is_entered(api: Api) -> None:
    api.job()
    api.running(1)
    for method, path in sorted(ROUTES):
        assert api.call(method, path, b"{}").status_code != 401, path
    # the whole product has them all
    for method, path in sorted((PUBLIC - SIGN_IN) & routes_of(api.management.app)):
        assert api.management.simulate_request(method, path).status_code == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_have_any_case(api: Api, scheme: str) -> None:
    answer = api.management.simulate_get("/api/v1/groups", headers={"Authorization": f"{scheme}  {TOKEN}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("call", ["registry", "registryRemove", "callback", "unknown"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {TOKEN_HEADER: ""},
        {TOKEN_HEADER: "wrong"},
        {TOKEN_HEADER: EXECUTOR_TOKEN + "x"},
        {TOKEN_HEADER: TOKEN},
        {"Authorization": f"Bearer {EXECUTOR_TOKEN}"},
    ],
)
def test_without_the_executor_token_no_call_is_done(api: Api, call: str, headers: dict[str, str]) -> None:
    api.group()
    api.running(1)
    before = api.rows()
    for body in (
        b'{"registryGroup":"EXECUTOR","registryKey":"demo","registryValue":"http://h:1"}',
        b'[{"logId":1,"handleCode":200}]',
        b"not json",
        b"x" * (LIMIT + 1),
    ):
        answer = api.executor.simulate_post(f"/api/{call}", body=body, headers=headers)
        assert (answer.status_code, answer.json["code"], answer.json["success"]) == (200, 500, False)
        assert TOKEN_HEADER in answer.json["msg"]
        assert EXECUTOR_TOKEN not in answer.text
    assert api.rows() == before


def test_an_executor_api_without_a_token_does_not_start(api: Api) -> None:
    with pytest.raises(ConfigError, match="token"):
        ExecutorSecrets(api.db, api.clock, "", KeyRing())


def test_every_digest_is_compared_in_constant_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.db.transaction(lambda conn: tokens.insert_token(conn, "second", "another-token", 1))
    seen: list[bytes] = []
    compare = hmac.compare_digest

    def spy(left: bytes, right: bytes) -> bool:
        seen.append(left)
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    assert TokenStore(api.db, api.clock, Rights({})).find(TOKEN).name == "tests"
    assert seen == [tokens.digest_token(TOKEN), tokens.digest_token("another-token")]


def test_a_new_token_counts_and_an_old_one_ends_within_a_second(api: Api) -> None:
    store = TokenStore(api.db, api.clock, Rights({}))
    assert store.find(TOKEN).name == "tests"
    api.db.transaction(lambda conn: tokens.replace_token(conn, "tests", "replacement", 1))
    api.clock.advance(1000)
    assert store.find(TOKEN) is None
    assert store.find("replacement").name == "tests"


def test_a_new_token_counts_at_once(api: Api) -> None:
    """Anyone who makes one on the database, or on another node, need not wait a second to use it."""
    store = TokenStore(api.db, api.clock, Rights({}))
    assert store.find("made elsewhere") is None
    api.db.transaction(lambda conn: tokens.insert_token(conn, "new", "made elsewhere", 1))
    assert store.find("made elsewhere").name == "new"


def test_tokens_are_read_a_few_times_a_second(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    known = tokens.list_tokens
    monkeypatch.setattr(tokens, "list_tokens", lambda conn: reads.append(1) or known(conn))
    store = TokenStore(api.db, api.clock, Rights({}))
    for _ in range(50):
        store.find("wrong")
    assert len(reads) == 1 + MOST_LOOKS
    reads.clear()
    for _ in range(50):
        store.find(TOKEN)
    assert reads == []
    api.clock.advance(1000)
    for _ in range(50):
        store.find(TOKEN)
    assert len(reads) == 1


def test_a_route_that_does_not_say_what_it_needs_stops_the_start(api: Api) -> None:
    class Open:
        def on_get(self, req: falcon.Request, resp: falcon.Response) -> None: ...

    proxies = TrustedProxies()
    gates = PluginGates(Registry("gate"), api.site, proxies, api.parts.foreign)
    app = GuardedApp(ApiGate(api.parts, gates, proxies, lambda: None))
    for needs in (None, {}, {"POST": CALLER}, {"GET": CALLER, "POST": CALLER}):
        with pytest.raises(ConfigError, match="must say what each of GET needs"):
            app.add_route("/open", Open(), needs=needs)
    with pytest.raises(ConfigError, match="must say what it needs"):
        app.add_sink(lambda req, resp: None, "/open")


def public_routes(app: Any) -> set[tuple[str, str]]:
    return {
        (method, path)
        for path, methods in app.needs.items()
        for method, need in methods.items()
        if need.of is Of.ANYONE
    }


def test_only_health_is_public(api: Api) -> None:
    assert public_routes(api.management.app) == PUBLIC - SIGN_IN - DESCRIPTION


def test_the_table_names_routes_that_there_are(api: Api) -> None:
    app: Any = api.management.app
    templates = {re.sub(r":[^}]*\}", "}", path).removeprefix("/api/v1") for path in app.needs}
    assert {path.replace(":id", "") for path in ROUTES_OF_THE_CORE} <= templates


def test_a_sink_that_is_added_later_is_guarded(api: Api) -> None:
    def show(req: falcon.Request, resp: falcon.Response, **params: str) -> None:
        resp.text = "page"

    app: Any = api.management.app
    app.add_sink(show, "/pages", need=CALLER)
    assert api.management.simulate_get("/pages/1").status_code == 401
    assert api.call("GET", "/pages/1").text == "page"


def test_answers_stay_out_of_caches_and_sniffers(api: Api) -> None:
    for path in ("/healthz", "/api/v1/groups", "/api/v1/none", "/none", "/api/v1/groups/9"):
        answer = api.call("GET", path)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
