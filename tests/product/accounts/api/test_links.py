"""Links that sign in once: for whom they are made, when they are good, and what ends them."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import falcon.testing
import pytest
from xwheel_accounts.accounts import LINK_MS
from xwheel_accounts.browsers import COOKIE
from xwheel_accounts.storage import accounts, links, sessions
from xwheel_accounts.storage.accounts import Account
from xwheel_accounts.storage.links import MAX_LINKS
from xwheel_accounts.throttle import OF_ADDRESS, STEP_MS

from tests.product.accounts.api.test_session import browse, sign_in
from tests.product.accounts.conftest import PeopleApi
from tests.product.accounts.people import PASSWORD, PeopleCallers
from xwheel.errors import ConflictError
from xwheel.model.access import ALL, Actor, ActorKind, Grant, Grants, Role, acting

VIEWER = Grants(Grant(Role.VIEWER))


@pytest.fixture
def ann(api: PeopleApi) -> Account:
    api.people.accounts.create("boss", ALL)  # so that ann is not the last one
    made, _ = api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    return made


def link(api: PeopleApi, account: Account) -> str:
    answer = api.call("POST", f"accounts/{account.id}/link")
    assert answer.status_code == 201, answer.text
    return str(answer.json["link_secret"])


def follow(api: PeopleApi, secret: str, **options: Any) -> falcon.testing.Result:
    return api.management.simulate_post("/api/v1/session", json={"link": secret}, **options)


def is_refused(answer: falcon.testing.Result) -> bool:
    is_plain = answer.status_code == 401 and COOKIE not in answer.cookies
    return is_plain and answer.json["field"] == "link" and answer.json["detail"].startswith("this link is wrong")


def test_a_link_signs_in_once(api: PeopleApi, ann: Account) -> None:
    made = api.call("POST", f"accounts/{ann.id}/link")
    assert made.json["expires_ms"] == api.clock.now_ms() + LINK_MS
    secret = made.json["link_secret"]
    assert re.fullmatch("[A-Za-z0-9_-]{43}", secret)
    assert secret not in str(api.rows())
    answer = follow(api, secret)
    assert (answer.status_code, answer.json["name"], answer.json["role"]) == (201, "ann", "admin")
    assert browse(api, answer, "GET", "session").json == answer.json
    assert browse(api, answer, "POST", "groups", json={"app_name": "x"}).status_code == 201
    assert api.rows()["sign_in_link"] == []
    assert is_refused(follow(api, secret))
    assert len(api.rows()["account_session"]) == 1


def test_of_many_at_once_one_is_let_in(api: PeopleApi, ann: Account) -> None:
    """All were judged before the first session began."""
    access, secret, start = api.people, link(api, ann), Barrier(4)

    def enter(_: int) -> str:
        account = access.sign_in.judge_link(secret, "10.0.0.1")
        start.wait()
        try:
            access.sessions.begin(account, "10.0.0.1", "browser", link=secret)
        except Exception as error:
            return type(error).__name__
        return "in"

    with ThreadPoolExecutor(4) as pool:
        found = sorted(pool.map(enter, range(4)))
    assert found == ["WrongLinkError"] * 3 + ["in"]
    assert len(api.rows()["account_session"]) == 1


@pytest.mark.parametrize(("after_ms", "status"), [(LINK_MS - 1, 201), (LINK_MS, 401), (-STEP_MS - 1, 401)])
def test_a_link_is_good_for_ten_minutes(api: PeopleApi, ann: Account, after_ms: int, status: int) -> None:
    """Whatever the clock does."""
    secret = link(api, ann)
    api.clock.advance(after_ms)
    assert follow(api, secret).status_code == status
    assert len(api.rows()["sign_in_failure"]) == (status == 401)  # counted as a wrong password


def test_a_link_that_ends_between_its_judgement_and_its_session_is_refused(api: PeopleApi, ann: Account) -> None:
    access, secret = api.people, link(api, ann)
    account = access.sign_in.judge_link(secret, "10.0.0.1")
    api.clock.advance(LINK_MS)
    with pytest.raises(Exception, match="this link is wrong"):
        access.sessions.begin(account, "10.0.0.1", "browser", link=secret)
    assert api.rows()["account_session"] == []


@pytest.mark.parametrize("lost", [1, 3])
def test_an_attempt_counts_though_others_write_first(
    api: PeopleApi, ann: Account, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first row of an address is written, taken back by a right link, and written again, while one waits."""
    save, races = sessions.save_failures, iter(range(lost))

    def save_late(*arguments: Any, **named: Any) -> None:
        if next(races, None) is not None:
            raise ConflictError("another attempt wrote it")
        save(*arguments, **named)

    monkeypatch.setattr(sessions, "save_failures", save_late)
    assert is_refused(follow(api, "x"))
    assert len(api.rows()["sign_in_failure"]) == 1


