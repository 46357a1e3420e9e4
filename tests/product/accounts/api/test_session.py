"""Signing in and out: cookies, pages of other sites, wrong passwords, and what ends a session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import falcon.testing
import pytest
from xwheel_accounts.browsers import COOKIE, CSRF_HEADER, HOST_COOKIE
from xwheel_accounts.local import LocalAccounts
from xwheel_accounts.places import PasswordPlaces
from xwheel_accounts.sessions import csrf_token
from xwheel_accounts.sign_in import CONFIRMED_MS, SignIn
from xwheel_accounts.storage import accounts, sessions
from xwheel_accounts.storage.accounts import Account
from xwheel_accounts.storage.sessions import Failures
from xwheel_accounts.throttle import LAST_PAUSE_MS, LOCKED_AT, OF_NAME, OF_PAIR, key_of_name, network_of

from tests.component.api.conftest import TOKEN
from tests.product.accounts.conftest import PeopleApi
from tests.product.accounts.identities import providers_of
from xwheel.access.tokens import TokenStore
from xwheel.model.access import ALL, Grants
from xwheel.storage.schema.tables import api_token

PASSWORD = "seven wet goats sing"


@pytest.fixture
def ann(api: PeopleApi) -> Account:
    made, _ = api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    return made


def sign_in(api: PeopleApi, name: str = "ann", password: str = PASSWORD, **options: Any) -> falcon.testing.Result:
    body = {"name": name, "password": password}
    return api.management.simulate_post("/api/v1/session", json=body, **options)


def confirm(api: PeopleApi, answer: falcon.testing.Result, password: str = PASSWORD) -> falcon.testing.Result:
    """Type the password once more as a page does."""
    return browse(api, answer, "POST", "session/confirm", json={"password": password})


def own_token(
    api: PeopleApi, answer: falcon.testing.Result, name: str = "mine", **fields: Any
) -> falcon.testing.Result:
    """Make a token of one's own as a page does, with the password once more."""
    confirmed = confirm(api, answer)
    if confirmed.status_code != 204:
        return confirmed
    return browse(api, answer, "POST", "me/tokens", json={"name": name, **fields})


def browse(
    api: PeopleApi, answer: falcon.testing.Result, method: str, path: str, csrf: str | None = "right", **options: Any
) -> falcon.testing.Result:
    """Call as a page does that signed in."""
    secret = answer.cookies[COOKIE].value
    headers = {"Cookie": f"{COOKIE}={secret}", **options.pop("headers", {})}
    if csrf is not None:
        headers[CSRF_HEADER] = csrf_token(secret) if csrf == "right" else csrf
    return api.management.simulate_request(method, f"/api/v1/{path}", headers=headers, **options)


def test_a_session_has_a_cookie_that_scripts_and_other_sites_cannot_use(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api)
    assert answer.status_code == 201
    cookie = answer.cookies[COOKIE]
    assert (cookie.http_only, cookie.same_site, cookie.path, cookie.secure) == (True, "Strict", "/", False)
    assert answer.json["csrf"] == csrf_token(cookie.value)
    assert answer.json["name"] == "ann"
    assert (answer.json["role"], answer.json["must_change"]) == ("admin", False)
    assert cookie.value not in answer.text
    assert browse(api, answer, "GET", "session").json == answer.json
    assert browse(api, answer, "GET", "accounts").status_code == 200
    kept = str(api.rows()["account_session"])
    assert cookie.value not in kept
    assert PASSWORD not in str(api.rows())


@pytest.mark.parametrize(
    ("proxies", "headers", "is_secure"),
    [
        ([], {"X-Forwarded-Proto": "https"}, False),
        (["127.0.0.1"], {"X-Forwarded-Proto": "https"}, True),
        (["127.0.0.1"], {"X-Forwarded-Proto": "http, https"}, True),
        (["127.0.0.1"], {"X-Forwarded-Proto": "https, http"}, False),
        (["192.0.2.1"], {"X-Forwarded-Proto": "https"}, False),
    ],
)
def test_the_cookie_keeps_to_https_where_a_trusted_proxy_says_so(
    api_with: Any, proxies: list[str], headers: dict[str, str], is_secure: bool
) -> None:
    api = api_with(trusted_proxies=proxies)
    api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    answer = sign_in(api, headers=headers)
    name = HOST_COOKIE if is_secure else COOKIE
    assert list(answer.cookies) == [name]
    assert answer.cookies[name].secure is is_secure
    shown = {"Cookie": f"{name}={answer.cookies[name].value}", **headers}
    assert api.management.simulate_get("/api/v1/groups", headers=shown).status_code == 200
    # another host of the domain can set the name without the prefix alone
    tossed = {"Cookie": f"{COOKIE}={answer.cookies[name].value}", **headers}
    expected = 401 if is_secure else 200
    assert api.management.simulate_get("/api/v1/groups", headers=tossed).status_code == expected


