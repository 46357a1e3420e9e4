"""Jobs that code declares, over the management API: who may sync them, and what people see and may change."""

from __future__ import annotations

from typing import Any

import falcon.testing
import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, TOKEN, Api
from tests.support.rows import NOW, make_executor

GROUP_TOKEN, OTHER_TOKEN = "token-of-orders", "token-of-billing"
REPORT: dict[str, Any] = {
    "name": "report",
    "place": "shop.jobs:report",
    "handler": "report",
    "schedule_type": "CRON",
    "schedule_conf": "0 0 2 * * ?",
    "timezone": "Asia/Shanghai",
    "max_retries": 3,
}


def clean(**changes: Any) -> dict[str, Any]:
    return {"name": "clean", "handler": "clean", "schedule_type": "NONE", "schedule_conf": "", **changes}


@pytest.fixture
def shop(api: Api) -> Api:
    """Two groups, each with a token."""
    for app_name, token in (("orders", GROUP_TOKEN), ("billing", OTHER_TOKEN)):
        group_id = api.group(app_name)
        api.db.transaction(lambda conn, g=group_id, a=app_name, t=token: _token(conn, g, a, t))
    return api


def _token(conn: Any, group_id: int, name: str, token: str) -> None:
    from xwheel.storage.access import tokens

    tokens.insert_token(conn, name, token, NOW, group_id=group_id)


def sync(api: Api, *jobs: dict[str, Any], token: str = GROUP_TOKEN, **fields: Any) -> falcon.testing.Result:
    body = {
        "app_name": "orders",
        "release": "1.0",
        "digest": "a" * 64,
        "instance": "instance-1",
        "jobs": list(jobs),
        **fields,
    }
    return api.call("POST", "declarations/sync", body, headers={"Authorization": f"Bearer {token}"})


def job(api: Api, name: str = "report") -> dict[str, Any]:
    (found,) = api.call("GET", "jobs", params={"name": name}).json["items"]
    return dict(found)


def beat(api: Api, port: int, release: str, digest: str) -> None:
    answer = api.report_in(
        "/api/registry",
        {
            "registryGroup": "EXECUTOR",
            "registryKey": "orders",
            "registryValue": f"http://127.0.0.1:{port}",
            "xwheel": {"instance": f"i-{port}", "boot": "b", "release": release, "declared": digest},
        },
    )
    assert answer.json["code"] == 200, answer.text


def test_a_sync_makes_jobs_and_a_second_one_changes_nothing(shop: Api) -> None:
    report = sync(shop, REPORT, clean()).json
    assert [(step["action"], step["name"]) for step in report["steps"]] == [("create", "clean"), ("create", "report")]
    assert (report["standing"], report["problems"], report["other"]) == ("owns", [], None)
    made = job(shop)
    assert (made["enabled"], made["max_retries"], made["timezone"]) == (True, 3, "Asia/Shanghai")
    assert made["declared"] == {
        "place": "shop.jobs:report",
        "release": "1.0",
        "owned": [
            "glue_type", "handler", "max_retries", "name", "schedule_conf", "schedule_type", "timezone",
        ],
        "released": [],
        "is_released": False,
        "is_retired": False,
        "is_in_conflict": False,
        "problem": "",
    }  # fmt: skip
    assert sync(shop, REPORT, clean()).json["steps"] == []
    assert job(shop) == made
    assert shop.call("GET", f"jobs/{made['id']}").json == made