@pytest.mark.parametrize("secret", ["x", "x" * 64, "\u20ac", "' OR 1=1 --"])
def test_what_is_no_link_opens_nothing(api: PeopleApi, ann: Account, secret: str) -> None:
    link(api, ann)
    assert is_refused(follow(api, secret))
    assert len(api.rows()["sign_in_link"]) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "ann"}, "password"),
        ({"password": PASSWORD}, "name"),
        ({"link": "x", "name": "ann", "password": PASSWORD}, "link"),
        ({"link": "x", "name": "ann"}, "link"),
        ({"link": ""}, "link"),
        ({"link": None}, "link"),
        ({"link": "x" * 65}, "link"),
        ({"name": None, "password": PASSWORD}, "name"),
    ],
)
def test_either_name_and_password_or_a_link(api: PeopleApi, ann: Account, body: dict[str, Any], field: str) -> None:
    answer = api.management.simulate_post("/api/v1/session", json=body)
    assert (answer.status_code, answer.json["field"]) == (422, field)
    assert api.rows()["sign_in_failure"] == []


@pytest.mark.parametrize("values", [{"disabled": True}, {"locked_ms": 1}])
def test_a_disabled_or_locked_account_gets_no_link_and_uses_none(
    api: PeopleApi, ann: Account, values: dict[str, Any]
) -> None:
    secret = link(api, ann)
    before = api.people.sign_in.judge_link(secret, "10.0.0.1")
    api.db.transaction(lambda conn: accounts.update_account(conn, ann.id, values, 1))
    assert is_refused(follow(api, secret))
    with pytest.raises(Exception, match="is wrong"):
        api.people.sessions.begin(before, "10.0.0.1", "browser", link=secret)
    refused = api.call("POST", f"accounts/{ann.id}/link")
    assert (refused.status_code, refused.json["type"]) == (409, "urn:xwheel:problem:conflict")
    assert api.rows()["account_session"] == []


def test_a_link_is_used_up_for_its_account_alone(api: PeopleApi, ann: Account) -> None:
    secret, now_ms = link(api, ann), api.clock.now_ms()
    for account_id, at_ms, is_good in (
        (ann.id + 1, now_ms, False),
        (ann.id, now_ms + LINK_MS, False),
        (ann.id, now_ms + LINK_MS - 1, True),
        (ann.id, now_ms, False),
    ):
        took = api.db.transaction(
            lambda conn, account_id=account_id, at_ms=at_ms: links.take_link(conn, secret, account_id, at_ms)
        )
        assert took is is_good, (account_id, at_ms)


@pytest.mark.parametrize("what", ["disable", "reset", "own password", "sign out", "delete"])
def test_what_ends_sessions_ends_links(api: PeopleApi, ann: Account, what: str) -> None:
    secret = link(api, ann)
    others, _ = api.people.accounts.create("bob", VIEWER, password=PASSWORD, must_change=False)
    kept = link(api, others)
    path = f"accounts/{ann.id}"
    if what == "disable":
        assert api.call("PATCH", path, {"disabled": True}).status_code == 200
        assert api.call("PATCH", path, {"disabled": False}).status_code == 200
    elif what == "reset":
        assert api.call("POST", f"{path}/reset").status_code == 200
    elif what == "own password":
        body = {"old_password": PASSWORD, "password": "eleven dry llamas hum"}
        assert browse(api, sign_in(api), "PUT", "me/password", json=body).status_code == 200
    elif what == "sign out":
        assert api.call("DELETE", f"{path}/sessions").status_code == 200
    else:
        assert api.call("DELETE", path).status_code == 204
    assert is_refused(follow(api, secret))
    assert follow(api, kept).json["name"] == "bob"


def test_wrong_links_wait_like_wrong_passwords_from_their_address(api: PeopleApi, ann: Account) -> None:
    secret = link(api, ann)
    for _ in range(OF_ADDRESS.free):
        assert is_refused(follow(api, "wrong"))
    waits = follow(api, secret)
    assert (waits.status_code, waits.json["type"]) == (429, "urn:xwheel:problem:throttled")
    assert waits.headers["retry-after"] == "1"
    assert sign_in(api).status_code == 429
    assert sign_in(api, extras={"REMOTE_ADDR": "203.0.113.9"}).status_code == 201
    assert follow(api, secret, extras={"REMOTE_ADDR": "203.0.113.9"}).status_code == 201


def test_a_link_that_is_right_counts_for_nothing(api: PeopleApi, ann: Account) -> None:
    assert follow(api, link(api, ann)).status_code == 201
    assert api.rows()["sign_in_failure"] == []
    assert is_refused(follow(api, "wrong"))
    before = [row[:2] for row in api.rows()["sign_in_failure"]]
    assert follow(api, link(api, ann)).status_code == 201
    assert [row[:2] for row in api.rows()["sign_in_failure"]] == before


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_pages_of_other_sites_sign_nobody_in_with_a_link(api: PeopleApi, ann: Account, headers: dict[str, str]) -> None:
    secret = link(api, ann)
    assert follow(api, secret, headers=headers).status_code == 403
    assert follow(api, secret, headers={"Origin": "http://falconframework.org"}).status_code == 201


