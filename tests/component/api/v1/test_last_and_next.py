"""Jobs by their next fire, and runs by their names, messages and durations."""

from __future__ import annotations

from typing import Any

from tests.component.api.conftest import Api
from tests.support.callers import ROLES, Callers
from tests.support.rows import NOW, make_run
from xwheel.model import RunState
from xwheel.model.access import Grants
from xwheel.storage import jobs


def of(role: str, *group_ids: int) -> Grants:
    return Grants(groups=dict.fromkeys(group_ids, ROLES[role]))


def fires(api: Api, times: dict[int, int | None]) -> None:
    def work(conn: Any) -> None:
        for job_id, due_ms in times.items():
            jobs.update_job(conn, job_id, {"next_fire_ms": due_ms})

    api.db.transaction(work)


def test_jobs_by_their_next_fire(api: Api) -> None:
    callers = Callers(api)
    groups = [api.group("one"), api.group("two")]
    ids = [
        api.job(name=f"job {number}", group_id=groups[number % 2], description="nightly" if number > 3 else "")["id"]
        for number in range(8)
    ]
    fires(api, {job_id: NOW + job_id * 5 % 9 for job_id in ids} | {ids[2]: None})
    order = sorted((item for item in ids if item != ids[2]), key=lambda item: (item * 5 % 9, item))

    def found(**params: Any) -> list[int]:
        answer = api.call("GET", "jobs", params={"sort": "next_fire", **params})
        assert answer.status_code == 200, answer.text
        assert answer.json["next"] is None
        return [item["id"] for item in answer.json["items"]]

    assert found() == order
    assert found(limit=3) == order[:3]
    assert found(search="NIGHT") == [item for item in order if item in ids[4:]]
    assert found(search="NIGHT", limit=2, group_id=groups[0]) == [
        item for item in order if item in ids[4:] and item in ids[::2]
    ]
    assert found(glue_type="GLUE_SHELL") == []
    mine = callers.call(of("viewer", groups[1]), "GET", "/api/v1/jobs", params={"sort": "next_fire"}).json
    assert [item["id"] for item in mine["items"]] == [item for item in order if item in ids[1::2]]
    answer = api.call("GET", "jobs", params={"sort": "next_fire", "after": 5})
    assert (answer.status_code, answer.json["field"]) == (422, "after")


def test_runs_by_the_beginning_of_a_name_a_message_and_how_long_they_took(api: Api) -> None:
    callers = Callers(api)
    night, day = api.job(name="Night report"), api.job(name="day report")
    api.runs(
        make_run(1, job_id=night["id"], group_id=night["group_id"], due_ms=NOW + 1, message="no disk LEFT"),
        make_run(2, job_id=day["id"], group_id=day["group_id"], due_ms=NOW + 2, message="left"),
        make_run(
            3,
            job_id=night["id"],
            group_id=night["group_id"],
            due_ms=NOW + 3,
            state=RunState.FAILED,
            accepted_ms=NOW,
            finished_ms=NOW + 5000,
        ),
    )
    api.running(4, job_id=day["id"], group_id=day["group_id"], due_ms=NOW + 4, accepted_ms=NOW - 9000)

    def found(**params: Any) -> list[int]:
        answer = api.call("GET", "runs", params=params)
        assert answer.status_code == 200, answer.text
        return [item["id"] for item in answer.json["items"]]

    assert found(job_name="night") == [3, 1]
    assert found(job_name="report") == []
    assert found(job_name="day", job_id=night["id"]) == []
    assert found(message="left") == [2, 1]
    assert found(message="left", job_name="N") == [1]
    assert found(min_duration_ms=5000) == [4, 3]
    assert found(min_duration_ms=5001) == [4]
    page = api.call("GET", "runs", params={"limit": 2}).json
    assert (page["looked_ms"], page["next"]) == (NOW + 3, f"{NOW + 3}-3")
    assert api.call("GET", "runs").json["looked_ms"] is None
    grants = of("viewer", day["group_id"])
    answer = callers.call(grants, "GET", "/api/v1/runs", params={"job_name": "Night"})
    assert answer.json["items"] == []
