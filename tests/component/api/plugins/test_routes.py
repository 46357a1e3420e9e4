"""Routes of plugins: who passes, what they are handed, what comes back, and what their failures do."""

from __future__ import annotations

import dataclasses
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import falcon.testing
import pytest
from sqlalchemy.exc import OperationalError

from tests.component.api.conftest import EXECUTOR_TOKEN, TOKEN, Api, DeclaredAnswers
from tests.support.parts import with_parts
from tests.support.recorder import NoteRecorder, noted, recorders
from xwheel.api.app import build_management_app, executor_app, plugin_routes
from xwheel.errors import ConflictError, PluginError, RevisionError
from xwheel.model.access import Actor, ActorKind, Grant, Grants, Role
from xwheel.plugin import Permission, PluginSite, Route, RouteCall, RouteRefusedError, RouteReply, RouteScope
from xwheel.plugin.registries import Registry
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage import executors, settings
from xwheel.storage.access import tokens
from xwheel.wire.contract import TOKEN_HEADER

OWNER = "xwheel-toys 1.0 (entry point toys = xwheel_toys)"
JOB = {"name": "toy", "handler": "play", "schedule_type": "FIX_RATE", "schedule_conf": "3600"}
Answer = Callable[[RouteCall], RouteReply]


def route(answer: Answer, method: str = "GET", path: str = "", **more: Any) -> Route:
    fields: dict[str, Any] = {"permission": Permission.READ, **more}
    if fields.get("for_executors"):
        fields["permission"] = None
    return Route(method=method, path=path, answer=answer, summary="Do something.", **fields)


class Toys:
    """Routes that a test chooses."""

    name = "toys"

    def __init__(self, make: Callable[[PluginSite], Sequence[Route]]) -> None:
        self._make = make

    def routes(self, site: PluginSite) -> Sequence[Route]:
        return self._make(site)


class Clients:
    """Both applications of a node with such routes."""

    def __init__(self, api: Api, make: Callable[[PluginSite], Sequence[Route]]) -> None:
        registry = Registry("set of routes", {"toys": Toys(make)}, {"toys": OWNER})
        self.parts = with_parts(api.parts, plugins=dataclasses.replace(api.parts.plugins, routes=registry))
        self.routes = plugin_routes(self.parts)
        self.people = DeclaredAnswers(build_management_app(self.parts, self.routes))
        self.executors = falcon.testing.TestClient(executor_app(self.parts, self.routes))

    def call(self, method: str = "GET", path: str = "", token: str = TOKEN, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        return self.people.simulate_request(method, f"/api/v1/toys{path}", headers=headers, **more)

    def fetch(self, path: str = "", token: str = EXECUTOR_TOKEN, **more: Any) -> Any:
        headers = {TOKEN_HEADER: token, **more.pop("headers", {})}
        return self.executors.simulate_get(f"/api/v1/toys{path}", headers=headers, **more)


def say(call: RouteCall) -> RouteReply:
    return RouteReply(value={"path": dict(call.path), "query": dict(call.query), "by": call.actor.name})


def viewer_of(api: Api, group_id: int) -> str:
    """Return a token that may only read one group."""
    made = "token-of-a-viewer-of-one-group"
    api.db.transaction(
        lambda conn: tokens.insert_token(conn, "viewer", made, 0, grants=Grants(groups={group_id: Grant(Role.VIEWER)}))
    )
    return made


def group(api: Api, name: str) -> int:
    return api.db.transaction(lambda conn: executors.insert_group(conn, app_name=name, title=name, now_ms=0)).id


def test_a_call_is_handed_over_with_its_fields_and_its_caller(api: Api) -> None:
    clients = Clients(api, lambda site: [route(say, path="/{box_id:id}/{word}")])
    answer = clients.call(path="/7/red", params={"a": "1"})
    assert (answer.status_code, answer.json) == (
        200,
        {"path": {"box_id": 7, "word": "red"}, "query": {"a": "1"}, "by": "tests"},
    )
    assert clients.call(path="/07/red").status_code == 404
    assert clients.call("POST", path="/7/red").status_code == 405


def test_nobody_passes_without_the_permission(api: Api) -> None:
    mine, other = group(api, "mine"), group(api, "other")
    asked: list[str] = []

    def note(call: RouteCall) -> RouteReply:
        asked.append(call.actor.name)
        return RouteReply()

    clients = Clients(
        api,
        lambda site: [
            route(note),
            route(note, "POST", permission=Permission.EDIT),
            route(note, path="/of/{group_id:id}", scope=RouteScope.GROUP),
            route(note, path="/all", scope=RouteScope.ALL),
        ],
    )
    token = viewer_of(api, mine)
    wrong = clients.call(token="a-token-that-is-not-known-here")
    assert (wrong.status_code, wrong.json["type"]) == (401, "urn:xwheel:problem:unauthorized")
    assert asked == []
    assert clients.call(token=token).status_code == 204
    assert clients.call(path=f"/of/{mine}", token=token).status_code == 204
    assert [
        clients.call("POST", token=token).status_code,
        clients.call(path=f"/of/{other}", token=token).status_code,
        clients.call(path="/all", token=token).status_code,
    ] == [403, 404, 403]
    assert asked == ["viewer", "viewer"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"permission": None}, "does not say who may call it"),
        ({"method": "BREW"}, "method that is none of"),
        ({"path": "/{a}/{a}"}, "path that cannot be used"),
        ({"path": "x"}, "path that cannot be used"),
        ({"path": "/../x"}, "path that cannot be used"),
        ({"scope": RouteScope.JOB}, r"needs \{job_id:id\} in its path"),
        ({"max_body_bytes": -1}, "may have a body of"),
        ({"summary": ""}, "has no summary"),
        ({"answer": None}, "no answer that can be called"),
    ],
)
def test_a_route_that_is_not_whole_stops_the_start(api: Api, wrong: dict[str, Any], words: str) -> None:
    fields = {**dataclasses.asdict(route(say)), "answer": say, **wrong}
    with pytest.raises(PluginError, match=rf"xwheel-toys.*routes toys: .*{words}"):
        Clients(api, lambda site: [Route(**fields)])


