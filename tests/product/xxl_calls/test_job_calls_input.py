"""Whatever is sent as a job call, the answer is an envelope, and nothing bad is written."""

from __future__ import annotations

import json
import logging

import falcon.testing
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.component.api.conftest import LIMIT, Api
from tests.support.job_calls import Tenant, definition
from xwheel.storage.schema.tables import metadata

CALLS = ("addJob", "updateJob", "removeJob", "startJob", "stopJob", "triggerJob")


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/xml", "multipart/form-data", "x" * 500])
def test_the_content_type_is_not_looked_at(orders: Tenant, content_type: str) -> None:
    answer = orders.post("addJob", definition(), {"Content-Type": content_type})
    assert answer.json["code"] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b"7",
        b'"a"',
        b"{",
        b"\xff\xfe{}",
        b"\x00" * 100,
        b'{"id":1',
        b'{"id":"1\\u0000"}',
        b'{"id":1e400}',
        b'{"id":NaN}',
        b'{"name":"\\ud800"}',
        b"[" * 60_000,
        b'{"id":' * 10_000,
        b"<?xml version='1.0'?><!DOCTYPE x SYSTEM 'file:///etc/passwd'><x/>",
    ],
)
def test_no_body_does_harm(api: Api, orders: Tenant, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    before = api.rows()
    with caplog.at_level(logging.ERROR):
        for call in CALLS:
            orders.refused(call, body)
    assert api.rows() == before
    assert caplog.records == []


def test_the_last_of_two_equal_keys_counts(orders: Tenant) -> None:
    body = json.dumps(definition())[:-1] + ',"name":"second"}'
    answer = orders.call("addJob", body.encode())
    assert orders.job(int(answer["data"])).name == "second"


def test_a_body_over_the_limit_is_refused_and_one_at_it_is_read(api: Api, orders: Tenant) -> None:
    frame = b'{"pad":"%s"}'
    assert "id: must be a whole number" in orders.refused("stopJob", frame % (b"x" * (LIMIT - 10)))
    before = api.rows()
    for size in (LIMIT + 1, 5 * 1024 * 1024):
        for call in CALLS:
            answer = orders.post(call, frame % (b"x" * (size - 10)))
            assert (answer.status_code, answer.json["code"]) == (413, 500)
            assert str(LIMIT) in answer.json["msg"]
    assert api.rows() == before


KEYS = sorted({*definition(), "id", "jobGroup", "alarmEmail", "glueSource", "glueRemark", "addressList"})
SPECIAL = ["", "0", "1", "CRON", "FIX_RATE", "NONE", "BEAN", "* * * * * ?", "0/1 0 0 ? * 8L", "a\x00b", "1" * 30,
           "http://[::1", "http://a:1,", "😀" * 40, "\u2028", "x" * 70_000]  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(blacklist_categories=()), max_size=30)
    | st.sampled_from(SPECIAL)
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner), max_leaves=8
)


@pytest.mark.parametrize("call", CALLS)
@given(data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
def test_whatever_is_sent_there_is_an_envelope(api: Api, call: str, data: st.DataObject) -> None:
    tenant = _tenant(api)
    api.clock.advance(1000)
    changes = data.draw(st.dictionaries(st.sampled_from(KEYS), anything, max_size=4))
    answer = tenant.post(call, definition(id=1) | changes)
    _check_envelope(answer)


@pytest.mark.parametrize("call", CALLS)
@given(body=st.binary(max_size=300))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
def test_whatever_bytes_are_sent_there_is_an_envelope(api: Api, call: str, body: bytes) -> None:
    api.clock.advance(1000)
    _check_envelope(_tenant(api).post(call, body))


@given(data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
def test_no_call_of_one_group_reaches_another(api: Api, data: st.DataObject) -> None:
    orders = _tenant(api)
    api.clock.advance(1000)
    before = _owned(api, orders.group_id)
    call = data.draw(st.sampled_from(CALLS))
    changes = data.draw(st.dictionaries(st.sampled_from(KEYS), anything, max_size=2))
    body = definition(id=data.draw(st.sampled_from([1, "1", 1.0])), jobGroup=orders.group_id) | changes
    stranger = getattr(api, "stranger", None) or Tenant(api.db, api.executor.app, "billing")
    api.stranger = stranger  # type: ignore[attr-defined]
    answer = stranger.post(call, body)
    assert answer.json["code"] == 500 or call == "removeJob" or "id" in changes or "jobGroup" in changes
    assert _owned(api, orders.group_id) == before


def _owned(api: Api, group_id: int) -> list[list[tuple[object, ...]]]:
    """Return the jobs and runs of a group."""
    rows = api.rows()
    return [
        [row for row in rows[name] if row[[*metadata.tables[name].c.keys()].index("group_id")] == group_id]
        for name in ("job", "open_run", "run_history", "executor")
    ]


def _tenant(api: Api) -> Tenant:
    """Return a group with one job, made once for all examples."""
    known: Tenant | None = getattr(api, "tenant", None)
    if known is None:
        known = Tenant(api.db, api.executor.app, "orders")
        known.add()
        api.tenant = known  # type: ignore[attr-defined]
    return known


def _check_envelope(answer: falcon.testing.Result) -> None:
    assert answer.status_code in {200, 413}
    assert set(answer.json) == {"code", "msg", "content", "data", "success", "xwheel"}
    assert answer.json["code"] in {200, 500}
    assert "incident" not in answer.json["msg"]
    assert "Traceback" not in answer.text
    assert len(answer.text) < 2000
