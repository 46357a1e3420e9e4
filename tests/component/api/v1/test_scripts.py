"""Sources of script jobs over the management API."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.component.api.conftest import Api

RATE = {"schedule_type": "FIX_RATE", "schedule_conf": "60s"}


def script(api: Api, **fields: Any) -> dict[str, Any]:
    return api.job(**{"glue_type": "SCRIPT", "handler": "", **fields})


def source_of(api: Api, job: dict[str, Any]) -> tuple[int, str]:
    number = api.call("GET", f"jobs/{job['id']}").json["glue_version"]
    return number, api.call("GET", f"jobs/{job['id']}/glue/{number}").json["source"]


def test_versions_are_saved_listed_read_and_taken_back(api: Api) -> None:
    job = script(api)
    path = f"jobs/{job['id']}/glue"
    assert job["glue_version"] == 0
    first = api.call("POST", path, {"source": "echo 1\n", "author": "Li Lei", "remark": "first"})
    assert (first.status_code, first.headers["location"]) == (201, f"/api/v1/{path}/1")
    second = api.call("POST", path, {"source": "echo 2\n"}).json
    assert (second["number"], second["author"], second["glue_type"]) == (2, "tests", "SCRIPT")
    assert second["created_ms"] > first.json["created_ms"]
    back = api.call("POST", f"{path}/1/restore").json
    assert (back["number"], back["source"], back["remark"]) == (3, "echo 1\n", "version 1 again")
    listed = api.call("GET", path, params={"limit": 2}).json
    assert [item["number"] for item in listed["items"]] == [3, 2]
    assert "source" not in listed["items"][0]
    rest = api.call("GET", path, params={"after": listed["next"]}).json
    assert [(item["number"], item["author"]) for item in rest["items"]] == [(1, "Li Lei")]
    assert rest["next"] is None
    # numbers that no column holds
    assert len(api.call("GET", path, params={"after": 2**53 - 2}).json["items"]) == 3
    assert [api.call("GET", f"{path}/{number}").status_code for number in (4, 2**40)] == [404, 404]
    assert api.call("POST", f"{path}/{2**40}/restore").status_code == 404
    assert source_of(api, job) == (3, "echo 1\n")


def test_a_save_counts_only_at_the_revision_that_was_seen(api: Api) -> None:
    job = script(api)
    path = f"jobs/{job['id']}/glue"
    assert api.call("POST", path, {"source": "a", "revision": job["revision"]}).status_code == 201
    late = api.call("POST", path, {"source": "b", "revision": job["revision"]})
    assert (late.status_code, late.json["type"]) == (409, "urn:xwheel:problem:conflict")
    late = api.call("POST", f"{path}/1/restore", headers={"If-Match": '"1"'})
    assert late.status_code == 409
    assert source_of(api, job) == (1, "a")


def test_only_the_newest_versions_stay(api: Api) -> None:
    job = script(api)
    path = f"jobs/{job['id']}/glue"
    for number in range(33):
        api.call("POST", path, {"source": f"echo {number}"})
    kept = [item["number"] for item in api.call("GET", path, params={"limit": 100}).json["items"]]
    assert kept == list(range(33, 3, -1))
    gone = api.call("POST", f"{path}/3/restore")
    assert (gone.status_code, "version of job" in gone.json["detail"]) == (404, True)


def test_without_a_source_a_script_is_neither_started_nor_run(api: Api) -> None:
    job = script(api, **RATE)
    plain = api.job(name="plain")
    for action in ("start", "run"):
        refused = api.call("POST", f"jobs/{job['id']}/{action}")
        assert (refused.status_code, refused.json["field"]) == (422, "glue_source")
        assert f"POST /api/v1/jobs/{job['id']}/glue" in refused.json["detail"]
        bulk = api.call("POST", f"jobs/bulk/{action}", {"ids": [job["id"], plain["id"]]}).json["items"]
        assert (bulk[0]["status"], bulk[0]["problem"]["field"]) == (422, "glue_source")
    assert bulk[1]["status"] in {200, 201}
    group_id = api.group("other")
    body = {"group_id": group_id, "name": "x", "glue_type": "SCRIPT", "enabled": True, **RATE}
    assert api.call("POST", "jobs", body).json["field"] == "glue_source"
    made = api.call("POST", "jobs", {**body, "glue_source": "echo\n"})
    assert (made.status_code, made.json["enabled"], made.json["glue_version"]) == (201, True, 1)
    assert api.call("POST", f"jobs/{made.json['id']}/run").status_code == 201


@pytest.mark.parametrize(
    "fields",
    [
        {"glue_type": "SCRIPT", **RATE},
        {"glue_type": "BEAN", "handler": "h", "schedule_type": "CRON", "schedule_conf": "0 0 0 1 1 ? 2020"},
        {"glue_type": "BEAN", "handler": "h", "schedule_type": "NONE", "schedule_conf": ""},
    ],
)
def test_u26_what_is_refused_when_it_is_made_has_no_id(api: Api, fields: dict[str, Any]) -> None:
    answer = api.call("POST", "jobs", {"group_id": api.group("other"), "name": "x", "enabled": True, **fields})
    assert answer.status_code == 422
    assert not re.search(r"jobs?[ /]\d", answer.json["detail"])


def test_a_source_may_come_with_the_job_and_with_a_change(api: Api) -> None:
    job = script(api, glue_source="one")
    path = f"jobs/{job['id']}"
    same = api.call("PATCH", path, {"glue_source": "one", "param": "p"}).json
    assert (same["glue_version"], same["revision"]) == (1, 2)
    other = api.call("PATCH", path, {"glue_source": "two"}).json
    assert (other["glue_version"], other["revision"]) == (2, 3)
    assert source_of(api, job) == (2, "two")


def test_with_another_glue_type_the_old_source_counts_no_more(api: Api) -> None:
    job = script(api, glue_source="one", enabled=True, **RATE)
    path = f"jobs/{job['id']}"
    changed = api.call("PATCH", path, {"glue_type": "BEAN", "handler": "demo"}).json
    assert changed["glue_version"] == 0
    refused = api.call("PATCH", path, {"glue_type": "SCRIPT"})
    assert (refused.status_code, refused.json["field"]) == (422, "glue_source")
    other = api.call("POST", f"{path}/glue/1/restore")
    assert (other.status_code, "SCRIPT" in other.json["detail"]) == (422, True)
    back = api.call("PATCH", path, {"glue_type": "SCRIPT", "glue_source": "two"}).json
    assert (back["glue_version"], source_of(api, job)) == (2, (2, "two"))


def test_a_job_without_a_script_takes_no_source(api: Api) -> None:
    job = api.job()
    refused = api.call("POST", f"jobs/{job['id']}/glue", {"source": "x"})
    assert (refused.status_code, refused.json["field"]) == (422, "glue_source")
    assert api.call("PATCH", f"jobs/{job['id']}", {"glue_source": "x"}).status_code == 422
    assert api.call("GET", f"jobs/{job['id']}/glue").json == {"items": [], "next": None}
    assert api.call("GET", "jobs/999/glue").status_code == 404


def test_a_copy_has_the_newest_source(api: Api) -> None:
    job = script(api, glue_source="one")
    api.call("POST", f"jobs/{job['id']}/glue", {"source": "two"})
    copy = api.call("POST", f"jobs/{job['id']}/copy").json
    assert source_of(api, copy) == (1, "two")
    (item,) = api.call("GET", f"jobs/{copy['id']}/glue").json["items"]
    assert item["remark"] == f"copied from job {job['id']}"


@pytest.mark.parametrize(
    ("changes", "field"),
    [({}, "source"), ({"source": " \n"}, "source"), ({"source": 5}, "source"),
     ({"source": "x", "author": "a" * 65}, "author"), ({"source": "x", "remark": "r" * 256}, "remark")],
)  # fmt: skip
def test_what_is_no_source_is_refused(api: Api, changes: dict[str, Any], field: str) -> None:
    job = script(api)
    answer = api.call("POST", f"jobs/{job['id']}/glue", changes)
    assert answer.status_code in {413, 422}
    assert answer.status_code == 413 or answer.json["field"] == field
    assert api.call("GET", f"jobs/{job['id']}").json["glue_version"] == 0