def test_only_the_groups_own_token_opens_it_to_executors(shop: Api) -> None:
    before = shop.rows()
    for token, words in (
        (OTHER_TOKEN, "not of group orders"),
        (EXECUTOR_TOKEN, "not known here"),
        (TOKEN, "xwheel token create NAME --group orders"),
    ):
        answer = sync(shop, REPORT, token=token)
        assert (answer.status_code, words in answer.json["detail"]) == (401, True), answer.text
    assert sync(shop, REPORT, token=OTHER_TOKEN, app_name="none").status_code == 401
    assert shop.rows() == before
    # a person's command says no instance, and a management token is enough
    assert sync(shop, REPORT, token=TOKEN, instance="").json["standing"] == "owns"
    assert sync(shop, REPORT, token=TOKEN, instance="", app_name="none").status_code == 404
    # what the token opens is this and nothing else
    for path in ("declarations", "jobs", "groups"):
        found = shop.call("GET", path, headers={"Authorization": f"Bearer {GROUP_TOKEN}"})
        assert found.status_code == 401, path


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"tymezone": "UTC"}, "tymezone"),
        ({"max_retries": "many"}, "max_retries"),
        ({"timezone": "Asia/Shangai"}, "timezone"),
        ({"route_strategy": "NEAREST"}, "route_strategy"),
        ({"schedule_conf": "0 0 2 * *"}, "schedule_conf"),
        ({"calendar_require": ["none"]}, "calendar_require"),
        ({"handler": ""}, "handler"),
        ({"enabled": True}, "enabled"),
    ],
)
def test_a_wrong_declaration_is_named_and_harms_no_other(shop: Api, wrong: dict[str, Any], field: str) -> None:
    report = sync(shop, {**REPORT, **wrong}, clean()).json
    (problem,) = report["problems"]
    assert (problem["name"], problem["place"], problem["field"]) == ("report", "shop.jobs:report", field)
    assert [step["name"] for step in report["steps"]] == ["clean"]
    assert shop.call("GET", "jobs", params={"name": "report"}).json["items"] == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"jobs": [REPORT, REPORT]}, "jobs[1].name"),
        ({"jobs": [{"handler": "x"}]}, "jobs[0].name"),
        ({"jobs": ["report"]}, "jobs[0]"),
        ({"jobs": [{}] * 1001}, "jobs"),
        ({"jobs": {}}, "jobs"),
        ({"release": "main"}, "release"),
        ({"release": "3fa9c1e"}, "release"),
        ({"digest": "x"}, "digest"),
        ({"app_name": ""}, "app_name"),
        ({"relase": "1"}, "relase"),
    ],
)
def test_a_wrong_call_is_refused_whole(shop: Api, fields: dict[str, Any], field: str) -> None:
    before = shop.rows()
    answer = sync(shop, **fields)
    assert (answer.status_code, answer.json["field"]) == (422, field), answer.text
    assert shop.rows() == before


def test_a_typo_that_the_executor_found_leaves_its_job_alone_and_is_shown(shop: Api) -> None:
    sync(shop, REPORT)
    before = job(shop)
    broken = {"name": "report", "place": "shop.jobs:report", "field": "crom", "reason": "is no field of jobs"}
    report = sync(shop, clean(), broken=[broken], release="1.1").json
    assert report["problems"] == [broken]
    after = job(shop)
    assert after["declared"].pop("problem") == "shop.jobs:report: crom: is no field of jobs"
    assert (after["schedule_conf"], after["enabled"]) == (before["schedule_conf"], True)


def test_what_code_owns_is_refused_to_people_and_released_by_choice(shop: Api) -> None:
    sync(shop, REPORT)
    made = job(shop)
    path = f"jobs/{made['id']}"
    refused = shop.call("PATCH", path, {"schedule_conf": "0 0 3 * * ?", "param": "x"})
    assert (refused.status_code, refused.json["type"], refused.json["field"]) == (
        409, "urn:xwheel:problem:owned-by-code", "schedule_conf",
    )  # fmt: skip
    for word in ("release 1.0", "shop.jobs:report", f"xwheel job release {made['id']} --field schedule_conf"):
        assert word in refused.json["detail"]
    assert shop.call("DELETE", path).json["type"] == "urn:xwheel:problem:owned-by-code"
    (bulk,) = shop.call("POST", "jobs/bulk/delete", {"ids": [made["id"]]}).json["items"]
    assert (bulk["status"], bulk["problem"]["type"]) == (409, "urn:xwheel:problem:owned-by-code")
    assert job(shop) == made
    # what code does not say is a person's, and so is whether the job fires
    assert shop.call("PATCH", path, {"param": "x", "max_retries": 3}).status_code == 200
    assert shop.call("POST", f"{path}/stop").status_code == 200
    released = shop.call("POST", f"{path}/release", {"fields": ["schedule_conf"]})
    assert released.json["declared"]["released"] == ["schedule_conf", "schedule_type"]
    assert "schedule_conf" not in released.json["declared"]["owned"]
    assert shop.call("PATCH", path, {"schedule_conf": "0 0 3 * * ?"}).status_code == 200
    sync(shop, REPORT)
    after = job(shop)
    assert (after["schedule_conf"], after["param"], after["enabled"]) == ("0 0 3 * * ?", "x", False)
    unknown = shop.call("POST", f"{path}/release", {"fields": ["param"]})
    assert (unknown.status_code, unknown.json["field"]) == (422, "fields")
    stale = shop.call("POST", f"{path}/release", {}, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.json["revision"]) == (409, after["revision"])
    assert shop.call("POST", f"{path}/release").json["declared"]["is_released"]
    assert shop.call("DELETE", path).status_code == 204


