"""P11: parameters of up to 64 KiB and sources of up to 1 MiB, in bytes as UTF-8, through every door of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.component.api.conftest import Api
from xwheel.model.jobs import MAX_PARAM_BYTES, MAX_SOURCE_BYTES

SOURCE_BYTES = 1024 * 1024
HAN = "\u6587"
"""Three bytes."""


API_SETTINGS: Mapping[str, int] = {}
"""The defaults: other tests have small bodies."""


def long_texts(size: int) -> list[str]:
    """Texts of this many bytes, which is no more than three times as many characters."""
    return ["x" * size, HAN * (size // 3) + "x" * (size % 3)]


def script(api: Api, **fields: Any) -> dict[str, Any]:
    return api.job(**{"glue_type": "SCRIPT", "handler": "", **fields})


@pytest.mark.parametrize("text", long_texts(MAX_PARAM_BYTES), ids=["ascii", "han"])
def test_p11_a_parameter_of_64_kib_is_kept(api: Api, text: str) -> None:
    job = api.job(param=text)
    child = api.job(name="child", group_id=job["group_id"])
    path = f"jobs/{job['id']}"
    assert api.call("PATCH", path, {"param": text[::-1]}).json["param"] == text[::-1]
    run = api.call("POST", f"{path}/run", {"param": text}).json
    assert run["param"] == text
    assert api.call("POST", f"runs/{run['id']}/rerun").json["param"] == text
    family = api.call("PUT", f"{path}/children", {"children": [{"child_id": child["id"], "param": text}]})
    assert family.json["children"][0]["param"] == text
    assert api.call("POST", "jobs/bulk/run", {"ids": [job["id"]], "param": text}).status_code == 200


@pytest.mark.parametrize("text", long_texts(MAX_PARAM_BYTES + 1), ids=["ascii", "han"])
def test_p11_a_longer_parameter_is_refused_by_name_limit_and_setting(api: Api, text: str) -> None:
    job = api.job()
    path = f"jobs/{job['id']}"
    before = api.rows()
    answers = [
        api.call("POST", "jobs", {"group_id": job["group_id"], "name": "b", "handler": "h", "param": text}),
        api.call("PATCH", path, {"param": text}),
        api.call("POST", f"{path}/run", {"param": text}),
        api.call("POST", "jobs/bulk/run", {"ids": [job["id"]], "param": text}),
    ]
    for answer in answers:
        assert answer.status_code == 422
        assert answer.json["field"] == "param"
        assert f"{MAX_PARAM_BYTES} " in answer.json["detail"]
        assert "bytes as UTF-8" in answer.json["detail"]
        assert "api.max_param_bytes" in answer.json["detail"]
    assert api.rows() == before


@pytest.mark.parametrize("text", long_texts(SOURCE_BYTES), ids=["ascii", "han"])
def test_p11_a_source_of_1_mib_is_kept(api: Api, text: str) -> None:
    job = script(api, glue_source=text)
    api.call("POST", f"jobs/{job['id']}/glue", {"source": text[::-1]})
    assert api.call("GET", f"jobs/{job['id']}/glue/1").json["source"] == text
    assert api.call("GET", f"jobs/{job['id']}/glue/2").json["source"] == text[::-1]
    assert api.call("POST", f"jobs/{job['id']}/glue/1/restore").status_code == 201


@pytest.mark.parametrize("text", long_texts(SOURCE_BYTES + 1), ids=["ascii", "han"])
def test_p11_a_longer_source_is_refused_by_name_limit_and_setting(api: Api, text: str) -> None:
    job = script(api)
    before = api.rows()
    fields = {"group_id": job["group_id"], "name": "b", "glue_type": "SCRIPT", "glue_source": text}
    for answer in (api.call("POST", "jobs", fields), api.call("POST", f"jobs/{job['id']}/glue", {"source": text})):
        assert answer.status_code == 422
        assert answer.json["field"] == "glue_source"
        assert answer.json["detail"].endswith(
            f"has {SOURCE_BYTES + 1} bytes as UTF-8, {SOURCE_BYTES} are allowed: api.max_source_bytes may be raised "
            f"to {MAX_SOURCE_BYTES}"
        )
    assert api.rows() == before


class TestLowerLimits:
    """What the settings say counts, also for what was saved before they said so."""

    API_SETTINGS: Mapping[str, int] = {"max_param_bytes": 1024, "max_source_bytes": 2048}

    def test_p11_settings_lower_the_limits(self, api: Api) -> None:
        job = script(api, param="x" * 1024, glue_source="y" * 2048)
        path = f"jobs/{job['id']}"
        for answer, field, size, most, highest in (
            (api.call("PATCH", path, {"param": "x" * 1025}), "param", 1025, 1024, MAX_PARAM_BYTES),
            (api.call("POST", f"{path}/run", {"param": HAN * 342}), "param", 1026, 1024, MAX_PARAM_BYTES),
            (api.call("POST", f"{path}/glue", {"source": "y" * 2049}), "glue_source", 2049, 2048, MAX_SOURCE_BYTES),
        ):
            assert (answer.status_code, answer.json["field"]) == (422, field)
            assert f"has {size} bytes as UTF-8, {most} are allowed: api.max_" in answer.json["detail"]
            assert f"may be raised to {highest}" in answer.json["detail"]
        children = [{"child_id": api.job(name="child")["id"], "param": "x" * 1025}]
        answer = api.call("PUT", f"{path}/children", {"children": children})
        assert (answer.status_code, answer.json["field"]) == (422, "param")

    def test_p11_what_was_saved_under_a_higher_limit_stays(self, api: Api) -> None:
        job = api.job()
        with api.db.write() as conn:
            conn.exec_driver_sql("UPDATE job SET param = ? WHERE id = ?", ("x" * 2000, job["id"]))
        answer = api.call("PATCH", f"jobs/{job['id']}", {"name": "other", "param": "x" * 2000})
        assert (answer.status_code, answer.json["name"]) == (200, "other")
