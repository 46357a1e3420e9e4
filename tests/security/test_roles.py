"""Who may call what: every route, by every role, in the group of its object or in another, with every credential.

What is right comes from the table of the routes, and from nowhere else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from xwheel_accounts.sessions import csrf_token
from xwheel_accounts.storage import accounts, sessions

from tests.component.api.conftest import TOKEN
from tests.product.accounts.conftest import PeopleApi
from tests.product.accounts.people import PeopleCallers, Person
from tests.support.bare_app import NEEDS
from tests.support.callers import ROLES
from tests.support.job_calls import Tenant
from tests.support.route_calls import CALLS, UNKNOWN, UNKNOWN_ACTOR, RouteCall, World
from tests.support.rows import NOW
from xwheel.model.access import ALL, NOTHING, Grants, Permission
from xwheel.plugin.resources import Methods, Need, Of, OfObject

PREFIX = "/api/v1"


def is_by_id(need: Need) -> bool:
    """Return whether the group of an object that the path names decides."""
    return need.of in {Of.GROUP, Of.JOB, Of.RUN} or isinstance(need.of, OfObject)


@pytest.fixture
def world(api: PeopleApi) -> World:
    return World(api)


@pytest.fixture
def callers(api: PeopleApi) -> PeopleCallers:
    return PeopleCallers(api)


def table(api: PeopleApi) -> dict[str, Methods]:
    """What the routes of the application need, by their paths below the prefix."""
    app: Any = api.management.app
    return {re.sub(r":\w+\}", "}", path).removeprefix(PREFIX): needs for path, needs in app.needs.items()}


def url(path: str) -> str:
    return path if path.startswith(("/healthz", "/readyz", "/docs")) else PREFIX + path


def test_every_route_has_a_call(api: PeopleApi) -> None:
    routes = table(api)
    assert set(CALLS) == {(method, path) for path, needs in routes.items() for method in needs}
    assert {path: dict(needs) for path, needs in routes.items() if path in NEEDS} == NEEDS


def grants_of_callers(own: int, other: int) -> Iterator[tuple[str, Grants]]:
    """Every role in a group, in all groups, and in one while all or another can be read."""
    yield "nobody", NOTHING
    for name, grant in ROLES.items():
        yield f"{name} of the group", Grants(groups={own: grant})
        yield f"{name} of another group", Grants(groups={other: grant})
        yield f"{name} everywhere", Grants(grant)
        yield f"{name} of another group, viewer here", Grants(groups={other: grant, own: ROLES["viewer"]})
        yield f"{name} of the group, viewer everywhere", Grants(ROLES["viewer"], {own: grant})


GOOD, FORBIDDEN, UNSEEN = "good", "forbidden", "as if it did not exist"


def expected(need: Need, grants: Grants, call: RouteCall) -> str:
    """What the table says of a call."""
    permission = need.permission
    if permission is None or grants.allows(permission, call.group_id):
        return GOOD
    if need.of is Of.ALL:
        return FORBIDDEN
    if need.of is Of.SOME:
        if grants.groups_with(permission) == frozenset():
            return FORBIDDEN
        if not call.refers_to:
            return GOOD
    else:
        assert is_by_id(need)
    reading = NEEDS[call.refers_to]["GET"].permission if call.refers_to else Permission.READ
    assert reading is not None
    return FORBIDDEN if grants.allows(reading, call.group_id) else UNSEEN


class Refusal(NamedTuple):
    """What a caller learns from a refusal; ids aside, which it knows."""

    status: int
    text: str


def refusal(call: RouteCall, answer: Any, *keys: object) -> Refusal:
    text: str = answer.text
    for key in keys:
        text = re.sub(rf"\b{re.escape(str(key))}\b", "KEY", text)
    return Refusal(call.status(answer), text)


def make(callers: PeopleCallers, grants: Grants, method: str, call: RouteCall) -> Any:
    """Make a call as somebody who may do this, and who has signed in."""
    person = callers.person(grants)
    path = call.path if call.own is None else f"{call.path}{call.own(person)}"
    answer = person.call(method, url(path), call.body, params=dict(call.params))
    if call.is_last:
        callers.forget(grants)
    return answer


def facts(api: PeopleApi) -> dict[str, Any]:
    """Everything that is in the database but what is told of refused calls."""
    return {name: rows for name, rows in api.rows().items() if not name.startswith("audit")}


class Matrix:
    """Calls a route with every role, and notes what is not as the table says."""

    def __init__(self, world: World, callers: PeopleCallers) -> None:
        self._world, self._callers = world, callers
        self._own, self._other = world.group(), world.group()
        self.wrong: list[str] = []
        self.counted = dict.fromkeys((GOOD, FORBIDDEN, UNSEEN), 0)

    def judge(self, path: str, method: str, need: Need) -> None:
        """Call a route with all roles: those that are refused first, who must change nothing, about one object."""
        shared = CALLS[method, path](self._world, self._own)
        roles = self._roles(shared)
        if need.permission is None:  # asked for by who may do nothing, and by who may do everything
            roles = {name: roles[name] for name in ("nobody", "admin everywhere")}
        for grants in roles.values():
            self._callers.person(grants)
        before = facts(self._world.api)
        rights = {name: expected(need, grants, shared) for name, grants in roles.items()}
        for name, right in rights.items():
            self.counted[right] += 1
            if right == FORBIDDEN and (found := self._status(shared, method, roles[name])) != 403:
                self.wrong.append(f"{method} {path}, {name}: {found} instead of 403")
            elif right == UNSEEN:
                self._judge_unseen(f"{method} {path}, {name}", shared, method, roles[name], need)
        if facts(self._world.api) != before:
            self.wrong.append(f"{method} {path}: a refused call changed something")
        for name, right in rights.items():
            if right == GOOD:
                call = shared if method == "GET" else CALLS[method, path](self._world, self._own)
                # a group that the call deletes is another one each time
                status = self._status(call, method, self._roles(call)[name])
                if not 200 <= status < 300:
                    self.wrong.append(f"{method} {path}, {name}: {status} instead of a good answer")

    def _roles(self, call: RouteCall) -> dict[str, Grants]:
        return dict(grants_of_callers(call.group_id or self._own, self._other))

    def _status(self, call: RouteCall, method: str, grants: Grants) -> int:
        return call.status(make(self._callers, grants, method, call))

    def _judge_unseen(self, what: str, call: RouteCall, method: str, grants: Grants, need: Need) -> None:
        assert call.unknown is not None, what
        found = refusal(call, make(self._callers, grants, method, call), call.key)
        right = refusal(call, make(self._callers, grants, method, call.unknown), UNKNOWN, UNKNOWN_ACTOR)
        if found != right:
            self.wrong.append(f"{what}: {found}, and {right} for what does not exist")
        if right.status != 404 and (is_by_id(need) or right.status != 422):
            self.wrong.append(f"{what}: {right.status}")


def test_every_role_gets_what_the_table_says_and_no_more(api: PeopleApi, world: World, callers: PeopleCallers) -> None:
    matrix = Matrix(world, callers)
    for path, needs in table(api).items():
        for method, need in needs.items():
            matrix.judge(path, method, need)
    assert not matrix.wrong, "\n".join(matrix.wrong)
    assert min(matrix.counted.values()) > 150, matrix.counted


ABOUT_SELF = re.compile("/me/|/session")
"""Routes about the account that calls: a service has none."""

Show = Callable[[str, str, RouteCall], Any]


class Credential(NamedTuple):
    """What a call shows.

    Attributes:
        show: Makes a call with it, given method and URL.
        right: Returns 200 for a good answer, or the status of the refusal; None if the table does not say.
    """

    show: Show
    right: Callable[[str, str, Need], int | None]


def bearer(callers: PeopleCallers, token: str | None, right: Callable[[str, Need], int | None]) -> Credential:
    shown = None if token is None else f"Bearer {token}"
    return Credential(
        lambda method, where, call: callers.show(shown, method, where, call.body, params=dict(call.params)),
        lambda path, method, need: 200 if need.of is Of.ANYONE else right(path, need),
    )


def cookie(
    who: Callable[[], Person], right: int = 200, *, always: bool = False, safe: int = 200, **options: Any
) -> Credential:
    """A session's cookie; a call that changes nothing is answered with ``safe``."""

    def judge(path: str, method: str, need: Need) -> int:
        if need.of is Of.ANYONE and not (always and method != "GET"):
            return 200
        return safe if method == "GET" else right

    return Credential(
        lambda method, where, call: who().call(method, where, call.body, params=dict(call.params), **options), judge
    )