def test_a_start_that_finds_its_jobs_as_declared_only_reads(shop: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    sync(shop, REPORT, clean())
    written: list[object] = []
    transaction = shop.db.transaction
    monkeypatch.setattr(shop.db, "transaction", lambda work: written.append(work) or transaction(work))
    assert sync(shop, REPORT, clean()).json["standing"] == "owns"
    assert written == []
    sync(shop, {**REPORT, "max_retries": 1}, clean())
    assert written


def test_a_sign_of_life_needs_no_jobs_and_a_new_release_is_asked_for_its_own(shop: Api) -> None:
    first = sync(shop, jobs=None).json
    assert (first["standing"], first["needs_jobs"]) == ("owns", True)
    sync(shop, REPORT)
    assert not sync(shop, jobs=None).json["needs_jobs"]
    other = sync(shop, jobs=None, release="1.1", digest="b" * 64).json
    assert (other["standing"], other["needs_jobs"]) == ("owns", True)
    # it wrote nothing: only jobs make an owner
    assert shop.call("GET", "declarations").json["items"][0]["release"] == "1.0"


def test_conflicts_are_seen_by_the_caller_the_node_and_the_job(shop: Api) -> None:
    beat(shop, 9101, "1.0", "a" * 64)
    sync(shop, REPORT)
    assert shop.call("GET", "overview").json["declaration_conflicts"] == 0
    beat(shop, 9102, "1.0", "b" * 64)
    refused = sync(shop, {**REPORT, "max_retries": 9}, digest="b" * 64, instance="i-9102").json
    assert (refused["standing"], refused["other"]) == ("conflicts", {"release": "1.0", "digest": "a" * 64})
    assert refused["steps"] == []
    first = sync(shop, jobs=None).json
    assert first["conflicts"] == [{"release": "1.0", "digest": "b" * 64}]
    assert shop.call("GET", "overview").json["declaration_conflicts"] == 1
    (view,) = shop.call("GET", "declarations").json["items"]
    assert (view["app_name"], view["is_in_conflict"]) == ("orders", True)
    assert [(build["standing"], build["executors"]) for build in view["builds"]] == [("owns", 1), ("conflicts", 1)]
    shown = job(shop)
    assert (shown["max_retries"], shown["declared"]["is_in_conflict"]) == (3, True)
    assert "declare different jobs: aaaaaaaa came first" in shown["declared"]["problem"]


def test_releases_of_executors_are_seen(shop: Api) -> None:
    shop.parts.registry.register("orders", make_executor(release="1.2", declared="a" * 64), NOW)
    (found,) = shop.call("GET", "executors").json["items"]
    assert (found["release"], found["declared"]) == ("1.2", "a" * 64)


def test_a_dry_run_tells_and_changes_nothing(shop: Api) -> None:
    sync(shop, REPORT)
    before = shop.rows()
    report = sync(shop, {**REPORT, "max_retries": 5}, clean(), dry_run=True, token=TOKEN, instance="").json
    assert shop.rows() == before
    steps = {step["name"]: step for step in report["steps"]}
    assert steps["report"]["changes"] == [{"field": "max_retries", "old": 3, "new": 5}]
    assert (steps["clean"]["action"], steps["clean"]["job_id"]) == ("create", None)


def test_a_group_takes_its_owner_along(shop: Api) -> None:
    sync(shop, REPORT)
    group_id = job(shop)["group_id"]
    sync(shop, release="1.1")
    assert shop.call("DELETE", f"jobs/{job(shop)['id']}").status_code == 204
    assert shop.call("DELETE", f"groups/{group_id}").status_code == 204
    rows = shop.rows()
    assert (rows["declaration_owner"], rows["declared_job"]) == ([], [])
