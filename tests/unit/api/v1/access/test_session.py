"""Signing in and out: cookies, pages of other sites, wrong passwords, and what ends a session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import falcon.testing
import pytest

from tests.unit.api.conftest import TOKEN, Api
from xwheel.accounts.sessions import csrf_token
from xwheel.accounts.throttle import LAST_PAUSE_MS, LOCKED_AT, OF_NAME, OF_PAIR, key_of_name, network_of
from xwheel.accounts.tokens import TokenStore
from xwheel.api.http.browsers import COOKIE, CSRF_HEADER, HOST_COOKIE
from xwheel.model.access import ALL, Grants
from xwheel.storage.access import accounts, sessions
from xwheel.storage.access.accounts import Account
from xwheel.storage.access.sessions import Failures
from xwheel.storage.schema.access_tables import api_token

PASSWORD = "seven wet goats sing"


@pytest.fixture
def ann(api: Api) -> Account:
    made, _ = api.parts.access.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    return made


def sign_in(api: Api, name: str = "ann", password: str = PASSWORD, **options: Any) -> falcon.testing.Result:
    body = {"name": name, "password": password}
    return api.management.simulate_post("/api/v1/session", json=body, **options)


def browse(
    api: Api,
    answer: falcon.testing.Result,
    method: str,
    path: str,
    csrf: str | None = "right",
    **options: Any,
) -> falcon.testing.Result:
    """Call as a page does that signed in."""
    secret = answer.cookies[COOKIE].value
    headers = {"Cookie": f"{COOKIE}={secret}", **options.pop("headers", {})}
    if csrf is not None:
        headers[CSRF_HEADER] = csrf_token(secret) if csrf == "right" else csrf
    return api.management.simulate_request(method, f"/api/v1/{path}", headers=headers, **options)


def test_a_session_has_a_cookie_that_scripts_and_other_sites_cannot_use(api: Api, ann: Account) -> None:
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
    api.parts.access.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
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


def test_two_cookies_of_sessions_are_refused(api: Api, ann: Account) -> None:
    one, other = (sign_in(api).cookies[COOKIE].value for _ in "ab")
    shown = {"Cookie": f"{COOKIE}={one}; {COOKIE}={other}"}
    assert api.management.simulate_get("/api/v1/groups", headers=shown).status_code == 401


@pytest.mark.parametrize("csrf", [None, "", "wrong", "\xe9"])
def test_a_change_with_the_cookie_alone_is_refused(api: Api, ann: Account, csrf: str | None) -> None:
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
        {"Origin": "http://falconframework.org.evil.example"},
    ],
)
def test_pages_of_other_sites_change_nothing_and_sign_nobody_in(
    api: Api, ann: Account, headers: dict[str, str]
) -> None:
    answer = sign_in(api)
    assert (
        browse(api, answer, "POST", "groups", headers=headers, body=b'{"app_name": "x"}').status_code == 403
    )
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
    api.parts.access.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    headers = {"Origin": "https://jobs.example", "X-Forwarded-Host": "jobs.example"}
    assert sign_in(api, headers=headers).status_code == status


def test_signing_in_makes_a_new_session_and_ends_the_one_before(api: Api, ann: Account) -> None:
    first = sign_in(api)
    planted = sign_in(api, headers={"Cookie": f"{COOKIE}=chosen-by-somebody-else"})
    assert planted.cookies[COOKIE].value != "chosen-by-somebody-else"
    secret = first.cookies[COOKIE].value
    second = sign_in(api, headers={"Cookie": f"{COOKIE}={secret}"})
    assert second.cookies[COOKIE].value != secret
    assert browse(api, first, "GET", "session").status_code == 401
    assert browse(api, second, "GET", "session").status_code == 200


def test_a_stolen_cookie_opens_nothing_in_another_network(api: Api, ann: Account) -> None:
    answer = sign_in(api, extras={"REMOTE_ADDR": "192.0.2.10"})
    for address, status in (
        ("192.0.2.99", 200),
        ("198.51.100.1", 401),
        ("2001:db8::1", 401),
        ("192.0.2.10", 200),
    ):
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


def test_a_token_counts_before_a_cookie(api: Api, ann: Account) -> None:
    answer = sign_in(api)
    headers = {"Authorization": "Bearer wrong"}
    assert browse(api, answer, "GET", "groups", headers=headers).status_code == 401
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert (
        browse(api, answer, "POST", "groups", None, headers=headers, body=b'{"app_name": "x"}').status_code
        == 201
    )


def test_signing_out_ends_the_session_and_takes_the_cookie(api: Api, ann: Account) -> None:
    answer = sign_in(api)
    out = browse(api, answer, "DELETE", "session")
    assert (out.status_code, out.cookies[COOKIE].value) == (204, "")
    assert browse(api, answer, "GET", "session").status_code == 401
    assert api.call("DELETE", "session").status_code == 403


def test_a_session_ends_after_its_time_whatever_is_done(api: Api, ann: Account) -> None:
    idle, busy = sign_in(api), sign_in(api)
    config = api.parts.access.config
    lasted = 0
    while lasted < config.session_s - 3600:
        api.clock.advance(3_600_000)
        lasted += 3600
        assert browse(api, busy, "GET", "session").status_code == 200
        assert browse(api, idle, "GET", "session").status_code == 200 if lasted < 3600 else True
    assert browse(api, idle, "GET", "session").status_code == 401
    api.clock.advance(3_600_001)
    assert browse(api, busy, "GET", "session").status_code == 401


def test_what_is_no_session_opens_nothing(api: Api, ann: Account) -> None:
    sign_in(api)
    for secret in ("", "x", "x" * 65, "x" * 10_000, "\xe9", "a; b", '"'):
        found = api.management.simulate_get("/api/v1/groups", headers={"Cookie": f"{COOKIE}={secret}"})
        assert found.status_code in {401, 429}, secret


def test_sessions_can_be_seen_and_ended_from_elsewhere(api: Api, ann: Account) -> None:
    here, there = sign_in(api, headers={"User-Agent": "here"}), sign_in(api, headers={"User-Agent": "there"})
    items = browse(api, here, "GET", "me/sessions").json["items"]
    assert [(item["agent"], item["is_this"]) for item in items] == [("there", False), ("here", True)]
    assert browse(api, here, "DELETE", f"me/sessions/{items[0]['id']}").status_code == 204
    assert browse(api, there, "GET", "session").status_code == 401
    assert browse(api, here, "DELETE", f"me/sessions/{items[0]['id']}").status_code == 404


def test_nobody_ends_the_sessions_of_others(api: Api, ann: Account) -> None:
    api.parts.access.accounts.create("bob", Grants(), password=PASSWORD, must_change=False)
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
def test_the_answer_does_not_say_what_was_wrong(api: Api, ann: Account, name: str, password: str) -> None:
    refused = sign_in(api, name, password)
    assert (refused.status_code, refused.json["field"]) == (401, "password")
    assert refused.json["detail"].startswith("the name or the password is wrong")
    assert COOKIE not in refused.cookies
    assert api.rows()["account_session"] == []


@pytest.mark.parametrize("spelled", ["Ann", "ANN", "\uff41nn"])
def test_names_are_compared_without_case_and_width(api: Api, ann: Account, spelled: str) -> None:
    assert sign_in(api, spelled).status_code == 201


def test_a_disabled_account_answers_like_a_wrong_password(api: Api, ann: Account) -> None:
    api.db.transaction(lambda conn: accounts.update_account(conn, ann.id, {"disabled": True}, 1))
    assert sign_in(api).json["detail"] == sign_in(api, "nobody").json["detail"]


def test_wrong_passwords_make_the_next_ones_wait(api: Api, ann: Account) -> None:
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
    api: Api, ann: Account
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


def test_the_last_admin_is_never_locked(api: Api, ann: Account) -> None:
    key = key_of_name("ann")
    sign_in(api, password="wrong")
    for number, is_locked in ((1, False), (2, True)):
        many = Failures(LOCKED_AT, 0, api.clock.now_ms())
        api.db.transaction(lambda conn, many=many: sessions.save_failures(conn, key, many, is_new=False))
        assert (
            sign_in(api, password="wrong", extras={"REMOTE_ADDR": f"203.0.113.{number}"}).status_code == 401
        )
        with api.db.read() as conn:
            assert (accounts.get_account(conn, ann.id).locked_ms is not None) == is_locked
        api.parts.access.accounts.create(f"boss-{number}", ALL)
        api.clock.advance(LAST_PAUSE_MS)


def test_names_that_do_not_exist_wait_alike(api: Api, ann: Account) -> None:
    for _ in range(OF_PAIR.free):
        assert sign_in(api, "nobody").status_code == 401
    assert sign_in(api, "nobody").status_code == 429
    assert sign_in(api).status_code == 201


def test_many_names_from_one_address_wait_too(api: Api, ann: Account) -> None:
    answers = [sign_in(api, f"name-{number}", "wrong").status_code for number in range(60)]
    assert answers.index(429) == 50
    assert sign_in(api).status_code == 429
    assert sign_in(api, extras={"REMOTE_ADDR": "203.0.113.9"}).status_code == 201


def test_of_attempts_at_the_same_time_no_more_are_judged(api: Api, ann: Account) -> None:
    """A hundred threads that all saw no wrong password yet do not get a hundred guesses."""
    judge = api.parts.access.sign_in

    def guess(number: int) -> str:
        try:
            judge.judge("ann", f"guess {number}", "10.0.0.1")
        except Exception as error:
            return type(error).__name__
        return "in"

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(guess, range(24)))
    assert found.count("SignInError") == OF_PAIR.free
    assert found.count("SignInThrottledError") == 24 - OF_PAIR.free


def test_a_hundred_in_a_row_lock_the_account_until_an_admin_lifts_that(api: Api, ann: Account) -> None:
    key = key_of_name("ann")
    api.parts.access.accounts.create("boss", ALL)
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


def test_wrong_passwords_stand_in_the_audit_with_the_name_if_it_is_an_accounts(
    api: Api, ann: Account
) -> None:
    for _ in range(3):
        sign_in(api, password="wrong wet goats")
        sign_in(api, "wrong-field-password")
    api.parts.refusals.end()
    refused = [row for row in map(str, api.rows()["audit"]) if "call.refuse" in row]
    assert len([row for row in refused if "'ann'" in row]) == 2  # the first, and how many came behind it
    assert "goats" not in str(refused)
    assert "wrong-field-password" not in str(api.rows())


def test_a_clock_that_jumps_keeps_nobody_out_for_longer(api: Api, ann: Account) -> None:
    for _ in range(OF_PAIR.free):
        sign_in(api, password="wrong")
    assert sign_in(api).status_code == 429
    api.clock.advance(-10 * 86_400_000)
    assert sign_in(api).status_code == 201


def test_a_right_password_is_hashed_anew_if_that_is_due(
    api: Api, ann: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel.accounts.sign_in.needs_rehash", lambda _: True)
    assert sign_in(api).status_code == 201
    with api.db.read() as conn:
        after = accounts.get_account(conn, ann.id)
    assert after.password not in (None, ann.password)
    assert sign_in(api).status_code == 201


def test_who_must_change_the_password_does_nothing_else_before(api: Api) -> None:
    api.parts.access.accounts.create("bob", ALL, password=PASSWORD)
    answer = sign_in(api, "bob")
    assert answer.json["must_change"] is True
    assert browse(api, answer, "GET", "groups").status_code == 403
    assert browse(api, answer, "POST", "me/tokens", body=b'{"name": "mine"}').status_code == 403
    body = {"old_password": PASSWORD, "password": "another nine blue ducks"}
    assert browse(api, answer, "PUT", "me/password", json=body).status_code == 204
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
def test_a_bad_change_of_password_changes_nothing(
    api: Api, ann: Account, old: str, new: str, field: str
) -> None:
    answer = sign_in(api)
    before = api.rows()["account"]
    refused = browse(api, answer, "PUT", "me/password", json={"old_password": old, "password": new})
    assert (refused.status_code, refused.json["field"]) == (422, field)
    assert new not in refused.json["detail"]
    assert api.rows()["account"] == before


def test_a_new_password_ends_all_other_sessions(api: Api, ann: Account) -> None:
    here, there = sign_in(api), sign_in(api)
    body = {"old_password": PASSWORD, "password": "another nine blue ducks"}
    assert browse(api, here, "PUT", "me/password", json=body).status_code == 204
    assert browse(api, here, "GET", "session").status_code == 200
    assert browse(api, there, "GET", "session").status_code == 401
    assert sign_in(api).status_code == 401
    assert sign_in(api, password="another nine blue ducks").status_code == 201


def test_a_token_alone_ends_no_session_and_no_other_token(api: Api, ann: Account) -> None:
    answer = sign_in(api)
    made = [browse(api, answer, "POST", "me/tokens", json={"name": name}).json for name in ("one", "two")]
    number = browse(api, answer, "GET", "me/sessions").json["items"][0]["id"]
    headers = {"Authorization": f"Bearer {made[0]['token']}"}
    for path, status in ((f"me/sessions/{number}", 403), ("me/tokens/two", 403), ("me/tokens/one", 204)):
        found = api.management.simulate_delete(f"/api/v1/{path}", headers=headers)
        assert found.status_code == status, path


def test_a_password_that_was_reset_while_it_was_judged_opens_nothing(api: Api, ann: Account) -> None:
    judged = api.parts.access.sign_in.judge("ann", PASSWORD, "127.0.0.1")
    api.parts.access.accounts.reset(ann.id)
    with pytest.raises(Exception, match="the name or the password is wrong"):
        api.parts.access.sessions.begin(judged, "127.0.0.1", "")


def test_who_is_refused_with_a_cookie_is_named_in_the_audit(api: Api, ann: Account) -> None:
    answer = sign_in(api, extras={"REMOTE_ADDR": "192.0.2.10"})
    browse(api, answer, "GET", "groups", extras={"REMOTE_ADDR": "198.51.100.1"})
    at_home = {"REMOTE_ADDR": "192.0.2.10"}
    browse(api, answer, "POST", "groups", None, extras=at_home, body=b"{}")
    body = {"old_password": "wrong", "password": "another nine blue ducks"}
    browse(api, answer, "PUT", "me/password", json=body, extras=at_home)
    api.parts.refusals.end()
    refused = [row for row in map(str, api.rows()["audit"]) if "call.refuse" in row]
    assert len(refused) == 3
    assert all("'ann'" in row for row in refused)


def test_guesses_at_the_old_password_wait_too(api: Api, ann: Account) -> None:
    answer = sign_in(api)
    body = {"old_password": "wrong", "password": "another nine blue ducks"}
    found = [
        browse(api, answer, "PUT", "me/password", json=body).status_code for _ in range(OF_PAIR.free + 1)
    ]
    assert found == [422] * OF_PAIR.free + [429]


def test_a_token_of_ones_own_does_no_more_than_its_account(api: Api, ann: Account) -> None:
    answer = sign_in(api)
    made = browse(api, answer, "POST", "me/tokens", json={"name": "mine", "role": "viewer"})
    assert made.status_code == 201
    assert (made.json["role"], made.json["account_name"]) == ("viewer", "ann")
    api.clock.advance(1000)
    headers = {"Authorization": f"Bearer {made.json['token']}"}
    call = api.management.simulate_request
    assert call("GET", "/api/v1/groups", headers=headers).status_code == 200
    assert call("POST", "/api/v1/groups", headers=headers, json={"app_name": "x"}).status_code == 403
    # with a token alone neither password nor further tokens
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


def test_a_token_ends_and_keeps_to_its_networks(api: Api) -> None:
    body = {
        "name": "short",
        "role": "viewer",
        "expires_in_s": 60,
        "networks": ["192.0.2.0/24", "2001:db8::/32"],
    }
    secret = api.call("POST", "tokens", body).json["token"]
    store = TokenStore(api.db, api.clock)
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


def test_a_node_that_knows_no_roles_opens_nothing_with_such_a_token(api: Api) -> None:
    """It takes every token without a group as one for everything."""
    for number, fields in enumerate(
        ({"role": "viewer"}, {"expires_in_s": 60}, {"networks": ["192.0.2.0/24"]})
    ):
        assert api.call("POST", "tokens", {"name": f"token-{number}", **fields}).status_code == 201
    with api.db.read() as conn:
        stored = conn.execute(api_token.select().order_by(api_token.c.id)).all()
    assert [row.group_id for row in stored] == [None, -1, -1, -1]
    found = api.call("GET", "tokens").json["items"]
    assert [item["group_id"] for item in found] == [None] * 4
    group = api.group("orders")
    assert api.call("DELETE", f"groups/{group}").status_code == 204
    assert len(api.call("GET", "tokens").json["items"]) == 4


def test_when_a_token_was_used_is_known_to_a_minute(api: Api) -> None:
    for _ in range(3):
        assert api.call("GET", "tokens/tests").status_code == 200
        api.clock.advance(60_000)
    for later_ms in (0, 59_999):
        api.clock.advance(later_ms)
        used = api.call("GET", "tokens/tests").json["used_ms"]
        assert used == api.clock.now_ms() - later_ms
