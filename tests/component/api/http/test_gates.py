"""Gates of plugins in front of the management API: whom they let in, whom they refuse, and what their failures do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from xwheel_devtools.testing import wait_until

from tests.component.api.conftest import TOKEN, Api, make_api
from tests.support.recorder import NoteRecorder, recorders
from xwheel.errors import OutageError, PluginError
from xwheel.model.access import ALL, Actor, ActorKind, Grant, Grants, Role
from xwheel.plugin import AuthError, CallHead, ForbiddenError, TokenOwner
from xwheel.plugin.registries import Registry
from xwheel.runtime.foreign import MOST_HANGING
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database

VIEWER = Grants(Grant(Role.VIEWER))
Identify = Callable[[CallHead], Any]


class Badges:
    """A gate that does what a test says."""

    name = "badges"
    headers = ("x-badge",)
    cookies = ("badge",)

    def __init__(self, identify: Identify, known: Mapping[int, TokenOwner] | None = None) -> None:
        self._identify = identify
        self.known: Any = known or {}
        self.asked: list[CallHead] = []

    def open(self, site: object) -> Badges:
        del site
        return self

    def identify(self, call: CallHead) -> Any:
        self.asked.append(call)
        return self._identify(call)

    def owners(self, conn: object, ids: Collection[int]) -> Mapping[int, TokenOwner]:
        del conn, ids
        if isinstance(self.known, BaseException):
            raise self.known
        found: Mapping[int, TokenOwner] = self.known
        return found


def person(name: str = "ann", grants: Grants = VIEWER, **more: Any) -> Actor:
    return Actor(kind=ActorKind.ACCOUNT, name=name, grants=grants, credential="badge 7", **more)


def with_gates(db: Database, *gates: Any, **settings: Any) -> Api:
    registry = Registry("gate", {gate.name: gate for gate in gates}, {})
    return make_api(db, settings, gates=registry, recorders=recorders(NoteRecorder()))


def show(api: Api, path: str = "groups", method: str = "GET", badge: str = "7", **headers: str) -> Any:
    shown = {**({"X-Badge": badge} if badge else {}), **headers}
    return api.management.simulate_request(method, f"/api/v1/{path}", headers=shown)


def refused(api: Api) -> list[Any]:
    found: list[Any] = api.parts.audit._book.refused  # type: ignore[union-attr]
    return found


def test_who_a_gate_knows_may_do_what_it_says_and_no_more(db: Database) -> None:
    api = with_gates(db, Badges(lambda call: person(call.headers["x-badge"])))
    assert show(api).status_code == 200
    answer = api.management.simulate_post("/api/v1/groups", headers={"X-Badge": "7"}, json={"app_name": "x"})
    assert (answer.status_code, answer.json["type"]) == (403, "urn:xwheel:problem:forbidden")
    (call,) = refused(api)
    assert (call.actor.name, call.actor.credential, call.route) == ("7", "badge 7", "POST /api/v1/groups")


def test_grants_in_a_group_open_that_group(db: Database) -> None:
    api = with_gates(db, Badges(lambda call: person(grants=Grants(groups={1: Grant(Role.ADMIN)}))))
    first, second = api.group("one"), api.group("two")
    assert show(api, f"groups/{first}").status_code == 200
    assert show(api, f"groups/{second}").status_code == 404
    assert [item["id"] for item in show(api).json["items"]] == [first]


def test_a_gate_is_shown_the_head_of_a_call(db: Database) -> None:
    gate = Badges(lambda call: person())
    api = with_gates(db, gate, trusted_proxies=["10.0.0.9"])
    api.management.simulate_get(
        "/api/v1/groups",
        params={"limit": "5"},
        headers={
            "Cookie": "badge=a; other=b; badge=c",
            "X-Forwarded-For": "192.0.2.7",
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "jobs.example.com",
        },
        remote_addr="10.0.0.9",
    )
    (call,) = gate.asked
    assert (call.method, call.path) == ("GET", "/api/v1/groups")
    assert (call.address, call.peer, call.host, call.is_https) == ("192.0.2.7", "10.0.0.9", "jobs.example.com", True)
    assert call.cookies == {"badge": ("a", "c")}
    assert call.headers["x-forwarded-for"] == "192.0.2.7"


def test_a_gate_is_asked_only_of_calls_that_show_what_it_looks_at(db: Database) -> None:
    gate = Badges(lambda call: person())
    api = with_gates(db, gate)
    assert show(api, badge="").status_code == 401
    assert show(api, badge="", Authorization=f"Bearer {TOKEN}").status_code == 200
    assert show(api, badge="", Cookie="other=1").status_code == 401
    assert gate.asked == []
    assert show(api, badge="", Cookie="badge=1").status_code == 200
    assert len(gate.asked) == 1


def test_what_is_none_of_a_gates_is_for_the_next_and_then_for_tokens(db: Database) -> None:
    first, second = Badges(lambda call: None), Badges(lambda call: person("bob", VIEWER))
    first.name, second.name = "a", "b"
    api = with_gates(db, second, first)
    assert show(api).status_code == 200
    assert (len(first.asked), len(second.asked)) == (1, 1)
    alone = make_alone(db, first)
    assert show(alone).status_code == 401
    assert show(alone, Authorization=f"Bearer {TOKEN}").status_code == 200


def make_alone(db: Database, *gates: Any) -> Api:
    """Return the application of another process on the same database."""
    db.transaction(lambda conn: conn.execute(tokens.api_token.delete()))
    return with_gates(db, *gates)


class StolenError(AuthError):
    caller = person("ann", account_id=7)


class StrangePageError(ForbiddenError):
    caller = person("eve")


def test_a_gate_may_refuse_and_say_who_was_refused(db: Database) -> None:
    errors = iter(
        [AuthError("X-Badge: it has ended"), StolenError("X-Badge: it was stolen"), StrangePageError("badge", "no")]
    )

    def refuse(call: CallHead) -> None:
        raise next(errors)

    api = with_gates(db, Badges(refuse))
    good = {"Authorization": f"Bearer {TOKEN}"}
    first, second, third = (show(api, **good) for _ in range(3))
    assert [answer.status_code for answer in (first, second, third)] == [401, 401, 403]
    assert first.json["detail"] == "X-Badge: it has ended"
    assert [call.actor.name for call in refused(api)] == ["", "ann", "eve"]
    assert refused(api)[1].actor.account_id == 7


def test_what_the_database_cannot_do_now_is_no_refusal(db: Database) -> None:
    def away(call: CallHead) -> None:
        raise OutageError("the database is away")

    assert show(with_gates(db, Badges(away))).status_code == 503


def leave(call: CallHead) -> None:
    raise SystemExit(0)


def stumble(call: CallHead) -> None:
    raise KeyError("no badge")


def blame(call: CallHead) -> None:
    raise PluginError("something else")


@pytest.mark.parametrize(
    "identify",
    [
        leave,
        stumble,
        blame,
        lambda call: "ann",
        lambda call: True,
        lambda call: person(grants="all"),
        lambda call: Actor(kind=ActorKind.NODE, grants=ALL),
        lambda call: Actor(kind=ActorKind.GROUP, name="orders", grants=ALL),
    ],
)
def test_one_that_fails_lets_nobody_in_by_it(
    db: Database, identify: Identify, caplog: pytest.LogCaptureFixture
) -> None:
    api = with_gates(db, Badges(identify))
    with caplog.at_level(logging.ERROR):
        answer = show(api)
    assert answer.status_code == 401
    assert answer.json["detail"].startswith("gate badges: the plugin failed to say who calls")
    assert "no one is let in by it: gate badges" in caplog.text
    assert show(api, Authorization="Bearer wrong").status_code == 401
    # others are not kept out by it
    assert show(api, Authorization=f"Bearer {TOKEN}").status_code == 200


def test_a_gate_that_cannot_be_opened_stops_the_start(db: Database) -> None:
    gate = Badges(lambda call: None)
    gate.open = lambda site: None  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(PluginError, match="gate badges: open"):
        with_gates(db, gate)


def test_s26_a_gate_that_hangs_holds_a_call_for_its_time_and_is_then_not_asked(db: Database) -> None:
    hangs = threading.Event()
    gate = Badges(lambda call: person() if hangs.wait(20) else None)
    api = with_gates(db, gate)
    api.parts.foreign.timeout_s = 0.05
    for _ in range(MOST_HANGING + 16):
        answer = show(api)
        assert (answer.status_code, answer.json["type"]) == (503, "urn:xwheel:problem:busy")
    assert len(gate.asked) == MOST_HANGING
    assert api.call("GET", "groups").status_code == 200  # a token shows nothing of the gate's
    hangs.set()
    wait_until(lambda: not api.parts.foreign.hanging())
    assert show(api).status_code == 200


@pytest.mark.parametrize("trusted", [(), ("badges",)])
def test_s26_a_gate_that_is_trusted_is_asked_at_once(db: Database, trusted: tuple[str, ...]) -> None:
    threads: list[str] = []

    def identify(call: CallHead) -> Actor:
        threads.append(threading.current_thread().name)
        return person()

    gate = Badges(identify)
    registry = Registry("gate", {gate.name: gate}, {}, trusted)
    api = make_api(db, {}, gates=registry, recorders=recorders(NoteRecorder()))
    assert show(api).status_code == 200
    assert threads == [threading.current_thread().name if trusted else "xwheel-plugin-gate badges"]


class TestTokensOfAccounts:
    """Tokens that belong to accounts open what a gate says that their owners may do."""

    def token(self, api: Api, grants: Grants = ALL) -> str:
        api.db.transaction(
            lambda conn: tokens.insert_token(conn, "own", "secret-of-ann", 1, grants=grants, account_id=7)
        )
        return "Bearer secret-of-ann"

    def call(self, api: Api, method: str = "GET", path: str = "tokens", body: object = None) -> Any:
        api.clock.advance(1000)  # a change counts a second later
        headers = {"Authorization": "Bearer secret-of-ann"}
        return api.call(method, path, body, headers=headers)

    def test_without_a_gate_that_knows_accounts_they_open_nothing(self, db: Database) -> None:
        api = make_api(db, {})
        self.token(api)
        assert self.call(api).status_code == 401
        listed = api.call("GET", "tokens").json["items"][0]
        assert (listed["name"], listed["account_id"], listed["account_name"]) == ("own", 7, None)

    def test_they_may_no_more_than_their_owner_may_now(self, db: Database) -> None:
        gate = Badges(lambda call: None, {7: TokenOwner(name="ann", grants=ALL)})
        api = with_gates(db, gate)
        self.token(api)
        assert self.call(api).json["items"][0]["account_name"] == "ann"
        assert self.call(api, "POST", "groups", {"app_name": "one"}).status_code == 201
        gate.known = {7: TokenOwner(name="ann", grants=VIEWER)}
        assert self.call(api, "GET", "groups").status_code == 200
        assert self.call(api, "POST", "groups", {"app_name": "two"}).status_code == 403
        gate.known = {7: TokenOwner(name="ann", grants=ALL, is_shut_out=True)}
        assert self.call(api).status_code == 401
        gate.known = {}
        assert self.call(api).status_code == 401

    @pytest.mark.parametrize("known", [KeyError(7), {7: "ann"}, None, {7: TokenOwner(name="ann", grants="all")}])  # type: ignore[arg-type]
    def test_a_gate_that_fails_opens_none(self, db: Database, known: Any) -> None:
        gate = Badges(lambda call: None)
        api = with_gates(db, gate)
        self.token(api)
        gate.known = known
        assert self.call(api).status_code == 401

    def test_who_lost_a_role_a_moment_ago_gives_nothing_away(self, db: Database) -> None:
        # what a gate says of a caller may be a second old; owners() is asked in the transaction
        gate = Badges(
            lambda call: person(grants=ALL, account_id=7, confirmed=True), {7: TokenOwner(name="ann", grants=ALL)}
        )
        api = with_gates(db, gate)
        headers = {"X-Badge": "7"}
        made = api.management.simulate_post("/api/v1/tokens", headers=headers, json={"name": "one"})
        assert made.status_code == 201, made.text
        gate.known = {7: TokenOwner(name="ann", grants=VIEWER)}
        answer = api.management.simulate_post("/api/v1/tokens", headers=headers, json={"name": "more"})
        assert (answer.status_code, answer.json["detail"]) == (
            403,
            "no one gives away more than they may do themselves",
        )
