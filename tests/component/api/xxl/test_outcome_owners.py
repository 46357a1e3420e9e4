"""S5: an outcome counts from the group, and for xwheel executors the instance, that took the run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.api.conftest import Api
from tests.support.rows import NOW
from xwheel.model import NO_SECRET, SHARED_SECRET, RunState
from xwheel.wire.codec import decode_callbacks, encode_callbacks, read_refusals
from xwheel.wire.messages import CallbackItem

GROUP_SECRET = 7


@pytest.mark.parametrize(
    ("sent_under", "counts"), [(None, True), (SHARED_SECRET, True), (NO_SECRET, False), (GROUP_SECRET, False)]
)
def test_s5_the_shared_token_ends_only_runs_that_were_sent_under_it(
    api: Api, sent_under: int | None, counts: bool
) -> None:
    api.running(1, secret_id=sent_under)
    answer = api.report_in("/api/callback", [{"logId": 1, "logDateTim": 0, "handleCode": 200}]).json
    assert answer["code"] == 200
    assert ("no run has this id" in answer["msg"]) == (not counts)
    assert api.run(1).state is (RunState.SUCCEEDED if counts else RunState.RUNNING)


ITEMS: dict[str, tuple[dict[str, Any], bool]] = {
    "its own": ({"job_id": 1, "created_ms": NOW, "instance": "i-1"}, True),
    # executors of older versions do not say which instance they are
    "it does not say": ({"job_id": 1, "created_ms": NOW}, True),
    "another instance": ({"job_id": 1, "created_ms": NOW, "instance": "i-2"}, False),
    "no time": ({"job_id": 1, "created_ms": 0, "instance": "i-1"}, False),
    "another time": ({"job_id": 1, "created_ms": NOW + 1, "instance": "i-1"}, False),
    "a foreign executor with no time": ({"created_ms": 0}, False),
    "a foreign executor with the time": ({"created_ms": NOW}, False),
}


@pytest.mark.parametrize(("item", "counts"), ITEMS.values(), ids=ITEMS)
def test_s5_a_run_of_an_xwheel_executor_ends_only_as_that_one_says(
    api: Api, item: dict[str, Any], counts: bool
) -> None:
    api.running(1, instance="i-1")
    fields = dict(item)
    body = encode_callbacks(
        [CallbackItem(run_id=1, code=200, **{**fields, "instance": ""})], instance=fields.get("instance", "")
    )
    answer = api.report_in("/api/callback", body).json
    assert api.run(1).state is (RunState.SUCCEEDED if counts else RunState.RUNNING)
    if not counts and "job_id" in fields:
        assert [refused.run_id for refused in read_refusals(answer["data"])] == [1]


def test_s5_an_xwheel_executor_ends_no_run_that_a_foreign_one_took(api: Api) -> None:
    api.running(1)
    item = CallbackItem(run_id=1, job_id=1, created_ms=NOW, code=200)
    api.report_in("/api/callback", encode_callbacks([item], instance="i-1"))
    assert api.run(1).state is RunState.RUNNING


def test_the_instance_travels_with_each_outcome() -> None:
    items = [CallbackItem(run_id=number, job_id=1, code=200) for number in (1, 2)]
    for generation in (3, 4):
        read, bad = decode_callbacks(encode_callbacks(items, generation=generation, instance="i-1"))
        assert ([item.instance for item in read], bad) == (["i-1", "i-1"], [])
