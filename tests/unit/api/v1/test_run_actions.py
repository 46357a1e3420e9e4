"""Kill, run again, run on one executor."""

from __future__ import annotations

import pytest

from tests.support.rows import NOW, make_executor, make_run
from tests.unit.api.conftest import Api
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
def test_running_again_makes_a_new_run(
    api: Api, had: str | None, sent: dict[str, str], gets: str | None
) -> None:
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
