"""Who may call what is about declared jobs, judged as each route of the core is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from xwheel_jobs_as_code.declarations import owners, records
from xwheel_jobs_as_code.declarations.records import DeclaredJob

from tests.component.api.conftest import TOKEN, Api
from tests.component.api.v1.test_audit import rows
from tests.security import test_matrix, test_own_objects, test_roles
from tests.security.test_own_objects import TestMoves as Moves
from tests.security.test_own_objects import items, lists, of
from tests.security.test_roles import PREFIX, Credentials, Matrix, refusal, table, url
from tests.support.callers import Callers, Person
from tests.support.job_calls import Tenant
from tests.support.route_calls import CALLS as OF_CORE
from tests.support.route_calls import DIGEST, UNKNOWN, UNKNOWN_ACTOR, Make, World, by_id, plain, refers
from xwheel.model.access import ALL


class DeclaringWorld(World):
    """Groups whose applications declare jobs, too."""

    def declared(self, group_id: int) -> int:
        job_id = World.job(self, group_id)
        said = DeclaredJob(job_id=job_id, group_id=group_id, fields=("timezone",))
        self.api.db.transaction(lambda conn: records.insert_declared(conn, [said]))
        return job_id

    def owner(self, group_id: int) -> None:
        """Let a group follow what code declares."""

        def work(conn: Any) -> None:
            owners.insert_owner(conn, group_id)
            owners.update_owner(conn, group_id, {"release": "1.0", "digest": DIGEST})

        self.api.db.transaction(work)

    def fill(self, group_id: int) -> None:
        super().fill(group_id)
        self.owner(group_id)


CALLS: dict[tuple[str, str], Make] = {
    ("GET", "/declarations"): plain("/declarations"),
    ("POST", "/declarations/sync"): refers(
        "/declarations/sync",
        "/groups/{group_id}",
        lambda world, group_id: world.app_names[group_id],
        UNKNOWN_ACTOR,
        lambda _, key: {"app_name": key, "release": "1.0", "digest": DIGEST, "jobs": []},
    ),
    ("POST", "/jobs/{job_id}/release"): by_id("/jobs/{job_id}/release", DeclaringWorld.declared),
}


@pytest.fixture
def world(api: Api) -> DeclaringWorld:
    return DeclaringWorld(api)


@pytest.fixture
def callers(api: Api) -> Callers:
    return Callers(api)


@pytest.fixture(autouse=True)
def _known_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_roles, "CALLS", CALLS)


def test_every_route_has_a_call(api: Api) -> None:
    there = {(method, path) for path, needs in table(api).items() for method in needs}
    assert there - set(OF_CORE) == set(CALLS)


def test_every_role_gets_what_the_table_says_and_no_more(
    api: Api, world: DeclaringWorld, callers: Callers
) -> None:
    matrix = Matrix(world, callers)
    for method, path in CALLS:
        matrix.judge(path, method, table(api)[path][method])
    assert not matrix.wrong, "\n".join(matrix.wrong)
    assert min(matrix.counted.values()) > 3, matrix.counted


def test_every_credential_gets_what_the_table_says(api: Api, world: DeclaringWorld, callers: Callers) -> None:
    judge = Credentials(api, world, callers)
    for method, path in CALLS:
        judge.judge(path, method, table(api)[path][method])
    assert not judge.wrong, "\n".join(judge.wrong)
    assert min(judge.counted[right] for right in (200, 401, 403)) > 3, judge.counted


def test_a_groups_token_is_about_that_group(api: Api, world: DeclaringWorld, callers: Callers) -> None:
    tenant, foreign = Tenant(api.db, api.executor.app, "tenant"), world.group()
    for path, needs in table(api).items():
        for method, need in needs.items():
            if need.group_token:
                call = CALLS[method, path](world, foreign)
                assert call.unknown is not None
                shown = f"Bearer {tenant.token}"
                answer = callers.show(shown, method, url(path), call.body)
                unknown = callers.show(shown, method, url(path), call.unknown.body)
                assert refusal(call, answer, call.key) == refusal(call, unknown, UNKNOWN_ACTOR)
                assert answer.status_code == 401


@pytest.mark.parametrize("headers", test_matrix.STRANGERS.values(), ids=test_matrix.STRANGERS)
def test_strangers_open_nothing(api: Api, orders: Tenant, billing: Tenant, headers: dict[str, str]) -> None:
    orders.add()
    before = api.rows()
    for method, path in CALLS:
        where = PREFIX + path.replace("{job_id}", "1")
        answer = api.management.simulate_request(
            method, where, headers=headers, body=b"{}", params={"token": TOKEN, "access_token": TOKEN}
        )
        of_group = "/sync" in path and re.search("token-of-(orders|billing)", str(headers))
        # with a token of a group it tells only what is wrong with the call
        assert answer.status_code in ({422} if of_group else {401, 429}), (path, answer.text)
    assert api.rows() == before


def test_whatever_changes_something_leaves_a_row_that_names_who(api: Api, world: DeclaringWorld) -> None:
    for (method, path), make in sorted(CALLS.items()):
        if method == "GET":
            continue
        call = make(world, world.group())
        person = Person(api, world.name(), ALL)
        before = {row["id"] for row in rows(api)}
        headers = {"Xwheel-Reason": "a%20test"}
        answer = person.call(method, PREFIX + call.path, call.body, headers=headers)
        assert call.status(answer) < 300, (method, path, answer.text)
        made = [row for row in rows(api) if row["id"] not in before]
        assert made, path
        assert all(row["actor"] and row["reason"] == "a test" for row in made), made


def test_the_list_holds_the_callers_groups_and_no_others(
    api: Api, world: DeclaringWorld, callers: Callers
) -> None:
    path = f"{PREFIX}/declarations"
    assert path in lists(api)
    assert len(lists(api)) == 11
    groups = [world.group() for _ in range(3)]
    for group_id in groups:
        world.fill(group_id)
    parts = [items(callers.call(of("admin", one), "GET", path, params={"limit": 1000})) for one in groups]
    pair = items(callers.call(of("admin", *groups[:2]), "GET", path, params={"limit": 1000}))
    nothing = items(callers.call(of("admin", UNKNOWN), "GET", path, params={"limit": 1000}))
    every = items(api.call("GET", path, params={"limit": 1000}))
    assert [len(part) for part in parts] == [1, 1, 1]
    assert set().union(*parts) == every
    assert (pair, nothing) == (parts[0] | parts[1], set())
    test_own_objects.test_pages_of_some_groups_go_on_where_they_ended(api, world, callers)


@pytest.mark.parametrize("seen", [False, True])
def test_the_group_under_the_lock_counts(
    api: Api, world: DeclaringWorld, callers: Callers, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    monkeypatch.setattr(world, "job", world.declared)
    Moves().test_the_group_under_the_lock_counts(
        api, world, callers, monkeypatch, "editor", "POST", "/release", None, seen
    )


def test_what_code_declares_takes_the_place_of_a_script(world: DeclaringWorld, callers: Callers) -> None:
    own = world.group()
    job_id = world.script(own)
    name = world.api.call("GET", f"jobs/{job_id}").json["name"]
    sync = {
        "app_name": world.app_names[own],
        "release": "1.0",
        "digest": "b" * 64,
        "jobs": [{"name": name, "handler": "demo"}, {"name": "fine", "handler": "demo"}],
    }
    answer = callers.call(of("editor", own), "POST", f"{PREFIX}/declarations/sync", sync).json
    assert [(item["name"], item["field"]) for item in answer["problems"]] == [(name, "glue_type")]
    assert [step["name"] for step in answer["steps"]] == ["fine"]
    answer = callers.call(of("editor with script", own), "POST", f"{PREFIX}/declarations/sync", sync).json
    assert (answer["problems"], [step["name"] for step in answer["steps"]]) == ([], [name])