def test_two_cookies_of_sessions_are_refused(api: PeopleApi, ann: Account) -> None:
    one, other = (sign_in(api).cookies[COOKIE].value for _ in "ab")
    shown = {"Cookie": f"{COOKIE}={one}; {COOKIE}={other}"}
    assert api.management.simulate_get("/api/v1/groups", headers=shown).status_code == 401


@pytest.mark.parametrize("csrf", [None, "", "wrong", "\xe9"])
def test_a_change_with_the_cookie_alone_is_refused(api: PeopleApi, ann: Account, csrf: str | None) -> None:
    answer = sign_in(api)
    before = api.rows()["calendar"]
    for method, path in (("PUT", "calendars/x"), ("POST", "groups"), ("DELETE", "session")):
        refused = browse(api, answer, method, path, csrf, body=b'{"app_name": "x"}')
        assert (refused.status_code, refused.json["type"]) == (403, "urn:xwheel:problem:forbidden")
        assert CSRF_HEADER in refused.json["detail"]
    assert api.rows()["calendar"] == before
    assert browse(api, answer, "GET", "groups", csrf).status_code == 200
    assert browse(api, answer, "POST", "groups", body=b'{"app_name": "x"}').status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://falconframework.org"},
        {"Origin": "http://other.falconframework.org"},
        {"Origin": "http://falconframework.org:8443"},
        {"Origin": "http://falconframework.org.evil.example"},
    ],
)
def test_pages_of_other_sites_change_nothing_and_sign_nobody_in(
    api: PeopleApi, ann: Account, headers: dict[str, str]
) -> None:
    answer = sign_in(api)
    assert browse(api, answer, "POST", "groups", headers=headers, body=b'{"app_name": "x"}').status_code == 403
    assert sign_in(api, headers=headers).status_code == 403
    for number, own in enumerate(
        (
            {"Origin": "http://falconframework.org"},
            {"Origin": "https://behind-a-proxy.example", "Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
        )
    ):
        body = f'{{"app_name": "x-{number}"}}'.encode()
        assert browse(api, answer, "POST", "groups", headers=own, body=body).status_code == 201


@pytest.mark.parametrize(("proxies", "status"), [(["127.0.0.1"], 201), ([], 403)])
def test_the_host_that_a_trusted_proxy_names_counts(api_with: Any, proxies: list[str], status: int) -> None:
    """A browser that says nothing of the site, behind a proxy that calls the node by another name."""
    api = api_with(trusted_proxies=proxies)
    api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    headers = {"Origin": "https://jobs.example", "X-Forwarded-Host": "jobs.example"}
    assert sign_in(api, headers=headers).status_code == status


def test_signing_in_makes_a_new_session_and_ends_the_one_before(api: PeopleApi, ann: Account) -> None:
    first = sign_in(api)
    planted = sign_in(api, headers={"Cookie": f"{COOKIE}=chosen-by-somebody-else"})
    assert planted.cookies[COOKIE].value != "chosen-by-somebody-else"
    secret = first.cookies[COOKIE].value
    second = sign_in(api, headers={"Cookie": f"{COOKIE}={secret}"})
    assert second.cookies[COOKIE].value != secret
    assert browse(api, first, "GET", "session").status_code == 401
    assert browse(api, second, "GET", "session").status_code == 200


def test_a_stolen_cookie_opens_nothing_in_another_network(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api, extras={"REMOTE_ADDR": "192.0.2.10"})
    for address, status in (("192.0.2.99", 200), ("198.51.100.1", 401), ("2001:db8::1", 401), ("192.0.2.10", 200)):
        found = browse(api, answer, "GET", "groups", extras={"REMOTE_ADDR": address})
        assert found.status_code == status, address


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2::5", "2001:db8:1::/48"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("fe80::1%eth0", "fe80::/48"),
        ("unix", "unix"),
    ],
)
def test_the_network_of_an_address(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_token_counts_before_a_cookie(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api)
    headers = {"Authorization": "Bearer wrong"}
    assert browse(api, answer, "GET", "groups", headers=headers).status_code == 401
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert browse(api, answer, "POST", "groups", None, headers=headers, body=b'{"app_name": "x"}').status_code == 201


def test_signing_out_ends_the_session_and_takes_the_cookie(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api)
    out = browse(api, answer, "DELETE", "session")
    assert (out.status_code, out.cookies[COOKIE].value) == (204, "")
    assert browse(api, answer, "GET", "session").status_code == 401
    assert api.call("DELETE", "session").status_code == 403


def test_a_session_ends_after_its_time_whatever_is_done(api: PeopleApi, ann: Account) -> None:
    idle, busy = sign_in(api), sign_in(api)
    config = api.people.config
    lasted = 0
    while lasted < config.session_s - 3600:
        api.clock.advance(3_600_000)
        lasted += 3600
        assert browse(api, busy, "GET", "session").status_code == 200
        assert browse(api, idle, "GET", "session").status_code == 200 if lasted < 3600 else True
    assert browse(api, idle, "GET", "session").status_code == 401
    api.clock.advance(3_600_001)
    assert browse(api, busy, "GET", "session").status_code == 401


def test_what_is_no_session_opens_nothing(api: PeopleApi, ann: Account) -> None:
    sign_in(api)
    for secret in ("", "x", "x" * 65, "x" * 10_000, "\xe9", "a; b", '"'):
        found = api.management.simulate_get("/api/v1/groups", headers={"Cookie": f"{COOKIE}={secret}"})
        assert found.status_code in {401, 429}, secret


def test_sessions_can_be_seen_and_ended_from_elsewhere(api: PeopleApi, ann: Account) -> None:
    here, there = sign_in(api, headers={"User-Agent": "here"}), sign_in(api, headers={"User-Agent": "there"})
    items = browse(api, here, "GET", "me/sessions").json["items"]
    assert [(item["agent"], item["is_this"]) for item in items] == [("there", False), ("here", True)]
    assert browse(api, here, "DELETE", f"me/sessions/{items[0]['id']}").status_code == 204
    assert browse(api, there, "GET", "session").status_code == 401
    assert browse(api, here, "DELETE", f"me/sessions/{items[0]['id']}").status_code == 404


def test_nobody_ends_the_sessions_of_others(api: PeopleApi, ann: Account) -> None:
    api.people.accounts.create("bob", Grants(), password=PASSWORD, must_change=False)
    hers, his = sign_in(api), sign_in(api, "bob")
    number = browse(api, hers, "GET", "me/sessions").json["items"][0]["id"]
    assert browse(api, his, "DELETE", f"me/sessions/{number}").status_code == 404
    assert browse(api, hers, "GET", "session").status_code == 200


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann", "wrong wet goats sing"),
        ("nobody", PASSWORD),
        ("ann", PASSWORD + "x"),
        ("ann", PASSWORD.upper()),
        ("ann\u202e", PASSWORD),
        ("a" * 256, "x" * 256),
    ],
)
def test_the_answer_does_not_say_what_was_wrong(api: PeopleApi, ann: Account, name: str, password: str) -> None:
    refused = sign_in(api, name, password)
    assert (refused.status_code, refused.json["field"]) == (401, "password")
    assert refused.json["detail"].startswith("the name or the password is wrong")
    assert COOKIE not in refused.cookies
    assert api.rows()["account_session"] == []


