"""Groups over the management API."""

from __future__ import annotations

import pytest

from tests.component.api.conftest import Api
from tests.support.rows import NOW, make_executor
from xwheel.model import NO_SECRET, EnteredAddress


def test_a_group_lives_from_post_to_delete(api: Api) -> None:
    made = api.call("POST", "groups", {"app_name": "billing", "title": "Billing"})
    assert made.status_code == 201
    assert made.headers["location"] == f"/api/v1/groups/{made.json['id']}"
    assert made.json == {
        "id": made.json["id"],
        "app_name": "billing",
        "title": "Billing",
        "max_running": 0,
        "addresses": [],
        "glue_types": [],
        "created_ms": NOW,
        "updated_ms": NOW,
    }
    path = f"groups/{made.json['id']}"
    assert api.call("GET", path).json == made.json
    api.clock.advance(5)
    changed = api.call("PATCH", path, {"title": "Invoices"})
    assert changed.json == {**made.json, "title": "Invoices", "updated_ms": NOW + 5}
    gone = api.call("DELETE", path)
    assert (gone.status_code, gone.content) == (204, b"")
    assert api.call("GET", path).status_code == 404


def test_a_group_without_a_title_is_called_by_its_app_name(api: Api) -> None:
    assert api.call("POST", "groups", {"app_name": "billing"}).json["title"] == "billing"


def test_an_app_name_is_taken_once(api: Api) -> None:
    api.group("billing")
    before = api.rows()
    answer = api.call("POST", "groups", {"app_name": "billing"})
    assert (answer.status_code, answer.json["type"]) == (409, "urn:xwheel:problem:conflict")
    assert "billing" in answer.json["detail"]
    assert api.rows() == before


def test_a_group_with_jobs_stays(api: Api) -> None:
    job = api.job()
    before = api.rows()
    answer = api.call("DELETE", f"groups/{job['group_id']}")
    assert answer.status_code == 409
    assert api.rows() == before
    assert api.call("DELETE", f"jobs/{job['id']}").status_code == 204
    assert api.call("DELETE", f"groups/{job['group_id']}").status_code == 204


def test_a_group_that_is_not_there_is_404(api: Api) -> None:
    for method, path in (
        ("GET", "groups/9"),
        ("PATCH", "groups/9"),
        ("DELETE", "groups/9"),
        ("GET", "groups/9/executors"),
    ):
        answer = api.call(method, path, {"title": "x"})
        assert (answer.status_code, answer.json["type"]) == (404, "urn:xwheel:problem:not-found")
        assert answer.json["detail"] == "group 9 does not exist"


def test_lists_are_paged_by_id(api: Api) -> None:
    ids = [api.group(f"g{number}") for number in range(5)]
    seen: list[int] = []
    after: object = 0
    while after is not None:
        page = api.call("GET", "groups", params={"limit": 2, "after": after}).json
        assert len(page["items"]) <= 2
        seen += [item["id"] for item in page["items"]]
        after = page["next"]
    assert seen == ids
    assert api.call("GET", "groups", params={"limit": 5}).json["next"] is None


def test_executors_of_a_group_are_the_live_ones(api: Api) -> None:
    group = api.group("demo")
    other = api.group("other")
    for app_name, address in (("demo", "http://a:1"), ("demo", "http://b:1"), ("other", "http://c:1")):
        api.parts.registry.register(app_name, make_executor(address, instance=address), NOW)
    api.parts.registry.suspect("http://a:1", NOW)
    items = api.call("GET", f"groups/{group}/executors").json["items"]
    assert [item["address"] for item in items] == ["http://b:1", "http://a:1"]
    assert items[0] == {
        "id": 2,
        "group_id": group,
        "address": "http://b:1",
        "kind": "xwheel",
        "generation": 3,
        "instance": "http://b:1",
        "boot": "boot-1",
        "seen_ms": NOW,
        "suspect_until_ms": 0,
        "labels": {},
        "secret": "shared",
        "earlier_secret": None,
        "source": "registered",
        "release": None,
        "declared": None,
    }
    first = api.call("GET", "executors", params={"limit": 2}).json
    rest = api.call("GET", "executors", params={"after": first["next"]}).json
    assert [item["id"] for item in first["items"] + rest["items"]] == [1, 2, 3]
    assert rest["next"] is None
    (only,) = api.call("GET", "executors", params={"group_id": other}).json["items"]
    assert (only["group_id"], only["address"]) == (other, "http://c:1")
    api.clock.advance(90_001)
    assert api.call("GET", "executors").json["items"] == []
    assert api.call("GET", f"groups/{group}/executors").json["items"] == []
    assert api.call("GET", f"groups/{other}/executors").json == {"items": [], "next": None}


def test_groups_are_found_by_the_beginning_of_their_app_name(api: Api) -> None:
    for name in ("shop", "shop-night", "Shop-day", "a-shop", "shop_x"):
        api.group(name)

    def found(prefix: str) -> list[str]:
        page = api.call("GET", "groups", params={"app_name": prefix}).json
        return [item["app_name"] for item in page["items"]]

    assert found("shop") == ["shop", "shop-night", "shop_x"]
    assert found("shop_") == ["shop_x"]
    assert found("none") == []


