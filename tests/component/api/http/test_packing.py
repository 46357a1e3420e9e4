"""Large answers of reads are packed for who takes that."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.component.api.conftest import TOKEN, Api


def get(api: Api, path: str, **headers: str) -> Any:
    sent = {"Authorization": f"Bearer {TOKEN}", **{key.replace("_", "-"): value for key, value in headers.items()}}
    return api.management.simulate_request("GET", f"/api/v1/{path}", headers=sent)


def test_a_large_list_is_packed_for_who_takes_that(api: Api) -> None:
    for number in range(20):
        api.management.simulate_request(
            "POST", "/api/v1/groups", json={"app_name": f"group-{number}"}, headers={"Authorization": f"Bearer {TOKEN}"}
        )
    packed, plain = get(api, "groups", Accept_Encoding="gzip, br"), get(api, "groups")
    assert len(plain.json["items"]) >= 20
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.content)) == plain.json
    assert len(packed.content) < len(plain.content) / 3
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in plain.headers


def test_small_answers_and_refusals_are_not_packed(api: Api) -> None:
    for path in ("groups?limit=1", "groups/999999", "session"):
        assert "content-encoding" not in get(api, path, Accept_Encoding="gzip").headers