def test_routes_twice_and_names_of_ours_stop_the_start(api: Api) -> None:
    with pytest.raises(PluginError, match=r"xwheel-toys.*is there twice"):
        Clients(api, lambda site: [route(say, path="/{a}"), route(say, path="/{b}")])
    with pytest.raises(PluginError, match=r"xwheel-toys.*routes toys failed: SystemExit"):
        Clients(api, lambda site: (_ for _ in ()).throw(SystemExit("no")))
    Toys.name = "jobs"
    try:
        with pytest.raises(PluginError, match="xwheel itself has /api/v1/jobs"):
            Clients(api, lambda site: [route(say)])
    finally:
        Toys.name = "toys"


@pytest.mark.parametrize(
    "error", [ValueError("secret of the plugin"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]
)
def test_what_a_plugin_raises_names_it_and_tells_nothing_else(
    api: Api, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(call: RouteCall) -> RouteReply:
        raise error

    clients = Clients(api, lambda site: [route(fail)])
    with caplog.at_level(logging.ERROR):
        answer = clients.call()
    assert (answer.status_code, answer.json["type"]) == (500, "urn:xwheel:problem:plugin-failed")
    assert "xwheel-toys 1.0" in answer.json["detail"]
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert f"incident {answer.json['incident']}: {OWNER}" in caplog.text
    assert clients.call().status_code == 500  # its place was given back


@pytest.mark.parametrize(
    "reply", [None, {"a": 1}, RouteReply(status=500), RouteReply(value=object()), RouteReply(headers={"X-A": "b"})]
)
def test_what_is_no_answer_is_the_plugins_failure(api: Api, reply: Any) -> None:
    answer = Clients(api, lambda site: [route(lambda call: reply)]).call()
    assert (answer.status_code, answer.json["type"]) == (500, "urn:xwheel:problem:plugin-failed")


def test_refusals_are_problems_with_a_reason(api: Api) -> None:
    def refuse(call: RouteCall) -> RouteReply:
        raise RouteRefusedError(409, "toy_in_use", "the toy is in use", field="toy", facts={"by": [3]})

    def conflict(call: RouteCall) -> RouteReply:
        raise ConflictError("not now")

    clients = Clients(api, lambda site: [route(refuse), route(conflict, path="/two")])
    assert clients.call().json == {
        "type": "urn:xwheel:problem:plugin-refused",
        "title": "A plugin refuses this",
        "status": 409,
        "detail": "the toy is in use",
        "field": "toy",
        "reason": "toy_in_use",
        "facts": {"by": [3]},
    }
    assert clients.call(path="/two").json["type"] == "urn:xwheel:problem:conflict"


def test_a_body_comes_in_pieces_and_has_a_limit(api: Api) -> None:
    def count(call: RouteCall) -> RouteReply:
        sizes = []
        while piece := call.body.read(1024 * 1024):
            sizes.append(len(piece))
        return RouteReply(value={"sum": sum(sizes), "most": max(sizes, default=0)})

    clients = Clients(
        api, lambda site: [route(count, "POST", max_body_bytes=200_000), route(count, "PUT", max_body_bytes=0)]
    )
    assert clients.call("POST", body=b"x" * 200_000).json == {"sum": 200_000, "most": 65_536}
    for method, size in (("POST", 200_001), ("PUT", 1)):
        answer = clients.call(method, body=b"x" * size)
        assert (answer.status_code, answer.json["type"]) == (413, "urn:xwheel:problem:body-too-large")
    assert clients.routes.limit_of("POST", "/api/v1/toys") == 200_000
    assert clients.routes.limit_of("PUT", "/api/v1/toys") == clients.routes.limit_of("POST", "/api/v1/jobs") == 0
    reader = Actor(kind=ActorKind.TOKEN, grants=Grants())
    assert clients.routes.refuses_body(reader, "POST", "/api/v1/toys")
    assert not clients.routes.refuses_body(reader, "POST", "/api/v1/jobs")


def test_json_bodies_are_read_as_ours(api: Api) -> None:
    clients = Clients(api, lambda site: [route(lambda call: RouteReply(value=call.json()), "POST")])
    assert clients.call("POST", body=b'{"a": 1}').json == {"a": 1}
    assert clients.call("POST").json == {}
    assert [clients.call("POST", body=body).status_code for body in (b"{", b"[]", b"[" * 100_000)] == [400, 422, 400]


def test_changes_are_recorded(api: Api) -> None:
    def quiet(call: RouteCall) -> RouteReply:
        return RouteReply()

    def make(site: PluginSite) -> Sequence[Route]:
        def careful(call: RouteCall) -> RouteReply:
            site.database.transaction(lambda conn: site.record(conn, "toy.paint", "toy", 5, after={"red": True}))
            return RouteReply()

        return [route(quiet, "DELETE", "/{toy_id:id}"), route(careful, "PUT", "/{toy_id:id}"), route(quiet)]

    plugins = dataclasses.replace(api.parts.plugins, recorders=recorders())
    parts = with_parts(api.parts, plugins=plugins, audit=AuditTrail(plugins, api.db, api.clock))
    clients = Clients(dataclasses.replace(api, parts=parts), make)
    for method, path in (("DELETE", "/5"), ("PUT", "/5"), ("GET", "")):
        assert clients.call(method, path).status_code == 204
    assert [(row["action"], row["object_id"], row["actor"]) for row in noted(api.db)] == [
        ("toys.delete", "5", "tests"),
        ("toy.paint", "5", "tests"),
    ]


class Recorded:
    """Routes of a node with a recorder; ``/careless`` writes and records nothing, ``/jobs`` makes a job."""

    def __init__(self, api: Api) -> None:
        self.db = api.db
        self.recorder = NoteRecorder()
        self.lost_races = 0
        plugins = dataclasses.replace(api.parts.plugins, recorders=recorders(self.recorder))
        audit = AuditTrail(plugins, api.db, api.clock)
        api.parts.jobs.history = dataclasses.replace(api.parts.jobs.history, audit=audit)
        self.group_id = group(api, "mine")
        parts = with_parts(api.parts, plugins=plugins, audit=audit)
        self.clients = Clients(dataclasses.replace(api, parts=parts), self.make)

    def make(self, site: PluginSite) -> Sequence[Route]:
        def write(conn: Any) -> None:
            settings.insert_setting(conn, "toy", "red")
            if self.lost_races:
                self.lost_races -= 1
                raise OperationalError("COMMIT", {}, sqlite3.OperationalError("database is locked"))

        def careless(call: RouteCall) -> RouteReply:
            site.database.transaction(write)
            site.database.transaction(lambda conn: settings.insert_setting(conn, "second", "blue"))
            return RouteReply()

        def fail(call: RouteCall) -> RouteReply:
            site.database.transaction(write)
            raise RouteRefusedError(409, "toys_gone", "there are none left")

        def elsewhere(call: RouteCall) -> RouteReply:
            return RouteReply()

        def jobs(call: RouteCall) -> RouteReply:
            return RouteReply(value=site.jobs.create({**JOB, "group_id": self.group_id}))

        def record_and_fail(conn: Any) -> None:
            site.record(conn, "toy.paint", "toy", 5)
            raise ValueError("no paint")

        def half(call: RouteCall) -> RouteReply:
            with suppress(ValueError):
                site.database.transaction(record_and_fail)
            site.database.transaction(write)
            return RouteReply()

        answers = {"careless": careless, "fail": fail, "elsewhere": elsewhere, "jobs": jobs, "half": half}
        return [route(answer, "POST", f"/{name}") for name, answer in answers.items()]

    def settings(self) -> list[str]:
        with self.db.read() as conn:
            return [name for name in ("toy", "second") if settings.find_setting(conn, name)]


@pytest.mark.parametrize(
    ("path", "lost_races", "status", "written", "recorded"),
    [
        pytest.param("/careless", 0, 204, ["toy", "second"], "toys.post", id="nothing is recorded"),
        pytest.param("/careless", 2, 204, ["toy", "second"], "toys.post", id="the transaction is done again"),
        pytest.param("/fail", 0, 409, ["toy"], "toys.post", id="the call is refused after it wrote"),
        pytest.param("/half", 0, 204, ["toy"], "toys.post", id="what was recorded is undone"),
        pytest.param("/jobs", 0, 200, [], "job.create", id="xwheel records the change"),
    ],
)
def test_s27_a_call_that_changes_something_leaves_one_row(
    api: Api, path: str, lost_races: int, status: int, written: list[str], recorded: str
) -> None:
    site = Recorded(api)
    site.lost_races = lost_races
    assert site.clients.call("POST", path).status_code == status
    assert site.settings() == written
    (row,) = noted(api.db)
    assert row["action"] == recorded
    if recorded == "toys.post":
        assert row["detail"]["after"] == {"path": f"/api/v1/toys{path}"}


def test_s27_where_that_cannot_be_recorded_nothing_is_done(api: Api) -> None:
    """It was done, and the caller was told that it was not."""
    site = Recorded(api)
    site.recorder.book.failure = PluginError("the disk is full")
    refused = site.clients.call("POST", "/careless")
    assert (refused.status_code, refused.json["type"]) == (500, "urn:xwheel:problem:not-recorded")
    assert refused.json["detail"] == "nothing was done, since toys.post could not be recorded: the disk is full"
    assert site.settings() == []


def test_s27_what_is_done_elsewhere_and_cannot_be_recorded_is_said_to_be_done(api: Api) -> None:
    site = Recorded(api)
    assert site.clients.call("POST", "/elsewhere").status_code == 204
    assert [row["action"] for row in noted(api.db)] == ["toys.post"]
    site.recorder.book.failure = PluginError("the disk is full")
    told = site.clients.call("POST", "/elsewhere")
    assert (told.status_code, told.json["type"]) == (500, "urn:xwheel:problem:not-recorded")
    assert told.json["detail"] == "toys.post is done, and could not be recorded: the disk is full"


def test_executors_show_their_secret(api: Api) -> None:
    seen: list[tuple[ActorKind, int | None]] = []

    def note(call: RouteCall) -> RouteReply:
        seen.append((call.actor.kind, call.group_id))
        return RouteReply(value={})

    clients = Clients(api, lambda site: [route(note, path="/{toy_id:id}", for_executors=True)])
    assert clients.fetch("/1").status_code == 200
    refused = clients.fetch("/1", token="none-of-theirs-at-all")
    assert (refused.status_code, refused.json["field"]) == (401, TOKEN_HEADER)
    assert clients.fetch("/x").status_code in {200, 404}  # XXL-JOB's envelope answers what is no route
    assert clients.call(path="/1").status_code == 404
    assert seen == [(ActorKind.NODE, None)]


def test_a_file_is_sent_whole_or_in_part(api: Api, tmp_path: Path) -> None:
    path = tmp_path / "toy.bin"
    path.write_bytes(b"0123456789")

    def send(call: RouteCall) -> RouteReply:
        return RouteReply(file=path, file_name='a "toy".bin', headers={"ETag": '"v1"'})

    clients = Clients(api, lambda site: [route(send), route(send, path="/x", for_executors=True)])
    whole = clients.call()
    assert (whole.content, whole.headers["content-length"], whole.headers["accept-ranges"]) == (
        b"0123456789",
        "10",
        "bytes",
    )
    assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20%22toy%22.bin"
    for ask in (clients.call, lambda **more: clients.fetch("/x", **more)):
        part = ask(headers={"Range": "bytes=4-6"})
        assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"456", "bytes 4-6/10")
        assert ask(headers={"Range": "bytes=50-"}).status_code == 416
        assert ask(headers={"Range": "bytes=4-6", "If-Range": '"v0"'}).content == b"0123456789"
    path.unlink()
    assert clients.call().json["type"] == "urn:xwheel:problem:plugin-failed"


def test_jobs_are_changed_as_the_caller(api: Api) -> None:
    mine = group(api, "mine")

    def make(site: PluginSite) -> Sequence[Route]:
        def work(call: RouteCall) -> RouteReply:
            made = site.jobs.create({**JOB, "group_id": mine})
            changed = site.jobs.change(made["id"], {"param": "x"}, revision=made["revision"])
            found = site.jobs.find(mine, "toy")
            restored = site.jobs.restore(made["id"], made["revision"], seen=changed["revision"])
            try:
                site.jobs.restore(made["id"], made["revision"], seen=changed["revision"])
            except RevisionError as error:
                refused = str(error)
            started = site.jobs.start(made["id"])
            run = site.jobs.run(made["id"], param="now")
            runs = [item["id"] for item in site.jobs.open_runs(made["id"])]
            site.jobs.kill(run["id"])
            site.jobs.stop(made["id"])
            site.jobs.delete(made["id"])
            return RouteReply(
                value={
                    "found": found == changed,
                    "restored": (restored["param"], restored["revision"]) == (made["param"], 3),
                    "refused": "revision" in refused,
                    "enabled": started["enabled"],
                    "runs": runs == [run["id"]],
                    "group": site.jobs.group_id("mine"),
                    "left": site.jobs.find(mine, "toy"),
                }
            )

        return [route(work, "POST")]

    clients = Clients(api, make)
    assert clients.call("POST").json == {
        "found": True,
        "restored": True,
        "refused": True,
        "enabled": True,
        "runs": True,
        "left": None,
        "group": mine,
    }
    assert clients.call("POST", token=viewer_of(api, mine)).status_code == 403


def test_a_plugin_knows_which_partitions_the_node_holds(api: Api) -> None:
    seen: list[PluginSite] = []
    Clients(api, lambda site: seen.append(site) or [route(say)])  # type: ignore[func-returns-value]
    (site,) = seen
    lease = api.parts.lease
    assert lease is not None
    assert list(site.partitions.held()) == []
    lease.acquire()
    assert set(site.partitions.held()) == set(range(64))
    assert api.db.transaction(lambda conn: set(site.partitions.lock(conn))) == set(range(64))
    lease.halt()
    assert list(site.partitions.held()) == []


def test_a_process_that_is_no_node_holds_no_partition(api: Api) -> None:
    seen: list[PluginSite] = []
    outside = dataclasses.replace(api, parts=with_parts(api.parts, lease=None))
    Clients(outside, lambda site: seen.append(site) or [route(say)])  # type: ignore[func-returns-value]
    (site,) = seen
    assert list(site.partitions.held()) == []
    assert api.db.transaction(lambda conn: list(site.partitions.lock(conn))) == []


def test_a_plugin_finds_what_others_register(api: Api) -> None:
    seen: list[PluginSite] = []
    Clients(api, lambda site: seen.append(site) or [route(say)])  # type: ignore[func-returns-value]
    (site,) = seen
    assert "BEAN" in site.registered("xwheel_register_glue_types")
    with pytest.raises(KeyError):
        site.registered("xwheel_register_nothing")