def test_addresses_are_entered_with_the_name_of_a_secret_of_the_group(api: Api) -> None:
    group_id, other_id = api.group("orders"), api.group("billing")
    made = api.call("POST", "secrets", {"name": "orders-1", "group_id": group_id}).json
    api.call("POST", "secrets", {"name": "billing-1", "group_id": other_id})
    path = f"groups/{group_id}"
    wanted = [{"address": "http://10.0.0.1:9999/", "secret": "orders-1"}, {"address": "http://10.0.0.2:9999"}]
    saved = api.call("PATCH", path, {"addresses": wanted})
    assert saved.status_code == 200
    assert saved.json["addresses"] == [
        {"address": "http://10.0.0.1:9999", "secret": "orders-1", "live": False, "error": ""},
        {"address": "http://10.0.0.2:9999", "secret": None, "live": False, "error": ""},
    ]
    assert made["secret"] not in saved.text
    assert api.call("GET", "groups").json["items"][0] == saved.json
    api.call("PATCH", path, {"title": "Orders"})
    assert len(api.call("GET", path).json["addresses"]) == 2
    # once it answers it is an executor, and says where it comes from
    for item in (False, True):
        api.parts.registry.look(NOW)
        assert api.call("GET", path).json["addresses"][1]["live"] is item
        entered = EnteredAddress(group_id=group_id, address="http://10.0.0.2:9999", secret_id=NO_SECRET)
        api.parts.registry.hear(entered, NOW)
    (live,) = api.call("GET", f"{path}/executors").json["items"]
    assert (live["source"], live["secret"], live["kind"]) == ("by_hand", None, "foreign")
    assert api.call("PATCH", path, {"addresses": []}).json["addresses"] == []
    assert api.call("DELETE", "secrets/orders-1").status_code == 204


@pytest.mark.parametrize(
    ("entered", "words"),
    [
        ([{"address": "http://10.0.0.1:9999", "secret": "billing-1"}], "no live executor secret of this group"),
        ([{"address": "http://10.0.0.1:9999", "secret": "shared"}], "cannot be named"),
        ([{"address": "ftp://10.0.0.1"}], "http"),
        ([{"address": "http://169.254.169.254:80"}], "169.254.169.254"),
        ([{"address": "http://10.0.0.1:9999"}, {"address": "http://10.0.0.1:9999/"}], "twice"),
        ([{"address": f"http://10.0.0.1:{port}"} for port in range(1000, 1101)], "at most 100"),
        ([{"secret": "billing-1"}], "address"),
    ],
)
def test_an_address_that_cannot_be_is_refused(api: Api, entered: list[dict[str, str]], words: str) -> None:
    group_id = api.group("orders")
    api.call("POST", "secrets", {"name": "billing-1", "group_id": api.group("billing")})
    before = api.rows()
    for method, path, more in (("PATCH", f"groups/{group_id}", {}), ("POST", "groups", {"app_name": "more"})):
        answer = api.call(method, path, {**more, "addresses": entered})
        assert (answer.status_code, answer.json["field"]) == (422, "addresses")
        assert words in answer.json["detail"]
        assert "registryValue" not in answer.json["detail"]
    assert api.rows() == before


def test_a_group_is_made_with_addresses_that_need_no_secret(api: Api) -> None:
    made = api.call("POST", "groups", {"app_name": "g", "addresses": [{"address": "http://10.0.0.1:9999"}]})
    assert [item["address"] for item in made.json["addresses"]] == ["http://10.0.0.1:9999"]


def test_a_secret_that_an_address_is_called_with_stays(api: Api) -> None:
    group_id = api.group("orders")
    api.call("POST", "secrets", {"name": "s", "group_id": group_id})
    api.call("PATCH", f"groups/{group_id}", {"addresses": [{"address": "http://10.0.0.1:9999", "secret": "s"}]})
    answer = api.call("DELETE", "secrets/s")
    assert answer.status_code == 409
    assert "http://10.0.0.1:9999" in answer.json["detail"]


def test_a_group_lists_glue_types_that_only_its_executors_know(api: Api) -> None:
    group = api.call("POST", "groups", {"app_name": "java", "glue_types": ["GLUE_GROOVY", "GLUE_GROOVY"]}).json
    assert group["glue_types"] == ["GLUE_GROOVY"]
    fields = {"group_id": group["id"], "handler": "", "glue_type": "GLUE_GROOVY", "glue_source": "class Job {}"}
    job = api.job(name="groovy", **fields)
    path = f"groups/{group['id']}"
    kept = api.call("PATCH", path, {"glue_types": ["GLUE_PHP"]})
    assert (kept.status_code, kept.json["type"]) == (409, "urn:xwheel:problem:conflict")
    assert f"job {job['id']} (groovy) of this group is GLUE_GROOVY" in kept.json["detail"]
    assert api.call("PATCH", path, {"glue_types": ["GLUE_PHP", "GLUE_GROOVY"]}).status_code == 200
    assert api.call("DELETE", f"jobs/{job['id']}").status_code == 204
    assert api.call("PATCH", path, {"glue_types": []}).json["glue_types"] == []
    assert api.call("PATCH", path, {"title": "Java"}).json["glue_types"] == []


@pytest.mark.parametrize("names", [["BEAN"], ["GLUE GROOVY"], ["G"] * 17, [""], ["x" * 65], "GLUE_GROOVY"])
def test_a_name_that_is_no_glue_type_is_refused(api: Api, names: object) -> None:
    answer = api.call("POST", "groups", {"app_name": "java", "glue_types": names})
    assert (answer.status_code, answer.json["field"]) == (422, "glue_types")
