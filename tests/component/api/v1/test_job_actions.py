"""Revisions, copies, filters, children and many jobs at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.api.conftest import Api
from xwheel.api.schema.messages import JobCreate
from xwheel.errors import ScheduleError, UnknownNameError
from xwheel.model import Job
from xwheel.scheduler.jobs.jobs import JobManager

VERBS = ["start", "stop", "run", "delete"]


def load(api: Api, job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = api.call("GET", f"jobs/{job['id']}").json
    return found


@pytest.mark.parametrize(
    ("method", "action", "body"), [("PATCH", "", {"name": "b"}), ("POST", "/start", {}), ("POST", "/stop", {})]
)
def test_a_change_of_an_old_revision_is_refused(api: Api, method: str, action: str, body: dict[str, Any]) -> None:
    job = api.job(schedule_type="FIX_RATE", schedule_conf="5s")
    path = f"jobs/{job['id']}{action}"
    api.call("PATCH", f"jobs/{job['id']}", {"description": "x"})
    before = load(api, job)
    for options in ({"headers": {"If-Match": '"1"'}}, {}):
        sent = body if options else {**body, "revision": 1}
        refused = api.call(method, path, sent, **options)
        assert (refused.status_code, refused.json["revision"]) == (409, 2)
    assert load(api, job) == before
    contradiction = api.call(method, path, {**body, "revision": 2}, headers={"If-Match": '"1"'})
    assert (contradiction.status_code, contradiction.json["field"]) == (422, "If-Match")
    done = api.call(method, path, body, headers={"If-Match": '"2"'})
    assert (done.status_code, done.headers["etag"]) == (200, '"3"')


def test_a_job_of_another_revision_is_not_deleted(api: Api) -> None:
    job = api.job()
    assert api.call("DELETE", f"jobs/{job['id']}", headers={"If-Match": '"2"'}).status_code == 409
    for wrong in ("1", "one", "", '"0"', 'W/"1"', '"1", "2"'):
        answer = api.call("DELETE", f"jobs/{job['id']}", headers={"If-Match": wrong})
        assert (answer.status_code, answer.json["field"]) == (422, "If-Match"), wrong
    assert api.call("DELETE", f"jobs/{job['id']}", headers={"If-Match": "*"}).status_code == 204


def test_a_copy_has_the_same_definition_and_is_stopped(api: Api) -> None:
    job = api.job(
        name="n" * 128, schedule_type="CRON", schedule_conf="0 0 3 * * ?", enabled=True, retry_delays_ms=[1, 2]
    )
    answer = api.call("POST", f"jobs/{job['id']}/copy")
    copy = answer.json
    assert (answer.status_code, answer.headers["location"]) == (201, f"/api/v1/jobs/{copy['id']}")
    assert copy["name"] == "n" * 121 + " (copy)"
    assert (copy["enabled"], copy["next_fire_ms"], copy["revision"]) == (False, None, 1)
    same = set(JobCreate.__struct_fields__) - {"name", "enabled", "anchor_ms", "glue_source"}
    assert {name: copy[name] for name in same} == {name: job[name] for name in same}
    other = api.group("elsewhere")
    moved = api.call("POST", f"jobs/{job['id']}/copy", {"group_id": other, "name": "mine"}).json
    assert (moved["group_id"], moved["name"]) == (other, "mine")
    refused = api.call("POST", f"jobs/{job['id']}/copy", {"group_id": 999})
    assert (refused.status_code, refused.json["field"]) == (422, "group_id")
    assert api.call("POST", "jobs/999/copy").status_code == 404


def test_jobs_are_filtered(api: Api) -> None:
    first, second = api.group("a"), api.group("b")
    made = {
        name: api.job(name=name, group_id=group, handler=handler, **more)["id"]
        for name, group, handler, more in [
            ("Night report", first, "h1", {"schedule_type": "FIX_RATE", "schedule_conf": "5s", "enabled": True}),
            ("night", first, "h2", {}),
            ("day_1", second, "h1", {}),
        ]
    }

    def found(**params: Any) -> list[int]:
        return [item["id"] for item in api.call("GET", "jobs", params=params).json["items"]]

    assert found(name_contains="NIGHT") == [made["Night report"], made["night"]]
    assert found(name="night") == [made["night"]]
    assert found(name_contains="_") == [made["day_1"]]
    assert found(name_contains="null") == []
    assert found(handler="h1") == [made["Night report"], made["day_1"]]
    assert found(handler="h1", group_id=first) == [made["Night report"]]
    assert found(enabled="true") == [made["Night report"]]
    assert found(enabled="false") == [made["night"], made["day_1"]]
    assert found(schedule_type="FIX_RATE") == [made["Night report"]]


def test_many_jobs_are_changed_each_for_itself(api: Api) -> None:
    group = api.group()
    good = [api.job(group_id=group, name=f"j{n}", schedule_type="FIX_RATE", schedule_conf="5s")["id"] for n in range(3)]
    never = api.job(group_id=group, name="never")["id"]
    ids = [good[2], 999, never, good[0], good[2]]
    started = api.call("POST", "jobs/bulk/start", {"ids": ids}).json
    assert [(item["id"], item["status"]) for item in started["items"]] == [
        (good[2], 200),
        (999, 404),
        (never, 422),
        (good[0], 200),
    ]
    assert started["failed"] == 2
    assert started["items"][1]["problem"]["type"] == "urn:xwheel:problem:not-found"
    assert [load(api, {"id": job_id})["enabled"] for job_id in (*good, never)] == [True, False, True, False]
    ran = api.call("POST", "jobs/bulk/run", {"ids": ids, "param": "p"}).json["items"]
    assert [item["status"] for item in ran] == [201, 404, 201, 201]
    for item in ran:
        if item["status"] == 201:
            run = api.run(item["run_id"])
            assert (run.job_id, run.param, run.root_id) == (item["id"], "p", item["run_id"])
    stopped = api.call("POST", "jobs/bulk/stop", {"ids": good}).json
    assert stopped["failed"] == 0
    assert not any(load(api, {"id": job_id})["enabled"] for job_id in good)
    gone = api.call("POST", "jobs/bulk/delete", {"ids": [*good, 999]}).json["items"]
    assert [item["status"] for item in gone] == [204, 204, 204, 404]
    assert [item["id"] for item in api.call("GET", "jobs").json["items"]] == [never]


def test_a_job_that_cannot_be_started_stops_no_other(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    group = api.group()
    ids = [api.job(group_id=group, name=f"j{n}", schedule_type="FIX_RATE", schedule_conf="5s")["id"] for n in range(5)]
    errors: dict[int, Exception] = {
        ids[1]: UnknownNameError("schedule type", "GONE", ()),
        ids[2]: OverflowError("date value out of range"),
        ids[3]: ScheduleError("hour", "is 25"),
    }
    start = JobManager.start_locked

    def fail(self: JobManager, conn: Any, job: Job, now_ms: int) -> Job:
        if job.id in errors:
            raise errors[job.id]
        return start(self, conn, job, now_ms)

    monkeypatch.setattr(JobManager, "start_locked", fail)
    items = api.call("POST", "jobs/bulk/start", {"ids": ids}).json["items"]
    assert [item["status"] for item in items] == [200, 422, 422, 422, 200]
    for item in items:
        if item["problem"]:
            alone = api.call("POST", f"jobs/{item['id']}/start")
            assert (alone.status_code, alone.json) == (item["status"], item["problem"])
    assert [load(api, {"id": job_id})["enabled"] for job_id in ids] == [True, False, False, False, True]


@pytest.mark.parametrize("verb", VERBS)
def test_as_many_as_are_allowed_and_no_more(api: Api, verb: str) -> None:
    job = api.job()["id"]
    for ids in ([], [*range(1, 1002)], [0], ["1"], 1, None):
        refused = api.call("POST", f"jobs/bulk/{verb}", {"ids": ids})
        assert (refused.status_code, refused.json["field"]) == (422, "ids")
    items = api.call("POST", f"jobs/bulk/{verb}", {"ids": [*range(job, job + 1000)]}).json["items"]
    assert [item["id"] for item in items] == [*range(job, job + 1000)]
    assert {item["status"] for item in items[1:]} == {404}
    assert items[0]["status"] in {200, 201, 204, 422}


def test_children_are_replaced(api: Api) -> None:
    group = api.group()
    first, second, third = (api.job(group_id=group, name=name) for name in "abc")
    path = f"jobs/{first['id']}/children"
    assert api.call("GET", path).json == {"children": [], "parents": [], "revision": 1}
    links = [{"child_id": second["id"], "param": None}, {"child_id": third["id"], "param": "p"}]
    put = api.call("PUT", path, {"children": links, "revision": 1})
    assert put.json == {"children": links, "parents": [], "revision": 2}
    assert api.call("GET", f"jobs/{third['id']}/children").json["parents"] == [first["id"]]
    old = api.call("PUT", path, {"children": []}, headers={"If-Match": '"1"'})
    assert (old.status_code, old.json["revision"]) == (409, 2)
    circle = api.call("PUT", f"jobs/{third['id']}/children", {"children": [{"child_id": first["id"]}]})
    assert (circle.status_code, circle.json["field"]) == (422, "child_id")
    for wrong in ({}, {"children": [{}]}, {"children": [{"child_id": 1, "x": 1}]}, {"children": [second["id"]]}):
        assert api.call("PUT", path, wrong).status_code == 422
    assert api.call("PUT", path, {"children": []}).json["children"] == []
    assert api.call("GET", "jobs/999/children").status_code == 404
