"""Resources of plugins: their paths, who passes, what the OpenAPI document says of them, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import falcon
import msgspec
import pytest

from tests.component.api.conftest import TOKEN, Api, DeclaredAnswers
from tests.component.api.plugins.test_routes import OWNER, viewer_of
from tests.support.job_calls import Tenant
from tests.support.parts import with_parts
from tests.support.recorder import NoteRecorder, noted, recorders
from xwheel.api.app import build_management_app
from xwheel.errors import ConfigError, NotFoundError, PluginError
from xwheel.plugin import CALLER, PUBLIC, Need, Of, OfObject, Operation, Permission, PluginSite, ResourceRoute
from xwheel.plugin.registries import Registry
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage import settings


class ToyView(msgspec.Struct):
    LINK = ("toy_id", "toy_id")
    toy_id: int


class Toy:
    @Operation({200: ToyView})
    def on_get(self, req: falcon.Request, resp: falcon.Response, toy_id: int) -> None:
        """Return a toy."""
        resp.data = msgspec.json.encode(ToyView(toy_id))

    @Operation({204: None})
    def on_delete(self, req: falcon.Request, resp: falcon.Response, toy_id: int) -> None:
        """Throw a toy away."""
        resp.status = 204


class Owned:
    """Toys 1 and 2 belong to the groups of these ids, toy 3 to all."""

    def __init__(self, groups: Mapping[int, int | None]) -> None:
        self.groups = groups

    def find(self, conn: Any, fields: Mapping[str, Any]) -> tuple[str, object, int | None]:
        toy_id = fields["toy_id"]
        if toy_id not in self.groups:
            raise NotFoundError("toy", toy_id)
        return "toy", toy_id, self.groups[toy_id]


class Toys:
    name = "toys"
    chapters: Mapping[str, str] = {"toys": "What is played with."}

    def __init__(self, *routes: ResourceRoute) -> None:
        self._routes = routes

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        return self._routes


def app_with(api: Api, *routes: ResourceRoute) -> DeclaredAnswers:
    registry = api.parts.plugins.resources.with_objects({"toys": Toys(*routes)}, OWNER, ())
    plugins = dataclasses.replace(api.parts.plugins, resources=registry)
    return DeclaredAnswers(build_management_app(with_parts(api.parts, plugins=plugins)))


def needs_of(owned: Owned) -> dict[str, Need]:
    of = OfObject("the toy's group", owned.find)
    return {"GET": Need(Permission.READ, of), "DELETE": Need(Permission.EDIT, of)}


def test_the_group_of_a_plugins_object_decides_who_passes(api: Api) -> None:
    mine = api.group("mine")
    other = api.group("other")
    needs = needs_of(Owned({1: mine, 2: other, 3: None}))
    app = app_with(api, ResourceRoute("/toys/{toy_id:id}", Toy(), needs))
    token = viewer_of(api, mine)

    def status(method: str, toy: object, shown: str = token) -> int:
        headers = {"Authorization": f"Bearer {shown}"}
        return int(app.simulate_request(method, f"/api/v1/toys/{toy}", headers=headers).status_code)

    assert status("GET", 1) == 200
    assert status("DELETE", 1) == 403
    assert status("GET", 2) == status("GET", 4) == 404  # whether it exists is not said
    assert status("DELETE", 3) == 404
    assert status("GET", "x") == 404
    assert status("DELETE", 3, TOKEN) == 204
    assert status("GET", 1, "wrong") == 401


class Careless:
    """Writes and records nothing."""

    def __init__(self, api: Api) -> None:
        self._db = api.db

    @Operation({204: None}, is_open=True)
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Paint a toy."""
        self._db.transaction(lambda conn: settings.insert_setting(conn, "toy", "red"))
        resp.status = 204


@pytest.mark.parametrize(("need", "rows"), [(Need(Permission.EDIT, Of.ALL), ["POST /api/v1/toys"]), (CALLER, [])])
def test_s27_a_change_that_takes_a_permission_leaves_a_row_in_its_transaction(
    api: Api, need: Need, rows: list[str]
) -> None:
    """What a caller changes of their own, such as a wrong password that is counted, leaves none by itself."""
    recorder = NoteRecorder()
    plugins = dataclasses.replace(api.parts.plugins, recorders=recorders(recorder))
    parts = with_parts(api.parts, plugins=plugins, audit=AuditTrail(plugins, api.db, api.clock))
    app = app_with(dataclasses.replace(api, parts=parts), ResourceRoute("/toys", Careless(api), {"POST": need}))

    def paint() -> int:
        return int(app.simulate_post("/api/v1/toys", headers={"Authorization": f"Bearer {TOKEN}"}).status_code)

    def is_painted() -> bool:
        with api.db.read() as conn:
            return settings.find_setting(conn, "toy") is not None

    recorder.book.failure = PluginError("the disk is full")
    if rows:
        assert (paint(), is_painted()) == (500, False)
    recorder.book.failure = None
    assert (paint(), is_painted()) == (204, True)
    assert [row["object_id"] for row in noted(api.db) if row["action"] == "call.change"] == rows


