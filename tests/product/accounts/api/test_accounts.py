"""Accounts over the management API: who may make whom what, and that one admin always stays."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from xwheel_accounts.storage import accounts

from tests.product.accounts.api.test_session import PASSWORD, browse, confirm, own_token, sign_in
from tests.product.accounts.conftest import PeopleApi
from xwheel.errors import ConflictError
from xwheel.model.access import ALL, Actor, ActorKind, Grant, Grants, Role, acting
from xwheel.node.first_secrets import first_credentials

ADMIN = {"role": "admin"}


def make(api: PeopleApi, name: str, **fields: Any) -> dict[str, Any]:
    answer = api.call("POST", "accounts", {"name": name, **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json
    return made


def test_an_account_is_made_with_a_password_that_is_shown_once(api: PeopleApi) -> None:
    group = api.group("orders")
    made = make(api, "li.wei", display_name="李伟", groups=[{"group_id": group, "role": "editor", "script": True}])
    password = made.pop("password")
    assert len(password) >= 20
    assert made["groups"] == [{"group_id": group, "role": "editor", "script": True}]
    assert (made["role"], made["must_change"], made["disabled"]) == (None, True, False)
    one = api.call("GET", f"accounts/{made['id']}")
    assert one.json == made
    assert one.headers["etag"] == '"1"'
    assert api.call("GET", "accounts").json["items"] == [made]
    assert password not in str(api.rows())
    assert sign_in(api, "li.wei", password).status_code == 201


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "a" * 65}, "name"),
        ({"name": "a" * 4000}, "name"),
        ({"name": "ann\u202egnp"}, "name"),
        ({"name": "\u200fann"}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": " ann"}, "name"),
        ({"name": "-ann"}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "a<b>"}, "name"),
        ({"name": "e\u0301"}, "name"),
        ({"name": "a" + "\ufdfa" * 8}, "name"),
        ({"name": ""}, "name"),
        ({"name": "ann", "display_name": "a\u202eb"}, "display_name"),
        ({"name": "ann", "display_name": "a\nb"}, "display_name"),
        ({"name": "ann", "password": "short"}, "password"),
        ({"name": "ann", "password": "aaaaaaaaaaaaaaaaaaaa"}, "password"),
        ({"name": "ann", "role": "owner"}, "role"),
        ({"name": "ann", "groups": [{"group_id": 99, "role": "viewer"}]}, "groups"),
        ({"name": "ann", "groups": [{"group_id": 1, "role": "viewer"}] * 2}, "groups"),
    ],
)
def test_what_is_no_account_is_refused(api: PeopleApi, fields: dict[str, Any], field: str) -> None:
    api.group("orders")
    before = api.rows()
    answer = api.call("POST", "accounts", fields)
    assert (answer.status_code, answer.json["field"]) == (422, field)
    assert api.rows() == before


@pytest.mark.parametrize("name", ["ann", "Ann", "\uff21nn"])
def test_names_that_read_alike_are_one(api: PeopleApi, name: str) -> None:
    make(api, "Ann")
    assert api.call("POST", "accounts", {"name": name}).status_code == 409


@pytest.mark.parametrize("name", ["李伟", "søren", "ann@example.com", "a.b-c_d+e", "Ольга", "नमस्ते"])
def test_names_of_any_language_are_fine(api: PeopleApi, name: str) -> None:
    assert make(api, name)["name"] == name


def test_what_is_not_named_in_a_change_stays(api: PeopleApi) -> None:
    group = api.group("orders")
    made = make(api, "ann", role="viewer", groups=[{"group_id": group, "role": "editor"}])
    path = f"accounts/{made['id']}"
    changed = api.call("PATCH", path, {"role": "operator"}).json
    assert (changed["role"], changed["groups"]) == ("operator", made["groups"])
    changed = api.call("PATCH", path, {"groups": []}).json
    assert (changed["role"], changed["groups"]) == ("operator", [])
    changed = api.call("PATCH", path, {"role": None, "display_name": "Ann"}).json
    assert (changed["role"], changed["display_name"], changed["revision"]) == (None, "Ann", 4)
    assert api.call("PATCH", path, {"role": "viewer"}, headers={"If-Match": '"3"'}).status_code == 409
    assert api.call("PATCH", path, {"locked": True}).json["field"] == "locked"
    assert api.call("PATCH", "accounts/99", {"role": "viewer"}).status_code == 404


def test_the_last_admin_stays(api: PeopleApi) -> None:
    one = make(api, "one", **ADMIN)
    make(api, "reader", role="viewer")
    path = f"accounts/{one['id']}"
    for answer in (
        api.call("PATCH", path, {"role": "editor"}),
        api.call("PATCH", path, {"disabled": True}),
        api.call("DELETE", path),
    ):
        assert (answer.status_code, answer.json["type"]) == (409, "urn:xwheel:problem:conflict")
        assert "make another admin first" in answer.json["detail"]
    two = make(api, "two", **ADMIN)
    assert api.call("PATCH", path, {"disabled": True}).status_code == 200
    assert api.call("DELETE", f"accounts/{two['id']}").status_code == 409
    assert api.call("PATCH", path, {"disabled": False}).status_code == 200
    assert api.call("DELETE", f"accounts/{two['id']}").status_code == 204


def test_two_admins_who_remove_each_other_at_once_leave_one(api: PeopleApi) -> None:
    made = [make(api, name, **ADMIN)["id"] for name in ("one", "two")]
    start = threading.Barrier(2)
    failed: list[Exception] = []

    def remove(number: int) -> None:
        start.wait()
        try:
            api.people.accounts.delete(made[number])
        except ConflictError as error:
            failed.append(error)

    threads = [threading.Thread(target=remove, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with api.db.read() as conn:
        assert len(accounts.list_accounts(conn)) == 1
    assert len(failed) == 1


def test_nobody_gives_more_than_they_have(api: PeopleApi) -> None:
    orders, billing = api.group("orders"), api.group("billing")
    grants = Grants(Grant(Role.VIEWER), {orders: Grant(Role.ADMIN)})
    actor = Actor(kind=ActorKind.ACCOUNT, name="of-orders", grants=grants)
    manager = api.people.accounts
    boss, _ = manager.create("boss", ALL)
    with acting(actor):
        manager.create("fine", Grants(Grant(Role.VIEWER), {orders: Grant(Role.EDITOR, script=True)}))
        for more in (ALL, Grants(Grant(Role.OPERATOR)), Grants(groups={billing: Grant(Role.EDITOR)})):
            with pytest.raises(Exception, match="no one gives away more"):
                manager.create("more", more)
        for work in (
            lambda: manager.reset(boss.id),
            lambda: manager.delete(boss.id),
            lambda: manager.change(boss.id, {"disabled": True}),
            lambda: manager.end_sessions(boss.id),
        ):
            with pytest.raises(Exception, match="boss may do more than you"):
                work()


def test_who_lost_a_role_a_moment_ago_gives_nothing_away(api: PeopleApi) -> None:
    """A node remembers for a second what somebody may do; what they make stays for ever."""
    made, _ = api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    make(api, "boss", **ADMIN)
    answer = sign_in(api)
    assert confirm(api, answer).status_code == 204
    assert browse(api, answer, "GET", "accounts").status_code == 200
    api.db.transaction(lambda conn: accounts.update_account(conn, made.id, {"grants": Grants()}, 1))
    for path in ("accounts", "tokens"):
        refused = browse(api, answer, "POST", path, json={"name": "mine", "role": "admin"})
        assert refused.status_code == 403, path
        assert "no one gives away more" in refused.json["detail"]
    # nor does it take an account from somebody who may do more now
    boss = next(item for item in api.call("GET", "accounts").json["items"] if item["name"] == "boss")
    for method, path in (("POST", "reset"), ("POST", "link"), ("DELETE", "sessions")):
        refused = browse(api, answer, method, f"accounts/{boss['id']}/{path}")
        assert (refused.status_code, "may do more than you" in refused.json["detail"]) == (403, True), path


def test_a_group_that_is_gone_hinders_no_other_change(api: PeopleApi) -> None:
    group = api.group("orders")
    made = make(api, "ann", groups=[{"group_id": group, "role": "viewer"}])
    assert api.call("DELETE", f"groups/{group}").status_code == 204
    assert api.call("PATCH", f"accounts/{made['id']}", {"role": "viewer"}).status_code == 200


def test_a_reset_ends_sessions_and_shows_a_password_once(api: PeopleApi) -> None:
    api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    answer = sign_in(api)
    assert own_token(api, answer).status_code == 201
    number = api.call("GET", "accounts").json["items"][0]["id"]
    reset = api.call("POST", f"accounts/{number}/reset")
    assert (reset.status_code, reset.json["must_change"]) == (200, True)
    assert browse(api, answer, "GET", "session").status_code == 401
    assert (reset.json["sessions_ended"], reset.json["tokens_ended"]) == (1, 1)
    assert [row[1] for row in api.rows()["api_token"]] == ["tests"]
    assert sign_in(api).status_code == 401
    assert sign_in(api, password=reset.json["password"]).status_code == 201
    assert api.call("POST", f"accounts/{number}/reset", {"password": "short"}).json["field"] == "password"
    assert api.call("POST", "accounts/99/reset").status_code == 404


def test_a_password_that_is_kept_elsewhere_is_not_kept_here(api: PeopleApi) -> None:
    made = make(api, "ann", provider="ldap", role="viewer")
    assert (made["password"], made["password_ms"], made["must_change"]) == (None, None, False)
    assert api.call("POST", f"accounts/{made['id']}/reset").status_code == 409
    assert sign_in(api, "ann", "").status_code == 422
    assert sign_in(api, "ann", "x").status_code == 401


def test_an_account_that_goes_takes_sessions_and_tokens_along(api: PeopleApi) -> None:
    made, _ = api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    make(api, "boss", **ADMIN)
    answer = sign_in(api)
    assert own_token(api, answer).status_code == 201
    assert api.call("DELETE", f"accounts/{made.id}").status_code == 204
    assert browse(api, answer, "GET", "session").status_code == 401
    assert [row[1] for row in api.rows()["api_token"]] == ["tests"]
    assert api.rows()["account_session"] == []


def test_a_disabled_account_has_no_session_and_its_tokens_open_nothing(api: PeopleApi) -> None:
    made, _ = api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    make(api, "boss", **ADMIN)
    answer = sign_in(api)
    token = own_token(api, answer).json["token"]
    api.clock.advance(1000)
    headers = {"Authorization": f"Bearer {token}"}
    assert api.management.simulate_get("/api/v1/groups", headers=headers).status_code == 200
    assert api.call("PATCH", f"accounts/{made.id}", {"disabled": True}).status_code == 200
    api.clock.advance(1000)
    assert api.management.simulate_get("/api/v1/groups", headers=headers).status_code == 401
    assert browse(api, answer, "GET", "session").status_code == 401


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("what", ["disable", "reset", "sign out"])
def test_s16_what_takes_an_account_from_somebody_ends_its_tokens_unless_they_are_kept(
    api: PeopleApi, what: str, keeps: bool
) -> None:
    made, _ = api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    make(api, "boss", **ADMIN)
    token = own_token(api, sign_in(api)).json["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert api.management.simulate_get("/api/v1/groups", headers=headers).status_code == 200
    path = f"accounts/{made.id}"
    kept = {"keep_tokens": True} if keeps else {}
    if what == "disable":
        done = api.call("PATCH", path, {"disabled": True, **kept})
    elif what == "reset":
        done = api.call("POST", f"{path}/reset", kept)
    else:
        done = api.call("DELETE", f"{path}/sessions", params={"keep_tokens": "true"} if keeps else {})
    assert done.status_code == 200, done.text
    assert (done.json["sessions_ended"], done.json["tokens_ended"]) == (1, 0 if keeps else 1)
    assert {row[1] for row in api.rows()["api_token"]} == {"tests", *(["mine"] if keeps else [])}
    # one that is kept opens nothing while its account is disabled or has to set another password
    status = 200 if keeps and what == "sign out" else 401
    assert api.management.simulate_get("/api/v1/groups", headers=headers).status_code == status
    if what == "disable":
        # another change of an account that is disabled ends nothing more
        assert api.call("PATCH", path, {"display_name": "Ann Lee"}).json["tokens_ended"] == 0
        assert api.call("PATCH", path, {"disabled": False}).status_code == 200
        status = 200 if keeps else 401
        assert api.management.simulate_get("/api/v1/groups", headers=headers).status_code == status
    ended = [row for row in map(str, api.rows()["audit"]) if "'token.delete'" in row]
    assert len(ended) == (0 if keeps else 1)


def test_keep_tokens_without_what_would_end_them_is_refused(api: PeopleApi) -> None:
    made = make(api, "ann", role="viewer")
    refused = api.call("PATCH", f"accounts/{made['id']}", {"role": "editor", "keep_tokens": True})
    assert (refused.status_code, refused.json["field"]) == (422, "keep_tokens")


def test_sessions_of_an_account_can_be_ended_by_an_admin(api: PeopleApi) -> None:
    made, _ = api.people.accounts.create("ann", ALL, password=PASSWORD, must_change=False)
    answer = sign_in(api)
    assert len(api.call("GET", f"accounts/{made.id}/sessions").json["items"]) == 1
    assert api.call("DELETE", f"accounts/{made.id}/sessions").status_code == 200
    assert browse(api, answer, "GET", "session").status_code == 401
    assert api.call("GET", "accounts/99/sessions").status_code == 404


def ensure(api: PeopleApi, now_ms: int, said: list[str]) -> None:
    """Do what a start does."""
    (first,) = first_credentials(api.parts.plugins, api.parts.audit, now_ms, said.append)
    first.ensure(api.db)


def test_the_first_start_makes_an_admin_once(api: PeopleApi, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    for now_ms in (1, 2):
        ensure(api, now_ms, said)
    assert len(said) == 1
    assert "shown once" in said[0]
    assert sign_in(api, "admin", said[0].split()[-1]).json["role"] == "admin"

    def late(*args: Any, **options: Any) -> None:
        raise ConflictError("the other node was faster")

    monkeypatch.setattr(accounts, "has_accounts", lambda conn: False)
    monkeypatch.setattr(accounts, "insert_account", late)
    ensure(api, 3, said)
    assert len(said) == 1


def test_what_is_done_to_accounts_stands_in_the_audit_without_passwords(api: PeopleApi) -> None:
    made = make(api, "ann", role="viewer")
    api.call("PATCH", f"accounts/{made['id']}", {"role": "editor"})
    api.call("POST", f"accounts/{made['id']}/reset")
    answer = sign_in(api, "ann", made["password"])
    rows = api.rows()["audit"]
    said = [row for row in map(str, rows) if "account." in row or "session." in row]
    assert len(said) == 3
    assert made["password"] not in str(rows)
    assert "argon2" not in str(rows)
    assert answer.status_code == 401