def test_a_link_makes_a_new_session_and_ends_the_one_before(api: PeopleApi, ann: Account) -> None:
    first = sign_in(api)
    second = follow(api, link(api, ann), headers={"Cookie": f"{COOKIE}={first.cookies[COOKIE].value}"})
    assert browse(api, first, "GET", "session").status_code == 401
    assert browse(api, second, "GET", "session").status_code == 200


def test_who_has_to_set_a_password_still_has_to(api: PeopleApi, ann: Account) -> None:
    made, _ = api.people.accounts.create("bob", ALL)
    answer = follow(api, link(api, made))
    assert (answer.status_code, answer.json["must_change"], answer.json["role"]) == (201, True, None)
    assert browse(api, answer, "GET", "groups").status_code == 403


def test_nobody_makes_a_link_for_who_may_do_more(api: PeopleApi, ann: Account) -> None:
    orders = api.group("orders")
    manager = api.people.accounts
    clerk, _ = manager.create("clerk", VIEWER)
    grants = Grants(Grant(Role.VIEWER), {orders: Grant(Role.ADMIN)})
    with acting(Actor(kind=ActorKind.ACCOUNT, name="of-orders", grants=grants)):
        with pytest.raises(Exception, match="ann may do more than you"):
            manager.make_link(ann.id)
        manager.make_link(clerk.id)
    callers = PeopleCallers(api)
    refused = callers.call(Grants(Grant(Role.EDITOR)), "POST", f"/api/v1/accounts/{clerk.id}/link")
    assert refused.status_code == 403
    assert len(api.rows()["sign_in_link"]) == 1
    assert api.call("POST", "accounts/99/link").status_code == 404


def test_who_is_known_elsewhere_gets_no_link(api: PeopleApi, ann: Account) -> None:
    made, _ = api.people.accounts.create("eve", VIEWER, provider="ldap")
    refused = api.call("POST", f"accounts/{made.id}/link")
    assert (refused.status_code, api.rows()["sign_in_link"]) == (409, [])
    assert "ldap" in refused.json["detail"]


def test_an_account_has_few_links_and_the_oldest_goes_first(api: PeopleApi, ann: Account) -> None:
    secrets = []
    for _ in range(MAX_LINKS + 2):
        secrets.append(link(api, ann))
        api.clock.advance(1)
    assert len(api.rows()["sign_in_link"]) == MAX_LINKS
    assert [is_refused(follow(api, secret)) for secret in secrets[:2]] == [True, True]
    assert follow(api, secrets[2]).status_code == 201


def test_the_audit_says_who_made_a_link_and_how_somebody_signed_in(api: PeopleApi, ann: Account) -> None:
    secret = link(api, ann)
    follow(api, secret)
    sign_in(api)
    follow(api, secret)
    api.refusals.end()
    items = api.call("GET", "audit").json["items"]
    found = {item["action"]: item for item in reversed(items)}
    assert (found["account.link"]["actor"], found["account.link"]["object_id"]) == ("tests", "ann")
    how = [item["detail"]["after"]["how"] for item in reversed(items) if item["action"] == "session.begin"]
    assert how == ["link", "password"]
    assert found["call.refuse"]["outcome"] == "refused"
    assert secret not in str(api.rows())


def look(api: PeopleApi, secret: str, **options: Any) -> falcon.testing.Result:
    return api.management.simulate_post("/api/v1/session/link", json={"link": secret}, **options)


def test_whose_a_link_is_can_be_asked_before_it_signs_in(api: PeopleApi, ann: Account) -> None:
    """So that no one is signed in as somebody else unnoticed."""
    secret = link(api, ann)
    answer = look(api, secret)
    assert (answer.status_code, answer.json) == (200, {"name": "ann", "display_name": ann.display_name})
    assert COOKIE not in answer.cookies
    assert api.rows()["account_session"] == []
    assert follow(api, secret).status_code == 201
    assert is_refused(look(api, secret)), "a link that was used names nobody"


def test_guessing_links_by_asking_whose_they_are_is_throttled(api: PeopleApi, ann: Account) -> None:
    for number in range(OF_ADDRESS.free):
        assert is_refused(look(api, f"guess {number}"))
    assert look(api, link(api, ann)).status_code == 429


def test_a_page_of_another_site_learns_no_name(api: PeopleApi, ann: Account) -> None:
    answer = look(api, link(api, ann), headers={"Origin": "https://elsewhere.example"})
    assert answer.status_code == 403
    assert "ann" not in answer.text
