"""The last runs of jobs, and which fire next."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from xwheel_reports import recent

from tests.component.api.conftest import Api
from tests.component.api.v1.test_last_and_next import fires, of
from tests.product.api import product_api
from tests.support.callers import Callers
from tests.support.rows import NOW, make_run
from xwheel.model import PARTITIONS, RunState
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import job


@pytest.fixture
def api(db: Database) -> Api:
    return product_api(db, {})


def test_the_last_runs_of_jobs(api: Api) -> None:
    one, two, three = (api.job(name=name)["id"] for name in ("one", "two", "three"))
    api.runs(*(make_run(number, job_id=one, due_ms=NOW + number % 7) for number in range(1, 30)))
    api.runs(make_run(50, job_id=two, due_ms=NOW, accepted_ms=NOW + 5, finished_ms=NOW + 90, state=RunState.FAILED))
    found = api.call("GET", "jobs/recent", params={"job_id": f"{two},{one},{three},{two},999"}).json["items"]
    assert [item["job_id"] for item in found] == [two, one, three]
    assert found[0]["runs"] == [
        {
            "id": 50,
            "state": "failed",
            "due_ms": NOW,
            "accepted_ms": NOW + 5,
            "began_ms": NOW + 5,
            "finished_ms": NOW + 90,
        }
    ]
    assert found[2]["runs"] == []
    keys = sorted(((NOW + number % 7, number) for number in range(1, 30)), reverse=True)[:20]
    assert [(run["due_ms"], run["id"]) for run in found[1]["runs"]] == keys


@pytest.mark.parametrize("ids", ["", "0", "x", ",".join(map(str, range(1, 102)))])
def test_the_last_runs_of_nothing_or_too_many_jobs_are_refused(api: Api, ids: str) -> None:
    answer = api.call("GET", "jobs/recent", params={"job_id": ids})
    assert (answer.status_code, answer.json["field"]) == (422, "job_id")


def test_a_run_that_waits_on_its_executor_has_not_begun(api: Api) -> None:
    job_id = api.job(name="one")["id"]
    at = {"job_id": job_id, "state": RunState.RUNNING, "accepted_ms": NOW, "check_ms": NOW}
    api.runs(
        make_run(1, **at, due_ms=NOW, reason=f"waits:{NOW}"),
        make_run(2, **at, due_ms=NOW + 1, started_ms=NOW + 9),
        make_run(3, **at, due_ms=NOW + 2),
    )
    (found,) = api.call("GET", "jobs/recent", params={"job_id": str(job_id)}).json["items"]
    assert [run["began_ms"] for run in found["runs"]] == [NOW, NOW + 9, None]
    assert [run["began_ms"] for run in api.call("GET", "runs").json["items"]] == [NOW, NOW + 9, None]


def test_the_last_runs_are_those_of_the_callers_groups(api: Api) -> None:
    callers = Callers(api)
    mine, theirs = api.job(name="mine"), api.job(name="theirs")
    api.runs(
        make_run(5, job_id=mine["id"], group_id=mine["group_id"]),
        make_run(6, job_id=mine["id"], group_id=theirs["group_id"]),
        make_run(7, job_id=theirs["id"], group_id=theirs["group_id"]),
    )
    answer = callers.call(
        of("viewer", mine["group_id"]), "GET", "/api/v1/jobs/recent", params={"job_id": f"{mine['id']},{theirs['id']}"}
    )
    (item,) = answer.json["items"]
    assert item["job_id"] == mine["id"]
    assert [run["id"] for run in item["runs"]] == [5]


def test_the_next_fires_come_in_their_order(api: Api) -> None:
    group_id = api.group("shop")
    ids = [api.job(name=f"job {number}", group_id=group_id)["id"] for number in range(70)]
    fires(api, {job_id: NOW + job_id * 37 % 71 for job_id in ids} | {ids[0]: None})
    expected = sorted((NOW + job_id * 37 % 71, job_id) for job_id in ids[1:])
    found = api.call("GET", "schedule/upcoming", params={"limit": 1000}).json
    assert found["next"] is None
    assert [(item["due_ms"], item["job_id"]) for item in found["items"]] == expected
    first = found["items"][0]
    assert (first["app_name"], first["group_id"]) == ("shop", group_id)
    assert first["job_name"] == f"job {ids.index(first['job_id'])}"
    for limit in (1, 3, 20, 64):
        part = api.call("GET", "schedule/upcoming", params={"limit": limit}).json["items"]
        assert part == found["items"][:limit]
    soon = api.call("GET", "schedule/upcoming", params={"until_ms": NOW + 20}).json["items"]
    assert [item["due_ms"] for item in soon] == [due_ms for due_ms, _ in expected if due_ms <= NOW + 20]


def test_fires_of_one_partition_are_all_found(api: Api) -> None:
    """Those of a partition may be more than are read of each at first."""
    group_id = api.group("shop")
    ids = [api.job(name=f"job {number}", group_id=group_id)["id"] for number in range(30)]

    values = {"id": job.c.id * PARTITIONS + 5, "partition": 5, "next_fire_ms": NOW + job.c.id}
    api.db.transaction(lambda conn: conn.execute(update(job).values(values)))
    found = api.call("GET", "schedule/upcoming", params={"limit": 25}).json["items"]
    assert [item["job_id"] for item in found] == [job_id * PARTITIONS + 5 for job_id in ids[:25]]


def test_the_next_fires_are_those_of_the_callers_groups(api: Api) -> None:
    callers = Callers(api)
    groups = [api.group("one"), api.group("two")]
    ids = [api.job(name=f"job {number}", group_id=groups[number % 2])["id"] for number in range(8)]
    fires(api, {job_id: NOW + job_id for job_id in ids})
    mine = callers.call(of("viewer", groups[1]), "GET", "/api/v1/schedule/upcoming").json["items"]
    assert [item["job_id"] for item in mine] == ids[1::2]
    asked = api.call("GET", "schedule/upcoming", params={"group_id": groups[1]}).json["items"]
    assert asked == mine
    with api.db.read() as conn:
        # more jobs than are looked through: those among the ones that fire next at all
        found = recent.list_next_fires(conn, None, 9, [groups[1]], look=3)
    assert [fire.job_id for fire in found] == ids[1:3:2]
