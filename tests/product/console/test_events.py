"""Events, for pages that stay open."""

from __future__ import annotations

from typing import Any

import pytest
from xwheel_console.live import resources
from xwheel_console.live.messages import EventView

from tests.component.api.conftest import Api
from tests.support.callers import ROLES, Callers
from tests.support.rows import NOW
from xwheel.model.access import ALL, Grants


def of(role: str, *group_ids: int) -> Grants:
    return Grants(groups=dict.fromkeys(group_ids, ROLES[role]))


def test_events_follow_what_is_done(api: Api) -> None:
    first = api.call("GET", "events").json
    assert (first["reset"], first["items"]) == (True, [])
    made = api.job()
    run = api.call("POST", f"jobs/{made['id']}/run").json
    api.clock.advance(3000)
    found = api.call("GET", "events", params={"after": first["next"]}).json
    assert found["reset"] is False
    assert found["now_ms"] == api.clock.now_ms()
    assert [item["kind"] for item in found["items"]] == ["job", "run"]
    assert found["items"][1] == {
        "kind": "run",
        "id": run["id"],
        "job_id": made["id"],
        "group_id": made["group_id"],
        "chain_id": run["id"],
        "state": "planned",
    }
    assert found["counts"] == {
        "running": 0,
        "waiting": 1,
        "failed_24h": 0,
        "late": 0,
        "nodes": 0,
        "nodes_away": 0,
        "executors": 0,
        "paused_since_ms": None,
    }
    again = api.call("GET", "events", params={"after": found["next"]}).json
    assert (again["items"], again["next"]) == ([], found["next"])
    other = api.call("GET", "events", params={"after": "of-another-node"}).json
    assert (other["reset"], other["next"]) == (True, found["next"])


def test_events_and_counts_are_those_of_the_callers_groups(api: Api) -> None:
    callers = Callers(api)
    groups = [api.group("one"), api.group("two")]
    mine, theirs = of("viewer", groups[0]), of("viewer", groups[1])
    for grants in (mine, theirs):
        callers.token(grants)
    first = api.call("GET", "events").json["next"]
    api.running(5, group_id=groups[0], check_ms=NOW)
    api.running(6, group_id=groups[1], check_ms=NOW)
    api.running(7, group_id=groups[1], check_ms=NOW)
    api.clock.advance(3000)
    # the one who asks first, and whatever is kept of the answer
    for grants, ids in ((ALL, [5, 6, 7]), (mine, [5]), (theirs, [6, 7]), (mine, [5]), (ALL, [5, 6, 7])):
        found = callers.call(grants, "GET", "events", params={"after": first}).json
        assert [item["id"] for item in found["items"] if item["kind"] == "run"] == ids
        assert found["counts"]["running"] == len(ids)
    assert callers.call(Grants(), "GET", "events").status_code == 403


def test_callers_that_are_told_the_same_share_the_work_and_each_has_its_time(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = api.call("GET", "events").json["next"]
    api.running(5, check_ms=NOW)
    api.clock.advance(3000)
    made: list[Any] = []
    monkeypatch.setattr(resources, "EventView", lambda **fields: made.append(fields) or EventView(**fields))
    begin_ms, answers = api.clock.now_ms(), []
    for _ in range(5):
        answers.append(api.call("GET", "events", params={"after": first}).json)
        api.clock.advance(10)
    assert len(made) == len(answers[0]["items"]) == 1
    assert [found.pop("now_ms") - begin_ms for found in answers] == [0, 10, 20, 30, 40]
    assert answers == [answers[0]] * 5
