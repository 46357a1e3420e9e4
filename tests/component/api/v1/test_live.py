"""Events, nodes, last runs and next fires, for pages that stay open."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from tests.component.api.conftest import Api
from tests.product.accounts.conftest import make_people_api
from tests.support.callers import ROLES, Callers
from tests.support.rows import NOW, make_run
from xwheel import __version__
from xwheel.api.schema.live import EventView
from xwheel.api.v1 import live
from xwheel.model import PARTITIONS, RunState
from xwheel.model.access import ALL, Grants
from xwheel.storage import jobs, leases
from xwheel.storage.database.engine import Database
from xwheel.storage.live import last_and_next
from xwheel.storage.schema.tables import job


def of(role: str, *group_ids: int) -> Grants:
    return Grants(groups=dict.fromkeys(group_ids, ROLES[role]))


def test_events_follow_what_is_done(db: Database) -> None:
    api = make_people_api(db, {})
    first = api.call("GET", "events").json
    assert (first["reset"], first["items"]) == (True, [])
    made = api.job()
    run = api.call("POST", f"jobs/{made['id']}/run").json
    api.clock.advance(3000)
    found = api.call("GET", "events", params={"after": first["next"]}).json
    assert found["reset"] is False
    assert found["now_ms"] == api.clock.now_ms()
    assert [item["kind"] for item in found["items"]] == ["job", "run"]
    assert found["items"][1] == {
        "kind": "run",
        "id": run["id"],
        "job_id": made["id"],
        "group_id": made["group_id"],
        "chain_id": run["id"],
        "state": "planned",
    }
    assert found["counts"] == {
        "running": 0,
        "waiting": 1,
        "failed_24h": 0,
        "late": 0,
        "nodes": 0,
        "nodes_away": 0,
        "executors": 0,
        "paused_since_ms": None,
    }
    again = api.call("GET", "events", params={"after": found["next"]}).json
    assert (again["items"], again["next"]) == ([], found["next"])
    other = api.call("GET", "events", params={"after": "of-another-node"}).json
    assert (other["reset"], other["next"]) == (True, found["next"])


def test_events_and_counts_are_those_of_the_callers_groups(api: Api) -> None:
    callers = Callers(api)
    groups = [api.group("one"), api.group("two")]
    mine, theirs = of("viewer", groups[0]), of("viewer", groups[1])
    for grants in (mine, theirs):
        callers.token(grants)
    first = api.call("GET", "events").json["next"]
    api.running(5, group_id=groups[0], check_ms=NOW)
    api.running(6, group_id=groups[1], check_ms=NOW)
    api.running(7, group_id=groups[1], check_ms=NOW)
    api.clock.advance(3000)
    # the one who asks first, and whatever is kept of the answer
    for grants, ids in ((ALL, [5, 6, 7]), (mine, [5]), (theirs, [6, 7]), (mine, [5]), (ALL, [5, 6, 7])):
        found = callers.call(grants, "GET", "events", params={"after": first}).json
        assert [item["id"] for item in found["items"] if item["kind"] == "run"] == ids
        assert found["counts"]["running"] == len(ids)
    assert callers.call(Grants(), "GET", "events").status_code == 403


def test_callers_that_are_told_the_same_share_the_work_and_each_has_its_time(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = api.call("GET", "events").json["next"]
    api.running(5, check_ms=NOW)
    api.clock.advance(3000)
    made: list[Any] = []
    monkeypatch.setattr(live, "EventView", lambda **fields: made.append(fields) or EventView(**fields))
    begin_ms, answers = api.clock.now_ms(), []
    for _ in range(5):
        answers.append(api.call("GET", "events", params={"after": first}).json)
        api.clock.advance(10)
    assert len(made) == len(answers[0]["items"]) == 1
    assert [found.pop("now_ms") - begin_ms for found in answers] == [0, 10, 20, 30, 40]
    assert answers == [answers[0]] * 5


def test_nodes_and_their_partitions(api: Api) -> None:
    node_id, lease_ms = api.parts.node_id, api.parts.lease_ms
    assert node_id is not None

    def work(conn: Any) -> None:
        leases.renew_node(conn, "dead", NOW - 99_000, NOW - 5)
        leases.renew_node(conn, node_id, NOW - 7000, NOW + 9000)
        leases.take_all_leases(conn, node_id)
        leases.renew_node(conn, "dead", NOW - 99_000, NOW - 5)
        leases.renew_node(conn, "other", NOW - 1000, NOW + 9000, draining=True)
        leases.give_leases(conn, node_id, {1: "dead", 2: "other", 3: "other"}, dict.fromkeys(range(64), 1))

    api.db.transaction(work)
    found = api.call("GET", "nodes").json
    assert (found["next"], found["partitions_without"]) == (None, 1)
    nodes = {item["id"]: item for item in found["items"]}
    me = nodes[node_id]
    assert me == {
        "id": node_id,
        "name": node_id,
        "address": None,
        "version": __version__,
        "partitions": [0, *range(4, 64)],
        "is_me": True,
        "alive": True,
        "draining": False,
        "last_seen_ms": NOW + 9000 - lease_ms,
        "since_ms": NOW - 7000,
    }
    assert [nodes[name]["partitions"] for name in ("dead", "other")] == [[1], [2, 3]]
    assert [nodes[name]["alive"] for name in ("dead", "other")] == [False, True]
    assert (nodes["other"]["draining"], nodes["other"]["is_me"], nodes["other"]["version"]) == (
        True,
        False,
        None,
    )


def test_the_last_runs_of_jobs(api: Api) -> None:
    one, two, three = (api.job(name=name)["id"] for name in ("one", "two", "three"))
    api.runs(*(make_run(number, job_id=one, due_ms=NOW + number % 7) for number in range(1, 30)))
    api.runs(
        make_run(
            50,
            job_id=two,
            due_ms=NOW,
            accepted_ms=NOW + 5,
            finished_ms=NOW + 90,
            state=RunState.FAILED,
        )
    )
    found = api.call("GET", "jobs/recent", params={"job_id": f"{two},{one},{three},{two},999"}).json["items"]
    assert [item["job_id"] for item in found] == [two, one, three]
    assert found[0]["runs"] == [
        {"id": 50, "state": "failed", "due_ms": NOW, "accepted_ms": NOW + 5, "finished_ms": NOW + 90}
    ]
    assert found[2]["runs"] == []
    keys = sorted(((NOW + number % 7, number) for number in range(1, 30)), reverse=True)[:20]
    assert [(run["due_ms"], run["id"]) for run in found[1]["runs"]] == keys


@pytest.mark.parametrize("ids", ["", "0", "x", ",".join(map(str, range(1, 102)))])
def test_the_last_runs_of_nothing_or_too_many_jobs_are_refused(api: Api, ids: str) -> None:
    answer = api.call("GET", "jobs/recent", params={"job_id": ids})
    assert (answer.status_code, answer.json["field"]) == (422, "job_id")


def test_the_last_runs_are_those_of_the_callers_groups(api: Api) -> None:
    callers = Callers(api)
    mine, theirs = api.job(name="mine"), api.job(name="theirs")
    api.runs(
        make_run(5, job_id=mine["id"], group_id=mine["group_id"]),
        make_run(6, job_id=mine["id"], group_id=theirs["group_id"]),
        make_run(7, job_id=theirs["id"], group_id=theirs["group_id"]),
    )
    answer = callers.call(
        of("viewer", mine["group_id"]),
        "GET",
        "/api/v1/jobs/recent",
        params={"job_id": f"{mine['id']},{theirs['id']}"},
    )
    (item,) = answer.json["items"]
    assert item["job_id"] == mine["id"]
    assert [run["id"] for run in item["runs"]] == [5]


def fires(api: Api, times: dict[int, int | None]) -> None:
    def work(conn: Any) -> None:
        for job_id, due_ms in times.items():
            jobs.update_job(conn, job_id, {"next_fire_ms": due_ms})

    api.db.transaction(work)


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
        found = last_and_next.list_next_fires(conn, None, 9, [groups[1]], look=3)
    assert [fire.job_id for fire in found] == ids[1:3:2]


def test_jobs_by_their_next_fire(api: Api) -> None:
    callers = Callers(api)
    groups = [api.group("one"), api.group("two")]
    ids = [
        api.job(
            name=f"job {number}", group_id=groups[number % 2], description="nightly" if number > 3 else ""
        )["id"]
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