@pytest.mark.parametrize("spelled", ["Ann", "ANN", "\uff41nn"])
def test_names_are_compared_without_case_and_width(api: PeopleApi, ann: Account, spelled: str) -> None:
    assert sign_in(api, spelled).status_code == 201


def test_a_disabled_account_answers_like_a_wrong_password(api: PeopleApi, ann: Account) -> None:
    api.db.transaction(lambda conn: accounts.update_account(conn, ann.id, {"disabled": True}, 1))
    assert sign_in(api).json["detail"] == sign_in(api, "nobody").json["detail"]


def test_wrong_passwords_make_the_next_ones_wait(api: PeopleApi, ann: Account) -> None:
    for _ in range(OF_PAIR.free):
        assert sign_in(api, password="wrong").status_code == 401
    waits = sign_in(api)
    assert (waits.status_code, waits.json["type"], waits.headers["retry-after"]) == (
        429,
        "urn:xwheel:problem:throttled",
        "1",
    )
    api.clock.advance(1000)
    assert sign_in(api, password="wrong").status_code == 401
    assert sign_in(api).headers["retry-after"] == "2"
    # from elsewhere the owner is let in
    assert sign_in(api, extras={"REMOTE_ADDR": "203.0.113.9"}).status_code == 201
    api.clock.advance(2000)
    assert sign_in(api).status_code == 201
    assert sign_in(api, password="wrong").status_code == 401
    assert sign_in(api).status_code == 201


