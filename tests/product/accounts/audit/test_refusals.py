"""Refused calls: few rows, no matter who calls and how often, and none that is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import select
from xwheel_accounts.audit.records import AuditRow
from xwheel_accounts.audit.refusals import MOST_ADDRESSES, MOST_KNOWN, MOST_OF_ACTOR, WINDOW_MS, RefusalLog
from xwheel_accounts.tables import audit

from tests.product.accounts.audit.conftest import NOW, World
from xwheel.errors import DatabaseUnreachableError
from xwheel.model.access import UNKNOWN_ACTOR, Actor, ActorKind
from xwheel.plugin import RefusedCall

ALICE = Actor(kind=ActorKind.ACCOUNT, name="alice", account_id=3, credential="session 1", address="192.0.2.1")
ROUTE = "PATCH /api/v1/jobs/{job_id:id}"


class Notes(RefusalLog):
    """A log whose steps a loop takes, told of calls field by field."""

    def __init__(self, world: World, *, is_stepped: bool = True) -> None:
        super().__init__(world.db, world.keys)
        self._clock = world.clock
        self._is_stepped = is_stepped

    def tell(self, listener: str, actor: Actor, address: str, route: str, path: str, why: str) -> None:
        call = RefusedCall(
            listener=listener,
            actor=actor,
            address=address,
            route=route,
            path=path,
            told=why,
            at_ms=self._clock.now_ms(),
        )
        self.note(call)


@pytest.fixture
def log(world: World) -> Notes:
    return Notes(world)


def rows(world: World) -> list[AuditRow]:
    with world.db.read() as conn:
        return [AuditRow(**row._mapping) for row in conn.execute(select(audit).order_by(audit.c.id))]


def refuse(log: Notes, actor: Actor = ALICE, route: str = ROUTE, path: str = "/api/v1/jobs/5") -> None:
    log.tell("api", actor, actor.address or "192.0.2.9", route, path, "this takes the permission edit")


def said(row: AuditRow) -> dict[str, object]:
    found: dict[str, object] = json.loads(row.detail)["after"]
    return found


def test_the_first_refusal_of_an_actor_and_route_is_a_row_at_once(world: World, log: Notes) -> None:
    refuse(log)
    assert log.step(NOW) == 1000
    (row,) = rows(world)
    assert (row.action, row.object_kind, row.object_id) == ("call.refuse", "route", ROUTE)
    assert (row.actor, row.account_id, row.credential, row.outcome) == ("alice", 3, "session 1", "refused")
    assert said(row) == {"path": "/api/v1/jobs/5", "told": "this takes the permission edit"}


def test_ten_thousand_refused_calls_are_a_handful_of_rows(world: World, log: Notes) -> None:
    for number in range(5000):
        refuse(log, path=f"/api/v1/jobs/{number}")
        log.tell("api", UNKNOWN_ACTOR, f"198.51.100.{number % 250}", f"GET /x{number}", f"/x{number}", "who?")
        world.clock.advance(1)
    log.step(world.clock.now_ms())
    world.clock.advance(WINDOW_MS)
    log.step(world.clock.now_ms())
    found = rows(world)
    assert len(found) == 3
    first, unknown, again = found
    assert said(first)["path"] == "/api/v1/jobs/0"
    assert said(again)["calls"] == 4999
    assert (unknown.object_kind, unknown.object_id, unknown.actor_kind) == ("listener", "api", "unknown")
    assert said(unknown)["calls"] == 5000
    addresses, routes = said(unknown)["addresses"], said(unknown)["routes"]
    assert isinstance(addresses, dict)
    assert isinstance(routes, dict)
    assert sum(addresses.values()) == sum(routes.values()) == 5000
    assert len(addresses) <= 6
    assert len(routes) <= 6
    assert all(name.startswith("198.51.100.") for name in set(addresses) - {"others"})
    assert all(name.startswith("GET /x") for name in set(routes) - {"others"})
    assert min(len(set(addresses) - {"others"}), len(set(routes) - {"others"})) >= 4


def test_very_many_actors_take_little_memory_and_few_rows(world: World, log: Notes) -> None:
    for number in range(MOST_KNOWN + 500):
        refuse(log, Actor(kind=ActorKind.TOKEN, name=f"t{number}", credential=f"token t{number}"))
    world.clock.advance(WINDOW_MS)
    log.step(world.clock.now_ms())
    found = rows(world)
    assert len(found) == MOST_KNOWN + 1
    rest = found[-1]
    assert rest.object_id == "api, known callers"
    assert said(rest)["calls"] == 500


def test_addresses_of_an_actor_are_counted_apart_and_not_too_many(world: World, log: Notes) -> None:
    refuse(log)
    for number in range(300):
        for _ in range(3 if number == 7 else 1):
            log.tell("api", ALICE, f"198.51.{number // 250}.{number % 250}", ROUTE, "/api/v1/jobs/5", "no")
    (known,) = log._known.values()
    assert len(known.addresses) <= MOST_ADDRESSES + 1
    world.clock.advance(WINDOW_MS)
    log.step(world.clock.now_ms())
    _, again = rows(world)
    addresses = said(again)["addresses"]
    assert isinstance(addresses, dict)
    assert said(again)["calls"] == sum(addresses.values()) == 302
    assert addresses["198.51.0.7"] == 3
    assert len(addresses) <= 6


def test_who_is_refused_everywhere_hides_nobody_else(world: World, log: Notes) -> None:
    for number in range(MOST_KNOWN + 50):
        # another session and address each time
        actor = replace(ALICE, credential=f"session {number}", address=f"192.0.2.{number}")
        refuse(log, actor, f"GET /r{number}")
    bob = Actor(kind=ActorKind.ACCOUNT, name="bob", account_id=4, credential="session 9", address="192.0.2.77")
    refuse(log, bob)
    world.clock.advance(WINDOW_MS)
    log.step(world.clock.now_ms())
    found = rows(world)
    assert [row.actor for row in found] == ["alice"] * MOST_OF_ACTOR + ["bob", "alice"]
    rest = found[-1]
    assert (rest.object_kind, rest.object_id, rest.outcome) == ("route", "others", "refused")
    assert said(rest)["calls"] == MOST_KNOWN + 50 - MOST_OF_ACTOR
    routes = said(rest)["routes"]
    assert isinstance(routes, dict)
    assert sum(routes.values()) == said(rest)["calls"]
    # and counts again in the next window
    refuse(log)
    log.step(world.clock.now_ms())
    assert rows(world)[-1].object_id == ROUTE


def test_each_window_begins_anew(world: World, log: Notes) -> None:
    for _ in range(3):
        refuse(log)
        refuse(log)
        world.clock.advance(WINDOW_MS)
        log.step(world.clock.now_ms())
    assert len(rows(world)) == 6


def test_a_clock_that_goes_back_ends_a_window(world: World, log: Notes) -> None:
    log.tell("api", UNKNOWN_ACTOR, "192.0.2.1", "GET /", "/", "who?")
    log.step(NOW - 10_000_000)
    assert len(rows(world)) == 1


def test_what_is_under_way_is_written_at_the_end(world: World, log: Notes) -> None:
    log.tell("executor-api", UNKNOWN_ACTOR, "192.0.2.1", "POST /api/registry", "/api/registry", "who?")
    log.end()
    (row,) = rows(world)
    assert row.object_id == "executor-api"


def test_rows_wait_for_a_database_that_is_away(world: World, log: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(log)

    def away(_: object) -> None:
        raise DatabaseUnreachableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(world.db, "transaction", away)
        with pytest.raises(DatabaseUnreachableError):
            log.step(NOW)
    log.step(NOW)
    log.step(NOW)
    assert len(rows(world)) == 1


def test_without_loops_the_thread_of_the_call_writes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Notes(world, is_stepped=False)
    refuse(log)
    assert len(rows(world)) == 1
    refuse(log)
    world.clock.advance(WINDOW_MS)
    refuse(log)
    assert len(rows(world)) == 3

    def away(_: object) -> None:
        raise DatabaseUnreachableError("away")

    world.clock.advance(WINDOW_MS)
    monkeypatch.setattr(world.db, "transaction", away)
    refuse(log)  # is refused as ever
