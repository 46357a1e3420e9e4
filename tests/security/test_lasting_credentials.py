"""Passwords, tokens and secrets are made by a person who is there: every route that makes one, with every credential.

The routes are read from the application. A route that answers with a secret, or that changes sign-ins, tokens, secrets
or accounts, must stand in a table here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from xwheel_accounts.browsers import COOKIE, CSRF_HEADER
from xwheel_accounts.sessions import csrf_token

from tests.product.accounts.conftest import PeopleApi
from tests.product.accounts.people import DESK, PASSWORD, Person
from tests.support.bare_app import OPERATIONS
from tests.support.route_calls import CALLS, RouteCall, World
from tests.support.rows import NOW
from xwheel.model.access import ALL
from xwheel.storage.access import tokens

PREFIX = "/api/v1"
TAKES_PRESENCE = {
    "POST /accounts",
    "PATCH /accounts/{account_id}",
    "POST /accounts/{account_id}/reset",
    "POST /accounts/{account_id}/link",
    "POST /tokens",
    "POST /me/tokens",
    "POST /secrets",
    "PATCH /secrets/{name}",
    "POST /secrets/{name}/rotate",
}
OTHERWISE = {
    "POST /session": "takes the password, or a link",
    "POST /session/link": "says whose a link is, to who has it",
    "POST /session/confirm": "takes the password",
    "PUT /me/password": "takes the present password",
    "PUT /me/settings/{setting}": "keeps what pages remember",
    "POST /groups": "names the secret that an executor is called with",
    "PATCH /groups/{group_id}": "likewise",
}
ABOUT_SIGN_INS = re.compile(r"/(session|me|accounts|tokens|secrets)\b")
SHOWS = re.compile(r"password|secret|token|credential|csrf|key")
"""Names of fields of answers that may open something."""
OPENS_NOTHING = {"origin_key"}


def names_in(kind: Any) -> set[str]:
    """Return the names of the fields of a message, and of the messages within it."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return {field.name for field in fields}.union(*(names_in(field.type) for field in fields))
    return set().union(*map(names_in, get_args(kind)))


def test_each_route_that_may_make_one_stands_in_the_table() -> None:
    found, marked = set(), set()
    for one in OPERATIONS:
        path = one.path.removeprefix(PREFIX)
        name = f"{one.method} {path}"
        shown = set().union(*map(names_in, one.operation.answers.values())) - OPENS_NOTHING
        is_about = ABOUT_SIGN_INS.match(path) or any(SHOWS.search(field) for field in shown)
        if one.method not in {"GET", "DELETE"} and is_about:
            found.add(name)
        if one.need.makes_credential:
            marked.add(name)
    assert found == TAKES_PRESENCE | set(OTHERWISE)
    assert marked == TAKES_PRESENCE


@pytest.fixture
def world(api: PeopleApi) -> World:
    return World(api)


@pytest.fixture
def admin(api: PeopleApi) -> Person:
    return Person(api, "ann", ALL)


def facts(api: PeopleApi) -> dict[str, Any]:
    """Return everything that is in the database but what is told of refused calls."""
    return {name: rows for name, rows in api.rows().items() if not name.startswith("audit")}


def by_cookie(api: PeopleApi, secret: str) -> Callable[..., Any]:
    headers = {"Cookie": f"{COOKIE}={secret}", CSRF_HEADER: csrf_token(secret)}
    return lambda method, call: request(api, method, call, headers)


def by_token(api: PeopleApi, admin: Person, *, is_own: bool) -> Callable[..., Any]:
    account_id = admin.account.id if is_own else None
    api.db.transaction(
        lambda conn: tokens.insert_token(conn, "shown", "what is shown", NOW, grants=ALL, account_id=account_id)
    )
    api.clock.advance(1000)
    return lambda method, call: request(api, method, call, {"Authorization": "Bearer what is shown"})


def request(api: PeopleApi, method: str, call: RouteCall, headers: dict[str, str]) -> Any:
    given = {} if call.body is None else {"json": call.body}
    return api.management.simulate_request(method, PREFIX + call.path, headers=headers, remote_addr=DESK, **given)


@pytest.mark.parametrize("who", ["password", "link", "personal token", "service", "confirmed"])
def test_s23_only_who_is_there_makes_one(api: PeopleApi, world: World, admin: Person, who: str) -> None:
    """An admin's session alone, and the admin's token, make nothing that would outlive them."""
    sessions = api.people.sessions
    if who in {"password", "confirmed"}:
        secret, _ = sessions.begin(admin.account, DESK, "browser")
        ask = by_cookie(api, secret)
        if who == "confirmed":
            shown = ask("POST", RouteCall(path="/session/confirm", body={"password": PASSWORD}))
            assert shown.status_code == 204
    elif who == "link":
        link, _ = api.people.accounts.make_link(admin.account.id)
        ask = by_cookie(api, sessions.begin(admin.account, DESK, "browser", link=link)[0])
    else:
        ask = by_token(api, admin, is_own=who == "personal token")
    own = world.group()
    may = who in {"service", "confirmed"}
    for name in sorted(TAKES_PRESENCE):
        method, _, path = name.partition(" ")
        if (path, who) == ("/me/tokens", "service"):
            continue  # it has no account
        call = CALLS[method, path](world, own)
        before = facts(api)
        answer = ask(method, call)
        if may:
            assert answer.status_code in {200, 201}, (name, answer.text)
            continue
        assert (answer.status_code, answer.json["type"]) == (403, "urn:xwheel:problem:unconfirmed"), name
        assert facts(api) == before, name


@pytest.mark.parametrize("way", ["reset", "link"])
def test_s23_nor_for_its_own_account(api: PeopleApi, admin: Person, way: str) -> None:
    secret, _ = api.people.sessions.begin(admin.account, DESK, "browser")
    for ask in (by_cookie(api, secret), by_token(api, admin, is_own=True)):
        refused = ask("POST", RouteCall(path=f"/accounts/{admin.account.id}/{way}"))
        assert (refused.status_code, refused.json["type"]) == (403, "urn:xwheel:problem:unconfirmed")
