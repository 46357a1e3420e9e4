"""Versions of jobs over the management API: lists, differences, and the way back."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.component.api.conftest import Api
from tests.product.api import product_api
from xwheel.storage import job_versions
from xwheel.storage.database.engine import Database

RATE = {"schedule_type": "FIX_RATE", "schedule_conf": "60s"}


@pytest.fixture
def api(db: Database) -> Api:
    return product_api(db, {})


def edit(api: Api, job: dict[str, Any], why: str = "", **fields: Any) -> dict[str, Any]:
    answer = api.call("PATCH", f"jobs/{job['id']}", fields, headers={"Xwheel-Reason": quote(why)} if why else {})
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json
    return made


def diff(api: Api, job: dict[str, Any], revision: int, **params: Any) -> dict[str, Any]:
    answer = api.call("GET", f"jobs/{job['id']}/versions/{revision}/diff", params=params)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json
    return made


def fields(found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {item["field"]: (item["before"], item["after"]) for item in found["fields"]}


def test_versions_are_listed_newest_first_and_page_by_page(api: Api) -> None:
    job = api.job(**RATE)
    edit(api, job, "because", param="b")
    edit(api, job, "größer — 更大", param="c")
    path = f"jobs/{job['id']}/versions"
    page = api.call("GET", path, params={"limit": 2}).json
    assert [(item["revision"], item["action"], item["reason"]) for item in page["items"]] == [
        (3, "edit", "größer — 更大"), (2, "edit", "because"),
    ]  # fmt: skip
    first = page["items"][0]
    assert (first["actor"], first["actor_kind"], first["job_id"]) == ("tests", "token", job["id"])
    assert "definition" not in first
    rest = api.call("GET", path, params={"after": page["next"], "limit": 2}).json
    assert ([item["revision"] for item in rest["items"]], rest["next"]) == ([1], None)


def test_a_version_is_whole(api: Api) -> None:
    job = api.job(param="a", retry_delays_ms=[5], **RATE)
    edit(api, job, param="b")
    found = api.call("GET", f"jobs/{job['id']}/versions/1").json
    assert (found["revision"], found["definition"]["param"]) == (1, "a")
    assert found["definition"]["retry_delays_ms"] == [5]
    now = api.call("GET", f"jobs/{job['id']}").json
    newest = api.call("GET", f"jobs/{job['id']}/versions/2").json["definition"]
    assert {name: now[name] for name in newest} == newest


def test_a_difference_names_fields_before_and_after(api: Api) -> None:
    job = api.job(param="a", **RATE)
    edit(api, job, param="b", timeout_s=5)
    edit(api, job, schedule_conf="90s")
    found = diff(api, job, 2)
    assert (found["against"], found["revision"], found["source"]) == (1, 2, "")
    assert fields(found) == {"param": ("a", "b"), "timeout_s": (0, 5)}
    assert fields(diff(api, job, 2, against=2)) == {}
    assert fields(diff(api, job, 1, against=2)) == {"param": ("b", "a"), "timeout_s": (5, 0)}
    assert {"param", "schedule_conf"} <= fields(diff(api, job, 3, against=1)).keys()
    first = diff(api, job, 1)
    assert first["against"] is None
    assert fields(first)["param"] == (None, "a")


def test_sources_differ_line_by_line_until_one_is_not_kept(api: Api) -> None:
    job = api.job(glue_type="SCRIPT", handler="")
    path = f"jobs/{job['id']}/glue"
    api.call("POST", path, {"source": "one\ntwo\n"})
    api.call("POST", path, {"source": "one\n2\n"})
    assert diff(api, job, 3)["source"].splitlines() == [
        "--- source version 1", "+++ source version 2", "@@ -1,2 +1,2 @@", " one", "-two", "+2",
    ]  # fmt: skip
    assert "+one" in diff(api, job, 2)["source"].splitlines()
    for number in range(31):
        api.call("POST", path, {"source": f"line {number}"})
    assert diff(api, job, 3)["source"] is None
    assert diff(api, job, 34)["source"]


def test_children_are_those_that_the_job_had_then(api: Api) -> None:
    group = api.group()
    first, second, third = (api.job(name=name, group_id=group) for name in ("first", "second", "third"))
    path = f"jobs/{first['id']}/children"
    api.call("PUT", path, {"children": [{"child_id": second["id"], "param": "x"}]})
    edit(api, first, param="between")
    api.call("PUT", path, {"children": [{"child_id": third["id"]}]})
    one = [{"child_id": second["id"], "param": "x"}]
    other = [{"child_id": third["id"], "param": None}]
    had = [api.call("GET", f"jobs/{first['id']}/versions/{number}").json["children"] for number in (1, 2, 3, 4)]
    assert had == [[], one, one, other]
    assert fields(diff(api, first, 2)) == {"children": ([], one)}
    assert fields(diff(api, first, 3)) == {"param": ("", "between")}
    assert fields(diff(api, first, 4)) == {"children": (one, other)}
    assert fields(diff(api, first, 4, against=1)) == {"param": ("", "between"), "children": ([], other)}
    api.db.transaction(lambda conn: job_versions.delete_until(conn, {first["id"]: 2}))
    assert api.call("GET", f"jobs/{first['id']}/versions/3").json["children"] == one


def test_a_job_is_taken_back_at_the_revision_that_was_seen(api: Api) -> None:
    job = api.job(param="a", **RATE)
    edit(api, job, param="b")
    path = f"jobs/{job['id']}/versions/1/restore"
    late = api.call("POST", path, {"revision": 1})
    assert (late.status_code, late.json["revision"]) == (409, 2)
    answer = api.call("POST", path, {"revision": 2}, headers={"Xwheel-Reason": "b was wrong"})
    assert (answer.status_code, answer.json["param"], answer.json["revision"]) == (200, "a", 3)
    assert answer.headers["etag"] == '"3"'
    newest = api.call("GET", f"jobs/{job['id']}/versions", params={"limit": 1}).json["items"][0]
    assert (newest["action"], newest["reason"]) == ("restore", "b was wrong")
    assert api.call("POST", path, headers={"If-Match": '"2"'}).status_code == 409
    assert api.call("POST", path).json["revision"] == 4


def test_what_cannot_come_back_is_refused_by_its_field(api: Api) -> None:
    api.calendar("free", dates=["2030-01-01"])
    job = api.job(calendar_exclude=["free"], name="mine", **RATE)
    edit(api, job, calendar_exclude=[], name="yours")
    path = f"jobs/{job['id']}/versions/1/restore"
    other = api.job(name="mine", group_id=job["group_id"])
    assert api.call("POST", path).json["type"] == "urn:xwheel:problem:name-taken"
    api.call("DELETE", f"jobs/{other['id']}")
    api.call("DELETE", "calendars/free")
    refused = api.call("POST", path)
    assert (refused.status_code, refused.json["field"]) == (422, "calendar_exclude")


@pytest.mark.parametrize(
    "path", ["versions/9", "versions/9/diff", "versions/1/diff?against=9", "versions/9007199254740991"]
)
def test_what_is_not_kept_is_not_found(api: Api, path: str) -> None:
    job = api.job()
    bare, _, query = path.partition("?")
    answer = api.call("GET", f"jobs/{job['id']}/{bare}", query_string=query)
    assert (answer.status_code, "does not exist" in answer.json["detail"]) == (404, True)
    missing = api.call("GET", f"jobs/99/{bare}", query_string=query)
    assert (missing.status_code, missing.json["detail"]) == (404, "job 99 does not exist")


def test_a_job_that_is_not_there_has_no_versions(api: Api) -> None:
    assert api.call("GET", "jobs/99/versions").status_code == 404


def test_a_deleted_job_still_says_who_deleted_it(api: Api) -> None:
    job = api.job()
    api.call("DELETE", f"jobs/{job['id']}", headers={"Xwheel-Reason": "not needed any more"})
    found = api.call("GET", f"jobs/{job['id']}/versions").json["items"]
    assert [(item["action"], item["reason"]) for item in found] == [
        ("delete", "not needed any more"), ("create", ""),
    ]  # fmt: skip
    assert fields(diff(api, job, 2)) == {}
    assert api.call("POST", f"jobs/{job['id']}/versions/1/restore").status_code == 404


@pytest.mark.parametrize("reason", ["x" * 501, "%00", "a%0d%0aSet-Cookie: b", "%ff", "%e2%80%ae"])
def test_a_reason_is_a_line_of_text(api: Api, reason: str) -> None:
    answer = api.call("POST", "groups", {"app_name": "orders"}, headers={"Xwheel-Reason": reason})
    assert (answer.status_code, answer.json["field"]) == (422, "Xwheel-Reason")
    assert api.call("GET", "groups").json["items"] == []
