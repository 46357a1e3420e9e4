"""Kill, run again, run on one executor."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.component.api.conftest import Api
from tests.support.rows import NOW, make_executor, make_run
from xwheel.model import Origin, RunState

ADDRESS = "http://10.0.0.1:9999"


def test_killing_a_planned_run_cancels_it(api: Api) -> None:
    job = api.job()
    run = api.call("POST", f"jobs/{job['id']}/run").json
    killed = api.call("POST", f"runs/{run['id']}/kill", {})
    assert (killed.status_code, killed.json["state"]) == (200, "cancelled")
    again = api.call("POST", f"runs/{run['id']}/kill")
    assert (again.status_code, again.json["type"]) == (409, "urn:xwheel:problem:conflict")


def test_killing_a_running_run_asks_for_it(api: Api) -> None:
    job = api.job()
    api.runs(make_run(5, job_id=job["id"], state=RunState.RUNNING, address=ADDRESS, check_ms=NOW + 60_000))
    for _ in range(2):
        answer = api.call("POST", "runs/5/kill").json
        assert (answer["state"], answer["kill_requested"]) == ("running", True)
    assert api.call("POST", "runs/6/kill").status_code == 404


@pytest.mark.parametrize(
    ("had", "sent", "gets"),
    [("old", {}, "old"), ("old", {"param": "new"}, "new"), ("old", {"param": ""}, ""), (None, {}, None)],
)
def test_running_again_makes_a_new_run(api: Api, had: str | None, sent: dict[str, str], gets: str | None) -> None:
    job = api.job(param="of the job")
    api.runs(make_run(5, job_id=job["id"], state=RunState.FAILED, param=had, address=ADDRESS))
    answer = api.call("POST", "runs/5/rerun", sent)
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1/runs/{answer.json['id']}"
    run = api.run(answer.json["id"])
    assert (run.job_id, run.param, run.state, run.origin, run.due_ms, run.address) == (
        job["id"],
        gets,
        RunState.PLANNED,
        Origin.API,
        NOW,
        None,
    )


def test_running_again_with_a_key_happens_once(api: Api) -> None:
    job = api.job()
    api.runs(make_run(5, job_id=job["id"], state=RunState.FAILED, param="a"))
    headers = {"Idempotency-Key": "k"}
    first = api.call("POST", "runs/5/rerun", headers=headers).json["id"]
    assert api.call("POST", "runs/5/rerun", headers=headers).json["id"] == first
    other = api.call("POST", "runs/5/rerun", {"param": "b"}, headers=headers)
    assert other.status_code == 409


def test_a_run_of_a_deleted_job_cannot_run_again(api: Api) -> None:
    job = api.job()
    api.runs(make_run(5, job_id=job["id"], state=RunState.FAILED))
    assert api.call("DELETE", f"jobs/{job['id']}").status_code == 204
    answer = api.call("POST", "runs/5/rerun")
    assert (answer.status_code, answer.json["detail"]) == (404, f"job {job['id']} does not exist")


def test_a_run_may_be_meant_for_one_registered_executor(api: Api) -> None:
    job = api.job(name="pinned")
    api.group("other")
    api.parts.registry.register("group-pinned", make_executor(ADDRESS), NOW)
    api.parts.registry.register("other", make_executor("http://10.0.0.2:9999"), NOW)
    answer = api.call("POST", f"jobs/{job['id']}/run", {"address": f"{ADDRESS}/"})
    assert (answer.status_code, answer.json["address"]) == (201, ADDRESS)
    for wrong in ("http://10.0.0.2:9999", "http://10.0.0.3:9999", "nonsense", "file:///etc/passwd"):
        refused = api.call("POST", f"jobs/{job['id']}/run", {"address": wrong})
        assert (refused.status_code, refused.json["field"]) == (422, "address"), wrong
    assert api.call("POST", "jobs/999/run", {"address": ADDRESS}).status_code == 404


def test_p5_a_run_may_name_several_executors(api: Api) -> None:
    job = api.job()
    group = api.call("GET", f"groups/{job['group_id']}").json["app_name"]
    other = "http://10.0.0.2:9999"
    for address in (ADDRESS, other):
        api.parts.registry.register(group, make_executor(address, instance=address), api.clock.now_ms())
    path = f"jobs/{job['id']}/run"
    made = api.call("POST", path, {"addresses": [f"{other}/", ADDRESS]})
    assert (made.status_code, made.json["address"]) == (201, f"{other} {ADDRESS}")
    assert api.call("POST", path, {"addresses": []}).json["address"] is None
    before = api.rows()
    for body, field in (
        ({"addresses": [ADDRESS, "http://10.0.0.3:9999"]}, "addresses"),
        ({"addresses": [ADDRESS, "nonsense"]}, "addresses"),
        ({"addresses": [ADDRESS], "address": ADDRESS}, "addresses"),
        ({"addresses": ADDRESS}, "addresses"),
        ({"addresses": ["http://10.0.0.1:9999"] * 33}, "addresses"),
        ({"addresses": ["x" * 128, "y" * 128]}, "addresses"),
    ):
        refused = api.call("POST", path, body)
        assert (refused.status_code, refused.json["field"]) == (422, field), body
    assert api.rows() == before


def test_a_run_by_hand_may_be_due_later(api: Api) -> None:
    job = api.job()
    path = f"jobs/{job['id']}/run"
    made = api.call("POST", path, {"delay_ms": 600_000})
    assert made.status_code == 201
    assert (made.json["state"], made.json["due_ms"], made.json["planned_ms"]) == (
        "planned",
        NOW + 600_000,
        NOW + 600_000,
    )
    moment = datetime.fromtimestamp((NOW + 60_000) / 1000, UTC).isoformat()
    assert api.call("POST", path, {"at": moment}).json["due_ms"] == NOW + 60_000
    listed = api.call("GET", "runs", params={"state": "planned"}).json["items"]
    assert [item["due_ms"] - NOW for item in listed] == [600_000, 60_000]
    killed = api.call("POST", f"runs/{made.json['id']}/kill")
    assert killed.json["state"] == "cancelled"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"delay_ms": 1000, "at": "2033-05-18T03:33:20Z"}, "at"),
        ({"at": "2001-05-18T03:33:20Z"}, "at"),
        ({"at": "9999-05-18T03:33:20Z"}, "at"),
        ({"at": "2033-05-18T03:33:20"}, "at"),
        ({"at": "next week, perhaps"}, "at"),
        ({"delay_ms": -1}, "delay_ms"),
        ({"delay_ms": 367 * 86_400_000}, "delay_ms"),
    ],
)
def test_a_time_that_cannot_be_is_refused(api: Api, body: dict[str, Any], field: str) -> None:
    job = api.job()
    for path, more in ((f"jobs/{job['id']}/run", {}), ("jobs/bulk/run", {"ids": [job["id"]]})):
        answer = api.call("POST", path, {**body, **more})
        assert (answer.status_code, answer.json["field"]) == (422, field)
    assert api.call("GET", "runs").json["items"] == []


def test_the_key_of_a_delayed_run_is_for_that_time(api: Api) -> None:
    path = f"jobs/{api.job()['id']}/run"
    key = {"Idempotency-Key": "once"}
    first = api.call("POST", path, {"delay_ms": 5000}, headers=key)
    api.clock.advance(2000)
    again = api.call("POST", path, {"delay_ms": 5000}, headers=key)
    assert (again.status_code, again.json["id"]) == (201, first.json["id"])
    for other in ({}, {"delay_ms": 5001}):
        assert api.call("POST", path, other, headers=key).status_code == 409


def test_many_jobs_may_run_later(api: Api) -> None:
    ids = [api.job(name=f"job-{number}")["id"] for number in range(3)]
    done = api.call("POST", "jobs/bulk/run", {"ids": ids, "delay_ms": 5000}).json
    found = [api.run(item["run_id"]) for item in done["items"]]
    assert [run.due_ms for run in found] == [NOW + 5000] * 3
