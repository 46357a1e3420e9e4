"""The audit over the API: who sees which rows, and that whatever changes something leaves one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.product.accounts.conftest import PeopleApi
from tests.product.accounts.people import Person
from tests.support.route_calls import CALLS, World
from xwheel.model.access import ALL


def rows(api: PeopleApi, **query: Any) -> list[dict[str, Any]]:
    answer = api.call("GET", "audit", params={"limit": 200, **query})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json["items"]
    return found


def shown(api: PeopleApi, name: str, **grants: Any) -> dict[str, str]:
    """Return the header of a new token, once it counts."""
    secret = api.call("POST", "tokens", {"name": name, **grants}).json["token"]
    api.clock.advance(1000)
    return {"Authorization": f"Bearer {secret}"}


def actions(api: PeopleApi, **query: Any) -> list[str]:
    return [row["action"] for row in rows(api, **query)]


def test_a_row_says_who_did_what_from_where_and_why(api: PeopleApi) -> None:
    made = api.call("POST", "groups", {"app_name": "shop"}, headers={"Xwheel-Reason": "new%20shop%20%E2%98%82"})
    group_id = made.json["id"]
    api.call("PATCH", f"groups/{group_id}", {"title": "Shop"})
    edit, create = rows(api, group_id=group_id)
    assert (create["actor_kind"], create["actor"], create["credential"]) == ("token", "tests", "token tests")
    assert (create["action"], create["object_kind"], create["object_id"]) == (
        "group.create", "group", str(group_id),
    )  # fmt: skip
    assert (create["reason"], create["outcome"], create["address"]) == ("new shop ☂", "done", "127.0.0.1")
    assert create["detail"]["after"]["app_name"] == "shop"
    assert edit["detail"] == {"before": {"title": "shop"}, "after": {"title": "Shop"}}
    assert edit["reason"] == ""
    assert edit["position"] is None


@pytest.mark.parametrize(
    "reason", ["%", "%G0", "%FF", "a" * 501, "%C3%A9" * 501, "a%0Ab", "a%00b", "é", "%E2%80%AEevil"]
)
def test_a_reason_that_cannot_be_read_is_refused_and_nothing_is_done(api: PeopleApi, reason: str) -> None:
    answer = api.call("POST", "groups", {"app_name": "shop"}, headers={"Xwheel-Reason": reason})
    assert answer.status_code == 422, answer.text
    assert answer.json["field"] == "Xwheel-Reason"
    assert "group.create" not in actions(api)
    # what changes nothing needs no reason, and reads none
    assert api.call("GET", "groups", headers={"Xwheel-Reason": reason}).status_code == 200


def test_a_reason_may_have_500_characters_of_any_script(api: PeopleApi) -> None:
    headers = {"Xwheel-Reason": "%E2%98%82" * 500}
    assert api.call("POST", "groups", {"app_name": "shop"}, headers=headers).status_code == 201
    assert rows(api, action="group.create")[0]["reason"] == "☂" * 500


def test_only_what_was_done_in_groups_whose_admin_one_is_is_shown(api: PeopleApi) -> None:
    """Being let in takes one group; of another that can be read, and of all groups, nothing is shown."""
    own, other = api.group("own"), api.group("other")
    for group_id in (own, other):
        assert api.call("PATCH", f"groups/{group_id}", {"title": "New"}).status_code == 200
    roles = [{"group_id": own, "role": "admin"}, {"group_id": other, "role": "editor", "script": True}]
    headers = shown(api, "admin-of-own", groups=roles)
    answer = api.management.simulate_get("/api/v1/audit", headers=headers)
    assert {item["group_id"] for item in answer.json["items"]} == {own}
    as_file = api.management.simulate_get("/api/v1/audit/csv", headers=headers)
    assert as_file.status_code == 200
    assert as_file.text.count("group.edit") == 1


def test_pages_go_on_where_the_one_before_ended(api: PeopleApi) -> None:
    for number in range(5):
        api.clock.advance(1)
        api.call("POST", "groups", {"app_name": f"g{number}"})
    found: list[str] = []
    after: str | None = None
    while True:
        query = {"limit": 2, "action": "group.create", **({} if after is None else {"after": after})}
        page = api.call("GET", "audit", params=query).json
        found += [row["detail"]["after"]["app_name"] for row in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert found == ["g4", "g3", "g2", "g1", "g0"]


@pytest.mark.parametrize(
    "query", ["object_id=5", "outcome=bad", "after=x", "limit=0", "actor=", "from_ms=0", "group_id=0", "nothing=1"]
)
def test_a_query_that_makes_no_sense_is_refused(api: PeopleApi, query: str) -> None:
    assert api.call("GET", f"audit?{query}").status_code == 422


def test_an_admin_of_some_groups_sees_rows_of_these_and_none_without_a_group(api: PeopleApi) -> None:
    own, other = (api.call("POST", "groups", {"app_name": name}).json["id"] for name in ("own", "other"))
    api.call("PUT", "schedule/pause", {})
    api.call("PATCH", f"groups/{own}", {"title": "Own"})
    mine = shown(api, "of-own", groups=[{"group_id": own, "role": "admin"}])
    page = api.call("GET", "audit", headers=mine).json
    assert {row["group_id"] for row in page["items"]} == {own}
    assert [row["action"] for row in page["items"]] == ["group.edit", "group.create"]
    assert api.call("GET", f"audit?group_id={other}", headers=mine).json["items"] == []
    assert {"schedule.pause", "token.create"} <= set(actions(api))
    assert api.call("GET", "audit", headers=shown(api, "viewer", role="viewer")).status_code == 403


def test_no_row_shows_what_opens_anything(api: PeopleApi) -> None:
    group_id = api.call("POST", "groups", {"app_name": "shop"}).json["id"]
    token = api.call("POST", "tokens", {"name": "ops"}).json["token"]
    secret = api.call("POST", "secrets", {"name": "s1", "group_id": group_id}).json["secret"]
    second = api.call("POST", "secrets/s1/rotate", {"name": "s2", "expires_in_s": 60}).json["secret"]
    api.call("DELETE", "secrets/s2")
    api.call("DELETE", "tokens/ops")
    told = api.call("GET", "audit?limit=200").text
    assert not any(value in told for value in (token, secret, second))
    with api.db.read() as conn:
        whole = repr(list(conn.exec_driver_sql("SELECT * FROM audit")))
    assert not any(value in whole for value in (token, secret, second, "plain:"))
    wanted = ["secret.delete", "secret.retire", "secret.create", "secret.create"]
    assert [name for name in actions(api) if name.startswith("secret.")] == wanted
    assert [name for name in actions(api) if name.startswith("token.")] == ["token.delete", "token.create"]


def test_refused_calls_of_known_callers_are_in_the_audit(api: PeopleApi) -> None:
    headers = {**shown(api, "viewer", role="viewer"), "Xwheel-Reason": "curious"}
    job = api.job()
    for _ in range(50):
        answer = api.call("PATCH", f"jobs/{job['id']}", {"description": "x"}, headers=headers)
        assert answer.status_code == 403
    api.call("GET", "jobs", headers={"Authorization": "Bearer nobody"})
    api.clock.advance(30_000)
    api.refusals.step(api.clock.now_ms())
    found = rows(api, outcome="refused")
    by_kind = {(row["object_kind"], "calls" in row["detail"]["after"]): row for row in found}
    assert len(found) == 3
    first = by_kind["route", False]
    assert (first["actor"], first["reason"]) == ("viewer", "curious")
    assert first["object_id"] == "PATCH /api/v1/jobs/{job_id:id}"
    assert by_kind["route", True]["detail"]["after"]["calls"] == 49
    unknown = by_kind["listener", True]
    assert unknown["actor_kind"] == "unknown"
    assert unknown["detail"]["after"]["calls"] == 1


def test_what_is_hidden_from_a_caller_is_a_refusal_and_what_is_not_there_is_none(api: PeopleApi) -> None:
    own = api.call("POST", "groups", {"app_name": "own"}).json["id"]
    job = api.job(name="hidden")
    mine = shown(api, "of-own", groups=[{"group_id": own, "role": "editor"}])
    assert api.call("GET", f"jobs/{job['id']}", headers=mine).status_code == 404
    assert api.call("POST", "jobs/bulk/start", {"ids": [job["id"]]}, headers=mine).status_code == 200
    assert api.call("GET", "jobs/999", headers=mine).status_code == 404
    api.refusals.end()
    routes = {row["object_id"] for row in rows(api, outcome="refused")}
    assert routes == {"GET /api/v1/jobs/{job_id:id}", "POST /api/v1/jobs/bulk/start"}


def test_unknown_executors_are_counted(api: PeopleApi) -> None:
    for _ in range(40):
        api.report_in("/api/registry", {}, headers={"XXL-JOB-ACCESS-TOKEN": "wrong"})
    api.refusals.end()
    (row,) = rows(api, outcome="refused")
    assert (row["object_id"], row["detail"]["after"]["calls"]) == ("executor-api", 40)
    assert row["detail"]["after"]["routes"] == {"POST /api/registry": 40}


UNRECORDED = {"/me/settings/{setting}", "/session/link"}
"""What pages keep for an account changes nothing that anybody else sees, and no one's rights; whose a sign-in link is
only is asked by POST so that the link stands in no address."""


def test_whatever_changes_something_leaves_a_row_that_names_who(api: PeopleApi) -> None:
    """Every route that is no GET, called as an admin who says why."""
    world, missing, nameless = World(api), [], []
    for (method, path), make in sorted(CALLS.items()):
        if method == "GET" or path in UNRECORDED:
            continue
        if (method, path) == ("DELETE", "/schedule/pause"):
            api.parts.schedules.pause()
        group_id = world.group()
        call = make(world, group_id)
        person = Person(api, world.name(), ALL)
        ending = "" if call.own is None else str(call.own(person))
        before = {row["id"] for row in rows(api)}
        headers = {"Xwheel-Reason": "a%20test"}
        answer = person.call(method, f"/api/v1{call.path}{ending}", call.body, headers=headers)
        assert call.status(answer) < 300, (method, path, answer.text)
        made = [row for row in rows(api) if row["id"] not in before]
        if not made:
            missing.append(f"{method} {path}")
        nameless += [
            f"{method} {path} {row['action']}"
            for row in made
            if not row["actor"] or (row["reason"] != "a test" and path != "/session")
        ]
    assert missing == []
    assert nameless == []