def credentials(api: PeopleApi, callers: PeopleCallers, tenant: Tenant) -> dict[str, Credential]:
    """Everything that can be shown, all of it of somebody who may do everything, or could once."""
    disabled, gone = Person(api, "disabled", ALL), Person(api, "gone", ALL)
    api.db.transaction(lambda conn: accounts.update_account(conn, disabled.account.id, {"disabled": True}, NOW))
    api.db.transaction(lambda conn: sessions.delete_sessions_of(conn, gone.account.id))
    ended = callers.new_token("ended", expires_ms=api.clock.now_ms() + 1)
    elsewhere = callers.new_token("elsewhere", networks=("192.0.2.0/24",))
    theirs = callers.new_token("theirs", account_id=disabled.account.id)
    foreign = {"Origin": "https://elsewhere.example"}

    def somebody() -> Person:
        return callers.person(ALL)

    def no(path: str, need: Need) -> int:
        return 401

    return {
        "nothing": bearer(callers, None, no),
        "a wrong token": bearer(callers, "wrong", no),
        "a token that ended": bearer(callers, ended, no),
        "a token of another network": bearer(callers, elsewhere, no),
        "a token of a disabled account": bearer(callers, theirs, no),
        "a group's token": bearer(callers, tenant.token, lambda _, need: 200 if need.group_token else 401),
        "the right token": bearer(callers, TOKEN, lambda path, _: None if ABOUT_SELF.match(path) else 200),
        "a cookie without CSRF": cookie(somebody, 403, csrf=None),
        "a cookie with a wrong CSRF": cookie(somebody, 403, csrf="wrong"),
        "a cookie with another's CSRF": cookie(somebody, 403, csrf=csrf_token(gone.secret)),
        "a cookie from a page of elsewhere": cookie(somebody, 403, always=True, headers=foreign),
        "a cookie of a disabled account": cookie(lambda: disabled, 401, safe=401),
        "a cookie of a session that ended": cookie(lambda: gone, 401, safe=401),
        "the right cookie": cookie(somebody),
    }


