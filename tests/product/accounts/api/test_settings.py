"""What pages keep for an account: any JSON by name, for the account alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xwheel_accounts.api.messages import MAX_DEPTH, MAX_SETTING
from xwheel_accounts.storage.settings import MAX_SETTINGS

from tests.product.accounts.conftest import PeopleApi
from tests.product.accounts.people import PeopleCallers, Person
from xwheel.model.access import ALL, Grants

PATH = "/api/v1/me/settings"


@pytest.fixture
def ann(api: PeopleApi) -> Person:
    return Person(api, "ann", Grants())


def put(person: Person, name: str, value: object) -> Any:
    return person.call("PUT", f"{PATH}/{name}", {"value": value})


def kept(person: Person) -> Any:
    answer = person.call("GET", PATH)
    assert answer.status_code == 200
    return answer.json


@pytest.mark.parametrize(
    "value",
    [
        {"theme": "dark", "rows": 50},
        [{"name": "late", "query": "state=failed&group=7"}],
        None,
        False,
        0,
        1.5,
        10**30,
        "",
        "一\U0001f389",
        {"": {"\x00": "\x00"}},
        "x" * (MAX_SETTING - 2),
        "\u20ac" * ((MAX_SETTING - 2) // 3),
    ],
    ids=lambda value: str(value)[:20].encode("unicode_escape").decode(),
)
def test_any_json_comes_back_as_it_was(api: PeopleApi, ann: Person, value: object) -> None:
    assert kept(ann) == {"settings": {}}
    answer = put(ann, "preferences", value)
    assert (answer.status_code, answer.text) == (204, "")
    assert kept(ann) == {"settings": {"preferences": value}}


def test_a_setting_is_replaced_and_deleted(api: PeopleApi, ann: Person) -> None:
    for name, value in (("b", 1), ("a.view-2_x", 2), ("b", 3), ("b", 3)):
        assert put(ann, name, value).status_code == 204
    assert list(kept(ann)["settings"].items()) == [("a.view-2_x", 2), ("b", 3)]
    assert ann.call("DELETE", f"{PATH}/b").status_code == 204
    gone = ann.call("DELETE", f"{PATH}/b")
    assert (gone.status_code, gone.json["type"]) == (404, "urn:xwheel:problem:not-found")
    assert kept(ann) == {"settings": {"a.view-2_x": 2}}


def test_nobody_sees_the_settings_of_others(api: PeopleApi, ann: Person) -> None:
    bob = Person(api, "bob", ALL)
    assert put(ann, "preferences", "hers").status_code == 204
    assert kept(bob) == {"settings": {}}
    assert bob.call("DELETE", f"{PATH}/preferences").status_code == 404
    assert put(bob, "preferences", "his").status_code == 204
    assert kept(ann) == {"settings": {"preferences": "hers"}}


def test_a_personal_token_may_and_a_service_may_not(api: PeopleApi, ann: Person) -> None:
    callers = PeopleCallers(api)
    own = f"Bearer {callers.new_token('own', account_id=ann.account.id, grants=Grants())}"
    assert callers.show(own, "PUT", f"{PATH}/x", {"value": 1}).status_code == 204
    assert callers.show(own, "GET", PATH).json == {"settings": {"x": 1}}
    assert callers.show(own, "DELETE", f"{PATH}/x").status_code == 204
    before = api.rows()["account_setting"]
    for method, path, body in (("GET", "", None), ("PUT", "/x", {"value": 1}), ("DELETE", "/x", None)):
        refused = callers.call(ALL, method, PATH + path, body)
        assert (refused.status_code, refused.json["type"]) == (403, "urn:xwheel:problem:forbidden")
    assert api.rows()["account_setting"] == before


def test_an_account_keeps_no_more_than_so_many(api: PeopleApi, ann: Person) -> None:
    for number in range(MAX_SETTINGS):
        assert put(ann, f"view-{number}", number).status_code == 204
    refused = put(ann, "one-more", 1)
    assert (refused.status_code, refused.json["type"]) == (409, "urn:xwheel:problem:conflict")
    assert put(ann, "view-0", "another").status_code == 204
    assert ann.call("DELETE", f"{PATH}/view-1").status_code == 204
    assert put(ann, "one-more", 1).status_code == 204
    assert len(kept(ann)["settings"]) == MAX_SETTINGS


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", ".", "..", "_x", "é", "a" * 65, "a%2Fb", "a%00"])
def test_a_name_is_small_and_plain(api: PeopleApi, ann: Person, name: str) -> None:
    for method, body in (("PUT", {"value": 1}), ("DELETE", None)):
        assert ann.call(method, f"{PATH}/{name}", body).status_code in {404, 405, 422}
    assert api.rows()["account_setting"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "value"),
        ({"value": 1, "name": "x"}, "name"),
        ([], "body"),
        ({"value": "x" * (MAX_SETTING - 1)}, "value"),
        ({"value": "\u20ac" * (MAX_SETTING // 3)}, "value"),
        ({"value": json.loads("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))}, "value"),
        ({"value": json.loads('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1))}, "value"),
        ({"value": [1, json.loads("[" * 400 + "]" * 400)]}, "value"),
    ],
)
def test_what_is_too_large_too_deep_or_something_else_is_refused(
    api: PeopleApi, ann: Person, body: object, field: str
) -> None:
    refused = ann.call("PUT", f"{PATH}/x", body)
    assert (refused.status_code, refused.json["field"]) == (422, field)
    assert kept(ann) == {"settings": {}}


def test_the_deepest_that_is_kept(api: PeopleApi, ann: Person) -> None:
    deepest = json.loads('[{"a":' * (MAX_DEPTH // 2) + "1" + "}]" * (MAX_DEPTH // 2))
    assert put(ann, "x", deepest).status_code == 204
    assert kept(ann)["settings"]["x"] == deepest


def test_settings_go_with_their_account_and_are_not_in_the_audit(api: PeopleApi, ann: Person) -> None:
    bob = Person(api, "bob", ALL)
    before = api.rows()["audit"]
    for person in (ann, bob):
        assert put(person, "x", 1).status_code == 204
    assert ann.call("DELETE", f"{PATH}/x").status_code == 204
    assert put(ann, "x", 2).status_code == 204
    assert api.rows()["audit"] == before
    assert api.call("DELETE", f"accounts/{ann.account.id}").status_code == 204
    assert [row[0] for row in api.rows()["account_setting"]] == [bob.account.id]