def test_strangers_from_many_addresses_wait_and_the_owner_at_a_place_of_theirs_does_not(
    api: PeopleApi, ann: Account
) -> None:
    at_home = {"REMOTE_ADDR": "192.0.2.10"}
    assert sign_in(api, extras=at_home).status_code == 201
    found = [
        sign_in(api, password="wrong", extras={"REMOTE_ADDR": f"203.0.{number}.9"}).status_code
        for number in range(OF_NAME.free + 1)
    ]
    assert found == [401] * OF_NAME.free + [429]
    assert sign_in(api, extras={"REMOTE_ADDR": "198.51.100.7"}).status_code == 429
    assert sign_in(api, extras={"REMOTE_ADDR": "192.0.2.200"}).status_code == 201


def test_the_last_admin_is_never_locked(api: PeopleApi, ann: Account) -> None:
    key = key_of_name("ann")
    sign_in(api, password="wrong")
    for number, is_locked in ((1, False), (2, True)):
        many = Failures(LOCKED_AT, 0, api.clock.now_ms())
        api.db.transaction(lambda conn, many=many: sessions.save_failures(conn, key, many, is_new=False))
        assert sign_in(api, password="wrong", extras={"REMOTE_ADDR": f"203.0.113.{number}"}).status_code == 401
        with api.db.read() as conn:
            assert (accounts.get_account(conn, ann.id).locked_ms is not None) == is_locked
        api.people.accounts.create(f"boss-{number}", ALL)
        api.clock.advance(LAST_PAUSE_MS)


def test_names_that_do_not_exist_wait_alike(api: PeopleApi, ann: Account) -> None:
    for _ in range(OF_PAIR.free):
        assert sign_in(api, "nobody").status_code == 401
    assert sign_in(api, "nobody").status_code == 429
    assert sign_in(api).status_code == 201


def test_many_names_from_one_address_wait_too(api: PeopleApi, ann: Account) -> None:
    answers = [sign_in(api, f"name-{number}", "wrong").status_code for number in range(60)]
    assert answers.index(429) == 50
    assert sign_in(api).status_code == 429
    assert sign_in(api, extras={"REMOTE_ADDR": "203.0.113.9"}).status_code == 201


