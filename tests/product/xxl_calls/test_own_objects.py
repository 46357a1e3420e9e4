"""T6 and T7 for job calls: jobs of other groups are as if not there, also if they move there meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xwheel_xxl_calls.answers import JobAnswers

from tests.component.api.conftest import Api
from tests.support.job_calls import Tenant, definition
from tests.support.route_calls import UNKNOWN
from xwheel.model.access import NODE, Actor, ActorKind, Permission, current_actor
from xwheel.storage import jobs


def test_the_group_acts_during_a_call_and_the_node_after_it(
    api: Api, orders: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Actor] = []
    usual = api.parts.jobs.stop

    def stop(job_id: int, **more: Any) -> Any:
        seen.append(current_actor())
        return usual(job_id, **more)

    monkeypatch.setattr(api.parts.jobs, "stop", stop)
    job_id = orders.add()
    assert orders.call("stopJob", {"id": job_id})["code"] == 200
    (actor,) = seen
    assert (actor.kind, actor.name, actor.credential) == (ActorKind.GROUP, "orders", "token orders")
    assert actor.address == "127.0.0.1"
    assert actor.grants.groups_with(Permission.SCRIPT) == {orders.group_id}
    assert not actor.grants.allows(Permission.ADMIN, orders.group_id)
    assert current_actor() is NODE
    assert orders.call("stopJob", {"id": UNKNOWN})["code"] == 500
    assert current_actor() is NODE


@pytest.mark.parametrize("name", ["updateJob", "startJob", "stopJob", "triggerJob", "removeJob"])
def test_a_job_that_moves_meanwhile_is_out_of_reach(
    api: Api, orders: Tenant, billing: Tenant, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    job_id = orders.add()
    before = orders.job(job_id)
    usual: Callable[..., Any] = JobAnswers._own

    def own(calls: JobAnswers, *arguments: Any) -> Any:
        found = usual(calls, *arguments)
        api.db.transaction(lambda conn: jobs.update_job(conn, job_id, {"group_id": billing.group_id}))
        return found

    monkeypatch.setattr(JobAnswers, "_own", own)
    answer = orders.call(name, {**definition(), "id": job_id})
    if name == "removeJob":
        assert answer["code"] == 200  # as for one that is gone
    else:
        assert (answer["code"], answer["msg"]) == (500, f"job {job_id} does not exist")
    now = billing.job(job_id)
    assert (now.revision, now.enabled) == (before.revision, before.enabled)
    assert api.rows()["open_run"] == api.rows()["run_history"] == []
