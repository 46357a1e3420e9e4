"""Calls of plugins on the executor API: who gets in, what is handed over, and what is refused or fails."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import falcon
import falcon.testing
import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, LIMIT, Api
from tests.component.api.plugins.test_routes import OWNER
from tests.support.job_calls import Tenant
from tests.support.parts import with_parts
from tests.support.recorder import NoteRecorder, noted, recorders
from xwheel.api.app import executor_app
from xwheel.api.http.auth import ExecutorGate
from xwheel.errors import ConfigError, FieldError, HiddenError, PluginError
from xwheel.model.access import NODE, Actor, ActorKind, Permission, current_actor
from xwheel.plugin import GroupCall, GroupReply, PluginSite
from xwheel.plugin.registries import Registry
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage import settings
from xwheel.wire.contract import APP_NAME_HEADER, TOKEN_HEADER

OTHER = "theirs 2.0 (entry point theirs = theirs)"


class Toys:
    title = "toy calls"

    def __init__(self, name: str = "toys", **calls: Any) -> None:
        self.name = name
        self._calls = calls

    def calls(self, site: PluginSite) -> Mapping[str, Callable[[GroupCall], GroupReply]]:
        return self._calls


def app_with(api: Api, *toys: Any) -> falcon.testing.TestClient:
    owners = dict(zip([item.name for item in toys], (OWNER, OTHER), strict=False))
    registry = Registry("set of group calls", {item.name: item for item in toys}, owners)
    plugins = dataclasses.replace(api.parts.plugins, group_calls=registry)
    return falcon.testing.TestClient(executor_app(with_parts(api.parts, plugins=plugins)))


def tenant_of(api: Api, **calls: Any) -> Tenant:
    return Tenant(api.db, app_with(api, Toys(**calls)).app, "orders")


def answer(call: GroupCall) -> GroupReply:
    return GroupReply(message="played", content={"body": call.read().decode()})


def test_a_call_is_made_as_the_group_whose_token_is_shown(api: Api) -> None:
    seen: list[GroupCall] = []

    def play(call: GroupCall) -> GroupReply:
        assert current_actor() is call.actor
        seen.append(call)
        return answer(call)

    orders = tenant_of(api, playToy=play)
    found = orders.call("playToy", b"a body")
    assert (found["code"], found["msg"], found["data"]) == (200, "played", {"body": "a body"})
    (call,) = seen
    assert (call.name, call.group_id, call.app_name) == ("playToy", orders.group_id, "orders")
    assert (call.actor.kind, call.actor.name) == (ActorKind.GROUP, "orders")
    assert call.actor.grants.groups_with(Permission.EDIT) == {orders.group_id}
    assert current_actor() is NODE
    posted = orders.client.simulate_post(
        "/xxl-job-admin//api/playToy/", headers={TOKEN_HEADER: orders.token, APP_NAME_HEADER: "orders"}
    )
    assert posted.json["msg"] == "played"


def test_a_plain_answer_has_the_usual_words(api: Api) -> None:
    orders = tenant_of(api, playToy=lambda call: GroupReply(), breakToy=lambda call: GroupReply(code=502))
    assert orders.call("playToy", {})["msg"] == "Success"
    assert orders.call("breakToy", {}) == {
        "code": 502,
        "msg": "Fail",
        "content": None,
        "data": None,
        "success": False,
        "xwheel": 1,
    }


def test_the_tokens_of_executors_open_none(api: Api) -> None:
    app = app_with(api, Toys(playToy=lambda call: pytest.fail("called")))
    secret = api.call("POST", "secrets", {"name": "s", "group_id": api.group("orders")}).json["secret"]
    for token, headers in product((EXECUTOR_TOKEN, secret), ({}, {APP_NAME_HEADER: "orders"})):
        found = app.simulate_post("/api/playToy", body=b"{}", headers={TOKEN_HEADER: token, **headers})
        assert (found.status_code, found.json["code"]) == (200, 500)
        assert found.json["msg"].startswith(f"{TOKEN_HEADER}: the token of executors opens no toy calls; ")
    assert "missing or wrong" in app.simulate_post("/api/playToy", body=b"{}").json["msg"]


def test_a_large_body_is_refused_when_it_is_read(api: Api) -> None:
    orders = tenant_of(api, readToy=answer, refuseToy=lambda call: GroupReply(code=502, message="no"))
    body = b"x" * (LIMIT + 1)
    assert orders.post("readToy", body).status_code == 413
    assert orders.post("refuseToy", body).json["msg"] == "no"


def test_unknown_calls_are_told_all_that_are_known(api: Api) -> None:
    assert Tenant(api.db, api.executor.app, "orders").refused("playToy", {}) == (
        "/api/playToy: no such call; known: callback, registry, registryRemove, shipLogs"
    )
    headers = {TOKEN_HEADER: "token-of-orders", APP_NAME_HEADER: "orders"}
    found = app_with(api, Toys(playToy=answer)).simulate_post("/api/none", body=b"{}", headers=headers)
    assert found.json["msg"].endswith("known: callback, playToy, registry, registryRemove, shipLogs")


def test_what_a_call_refuses_is_said_and_counted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[str, str]] = []

    def note(gate: ExecutorGate, req: falcon.Request, actor: Actor, why: Exception) -> None:
        counted.append((actor.name, f"{req.path}: {why}"))

    monkeypatch.setattr(ExecutorGate, "note_refused", note)

    def hide(call: GroupCall) -> GroupReply:
        raise HiddenError("toy", 7)

    def refuse(call: GroupCall) -> GroupReply:
        raise FieldError("toy", "must be round")

    orders = tenant_of(api, hideToy=hide, refuseToy=refuse)
    assert orders.refused("hideToy", {}) == "toy 7 does not exist"
    assert orders.refused("refuseToy", {}) == "toy: must be round"
    assert counted == [("orders", "/api/hideToy: toy 7 does not exist")]


class Ending(BaseException):
    def __str__(self) -> str:
        raise ValueError("no words")


def raising(error: BaseException) -> Callable[[GroupCall], GroupReply]:
    def fail(call: GroupCall) -> GroupReply:
        raise error

    return fail


FAILING: dict[str, Any] = {
    "raises": raising(KeyError("a secret")),
    "exits": raising(SystemExit(3)),
    "ends": raising(Ending()),
    "nothing": lambda call: None,
    "text": lambda call: "yes",
    "code": lambda call: GroupReply(code=99),
    "no number": lambda call: GroupReply(code=True),
    "words": lambda call: GroupReply(message=b"yes"),  # type: ignore[arg-type]
    "content": lambda call: GroupReply(content=object()),
}


@pytest.mark.parametrize("fail", FAILING.values(), ids=FAILING)
def test_a_plugin_that_fails_ends_its_call_alone(
    api: Api, caplog: pytest.LogCaptureFixture, fail: Callable[[GroupCall], GroupReply]
) -> None:
    orders = tenant_of(api, breakToy=fail, playToy=answer)
    with caplog.at_level(logging.ERROR):
        message = orders.refused("breakToy", {})
    words, _, incident = message.rpartition(" ")
    assert words == "internal error; the scheduler's log has incident"
    assert f"incident {incident}" in caplog.text
    assert "secret" not in message
    assert current_actor() is NODE
    assert orders.call("playToy", {})["code"] == 200


def test_the_log_names_the_plugin_that_failed(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    orders = tenant_of(api, breakToy=raising(KeyError("why")))
    with caplog.at_level(logging.ERROR):
        orders.refused("breakToy", {})
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == f"{OWNER} fails in breakToy: KeyError: 'why'"


@pytest.mark.parametrize(
    ("toys", "words"),
    [
        ([Toys(registry=answer)], "xwheel itself answers registry already"),
        ([Toys(shipLogs=answer)], "xwheel itself answers shipLogs already"),
        ([Toys(playToy=answer), Toys("zebras", playToy=answer)], f"{OWNER} answers playToy already"),
        ([Toys(**{"play/toy": answer})], "a call's name has 1 to 64 letters and digits, not 'play/toy'"),
        ([Toys(**{"": answer})], "a call's name has 1 to 64 letters and digits, not ''"),
        ([Toys(**{"x" * 65: answer})], "a call's name has 1 to 64 letters"),
        ([Toys(playToy="yes")], "what answers playToy cannot be called"),
        ([Toys(**{f"toy{number}": answer for number in range(101)})], "at most 100 functions by name"),
    ],
)
def test_calls_that_cannot_be_served_stop_the_start(api: Api, toys: list[Toys], words: str) -> None:
    with pytest.raises(PluginError) as caught:
        app_with(api, *toys)
    assert words in str(caught.value)
    assert str(caught.value).startswith(OTHER if len(toys) > 1 else OWNER)


@pytest.mark.parametrize("error", [KeyError("toy"), SystemExit(3)])
def test_calls_that_cannot_be_made_stop_the_start(api: Api, error: BaseException) -> None:
    toys = Toys()

    def calls(site: PluginSite) -> Any:
        raise error

    toys.calls = calls  # type: ignore[method-assign]
    with pytest.raises(PluginError, match="group calls toys failed"):
        app_with(api, toys)
    toys.calls = lambda site: ["playToy"]  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(PluginError, match="functions by name"):
        app_with(api, toys)


def test_a_setting_that_cannot_be_used_is_said_as_it_is(api: Api) -> None:
    toys = Toys()

    def calls(site: PluginSite) -> Any:
        raise ConfigError("api.toys: must be round")

    toys.calls = calls  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match=r"^api\.toys: must be round$"):
        app_with(api, toys)


def test_there_may_be_none(api: Api) -> None:
    found = app_with(api, Toys()).simulate_post("/api/x", headers={TOKEN_HEADER: EXECUTOR_TOKEN})
    assert found.json["msg"].endswith("known: callback, registry, registryRemove, shipLogs")


def test_s27_a_call_that_changes_something_and_records_nothing_leaves_a_row(api: Api) -> None:
    recorder = NoteRecorder()
    known = dataclasses.replace(api.parts.plugins, recorders=recorders(recorder))
    audit = AuditTrail(known, api.db, api.clock)

    def write(call: GroupCall) -> GroupReply:
        api.db.transaction(lambda conn: settings.insert_setting(conn, "toy", "red"))
        return GroupReply()

    changed = dataclasses.replace(api, parts=with_parts(api.parts, plugins=known, audit=audit))
    orders = tenant_of(changed, playToy=answer, paintToy=write)
    assert orders.call("playToy", {})["code"] == 200
    recorder.book.failure = PluginError("the disk is full")
    assert orders.call("paintToy", {})["code"] == 500
    recorder.book.failure = None
    assert orders.call("paintToy", {})["code"] == 200
    assert [(row["action"], row["object_id"], row["actor"]) for row in noted(api.db)] == [
        ("call.change", "paintToy", "orders")
    ]
