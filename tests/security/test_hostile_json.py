"""T13: JSON that names types, nests without end or holds impossible numbers is refused everywhere, and does nothing.

Every route that takes a body gets it, as the applications' own tables have them; none may answer with a server error.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import falcon.inspect
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.component.api.conftest import EXECUTOR_TOKEN, LIMIT, Api
from tests.security.test_matrix import Untouchable, executor_calls
from tests.support.job_calls import Tenant
from xwheel.executor.intake.endpoints import Endpoints
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

CANARY = "xwheel_canary_module"
GROUPS = {TOKEN_HEADER: "token-of-orders", APP_NAME_HEADER: "orders"}
SHARED = {TOKEN_HEADER: EXECUTOR_TOKEN}
TYPED: list[dict[str, Any]] = [
    {"@type": f"{CANARY}.Thing", "id": 1},
    {"@class": f"{CANARY}.Thing", "id": 1},
    {"$type": f"{CANARY}.Thing, {CANARY}", "id": 1},
    {"py/object": f"{CANARY}.Thing", "id": 1},
    {"py/reduce": [{"py/type": f"{CANARY}.run"}, {"py/tuple": []}], "id": 1},
    {"__class__": f"{CANARY}:Thing", "__init__": {}, "id": 1},
    {"__reduce__": [CANARY, []], "__proto__": {"admin": True}, "id": 1},
    {"class": ["java.net.URL", "http://127.0.0.1:1/"], "id": 1},
    {"name": {"@type": f"{CANARY}.Thing"}, "handler": f"!!python/object:{CANARY}.Thing {{}}"},
    {"executorHandler": {"@type": CANARY}, "logId": {"$ne": 0}, "handleCode": [200]},
]
DEEP = [
    opening * depth + middle + closing * depth
    for depth in (100, 300, 900, 1_000, 30_000)
    for opening, middle, closing in (("[", "", "]"), ('{"a":', "1", "}"), ('{"name":[', "1", "]}"), ("[", "", ""))
    if len(opening * depth) < LIMIT - 10
]
NUMBERS = [
    f'{{"id": {number}, "group_id": {number}, "logId": {number}, "jobId": {number}, "handleCode": {number}}}'
    for number in ("1e400", "-1e400", "9" * 400, "9" * 5_000, "1" + "0" * 10_000, "-0", "1e-400", "NaN", "Infinity")
]
BYTES = [
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b'{"name": "\xff"}',
    b'{"name": "\\ud800"}',
    b'{"a":1,"a":2}',
    b"\x00",
]
HOSTILE = [*(json.dumps(item).encode() for item in TYPED), *(text.encode() for text in DEEP + NUMBERS), *BYTES]


def writing_routes(api: Api) -> list[tuple[str, str]]:
    """Every method and path of the management API that takes a body."""
    return sorted(
        (method.method, re.sub(r"\{[^}]*\}", "1", route.path))
        for route in falcon.inspect.inspect_routes(api.management.app)
        for method in route.methods
        if not method.internal and method.method not in {"GET", "DELETE"}
    )


def send_everywhere(api: Api, body: bytes, routes: list[tuple[str, str]]) -> None:
    for method, path in routes:
        answer = api.call(method, path, body)
        assert answer.status_code < 500, (method, path, body[:200], answer.text)
        assert answer.status_code in {204, 304} or answer.headers["content-type"].startswith("application/")
    send_to_executor_calls(api, body)


def send_to_executor_calls(api: Api, body: bytes) -> None:
    for name in executor_calls(api):
        for headers in (SHARED, GROUPS):
            answer = api.executor.simulate_post(f"/api/{name}", body=body, headers=headers)
            assert answer.status_code == 200
            assert answer.json["code"] in {200, 500}
            assert "internal error" not in str(answer.json["msg"]), (name, body[:200])


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that could be imported, if anything in the data were taken for a name of code."""
    (tmp_path / f"{CANARY}.py").write_text("class Thing:\n    pass\n\n\ndef run():\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return CANARY


@pytest.mark.parametrize("part", range(4))
def test_hostile_json_is_refused_by_every_route(api: Api, orders: Tenant, canary: str, part: int) -> None:
    api.job(group_id=orders.group_id)
    api.running(1, group_id=orders.group_id)
    routes = writing_routes(api)
    assert len(routes) > 15
    for body in HOSTILE[part::4]:
        send_everywhere(api, body, routes)
    assert canary not in sys.modules


def test_nothing_typed_is_kept(api: Api, orders: Tenant, canary: str) -> None:
    """Whatever is unknown is refused by name, and not written on the quiet."""
    before = api.rows()
    for body in TYPED[:7]:
        wanted = {"group_id": orders.group_id, "name": "job", "handler": "demo", **body}
        answer = api.call("POST", "jobs", wanted)
        assert (answer.status_code, answer.json["type"]) == (422, "urn:xwheel:problem:invalid-field")
        assert answer.json["field"] in wanted
    assert api.rows() == before
    assert canary not in sys.modules


@pytest.mark.parametrize("size", [LIMIT + 1, 10 * LIMIT])
def test_what_is_too_large_is_refused_by_every_route(api: Api, orders: Tenant, size: int) -> None:
    before = api.rows()
    body = b'{"name": "' + b"x" * size + b'"}'
    for method, path in writing_routes(api):
        assert api.call(method, path, body).status_code in {404, 413}, (method, path)
    send_too_much_to_executor_calls(api, body)
    assert api.rows() == before


def send_too_much_to_executor_calls(api: Api, body: bytes) -> None:
    for name in executor_calls(api):
        for headers in (SHARED, GROUPS):
            answer = api.executor.simulate_post(f"/api/{name}", body=body, headers=headers)
            assert answer.json["code"] == 500


KEYS = st.sampled_from(
    [*(key for item in TYPED for key in item), "name", "group_id", "param", "ids", "enabled", "logId", "registryKey"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8) | st.just(CANARY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=8, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.dictionaries(KEYS, VALUES, max_size=5) | VALUES)
def test_typed_and_nested_json_makes_no_server_error(api: Api, body: Any) -> None:
    send_everywhere(api, json.dumps(body).encode(), writing_routes(api))
    assert CANARY not in sys.modules


class Idle:
    """Workers, journal and logs of an executor that has nothing to do."""

    def __getattr__(self, name: str) -> Any:
        if name in {"instance", "boot"}:
            return "instance-1"
        if name in {"accept", "lookup"}:
            return lambda items, _received_ms=0: [None for _ in items]
        if name in {"queues", "clock"}:
            return Idle()
        return lambda *_, **__: None


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_an_executor_refuses_hostile_json(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    idle: Any = Idle()
    handlers: Any = Untouchable()
    target = Endpoints(
        token=EXECUTOR_TOKEN, app_name="orders", workers=idle, journal=idle, logs=idle, handlers=handlers, glue_types={}
    )
    for path in target._routes:
        answer = target.answer("POST", path, SHARED.get, lambda: body)
        assert answer.code in {200, 500}
        assert "internal error" not in str(answer.message), (path, answer)
    assert caplog.records == []
