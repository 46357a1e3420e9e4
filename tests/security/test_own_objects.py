"""T6 and T7: what a caller of one group is shown, and what it may name; other groups' objects are as if not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from xwheel_alarms.storage import rules
from xwheel_openapi.document import Described, operations

from tests.product.accounts.conftest import PeopleApi
from tests.product.accounts.people import PeopleCallers
from tests.support.bare_app import NEEDS
from tests.support.callers import ROLES
from tests.support.route_calls import UNKNOWN, World
from tests.support.rows import NOW
from xwheel.model import NewSource, RunState
from xwheel.model.access import NODE, Actor, ActorKind, Grants, acting
from xwheel.plugin.resources import Of
from xwheel.storage import jobs
from xwheel.storage.database.engine import Database

PREFIX = "/api/v1"
CALLERS = re.compile("caller-|tests")
SHARED = {"/calendars", "/plugins"}
"""Lists of what belongs to no group."""


@pytest.fixture
def world(api: PeopleApi) -> World:
    return World(api)


@pytest.fixture
def callers(api: PeopleApi) -> PeopleCallers:
    return PeopleCallers(api)


def of(role: str, *group_ids: int) -> Grants:
    return Grants(groups=dict.fromkeys(group_ids, ROLES[role]))


def reads(api: PeopleApi) -> Iterator[Described]:
    """What can be read of some groups, with the fields by which it can be asked for."""
    app: Any = api.management.app
    for item in operations(app.routes):
        if item.method == "GET" and item.need.of is Of.SOME:
            yield item


def lists(api: PeopleApi) -> list[str]:
    return [
        item.path
        for item in reads(api)
        if "items" in getattr(item.operation.answers[200], "__struct_fields__", ())
        and "limit" in getattr(item.operation.query, "__struct_fields__", ())
        # others are no lists with pages: their tests are in tests/component/api/v1/test_live.py
        and "after" in getattr(item.operation.query, "__struct_fields__", ())
        and item.path.removeprefix(PREFIX) not in SHARED | {"/schedule/preview", "/reports"}
    ]


def items(answer: Any) -> set[str]:
    """Return what a list shows; the tokens of the callers themselves aside."""
    assert answer.status_code == 200, answer.text
    # rows of the audit about no group, such as those of accounts, are those of no one with rights in groups
    found = (item for item in answer.json["items"] if "outcome" not in item or item["group_id"] is not None)
    return {str(item) for item in found if not CALLERS.match(str(item.get("name")))}


def without(answer: Any, key: object) -> str:
    """Return the text of an answer without the id that the caller named."""
    return re.sub(rf"\b{key}\b", "X", answer.text)


def test_lists_hold_the_objects_of_the_callers_groups_and_no_others(
    api: PeopleApi, world: World, callers: PeopleCallers
) -> None:
    groups = [world.group() for _ in range(3)]
    for group_id in groups:
        world.fill(group_id)
    paths = lists(api)
    assert len(paths) == 11, paths
    for path in paths:
        # who may read all of them is asked for tokens and secrets, too
        parts = [items(callers.call(of("admin", group_id), "GET", path, params={"limit": 1000})) for group_id in groups]
        pair = items(callers.call(of("admin", *groups[:2]), "GET", path, params={"limit": 1000}))
        nothing = items(callers.call(of("admin", UNKNOWN), "GET", path, params={"limit": 1000}))
        every = items(api.call("GET", path, params={"limit": 1000}))
        assert all(parts), path
        assert sum(map(len, parts)) == len(every), f"{path}: one is in two lists"
        assert set().union(*parts) == every, path
        assert (pair, nothing) == (parts[0] | parts[1], set()), path


def test_pages_of_some_groups_go_on_where_they_ended(api: PeopleApi, world: World, callers: PeopleCallers) -> None:
    groups = [world.group() for _ in range(3)]
    for group_id in groups:
        world.fill(group_id)
    grants = of("admin", *groups[::2])
    for path in lists(api):
        whole = callers.call(grants, "GET", path, params={"limit": 1000}).json["items"]
        found: list[Any] = []
        after: Any = None
        for _ in range(1000):
            params = {"limit": 1} if after is None else {"limit": 1, "after": after}
            page = callers.call(grants, "GET", path, params=params).json
            found += page["items"]
            after = page["next"]
            if after is None:
                break
        assert found == whole, path


def test_a_filter_by_what_the_caller_may_not_read_finds_as_little_as_one_by_what_is_not_there(
    api: PeopleApi, world: World, callers: PeopleCallers
) -> None:
    own, other = world.group(), world.group()
    world.fill(own)
    world.fill(other)
    theirs = {
        "group_id": other,
        "job_id": int(callers.call(of("admin", other), "GET", PREFIX + "/runs").json["items"][0]["job_id"]),
        "run_id": world.run(other).id,
        "root_id": world.run(other).root_id,
        "chain_id": world.run(other).chain_id,
        "alarm_id": world.alarm(other),
        "notice_id": world.alarm(other),
    }
    asked = 0
    for item in reads(api):
        fields = getattr(item.operation.query, "__struct_fields__", ())
        for name in theirs.keys() & fields:
            grants = of("admin", own)
            answer = callers.call(grants, "GET", item.path, params={name: theirs[name]})
            unknown = callers.call(grants, "GET", item.path, params={name: UNKNOWN})
            assert (answer.status_code, answer.text) == (200, unknown.text), (item.path, name)
            asked += 1
    assert asked == 28


def test_reports_and_the_overview_count_the_callers_groups(
    api: PeopleApi, world: World, callers: PeopleCallers
) -> None:
    groups = [world.group() for _ in range(3)]
    for group_id in groups:
        world.fill(group_id)
    own = of("viewer", groups[0], groups[2])
    asked = {"from_ms": NOW - 86_400_000, "to_ms": NOW + 86_400_000}
    report = callers.call(own, "GET", f"{PREFIX}/reports", params=asked).json
    assert report["totals"]["succeeded"] == groups[0] + groups[2]
    assert [item["counts"]["succeeded"] for item in report["items"]] == [groups[0] + groups[2]]
    every = api.call("GET", "overview").json
    mine = callers.call(own, "GET", f"{PREFIX}/overview").json
    one = callers.call(of("viewer", groups[1]), "GET", f"{PREFIX}/overview").json
    for name in ("groups", "executors", "jobs", "scheduled_jobs", "planned_runs", "open_runs"):
        assert every[name] == mine[name] + one[name], name
    assert (one["groups"], one["executors"], one["open_runs"]) == (1, 1, 1)
    assert mine["last_day"]["succeeded"] == groups[0] + groups[2]


def test_a_run_that_stayed_says_nothing_of_its_job_that_moved(
    api: PeopleApi, world: World, callers: PeopleCallers
) -> None:
    own, other = world.group(), world.group()
    job_id = world.job(own, name="before")
    run = world.run(own, RunState.SUCCEEDED, job_id)
    api.parts.jobs.edit(job_id, {"group_id": other, "name": "their plans"})
    for answer in (
        callers.call(of("viewer", own), "GET", f"{PREFIX}/runs/{run.id}").json,
        callers.call(of("viewer", own), "GET", f"{PREFIX}/runs").json["items"][0],
    ):
        assert (answer["id"], answer["job_name"], answer["app_name"]) == (run.id, "", "")
    assert callers.call(of("viewer", own), "GET", f"{PREFIX}/jobs/{job_id}").status_code == 404
    assert callers.call(of("viewer", other), "GET", f"{PREFIX}/runs").json["items"] == []
    # and anyone who may run the run's group runs no job of another
    again = callers.call(of("operator", own), "POST", f"{PREFIX}/runs/{run.id}/rerun")
    assert (again.status_code, again.json["detail"]) == (404, f"job {job_id} does not exist")
    assert callers.call(of("operator", own, other), "POST", f"{PREFIX}/runs/{run.id}/rerun").status_code == 201


class TestMoves:
    """A job is brought to another group between the check of the call and the transaction."""

    CALLS: tuple[tuple[str, str, str, Any], ...] = (
        ("editor", "PATCH", "", {"description": "x"}),
        ("editor", "DELETE", "", None),
        ("operator", "POST", "/start", None),
        ("operator", "POST", "/stop", None),
        ("operator", "POST", "/run", None),
        ("editor", "POST", "/release", None),
        ("editor", "PUT", "/children", {"children": []}),
        ("editor with script", "POST", "/glue", {"source": "exit 1"}),
        ("editor with script", "POST", "/glue/1/restore", None),
    )

    @pytest.mark.parametrize(("role", "method", "path", "body"), CALLS, ids=lambda value: str(value)[:30])
    @pytest.mark.parametrize("seen", [False, True])
    def test_the_group_under_the_lock_counts(
        self,
        api: PeopleApi,
        world: World,
        callers: PeopleCallers,
        monkeypatch: pytest.MonkeyPatch,
        role: str,
        method: str,
        path: str,
        body: object,
        seen: bool,
    ) -> None:
        own, other = world.group(), world.group()
        job_id = world.script(own) if "glue" in path else world.declared(own)
        grants = Grants(groups={own: ROLES[role], **({other: ROLES["viewer"]} if seen else {})})
        token = callers.token(grants)
        with api.db.read() as conn:
            job = jobs.get_job(conn, job_id)
        self.move(monkeypatch, api.db, job_id, other)
        answer = callers.show(f"Bearer {token}", method, f"{PREFIX}/jobs/{job_id}{path}", body)
        if seen:
            assert answer.status_code == 403, answer.text
        else:
            assert (answer.status_code, answer.json["detail"]) == (404, f"job {job_id} does not exist")
        with api.db.read() as conn:
            now = jobs.get_job(conn, job_id)
        assert (now.group_id, now.revision, now.enabled) == (other, job.revision, job.enabled)

    def move(self, monkeypatch: pytest.MonkeyPatch, db: Database, job_id: int, group_id: int) -> None:
        """Let the job move as soon as the call has been let in."""
        from xwheel.api.http.auth import ApiGate

        usual = ApiGate._check

        def check(gate: ApiGate, *arguments: Any) -> None:
            usual(gate, *arguments)
            db.transaction(lambda conn: jobs.update_job(conn, job_id, {"group_id": group_id}))

        monkeypatch.setattr(ApiGate, "_check", check)

    def test_a_rule_of_a_job_goes_with_it(
        self, api: PeopleApi, world: World, callers: PeopleCallers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own, other = world.group(), world.group()
        rule_id = world.rule(own)
        with api.db.read() as conn:
            job_id = rules.get_rule(conn, rule_id).job_id
        assert job_id is not None
        callers.token(of("editor", own))
        self.move(monkeypatch, api.db, job_id, other)
        for method, body in (("PATCH", {"window_s": 7}), ("DELETE", None)):
            api.db.transaction(lambda conn: jobs.update_job(conn, job_id, {"group_id": own}))
            answer = callers.call(of("editor", own), method, f"{PREFIX}/alarms/rules/{rule_id}", body)
            assert (answer.status_code, answer.json["detail"]) == (404, f"alarm rule {rule_id} does not exist")

    def test_a_planned_run_goes_with_its_job(
        self, api: PeopleApi, world: World, callers: PeopleCallers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own, other = world.group(), world.group()
        job_id = world.job(own)
        run_id = api.call("POST", f"jobs/{job_id}/run").json["id"]
        from xwheel.api.http.auth import ApiGate

        usual = ApiGate._check

        def check(gate: ApiGate, *arguments: Any) -> None:
            usual(gate, *arguments)
            with acting(NODE):
                api.parts.jobs.edit(job_id, {"group_id": other})

        callers.token(of("operator", own))
        monkeypatch.setattr(ApiGate, "_check", check)
        answer = callers.call(of("operator", own), "POST", f"{PREFIX}/runs/{run_id}/kill")
        assert (answer.status_code, answer.json["detail"]) == (404, f"run {run_id} does not exist")
        assert api.run(run_id).state is RunState.PLANNED


def test_each_job_of_a_bulk_call_is_judged_by_itself(api: PeopleApi, world: World, callers: PeopleCallers) -> None:
    own, seen, other = world.group(), world.group(), world.group()
    for action, role in (("start", "operator"), ("stop", "operator"), ("run", "operator"), ("delete", "editor")):
        grants = Grants(groups={own: ROLES[role], seen: ROLES["viewer"]})
        ids = [world.job(own), world.job(seen), world.job(other), UNKNOWN]
        untouched = [row for row in api.rows()["job"] if row[0] in ids[1:]]
        answer = callers.call(grants, "POST", f"{PREFIX}/jobs/bulk/{action}", {"ids": ids}).json
        kinds = [(item["problem"] or {}).get("type", "").rpartition(":")[2] for item in answer["items"]]
        assert kinds == ["", "forbidden", "not-found", "not-found"], action
        theirs, nobodys = (item["problem"]["detail"] for item in answer["items"][2:])
        assert theirs.replace(str(ids[2]), "X") == nobodys.replace(str(UNKNOWN), "X")
        assert [row for row in api.rows()["job"] if row[0] in ids[1:]] == untouched
        assert answer["failed"] == 3


def test_a_copy_takes_the_right_to_edit_in_both_groups(api: PeopleApi, world: World, callers: PeopleCallers) -> None:
    own, seen, other = world.group(), world.group(), world.group()
    job_id = world.job(own)
    grants = Grants(groups={own: ROLES["editor"], seen: ROLES["viewer"]})
    path = f"{PREFIX}/jobs/{job_id}/copy"
    assert callers.call(grants, "POST", path, {"group_id": seen}).status_code == 403
    theirs = callers.call(grants, "POST", path, {"group_id": other})
    nobodys = callers.call(grants, "POST", path, {"group_id": UNKNOWN})
    assert (theirs.status_code, theirs.json["field"]) == (422, "group_id")
    assert without(theirs, other) == without(nobodys, UNKNOWN)
    both = Grants(groups={own: ROLES["editor"], seen: ROLES["editor"]})
    assert callers.call(both, "POST", path, {"group_id": seen}).json["group_id"] == seen


def test_a_job_moves_only_for_who_may_edit_in_both_groups(api: PeopleApi, world: World) -> None:
    own, seen, other = world.group(), world.group(), world.group()
    job_id = world.job(own)
    grants = Grants(groups={own: ROLES["editor"], seen: ROLES["viewer"]})
    with acting(Actor(kind=ActorKind.TOKEN, grants=grants)):
        with pytest.raises(Exception, match=f"group {seen}: this takes the permission edit"):
            api.parts.jobs.edit(job_id, {"group_id": seen})
        with pytest.raises(Exception, match=f"group {other} does not exist"):
            api.parts.jobs.edit(job_id, {"group_id": other})
    with acting(Actor(kind=ActorKind.TOKEN, grants=of("editor", own, seen))):
        assert api.parts.jobs.edit(job_id, {"group_id": seen}).group_id == seen


def test_n34_what_a_script_runs_in_another_group_takes_the_script_right_there(api: PeopleApi, world: World) -> None:
    """A job that moves brings its script along, to the executors of that group; or is given another one on the way."""
    own, other = world.group(), world.group()
    mixed = Grants(groups={own: ROLES["editor with script"], other: ROLES["editor"]})
    new = NewSource(source="exit 1", author="", remark="")
    for grants, begin, end, may in (
        (mixed, own, other, False),
        (mixed, other, own, True),
        (of("editor with script", own, other), own, other, True),
    ):
        for changes, source in (({}, None), ({"param": "x"}, new), ({"glue_type": "BEAN", "handler": "demo"}, None)):
            job_id = world.script(begin)
            moves = {**changes, "group_id": end}
            with acting(Actor(kind=ActorKind.TOKEN, grants=grants)):
                if may:
                    assert api.parts.jobs.edit(job_id, moves, source=source).group_id == end
                    continue
                with pytest.raises(Exception, match="takes the permission script"):
                    api.parts.jobs.edit(job_id, moves, source=source)
    plain = world.job(own)
    with acting(Actor(kind=ActorKind.TOKEN, grants=mixed)):
        assert api.parts.jobs.edit(plain, {"group_id": other}).group_id == other


def test_an_admin_of_one_group_sees_and_ends_no_token_of_another_that_they_read(
    api: PeopleApi, world: World, callers: PeopleCallers
) -> None:
    own, other = world.group(), world.group()
    mine, theirs = world.token(own), world.token(other)
    grants = Grants(groups={own: ROLES["admin"], other: ROLES["editor with script"]})
    shown = callers.call(grants, "GET", f"{PREFIX}/tokens").json["items"]
    assert [item["name"] for item in shown if item["group_id"] is not None] == [mine]
    for method in ("GET", "DELETE"):
        assert callers.call(grants, method, f"{PREFIX}/tokens/{theirs}").status_code == 404, method
    assert api.call("GET", f"tokens/{theirs}").status_code == 200
    for group_id, status in ((other, 403), (own, 201)):
        body = {"name": world.name(), "group_id": group_id}
        assert callers.call(grants, "POST", f"{PREFIX}/tokens", body).status_code == status
    assert callers.call(grants, "DELETE", f"{PREFIX}/tokens/{mine}").status_code == 204


def test_n34_versions_show_no_children_of_other_groups(api: PeopleApi, world: World, callers: PeopleCallers) -> None:
    own, other = world.group(), world.group()
    job_id, mine, theirs = world.job(own), world.job(own), world.job(other)
    path = f"{PREFIX}/jobs/{job_id}"
    body = {"children": [{"child_id": mine}, {"child_id": theirs, "param": "of others"}]}
    assert api.call("PUT", f"{path}/children", body).status_code == 200
    assert api.call("PUT", f"{path}/children", {"children": []}).status_code == 200
    grants = of("viewer", own)
    for revision in (2, 3):
        seen = callers.call(grants, "GET", f"{path}/versions/{revision}")
        expected = [{"child_id": mine, "param": None}] if revision == 2 else []
        assert (seen.status_code, seen.json["children"]) == (200, expected)
        differs = callers.call(grants, "GET", f"{path}/versions/{revision}/diff")
        assert (differs.status_code, "of others" in differs.text) == (200, False)
    everything = api.call("GET", f"{path}/versions/2").json["children"]
    assert {item["child_id"] for item in everything} == {mine, theirs}


class TestScripts:
    """What a script runs takes the right to change scripts, wherever it comes from."""

    def test_a_new_job_with_a_source(self, world: World, callers: PeopleCallers) -> None:
        own = world.group()
        body = {"group_id": own, "name": "s", "glue_type": "SCRIPT", "glue_source": "exit 0"}
        assert callers.call(of("editor", own), "POST", f"{PREFIX}/jobs", body).status_code == 403
        assert callers.call(of("editor with script", own), "POST", f"{PREFIX}/jobs", body).status_code == 201
        without = {"group_id": own, "name": "t", "glue_type": "SCRIPT"}
        assert callers.call(of("editor", own), "POST", f"{PREFIX}/jobs", without).status_code == 201

    @pytest.mark.parametrize("change", [{"glue_source": "exit 2"}, {"glue_type": "BEAN", "handler": "demo"}], ids=str)
    def test_a_changed_job(self, api: PeopleApi, world: World, callers: PeopleCallers, change: dict[str, str]) -> None:
        own = world.group()
        path = f"{PREFIX}/jobs/{world.script(own)}"
        before = api.call("GET", path).json
        refused = callers.call(of("editor", own), "PATCH", path, change)
        assert (refused.status_code, "permission script" in refused.json["detail"]) == (403, True)
        assert api.call("GET", path).json == before
        assert callers.call(of("editor", own), "PATCH", path, {"param": "x"}).status_code == 200
        assert callers.call(of("editor with script", own), "PATCH", path, change).status_code == 200

    def test_a_copy(self, world: World, callers: PeopleCallers) -> None:
        own, other = world.group(), world.group()
        path = f"{PREFIX}/jobs/{world.script(own)}/copy"
        assert callers.call(of("editor", own), "POST", path).status_code == 403
        mixed = Grants(groups={own: ROLES["editor with script"], other: ROLES["editor"]})
        assert callers.call(mixed, "POST", path, {"group_id": other}).status_code == 403
        assert callers.call(mixed, "POST", path).status_code == 201

    def test_what_code_declares_takes_the_place_of_a_script(self, world: World, callers: PeopleCallers) -> None:
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


class TestChildren:
    """What a job runs after it: a new child takes the right to run it."""

    def put(self, callers: PeopleCallers, grants: Grants, job_id: int, *children: tuple[int, str | None]) -> Any:
        body = {"children": [{"child_id": child_id, "param": param} for child_id, param in children]}
        return callers.call(grants, "PUT", f"{PREFIX}/jobs/{job_id}/children", body)

    def test_a_child_of_another_group(self, api: PeopleApi, world: World, callers: PeopleCallers) -> None:
        own, seen, other = world.group(), world.group(), world.group()
        job_id, mine, readable, theirs = (world.job(group) for group in (own, own, seen, other))
        grants = Grants(groups={own: ROLES["editor"], seen: ROLES["viewer"]})
        assert self.put(callers, grants, job_id, (mine, None)).status_code == 200
        assert self.put(callers, grants, job_id, (mine, None), (readable, None)).status_code == 403
        hidden, nobody = (self.put(callers, grants, job_id, (number, None)) for number in (theirs, UNKNOWN))
        assert (hidden.status_code, hidden.json["field"]) == (422, "child_id")
        assert without(hidden, theirs) == without(nobody, UNKNOWN)
        assert [link.child_id for link in self.links(api, job_id)] == [mine]
        runs = Grants(groups={own: ROLES["editor"], seen: ROLES["operator"]})
        assert self.put(callers, runs, job_id, (mine, None), (readable, "x")).status_code == 200
        # what is there may stay as it is, and may go; another parameter is another run
        assert self.put(callers, grants, job_id, (mine, "p"), (readable, "x")).status_code == 200
        assert self.put(callers, grants, job_id, (mine, "p"), (readable, "y")).status_code == 403
        assert self.put(callers, grants, job_id, (mine, "p")).status_code == 200

    def links(self, api: PeopleApi, job_id: int) -> list[Any]:
        with api.db.read() as conn:
            return jobs.children_of(conn, [job_id])

    def test_what_the_caller_does_not_see_stays(self, api: PeopleApi, world: World, callers: PeopleCallers) -> None:
        own, other = world.group(), world.group()
        job_id, mine, theirs, parent = (world.job(group) for group in (own, own, other, other))
        for above, below in ((job_id, [mine, theirs]), (parent, [job_id])):
            body = {"children": [{"child_id": child_id, "param": "p"} for child_id in below]}
            assert api.call("PUT", f"jobs/{above}/children", body).status_code == 200
        grants = of("editor", own)
        shown = callers.call(grants, "GET", f"{PREFIX}/jobs/{job_id}/children").json
        assert (shown["children"], shown["parents"]) == ([{"child_id": mine, "param": "p"}], [])
        answer = self.put(callers, grants, job_id)
        assert (answer.status_code, answer.json["children"]) == (200, [])
        assert [link.child_id for link in self.links(api, job_id)] == [theirs]
        # named by its number it is not there, though it is a child
        assert self.put(callers, grants, job_id, (theirs, "p")).status_code == 422
        whole = callers.call(of("viewer", own, other), "GET", f"{PREFIX}/jobs/{job_id}/children").json
        assert ([child["child_id"] for child in whole["children"]], whole["parents"]) == ([theirs], [parent])

    def test_a_circle_names_no_job_of_others(self, api: PeopleApi, world: World, callers: PeopleCallers) -> None:
        own, other = world.group(), world.group()
        first, last, theirs = world.job(own), world.job(own), world.job(other)
        for above, below in ((first, theirs), (theirs, last)):
            body = {"children": [{"child_id": below}]}
            assert api.call("PUT", f"jobs/{above}/children", body).status_code == 200
        answer = self.put(callers, of("editor", own), last, (first, None))
        assert (answer.status_code, "a job of another group" in answer.json["detail"]) == (422, True)
        assert not re.search(rf"\b{theirs}\b", answer.json["detail"])

    def test_a_template_learns_nothing_of_hidden_parents(
        self, api: PeopleApi, world: World, callers: PeopleCallers
    ) -> None:
        own, other = world.group(), world.group()
        job_id, child, theirs = world.job(own), world.job(own), world.job(other)
        body = {"children": [{"child_id": child}]}
        assert api.call("PUT", f"jobs/{theirs}/children", body).status_code == 200
        texts = []
        for number in (theirs, UNKNOWN):
            answer = self.put(callers, of("editor", own), job_id, (child, f"${{result.{number}}}"))
            assert answer.status_code == 422
            texts.append(without(answer, number))
        assert texts[0] == texts[1]


class TestRules:
    """Alarm rules of jobs, of groups, and of all jobs."""

    PATH = f"{PREFIX}/alarms/rules"

    def test_a_rule_of_all_jobs_takes_the_right_in_all_groups(
        self, api: PeopleApi, world: World, callers: PeopleCallers
    ) -> None:
        own = world.group()
        body = {"kinds": ["failed"]}
        assert callers.call(of("admin", own), "POST", self.PATH, body).status_code == 403
        made = callers.call(Grants(ROLES["editor"]), "POST", self.PATH, body)
        assert made.status_code == 201
        path = f"{self.PATH}/{made.json['id']}"
        for method, change in (("GET", None), ("PATCH", {"window_s": 5}), ("DELETE", None)):
            assert callers.call(of("admin", own), method, path, change).status_code == 404
        viewer = Grants(ROLES["viewer"], {own: ROLES["admin"]})
        assert callers.call(viewer, "PATCH", path, {"window_s": 5}).status_code == 403

    def test_a_rule_is_brought_nowhere_else(self, world: World, callers: PeopleCallers) -> None:
        own, other = world.group(), world.group()
        path = f"{self.PATH}/{world.rule(own, of_job=False)}"
        theirs = world.job(other)
        for change in ({"group_id": other}, {"group_id": None, "job_id": theirs}):
            for role in ("editor", "admin"):
                answer = callers.call(of(role, own), "PATCH", path, change)
                assert (answer.status_code, answer.json["field"]) == (422, next(reversed(change)))
        assert callers.call(of("editor", own), "PATCH", path, {"group_id": None}).status_code == 403
        both = of("editor", own, other)
        change = {"group_id": None, "job_id": theirs}
        assert callers.call(both, "PATCH", path, change).json["job_id"] == theirs

    def test_a_rule_of_a_deleted_job_is_still_its_groups(
        self, api: PeopleApi, world: World, callers: PeopleCallers
    ) -> None:
        own, other = world.group(), world.group()
        rule_id = world.rule(own)
        with api.db.read() as conn:
            job_id = rules.get_rule(conn, rule_id).job_id
        assert api.call("DELETE", f"jobs/{job_id}").status_code == 204
        refused = callers.call(of("admin", other), "DELETE", f"{self.PATH}/{rule_id}")
        assert (refused.status_code, refused.json["detail"]) == (404, f"alarm rule {rule_id} does not exist")
        assert callers.call(of("editor", own), "DELETE", f"{self.PATH}/{rule_id}").status_code == 204


def test_a_token_for_everything_takes_the_right_in_all_groups(
    api: PeopleApi, world: World, callers: PeopleCallers
) -> None:
    own = world.group()
    grants = Grants(ROLES["viewer"], {own: ROLES["admin"]})
    assert callers.call(grants, "POST", f"{PREFIX}/tokens", {"name": "all"}).status_code == 403
    for method in ("GET", "DELETE"):
        everything = callers.call(grants, method, f"{PREFIX}/tokens/tests")
        nothing = callers.call(grants, method, f"{PREFIX}/tokens/none")
        assert everything.status_code == 404
        assert everything.text.replace("tests", "none") == nothing.text
    assert api.call("GET", "tokens/tests").status_code == 200


def test_only_lists_of_what_has_no_group_are_the_same_for_all(
    api: PeopleApi, world: World, callers: PeopleCallers
) -> None:
    own, other = world.group(), world.group()
    world.calendar()
    for path in SHARED:
        assert NEEDS[path]["GET"].of is Of.SOME
        answers = [callers.call(of("viewer", group), "GET", PREFIX + path).json for group in (own, other)]
        assert answers[0] == answers[1] == api.call("GET", path[1:]).json
        assert answers[0]["items"] or path == "/plugins"
