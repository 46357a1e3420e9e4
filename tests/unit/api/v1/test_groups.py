"""Groups over the management API."""

from __future__ import annotations

from tests.support.rows import NOW, make_executor
from tests.unit.api.conftest import Api


def test_a_group_lives_from_post_to_delete(api: Api) -> None:
    made = api.call("POST", "groups", {"app_name": "billing", "title": "Billing"})
    assert made.status_code == 201
    assert made.headers["location"] == f"/api/v1/groups/{made.json['id']}"
    assert made.json == {
        "id": made.json["id"],
        "app_name": "billing",
        "title": "Billing",
        "max_running": 0,
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