class Busy(Toys):
    """Works along and serves nothing."""

    def step(self, now_ms: int) -> int:
        return 1000

    def end(self) -> None:
        pass


def test_only_what_works_along_may_serve_nothing(api: Api) -> None:
    for item, words in ((Busy(), ""), (Toys(), "resources toys: 0 paths; from 1 to 200 are allowed")):
        registry = Registry("set of resources", {"toys": item}, {"toys": OWNER})
        plugins = dataclasses.replace(api.parts.plugins, resources=registry)
        parts = with_parts(api.parts, plugins=plugins)
        with pytest.raises(PluginError, match=words) if words else nullcontext():
            build_management_app(parts)


def test_settings_that_do_not_fit_are_the_settings_fault(api: Api) -> None:
    class Picky(Toys):
        def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
            raise ConfigError("toys.colour: there is no red")

    registry = Registry("set of resources", {"toys": Picky()}, {"toys": OWNER})
    plugins = dataclasses.replace(api.parts.plugins, resources=registry)
    with pytest.raises(ConfigError, match=r"^toys\.colour: there is no red$"):
        build_management_app(with_parts(api.parts, plugins=plugins))


class Listing(Toys):
    """Looks at what is served."""

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        self.site = site
        return super().resources(site)


def test_a_plugin_sees_all_that_is_served_with_its_needs(api: Api) -> None:
    needs = needs_of(Owned({}))
    item = Listing(ResourceRoute("/toys/{toy_id:id}", Toy(), needs))
    registry = Registry("set of resources", {"toys": item}, {"toys": OWNER})
    plugins = dataclasses.replace(api.parts.plugins, resources=registry)
    app = build_management_app(with_parts(api.parts, plugins=plugins))
    found = {route.path: route for route in item.site.resources()}
    assert found["/api/v1/toys/{toy_id:id}"].needs == needs
    assert str(found["/healthz"].needs["GET"]) == "public"
    assert str(found["/api/v1/jobs/{job_id:id}/run"].needs["POST"]) == "run, the job's group"
    assert found["/api/v1/jobs/{job_id:id}/run"].suffix == "run"
    assert found.keys() == app.needs.keys()


def test_a_page_may_be_at_the_root(api: Api) -> None:
    app = app_with(api, ResourceRoute("/toys", Toy(), {"GET": PUBLIC, "DELETE": CALLER}, at_root=True))
    assert app.simulate_get("/toys", params={}).status_code == 500  # it wants an id
    assert app.simulate_delete("/toys").status_code == 401
    assert app.simulate_get("/api/v1/toys").status_code == 401


@pytest.mark.parametrize(
    ("route", "words"),
    [
        (ResourceRoute("/jobs/{job_id:id}", Toy(), {"GET": CALLER, "DELETE": CALLER}), "it is there already"),
        (ResourceRoute("/toys", Toy(), {"GET": CALLER}), "must say what each of DELETE, GET needs"),
        (ResourceRoute("/healthz", Toy(), {"GET": CALLER, "DELETE": CALLER}, at_root=True), "is there already"),
        (ResourceRoute("/api/toys", Toy(), {"GET": CALLER, "DELETE": CALLER}, at_root=True), "which has no /api"),
        (ResourceRoute("toys", Toy(), {"GET": CALLER, "DELETE": CALLER}), "is no path"),
        (ResourceRoute("/toys", Toy(), {"GET": "anyone", "DELETE": CALLER}), "as a Need"),  # type: ignore[dict-item]
        ("/toys", "must return objects of ResourceRoute"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_plugins_name(api: Api, route: Any, words: str) -> None:
    with pytest.raises(PluginError, match=words) as refused:
        app_with(api, route)
    assert OWNER in str(refused.value)


def test_what_no_plugin_brings_is_not_there_whoever_asks(api: Api, orders: Tenant) -> None:
    for token in (TOKEN, orders.token):
        headers = {"Authorization": f"Bearer {token}"}
        answer = api.call("POST", "declarations/sync", {"app_name": "orders"}, headers=headers)
        assert (answer.status_code, answer.json["type"]) == (404, "urn:xwheel:problem:unknown-route")
        assert "declarations/sync" in answer.json["detail"]
    job = api.job()
    assert job["declared"] is None
    assert api.call("PATCH", f"jobs/{job['id']}", {"name": "another"}).status_code == 200
    assert api.call("GET", "overview").status_code == 404
    assert api.call("GET", "jobs", headers={"Authorization": f"Bearer {orders.token}"}).status_code == 401
