"""T2, T10 and T13 for job calls: who gets in, what hostile bodies do, and where a run may be sent."""

from __future__ import annotations

import sys

import pytest

from tests.component.api.conftest import LIMIT, Api
from tests.component.api.v1.access.test_secrets import make, say
from tests.security.test_addresses import GROUP_TOKEN, Site, site, spellings_of
from tests.security.test_hostile_json import HOSTILE, canary, send_to_executor_calls, send_too_much_to_executor_calls
from tests.security.test_matrix import (
    executor_calls,
    filled,
    test_the_executor_api_knows_nobody_but_the_right_token,
    test_the_right_token_gets_into_every_executor_call,
)
from tests.support.job_calls import Tenant
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

__all__ = [
    "canary",
    "filled",
    "site",
    "test_the_executor_api_knows_nobody_but_the_right_token",
    "test_the_right_token_gets_into_every_executor_call",
]
CALLS = ("addJob", "updateJob", "removeJob", "startJob", "stopJob", "triggerJob")


def test_the_job_calls_are_among_those_of_the_matrix(api: Api) -> None:
    assert executor_calls(api).keys() >= set(CALLS)


@pytest.mark.parametrize("name", ["stopJob", "startJob", "removeJob", "triggerJob", "updateJob"])
def test_a_groups_token_reaches_no_job_of_another_group(
    filled: Api, billing: Tenant, orders: Tenant, name: str
) -> None:
    theirs = orders.add(name="theirs")
    before = filled.rows()
    answer = billing.call(name, {"id": theirs})
    # what is not there is removed already, as upstream has it
    assert answer["code"] == (200 if name == "removeJob" else 500), answer
    assert filled.rows() == before


def test_an_executors_secret_opens_none(api: Api, orders: Tenant) -> None:
    secret = make(api, "orders-1", orders.group_id)
    before = api.rows()
    for call in CALLS:
        answer = say(api, call, secret, {"id": 1}, **{APP_NAME_HEADER: "orders"})
        assert (answer["code"], TOKEN_HEADER in answer["msg"]) == (500, True), call
    assert api.rows() == before


@pytest.mark.parametrize("part", range(4))
def test_hostile_json_is_refused(api: Api, orders: Tenant, canary: str, part: int) -> None:
    orders.add()
    for body in HOSTILE[part::4]:
        send_to_executor_calls(api, body)
    assert canary not in sys.modules


@pytest.mark.parametrize("size", [LIMIT + 1, 10 * LIMIT])
def test_what_is_too_large_is_refused(api: Api, orders: Tenant, size: int) -> None:
    before = api.rows()
    send_too_much_to_executor_calls(api, b'{"name": "' + b"x" * size + b'"}')
    assert api.rows() == before


def test_no_trigger_leads_to_an_address_that_is_not_registered_for_the_group(site: Site) -> None:
    site.register("billing", site.trap.address)  # another group's executor is no one to this one
    for spelling in spellings_of(site.trap):
        for wanted in (spelling, f"{spelling},{spelling}"):
            answer = site.report("triggerJob", {"id": site.job_id, "addressList": wanted}, GROUP_TOKEN)
            assert (answer["code"], "addressList" in answer["msg"]) == (500, True), answer
    assert site.planned() == 0
    assert not site.trap.was_called()


def test_a_groups_token_triggers_jobs_of_its_group(site: Site) -> None:
    """What the test above asks for in vain is what this call does where it may."""
    assert site.report("triggerJob", {"id": site.job_id}, GROUP_TOKEN)["code"] == 200
    assert site.report("triggerJob", {"id": site.job_of_billing}, GROUP_TOKEN)["code"] == 500