class Credentials:
    """Calls routes with every credential, and notes what is not as the table says."""

    def __init__(self, api: PeopleApi, world: World, callers: PeopleCallers) -> None:
        self._api, self._world, self._callers = api, world, callers
        self._tenant = Tenant(api.db, api.executor.app, "tenant")
        world.app_names[self._tenant.group_id] = "tenant"
        self._known = credentials(api, callers, self._tenant)
        self.wrong: list[str] = []
        self.counted: Counter[int] = Counter()

    def judge(self, path: str, method: str, need: Need) -> None:
        """Call a route: first with what opens nothing, which must change nothing."""
        rights = {name: known.right(path, method, need) for name, known in self._known.items()}
        self.counted.update(right for right in rights.values() if right is not None)
        call, where = self._call(path, method)
        before = facts(self._api)
        for name, right in rights.items():
            if right in {401, 403}:
                status = call.status(answer := self._known[name].show(method, where, call))
                # of many wrong tokens some are told to wait
                if status not in {right, 429 if right == 401 else right}:
                    self.wrong.append(f"{method} {path} with {name}: {status} instead of {right}: {answer.text}")
        if facts(self._api) != before:
            self.wrong.append(f"{method} {path}: a refused call changed something")
        for name, right in rights.items():
            if right == 200:
                call, where = self._call(path, method)
                status = call.status(answer := self._known[name].show(method, where, call))
                if not 200 <= status < 300:
                    self.wrong.append(f"{method} {path} with {name}: {status}: {answer.text}")
                if call.is_last and "cookie" in name:
                    self._callers.forget(ALL)

    def _call(self, path: str, method: str) -> tuple[RouteCall, str]:
        call, person = CALLS[method, path](self._world, self._tenant.group_id), self._callers.person(ALL)
        return call, url(call.path if call.own is None else f"{call.path}{call.own(person)}")


def test_every_credential_gets_what_the_table_says(api: PeopleApi, world: World, callers: PeopleCallers) -> None:
    judge = Credentials(api, world, callers)
    for path, needs in table(api).items():
        for method, need in needs.items():
            judge.judge(path, method, need)
    assert not judge.wrong, "\n".join(judge.wrong)
    assert min(judge.counted[right] for right in (200, 401, 403)) > 100, judge.counted


def test_a_groups_token_is_about_that_group(api: PeopleApi, world: World, callers: PeopleCallers) -> None:
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
