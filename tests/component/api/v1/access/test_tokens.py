"""Tokens over the management API: made once shown, listed without secrets, ended within a second."""

from __future__ import annotations

from typing import Any

import falcon.testing
import pytest

from tests.component.api.conftest import TOKEN, Api
from tests.unit.api.test_pages import API, table_of
from xwheel.api.schema.access import NewTokenView, TokenCreate
from xwheel.api.schema.messages import NameQuery
from xwheel.errors import ConflictError
from xwheel.node.first_secrets import make_management_token
from xwheel.storage.access import tokens


def make(api: Api, name: str, **fields: Any) -> str:
    answer = api.call("POST", "tokens", {"name": name, **fields})
    assert answer.status_code == 201, answer.text
    secret: str = answer.json["token"]
    return secret


def enter(api: Api, token: str) -> falcon.testing.Result:
    return api.management.simulate_get("/api/v1/groups", headers={"Authorization": f"Bearer {token}"})


def test_a_token_is_shown_once_and_opens_the_api(api: Api) -> None:
    answer = api.call("POST", "tokens", {"name": "ci"})
    secret = answer.json["token"]
    assert answer.json == {
        "name": "ci",
        "group_id": None,
        "app_name": None,
        "role": "admin",
        "script": True,
        "groups": [],
        "account_id": None,
        "account_name": None,
        "expires_ms": None,
        "networks": [],
        "used_ms": None,
        "created_ms": api.clock.now_ms(),
        "token": secret,
    }
    assert len(secret) >= 43
    assert answer.headers["location"] == "/api/v1/tokens/ci"
    api.clock.advance(1000)
    assert enter(api, secret).status_code == 200
    one = api.call("GET", answer.headers["location"])
    assert one.json == {key: value for key, value in answer.json.items() if key != "token"}
    listed = api.call("GET", "tokens")
    assert [item["name"] for item in listed.json["items"]] == ["ci", "tests"]
    assert secret not in listed.text
    assert all(secret.encode() not in str(row).encode() for row in api.rows()["api_token"])


def test_a_token_of_a_group_opens_nothing_here(api: Api) -> None:
    secret = make(api, "orders-1", group_id=api.group("orders"))
    api.clock.advance(1000)
    before = api.rows()
    for method, path in (("GET", "groups"), ("POST", "tokens"), ("DELETE", "tokens/tests")):
        answer = api.management.simulate_request(
            method, f"/api/v1/{path}", headers={"Authorization": f"Bearer {secret}"}
        )
        assert answer.status_code == 401, path
        assert "group orders" in answer.json["detail"]
        assert secret not in answer.text
    assert api.rows() == before


def test_a_deleted_token_ends_within_a_second(api: Api) -> None:
    secret = make(api, "ci")
    api.clock.advance(1000)
    assert enter(api, secret).status_code == 200
    assert api.call("DELETE", "tokens/ci").status_code == 204
    api.clock.advance(1000)
    assert enter(api, secret).status_code == 401
    for method in ("GET", "DELETE"):
        assert api.call(method, "tokens/ci").status_code == 404
        assert api.call(method, "tokens/no%20name").status_code == 422


def test_the_last_token_for_everything_stays(api: Api) -> None:
    make(api, "orders-1", group_id=api.group("orders"))
    answer = api.call("DELETE", "tokens/tests")
    assert (answer.status_code, answer.json["type"]) == (409, "urn:xwheel:problem:conflict")
    assert "make another one first" in answer.json["detail"]
    make(api, "next")
    assert api.call("DELETE", "tokens/tests").status_code == 204


def test_names_are_unique_and_groups_may_have_several(api: Api) -> None:
    group = api.group("orders")
    make(api, "orders-1", group_id=group)
    make(api, "orders-2", group_id=group)
    assert api.call("POST", "tokens", {"name": "orders-1"}).status_code == 409
    assert api.call("DELETE", "tokens/orders-1").status_code == 204
    assert api.call("DELETE", "tokens/orders-2").status_code == 204


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "a\x00"}, "name"),
        ({"name": None}, "name"),
        ({"name": "a", "group_id": 0}, "group_id"),
        ({"name": "a", "group_id": 99}, "group_id"),
        ({"name": "a", "group_id": "1"}, "group_id"),
        ({"name": "a", "token": "mine"}, "token"),
    ],
)
def test_what_is_no_token_is_refused(api: Api, body: dict[str, Any], field: str) -> None:
    before = api.rows()
    answer = api.call("POST", "tokens", body)
    assert (answer.status_code, answer.json["field"]) == (422, field)
    assert api.rows() == before


def test_pages_follow_names(api: Api) -> None:
    for name in ("c", "a", "B"):
        make(api, name)
    first = api.call("GET", "tokens", params={"limit": 2}).json
    rest = api.call("GET", "tokens", params={"limit": 2, "after": first["next"]}).json
    assert [item["name"] for item in first["items"] + rest["items"]] == ["B", "a", "c", "tests"]
    assert rest["next"] is None
    assert api.call("GET", "tokens", params={"after": "no name"}).status_code == 422


def test_a_group_takes_its_tokens_along(api: Api) -> None:
    group = api.group("orders")
    make(api, "orders-1", group_id=group)
    assert api.call("DELETE", f"groups/{group}").status_code == 204
    assert [row[1] for row in api.rows()["api_token"]] == ["tests"]


def test_there_is_a_bound(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_TOKENS", 2)
    make(api, "ci")
    answer = api.call("POST", "tokens", {"name": "one-more"})
    assert answer.status_code == 409
    assert "delete those that are not used" in answer.json["detail"]


def test_a_start_makes_a_token_only_if_there_is_none(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    make_management_token(api.parts.audit, 1, said.append).ensure(api.db)
    assert said == []
    api.db.transaction(lambda conn: tokens.replace_token(conn, "tests", TOKEN, 1))
    with api.db.write() as conn:
        conn.execute(tokens.api_token.delete())
    group = api.group("orders")
    api.db.transaction(lambda conn: tokens.insert_token(conn, "first", "a-token", 1, group_id=group))
    make_management_token(api.parts.audit, 7, said.append).ensure(api.db)
    assert sorted(row[1] for row in api.rows()["api_token"]) == ["first", "first-7"]
    api.clock.advance(1000)
    assert enter(api, said[0].split()[-1]).status_code == 200

    # two nodes start at once: the slower one finds the row where it saw none
    def late(*args: Any) -> None:
        raise ConflictError("the other node was faster")

    with api.db.write() as conn:
        conn.execute(tokens.api_token.delete())
    monkeypatch.setattr(tokens, "insert_token", late)
    make_management_token(api.parts.audit, 7, said.append).ensure(api.db)
    assert len(said) == 1


@pytest.mark.parametrize("kind", [TokenCreate, NameQuery])
def test_the_page_has_every_field(kind: type[Any]) -> None:
    rows = [row for row in table_of(kind) if not row.startswith(("| `after`", "| `limit`"))]
    assert [row for row in rows if row not in API] == []


@pytest.mark.parametrize("view", [NewTokenView])
def test_the_page_has_every_field_of_answers(view: type[Any]) -> None:
    assert [name for name in view.__struct_fields__ if f"`{name}`" not in API] == []
