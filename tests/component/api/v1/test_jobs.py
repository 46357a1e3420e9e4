"""Jobs over the management API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.api.conftest import Api
from tests.support.paths import DOCS
from tests.support.rows import NOW
from xwheel.api.schema.fields import MAX_MS
from xwheel.model import RunState

FIELDS: dict[str, Any] = {
    "name": "nightly",
    "description": "moves things",
    "schedule_type": "CRON",
    "schedule_conf": "0 0 12 * * ?",
    "timezone": "Asia/Shanghai",
    "anchor_ms": NOW - 1000,
    "start_ms": NOW,
    "end_ms": NOW + 10**10,
    "misfire_policy": "fire_all",
    "misfire_threshold_ms": 1000,
    "route_strategy": "ROUND",
    "block_strategy": "COVER_EARLY",
    "glue_type": "BEAN",
    "handler": "demo",
    "param": "α\n🙂",
    "timeout_s": 5,
    "max_retries": 3,
    "retry_delay_ms": 100,
    "wait_for_executor_s": 60,
    "jitter_ms": 500,
    "calendar_exclude": ["cn-holidays"],
    "calendar_require": ["open", "2026.weekend_x"],
}


@pytest.fixture(autouse=True)
def _calendars(api: Api) -> None:
    for name in ("cn-holidays", "open", "2026.weekend_x"):
        api.calendar(name, weekdays="MON-FRI")


def planned(api: Api, job_id: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.call("GET", "runs", params={"job_id": job_id, "state": "planned"}).json["items"]
    return found


def test_a_job_keeps_every_field(api: Api) -> None:
    made = api.job(**FIELDS)
    assert {name: made[name] for name in FIELDS} == FIELDS
    assert (made["enabled"], made["next_fire_ms"], made["revision"]) == (False, None, 1)
    answer = api.call("GET", f"jobs/{made['id']}")
    assert answer.json == made


def test_a_new_job_fires_once_beyond_the_threshold_of_the_settings(api: Api) -> None:
    made = api.job()
    assert (made["misfire_policy"], made["misfire_threshold_ms"]) == ("fire_once", None)
    own = api.call("PATCH", f"jobs/{made['id']}", {"misfire_threshold_ms": 0, "misfire_policy": "skip"}).json
    assert (own["misfire_policy"], own["misfire_threshold_ms"]) == ("skip", 0)
    again = api.call("PATCH", f"jobs/{made['id']}", {"misfire_threshold_ms": None}).json
    assert (again["misfire_policy"], again["misfire_threshold_ms"]) == ("skip", None)
    assert api.call("GET", f"jobs/{made['id']}").json == again


def test_a_job_may_be_started_at_once(api: Api) -> None:
    made = api.job(schedule_type="CRON", schedule_conf="0 0 12 * * ?", enabled=True)
    assert made["enabled"]
    assert made["next_fire_ms"] == NOW + 12 * 3_600_000


def test_a_change_keeps_what_it_does_not_name(api: Api) -> None:
    made = api.job(**FIELDS)
    changed = api.call("PATCH", f"jobs/{made['id']}", {"param": "", "max_retries": 0}).json
    assert changed == {**made, "param": "", "max_retries": 0, "revision": 2}
    endless = api.call("PATCH", f"jobs/{made['id']}", {"end_ms": None}).json
    assert (endless["end_ms"], endless["revision"]) == (None, 3)


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in {"glue_type", "schedule_type", "handler"}])
def test_every_field_can_be_changed(api: Api, name: str) -> None:
    made = api.job(schedule_type="CRON", schedule_conf="0 0 0 * * ?")
    changed = api.call("PATCH", f"jobs/{made['id']}", {name: FIELDS[name]})
    assert changed.status_code == 200, changed.text
    assert changed.json[name] == FIELDS[name] != made[name]


def test_a_change_of_an_older_revision_is_409(api: Api) -> None:
    made = api.job()
    path = f"jobs/{made['id']}"
    assert api.call("PATCH", path, {"name": "second", "revision": 1}).status_code == 200
    before = api.rows()
    answer = api.call("PATCH", path, {"name": "third", "revision": 1})
    assert (answer.status_code, answer.json["type"]) == (409, "urn:xwheel:problem:conflict")
    assert "revision 2" in answer.json["detail"]
    assert api.rows() == before


@pytest.mark.parametrize("body", [{}, {"revision": 1}])
def test_a_change_of_nothing_is_refused(api: Api, body: dict[str, Any]) -> None:
    made = api.job()
    answer = api.call("PATCH", f"jobs/{made['id']}", body)
    assert (answer.status_code, answer.json["field"]) == (422, "body")


def test_the_calendars_of_a_job_that_do_not_change_cancel_nothing(api: Api) -> None:
    made = api.job(schedule_type="CRON", schedule_conf="0 0 12 * * ?", calendar_require=["open"], enabled=True)
    same = {"calendar_require": ["open"], "calendar_exclude": [], "param": "new"}
    changed = api.call("PATCH", f"jobs/{made['id']}", same).json
    # one step for the edit; working out the next fire again would take another
    assert changed == {**made, "param": "new", "revision": made["revision"] + 1}
    other = api.call("PATCH", f"jobs/{made['id']}", {"calendar_exclude": ["cn-holidays"], "calendar_require": []})
    # 2026-01-01 is a Thursday, the next day outside of Monday to Friday is the third
    assert other.json["next_fire_ms"] == NOW + (2 * 24 + 12) * 3_600_000


def test_a_list_of_delays_that_is_empty_is_refused(api: Api) -> None:
    made = api.job(retry_backoff="list", retry_delays_ms=[1000])
    body = {"retry_backoff": "list", "retry_delays_ms": []}
    for answer in (
        api.call("POST", "jobs", {"group_id": made["group_id"], "name": "x", "handler": "demo", **body}),
        api.call("PATCH", f"jobs/{made['id']}", body),
    ):
        assert (answer.status_code, answer.json["field"]) == (422, "retry_delays_ms")


@pytest.mark.parametrize("field", ["calendar_exclude", "calendar_require"])
def test_a_calendar_that_is_not_there_is_named_with_its_field(api: Api, field: str) -> None:
    made = api.job()
    before = api.rows()
    body = {"calendar_exclude": ["open"], "calendar_require": ["open"], field: ["open", "closed"]}
    for answer in (
        api.call("POST", "jobs", {"group_id": made["group_id"], "name": "x", "handler": "demo", **body}),
        api.call("PATCH", f"jobs/{made['id']}", body),
    ):
        assert (answer.status_code, answer.json["field"]) == (422, field)
        assert "no calendar is called closed; known: 2026.weekend_x, cn-holidays, open" in answer.json["detail"]
    assert api.rows() == before


def test_a_job_that_its_calendars_never_let_fire_cannot_be_started(api: Api) -> None:
    body = {"schedule_type": "CRON", "schedule_conf": "0 0 12 ? * SAT", "calendar_require": ["open"]}
    made = api.job(**body)
    answer = api.call("POST", f"jobs/{made['id']}/start")
    assert (answer.status_code, answer.json["field"]) == (422, "calendar_require")
    assert "ten years" in answer.json["detail"]


@pytest.mark.parametrize(
    ("schedule_type", "schedule_conf"),
    [
        ("CRON", "* * * * * ?"),
        ("UNIX_CRON", "* * * * *"),
        ("FIX_RATE", "36000d"),
        ("FIX_DELAY", "36000d"),
        ("ONCE", "9999-12-31T23:59:59"),
        ("DAILY_INTERVAL", "from=00:00 to=23:59 every=1m"),
    ],
)
@pytest.mark.parametrize("timezone", ["Asia/Shanghai", "America/New_York"])
@pytest.mark.parametrize("calendars", [[], ["open"]])
def test_a_job_that_starts_at_the_end_of_time_is_no_fault(
    api: Api, schedule_type: str, schedule_conf: str, timezone: str, calendars: list[str]
) -> None:
    body = {"schedule_type": schedule_type, "schedule_conf": schedule_conf, "timezone": timezone}
    group_id = api.group()
    for instant in (MAX_MS, MAX_MS - 86_400_000):
        extreme = {"start_ms": instant, "anchor_ms": instant, "calendar_require": calendars, "enabled": True}
        answer = api.call(
            "POST", "jobs", {"group_id": group_id, "name": f"job {instant}", "handler": "demo", **body, **extreme}
        )
        assert answer.status_code in {201, 422}, answer.text
        if answer.status_code == 422:
            assert answer.json["field"] in {"schedule_conf", "calendar_require"}


def test_the_group_of_a_job_stays(api: Api) -> None:
    made = api.job()
    answer = api.call("PATCH", f"jobs/{made['id']}", {"group_id": 1})
    assert (answer.status_code, answer.json["field"]) == (422, "group_id")


def test_start_and_stop(api: Api) -> None:
    made = api.job(schedule_type="FIX_RATE", schedule_conf="30")
    path = f"jobs/{made['id']}"
    started = api.call("POST", f"{path}/start")
    assert started.status_code == 200
    assert started.json["enabled"]
    assert started.json["next_fire_ms"] > NOW
    assert api.call("POST", f"{path}/start", {}).json == started.json
    stopped = api.call("POST", f"{path}/stop")
    assert (stopped.json["enabled"], stopped.json["next_fire_ms"]) == (False, None)


def test_a_job_without_a_schedule_cannot_be_started(api: Api) -> None:
    made = api.job()
    before = api.rows()
    answer = api.call("POST", f"jobs/{made['id']}/start")
    assert (answer.status_code, answer.json["field"]) == (422, "schedule_conf")
    assert api.rows() == before


@pytest.mark.parametrize("action", ["start", "stop", "run"])
def test_actions_refuse_fields_they_do_not_know(api: Api, action: str) -> None:
    made = api.job()
    answer = api.call("POST", f"jobs/{made['id']}/{action}", {"force": True})
    assert (answer.status_code, answer.json["field"]) == (422, "force")
    assert planned(api, made["id"]) == []


def test_a_run_by_hand_is_planned_at_once(api: Api) -> None:
    made = api.job(param="own")
    for body, param in ((None, None), ({}, None), ({"param": None}, None), ({"param": ""}, ""), ({"param": "x"}, "x")):
        answer = api.call("POST", f"jobs/{made['id']}/run", body)
        assert answer.status_code == 201
        assert (answer.json["state"], answer.json["origin"], answer.json["param"]) == ("planned", "api", param)
        assert answer.json["due_ms"] == NOW
        assert answer.headers["location"] == f"/api/v1/runs/{answer.json['id']}"
        assert api.call("GET", answer.headers["location"]).json == answer.json
    assert len(planned(api, made["id"])) == 5


def test_the_same_key_gives_the_same_run(api: Api) -> None:
    made = api.job()
    path = f"jobs/{made['id']}/run"
    first = api.call("POST", path, {"param": "x"}, headers={"Idempotency-Key": "abc"})
    before = api.rows()
    again = api.call("POST", path, {"param": "x"}, headers={"Idempotency-Key": "abc"})
    assert (again.status_code, again.json) == (201, first.json)
    other = api.call("POST", path, {"param": "y"}, headers={"Idempotency-Key": "abc"})
    assert (other.status_code, other.json["type"]) == (409, "urn:xwheel:problem:conflict")
    assert api.rows() == before
    assert api.call("POST", path, {"param": "x"}, headers={"Idempotency-Key": "abd"}).json["id"] != first.json["id"]


@pytest.mark.parametrize(
    ("key", "status"), [("x", 201), ("x" * 255, 201), ("x" * 256, 422), ("", 422), ("é", 422), ("a\tb", 422)]
)
def test_a_key_has_limits(api: Api, key: str, status: int) -> None:
    made = api.job()
    answer = api.call("POST", f"jobs/{made['id']}/run", headers={"Idempotency-Key": key})
    assert answer.status_code == status
    if status == 422:
        assert (answer.json["field"], answer.json["limit"]["max_length"]) == ("Idempotency-Key", 255)


def test_a_deleted_job_is_gone_and_its_runs_stay(api: Api) -> None:
    made = api.job()
    run = api.call("POST", f"jobs/{made['id']}/run").json
    assert api.call("DELETE", f"jobs/{made['id']}").status_code == 204
    assert api.call("GET", f"jobs/{made['id']}").status_code == 404
    assert api.run(run["id"]).state is RunState.CANCELLED
    assert api.call("GET", "jobs").json["items"] == []


def test_a_job_that_is_not_there_is_404(api: Api) -> None:
    for method, path in (
        ("GET", "jobs/9"),
        ("PATCH", "jobs/9"),
        ("DELETE", "jobs/9"),
        ("POST", "jobs/9/start"),
        ("POST", "jobs/9/stop"),
        ("POST", "jobs/9/run"),
    ):
        answer = api.call(method, path, {"name": "x"} if method == "PATCH" else None)
        assert (answer.status_code, answer.json["detail"]) == (404, "job 9 does not exist")


def test_lists_are_filtered_and_paged(api: Api) -> None:
    first, second = api.group("first"), api.group("second")
    ids = [api.job(group_id=group, name=name)["id"] for group in (first, second) for name in ("a", "b", "c")]

    def listed(**params: Any) -> list[int]:
        return [item["id"] for item in api.call("GET", "jobs", params=params).json["items"]]

    assert listed() == ids
    assert listed(group_id=second) == ids[3:]
    assert listed(name="a") == [ids[0], ids[3]]
    assert listed(group_id=first, name="b") == [ids[1]]
    assert listed(limit=2, after=ids[1]) == ids[2:4]
    assert api.call("GET", "jobs", params={"limit": 2}).json["next"] == ids[1]
    assert api.call("GET", "jobs", params={"limit": 6}).json["next"] is None
    assert listed(group_id=99) == []


def test_u7_a_name_is_taken_once_in_a_group(api: Api) -> None:
    first = api.job(name="report")
    group_id = first["group_id"]
    body = {"group_id": group_id, "name": "report", "handler": "demo"}
    answer = api.call("POST", "jobs", body)
    assert (answer.status_code, answer.json["type"]) == (409, "urn:xwheel:problem:name-taken")
    assert f"job {first['id']} of the same group is called 'report' already" in answer.json["detail"]
    other = api.job(group_id=group_id, name="other")
    assert api.call("PATCH", f"jobs/{other['id']}", {"name": "report"}).status_code == 409
    assert api.call("POST", f"jobs/{first['id']}/copy", {"name": "other"}).status_code == 409
    # its own name, another group's, and that of a deleted job
    assert api.call("PATCH", f"jobs/{first['id']}", {"name": "report", "handler": "h"}).status_code == 200
    assert api.job(group_id=api.group("elsewhere"), name="report")
    assert api.call("DELETE", f"jobs/{first['id']}").status_code == 204
    assert api.call("POST", "jobs", body).status_code == 201


def test_u4_deleted_jobs_are_listed_apart_and_their_runs_name_them(api: Api) -> None:
    gone, stays = api.job(name="gone"), api.job(name="stays", group_id=1)
    run = api.call("POST", f"jobs/{gone['id']}/run").json
    assert (run["job_name"], run["app_name"]) == ("gone", api.call("GET", "groups/1").json["app_name"])
    api.call("DELETE", f"jobs/{gone['id']}")

    def listed(**params: Any) -> list[str]:
        return [item["name"] for item in api.call("GET", "jobs", params=params).json["items"]]

    assert listed() == [stays["name"]]
    assert listed(deleted="true") == ["gone"]
    assert listed(deleted="true", name="gone") == ["gone"]
    assert listed(deleted="true", name="stays") == []
    (seen,) = api.call("GET", "runs", params={"job_id": gone["id"]}).json["items"]
    assert (seen["id"], seen["job_name"]) == (run["id"], "gone")


def test_p4_a_job_that_never_fires_again_is_shown_as_done(api: Api) -> None:
    job = api.job(schedule_type="CRON", schedule_conf="0 0 12 * * ?", enabled=True)
    assert (job["state"], job["enabled"]) == ("started", True)
    with api.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE job SET next_fire_ms = NULL, last_fire_ms = {NOW} WHERE id = {job['id']}")
    path = f"jobs/{job['id']}"
    assert api.call("GET", path).json["state"] == "done"
    assert [item["state"] for item in api.call("GET", "jobs").json["items"]] == ["done"]
    assert api.call("PATCH", path, {"schedule_conf": "0 0 13 * * ?"}).json["state"] == "started"
    assert api.call("POST", f"{path}/stop").json["state"] == "stopped"


def test_p4_one_run_makes_up_for_missed_fires_unless_the_job_says_otherwise(api: Api) -> None:
    assert api.job()["misfire_policy"] == "fire_once"
    assert "missed: by default (`fire_once`) one run makes up" in (DOCS / "reference" / "api.md").read_text("utf-8")