def test_of_attempts_at_the_same_time_no_more_are_judged(
    api: PeopleApi, ann: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them see no wrong password before them, as on eight nodes at once, and do not get eight guesses."""
    all_looked = threading.Barrier(8)
    looked = threading.local()
    look = sessions.get_failures

    def look_together(*args: Any, **options: Any) -> dict[str, Failures]:
        found = look(*args, **options)
        if not options.get("lock") and not getattr(looked, "is_done", False):
            looked.is_done = True
            all_looked.wait(60)
        return found

    monkeypatch.setattr(sessions, "get_failures", look_together)
    access = api.people

    def guess(number: int) -> str:
        # another node has places of its own
        node = SignIn(api.db, api.clock, api.site, access.providers, PasswordPlaces())
        try:
            node.judge("ann", f"guess {number}", "10.0.0.1")
        except Exception as error:
            return type(error).__name__
        return "in"

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(guess, range(8)))
    assert found.count("SignInError") == OF_PAIR.free
    assert found.count("SignInThrottledError") == 8 - OF_PAIR.free


def test_a_hundred_in_a_row_lock_the_account_until_an_admin_lifts_that(api: PeopleApi, ann: Account) -> None:
    key = key_of_name("ann")
    api.people.accounts.create("boss", ALL)
    sign_in(api, password="wrong")
    many = Failures(LOCKED_AT - 1, 0, api.clock.now_ms())
    api.db.transaction(lambda conn: sessions.save_failures(conn, key, many, is_new=False))
    assert sign_in(api, password="wrong").status_code == 401
    api.clock.advance(LAST_PAUSE_MS)
    assert sign_in(api).status_code == 401
    with api.db.read() as conn:
        assert accounts.get_account(conn, ann.id).locked_ms is not None
    lifted = api.call("PATCH", f"accounts/{ann.id}", {"locked": False})
    assert (lifted.status_code, lifted.json["locked_ms"]) == (200, None)
    assert sign_in(api).status_code == 201


def test_wrong_passwords_stand_in_the_audit_with_the_name_if_it_is_an_accounts(api: PeopleApi, ann: Account) -> None:
    for _ in range(3):
        sign_in(api, password="wrong wet goats")
        sign_in(api, "wrong-field-password")
    api.refusals.end()
    refused = [row for row in map(str, api.rows()["audit"]) if "call.refuse" in row]
    assert len([row for row in refused if "'ann'" in row]) == 2  # the first, and how many came behind it
    assert "goats" not in str(refused)
    assert "wrong-field-password" not in str(api.rows())


def test_a_clock_that_jumps_keeps_nobody_out_for_longer(api: PeopleApi, ann: Account) -> None:
    for _ in range(OF_PAIR.free):
        sign_in(api, password="wrong")
    assert sign_in(api).status_code == 429
    api.clock.advance(-10 * 86_400_000)
    assert sign_in(api).status_code == 201


def test_a_right_password_is_hashed_anew_if_that_is_due(
    api: PeopleApi, ann: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel_accounts.sign_in.needs_rehash", lambda _: True)
    assert sign_in(api).status_code == 201
    with api.db.read() as conn:
        after = accounts.get_account(conn, ann.id)
    assert after.password not in (None, ann.password)
    assert sign_in(api).status_code == 201


def test_who_must_change_the_password_does_nothing_else_before(api: PeopleApi) -> None:
    api.people.accounts.create("bob", ALL, password=PASSWORD)
    answer = sign_in(api, "bob")
    assert answer.json["must_change"] is True
    assert browse(api, answer, "GET", "groups").status_code == 403
    assert browse(api, answer, "POST", "me/tokens", body=b'{"name": "mine"}').status_code == 403
    body = {"old_password": PASSWORD, "password": "another nine blue ducks"}
    assert browse(api, answer, "PUT", "me/password", json=body).status_code == 200
    assert browse(api, answer, "GET", "groups").status_code == 200


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("wrong", "another nine blue ducks", "old_password"),
        (PASSWORD, PASSWORD, "password"),
        (PASSWORD, "short", "password"),
        (PASSWORD, "password" * 3, "password"),
        (PASSWORD, "ann-ann-ann-ann-ann", "password"),
    ],
)
def test_a_bad_change_of_password_changes_nothing(api: PeopleApi, ann: Account, old: str, new: str, field: str) -> None:
    answer = sign_in(api)
    before = api.rows()["account"]
    refused = browse(api, answer, "PUT", "me/password", json={"old_password": old, "password": new})
    assert (refused.status_code, refused.json["field"]) == (422, field)
    assert new not in refused.json["detail"]
    assert api.rows()["account"] == before


def test_a_new_password_ends_all_other_sessions(api: PeopleApi, ann: Account) -> None:
    here, there = sign_in(api), sign_in(api)
    body = {"old_password": PASSWORD, "password": "another nine blue ducks"}
    assert browse(api, here, "PUT", "me/password", json=body).status_code == 200
    assert browse(api, here, "GET", "session").status_code == 200
    assert browse(api, there, "GET", "session").status_code == 401
    assert sign_in(api).status_code == 401
    assert sign_in(api, password="another nine blue ducks").status_code == 201


def test_a_token_alone_ends_no_session_and_no_other_token(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api)
    made = [own_token(api, answer, name).json for name in ("one", "two")]
    number = browse(api, answer, "GET", "me/sessions").json["items"][0]["id"]
    headers = {"Authorization": f"Bearer {made[0]['token']}"}
    for path, status in ((f"me/sessions/{number}", 403), ("me/tokens/two", 403), ("me/tokens/one", 204)):
        found = api.management.simulate_delete(f"/api/v1/{path}", headers=headers)
        assert found.status_code == status, path


def test_a_password_that_was_reset_while_it_was_judged_opens_nothing(api: PeopleApi, ann: Account) -> None:
    judged = api.people.sign_in.judge("ann", PASSWORD, "127.0.0.1")
    api.people.accounts.reset(ann.id)
    with pytest.raises(Exception, match="the name or the password is wrong"):
        api.people.sessions.begin(judged, "127.0.0.1", "")


def test_who_is_refused_with_a_cookie_is_named_in_the_audit(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api, extras={"REMOTE_ADDR": "192.0.2.10"})
    browse(api, answer, "GET", "groups", extras={"REMOTE_ADDR": "198.51.100.1"})
    at_home = {"REMOTE_ADDR": "192.0.2.10"}
    browse(api, answer, "POST", "groups", None, extras=at_home, body=b"{}")
    body = {"old_password": "wrong", "password": "another nine blue ducks"}
    browse(api, answer, "PUT", "me/password", json=body, extras=at_home)
    api.refusals.end()
    refused = [row for row in map(str, api.rows()["audit"]) if "call.refuse" in row]
    assert len(refused) == 3
    assert all("'ann'" in row for row in refused)


def test_guesses_at_the_old_password_wait_too(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api)
    body = {"old_password": "wrong", "password": "another nine blue ducks"}
    found = [browse(api, answer, "PUT", "me/password", json=body).status_code for _ in range(OF_PAIR.free + 1)]
    assert found == [422] * OF_PAIR.free + [429]


def test_a_token_of_ones_own_does_no_more_than_its_account(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api)
    made = own_token(api, answer, role="viewer")
    assert made.status_code == 201
    assert (made.json["role"], made.json["account_name"]) == ("viewer", "ann")
    api.clock.advance(1000)
    headers = {"Authorization": f"Bearer {made.json['token']}"}
    call = api.management.simulate_request
    assert call("GET", "/api/v1/groups", headers=headers).status_code == 200
    assert call("POST", "/api/v1/groups", headers=headers, json={"app_name": "x"}).status_code == 403
    # with a token alone neither password nor further tokens
    assert call("POST", "/api/v1/session/confirm", headers=headers, json={"password": PASSWORD}).status_code == 403
    assert call("POST", "/api/v1/me/tokens", headers=headers, json={"name": "more"}).status_code == 403
    body = {"old_password": PASSWORD, "password": "another nine blue ducks"}
    assert call("PUT", "/api/v1/me/password", headers=headers, json=body).status_code == 403
    assert call("GET", "/api/v1/session", headers=headers).json["csrf"] is None
    api.db.transaction(lambda conn: accounts.update_account(conn, ann.id, {"grants": Grants()}, 1))
    api.clock.advance(1000)
    assert call("GET", "/api/v1/groups", headers=headers).status_code == 403
    assert browse(api, answer, "DELETE", "me/tokens/mine").status_code == 204
    api.clock.advance(1000)
    assert call("GET", "/api/v1/session", headers=headers).status_code == 401


@pytest.mark.parametrize("password", [None, "wrong", PASSWORD + "x"])
def test_s16_a_token_of_ones_own_takes_the_password_once_more(
    api: PeopleApi, ann: Account, password: str | None
) -> None:
    """A minute at somebody's desk is not enough."""
    answer = sign_in(api)
    assert answer.json["asks_password"] is True
    if password is not None:
        refused = confirm(api, answer, password)
        assert (refused.status_code, refused.json["field"]) == (422, "password")
    refused = browse(api, answer, "POST", "me/tokens", json={"name": "mine"})
    assert (refused.status_code, refused.json["type"]) == (403, "urn:xwheel:problem:unconfirmed")
    assert [row[1] for row in api.rows()["api_token"]] == ["tests"]


def test_s23_a_password_counts_for_some_minutes_in_its_session_alone(api: PeopleApi, ann: Account) -> None:
    here, there = sign_in(api), sign_in(api)
    api.clock.advance(1000)
    assert confirm(api, here).status_code == 204

    def make(answer: falcon.testing.Result, name: str) -> int:
        return browse(api, answer, "POST", "me/tokens", json={"name": name}).status_code

    assert (make(here, "one"), make(there, "two")) == (201, 403)
    api.clock.advance(CONFIRMED_MS)
    assert make(here, "three") == 201
    api.clock.advance(1)
    assert make(here, "four") == 403
    assert confirm(api, here).status_code == 204
    assert make(here, "four") == 201
    # a clock that goes back makes no password newer
    api.clock.advance(-2 * CONFIRMED_MS)
    assert make(here, "five") == 403
    assert sorted(row[1] for row in api.rows()["api_token"]) == ["four", "one", "tests", "three"]


def test_s23_a_link_is_no_password(api: PeopleApi, ann: Account) -> None:
    secret, _ = api.people.accounts.make_link(ann.id)
    answer = api.management.simulate_post("/api/v1/session", json={"link": secret})
    assert answer.status_code == 201
    refused = browse(api, answer, "POST", "me/tokens", json={"name": "mine"})
    assert (refused.status_code, refused.json["type"]) == (403, "urn:xwheel:problem:unconfirmed")


def test_s23_a_session_that_ends_while_its_password_is_judged_is_not_confirmed(
    api: PeopleApi, ann: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what in ("password", "session"):
        answer = sign_in(api)
        judge = SignIn.judge_again

        def late(*args: Any, judge: Any = judge, what: str = what, **options: Any) -> Account:
            judged: Account = judge(*args, **options)
            if what == "password":
                own = browse(api, answer, "GET", "me/sessions").json["items"][0]["id"]  # noqa: B023
                api.people.accounts.change_password(judged, "another nine blue ducks", session_id=own)
                api.people.accounts.change_password(accounts_of(api, judged.id), PASSWORD, session_id=own)
            else:
                api.people.accounts.end_sessions(judged.id)
            return judged

        with monkeypatch.context() as patch:
            patch.setattr(SignIn, "judge_again", late)
            refused = confirm(api, answer)
        assert refused.status_code == 401, what
        assert all(row[-1] is None for row in api.rows()["account_session"]), what


def test_s14_each_call_that_hashes_a_password_takes_a_place_of_its_callers_address(
    api_with: Callable[..., PeopleApi],
) -> None:
    """Behind a proxy too, the address is the caller's: who has a place already gets no other, and others do."""
    api = api_with(threads=16, trusted_proxies=["127.0.0.1"])
    api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    bob, _ = api.people.accounts.create("bob", Grants(), password=PASSWORD, must_change=False)
    answer = sign_in(api, headers={"X-Forwarded-For": "192.0.2.2"})
    calls = (
        ("POST", "session", {"name": "bob", "password": PASSWORD}, 201),
        ("POST", "session/confirm", {"password": PASSWORD}, 204),
        ("POST", "accounts", {"name": "eve"}, 201),
        ("POST", f"accounts/{bob.id}/reset", {}, 200),
        ("PUT", "me/password", {"old_password": PASSWORD, "password": "another nine blue ducks"}, 200),
    )
    for method, path, body, status in calls:
        with api.people.sign_in._places.hold("192.0.2.1"):
            # a sign-in ends the session that its cookie names
            caller = answer if path != "session" else sign_in(api, headers={"X-Forwarded-For": "192.0.2.2"})
            busy = browse(api, caller, method, path, headers={"X-Forwarded-For": "192.0.2.1"}, json=body)
            assert (busy.status_code, busy.json["type"]) == (503, "urn:xwheel:problem:busy"), path
            assert busy.headers["retry-after"] == "1"
            done = browse(api, caller, method, path, headers={"X-Forwarded-For": "192.0.2.2"}, json=body)
            assert done.status_code == status, (path, done.text)


def test_s16_guesses_at_the_password_of_a_token_wait_too(api: PeopleApi, ann: Account) -> None:
    answer = sign_in(api)
    found = [confirm(api, answer, "wrong").status_code for _ in range(OF_PAIR.free)]
    assert found == [422] * OF_PAIR.free
    assert confirm(api, answer).status_code == 429
    api.refusals.end()
    refused = [row for row in map(str, api.rows()["audit"]) if "call.refuse" in row]
    assert all("'ann'" in row for row in refused)
    assert refused


@pytest.mark.parametrize("keeps", [False, True])
def test_s16_a_new_password_ends_the_accounts_tokens_unless_they_are_kept(
    api: PeopleApi, ann: Account, keeps: bool
) -> None:
    api.people.accounts.create("bob", ALL, password=PASSWORD, must_change=False)
    assert own_token(api, sign_in(api, "bob"), "of-bob").status_code == 201
    here, there = sign_in(api), sign_in(api)
    secrets = [own_token(api, here, name).json["token"] for name in ("one", "two")]
    headers = {"Authorization": f"Bearer {secrets[0]}"}
    assert api.management.simulate_get("/api/v1/session", headers=headers).status_code == 200
    body = {"old_password": PASSWORD, "password": "another nine blue ducks", "keep_tokens": keeps}
    done = browse(api, here, "PUT", "me/password", json=body)
    assert (done.status_code, done.json) == (200, {"sessions_ended": 1, "tokens_ended": 0 if keeps else 2})
    # at once on the node that changed it
    status = 200 if keeps else 401
    assert api.management.simulate_get("/api/v1/session", headers=headers).status_code == status
    assert browse(api, there, "GET", "session").status_code == 401
    left = {row[1] for row in api.rows()["api_token"]}
    assert left == {"tests", "of-bob"} | ({"one", "two"} if keeps else set())
    deleted = [row for row in map(str, api.rows()["audit"]) if "'token.delete'" in row]
    assert len(deleted) == (0 if keeps else 2)


def test_s16_a_token_that_is_made_while_the_password_changes_does_not_outlive_that(
    api: PeopleApi, ann: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session was good when the call came; another password ends it before the token is there."""
    answer = sign_in(api)
    assert confirm(api, answer).status_code == 204
    check = SignIn.check_session

    def late(self: SignIn, conn: Any, account_id: int, session_id: int) -> None:
        sessions.delete_sessions_of(conn, account_id)  # as a change of the password in another session does
        check(self, conn, account_id, session_id)

    monkeypatch.setattr(SignIn, "check_session", late)
    refused = browse(api, answer, "POST", "me/tokens", json={"name": "mine"})
    assert refused.status_code == 401
    assert [row[1] for row in api.rows()["api_token"]] == ["tests"]


def accounts_of(api: PeopleApi, account_id: int) -> Account:
    with api.db.read() as conn:
        return accounts.get_account(conn, account_id)


class Elsewhere:
    """A provider that sends browsers to a page elsewhere; no password is ever seen here."""

    name, title = "elsewhere", "The company"
    begin = finish = refresh = lambda *_: None


def test_s16_an_account_without_a_password_here_signs_in_a_moment_before_it_makes_a_token(
    api: PeopleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = api.people.accounts.create("eve", ALL, provider="elsewhere")
    access = api.people
    monkeypatch.setattr(access.sign_in, "_providers", providers_of(LocalAccounts(), Elsewhere()))
    secret, _ = access.sessions.begin(made, "127.0.0.1", "")
    headers = {"Cookie": f"{COOKIE}={secret}", CSRF_HEADER: csrf_token(secret)}

    def make(name: str) -> falcon.testing.Result:
        return api.management.simulate_post("/api/v1/me/tokens", json={"name": name}, headers=headers)

    shown = api.management.simulate_get("/api/v1/session", headers=headers)
    assert shown.json["asks_password"] is False
    refused = api.management.simulate_post("/api/v1/session/confirm", json={"password": "any"}, headers=headers)
    assert (refused.status_code, "sign in again" in refused.json["detail"]) == (403, True)
    api.clock.advance(CONFIRMED_MS)
    assert make("one").status_code == 201
    api.clock.advance(1)
    assert make("two").status_code == 403
    api.clock.advance(-2 * CONFIRMED_MS)
    assert make("two").status_code == 403


def test_n25_nobody_deletes_a_token_of_another_account_as_their_own(api: PeopleApi, ann: Account) -> None:
    api.people.accounts.create("bob", ALL, password=PASSWORD, must_change=False)
    hers, his = sign_in(api), sign_in(api, "bob")
    assert own_token(api, hers, "of-ann").status_code == 201
    for name in ("of-ann", "tests"):
        assert browse(api, his, "DELETE", f"me/tokens/{name}").status_code == 404, name
    assert {row[1] for row in api.rows()["api_token"]} == {"tests", "of-ann"}
    assert browse(api, hers, "DELETE", "me/tokens/of-ann").status_code == 204


def test_a_token_ends_and_keeps_to_its_networks(api: PeopleApi) -> None:
    body = {"name": "short", "role": "viewer", "expires_in_s": 60, "networks": ["192.0.2.0/24", "2001:db8::/32"]}
    secret = api.call("POST", "tokens", body).json["token"]
    store = TokenStore(api.db, api.clock, api.people.rights)
    assert store.find(secret, "192.0.2.7") is not None
    assert store.find(secret, "::ffff:192.0.2.7") is not None
    assert store.find(secret, "2001:db8::7") is not None
    assert store.find(secret, "198.51.100.1") is None
    assert store.find(secret, "") is None
    api.clock.advance(60_000)
    assert store.find(secret, "192.0.2.7") is None
    for network in ("192.0.2.1/24", "all", "", "192.0.2.0/240"):
        refused = api.call("POST", "tokens", {"name": "x", "networks": [network]})
        assert (refused.status_code, refused.json["field"]) == (422, "networks"), network


def test_a_node_that_knows_no_roles_opens_nothing_with_such_a_token(api: PeopleApi) -> None:
    """It takes every token without a group as one for everything."""
    for number, fields in enumerate(({"role": "viewer"}, {"expires_in_s": 60}, {"networks": ["192.0.2.0/24"]})):
        assert api.call("POST", "tokens", {"name": f"token-{number}", **fields}).status_code == 201
    with api.db.read() as conn:
        stored = conn.execute(api_token.select().order_by(api_token.c.id)).all()
    assert [row.group_id for row in stored] == [None, -1, -1, -1]
    found = api.call("GET", "tokens").json["items"]
    assert [item["group_id"] for item in found] == [None] * 4
    group = api.group("orders")
    assert api.call("DELETE", f"groups/{group}").status_code == 204
    assert len(api.call("GET", "tokens").json["items"]) == 4


def test_when_a_token_was_used_is_known_to_a_minute(api: PeopleApi) -> None:
    for _ in range(3):
        assert api.call("GET", "tokens/tests").status_code == 200
        api.clock.advance(60_000)
    for later_ms in (0, 59_999):
        api.clock.advance(later_ms)
        used = api.call("GET", "tokens/tests").json["used_ms"]
        assert used == api.clock.now_ms() - later_ms
