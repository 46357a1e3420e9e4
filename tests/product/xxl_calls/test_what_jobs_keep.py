"""What job calls write: versions that name the token, sources, long texts, and nothing that code declares."""

from __future__ import annotations

import pytest

from tests.component.api.conftest import Api
from tests.component.api.v1.test_p11_limits import API_SETTINGS, SOURCE_BYTES, long_texts
from tests.component.api.v1.test_scripts import source_of
from tests.product.jobs_as_code.test_declarations import REPORT, job, sync
from tests.support.job_calls import Tenant, definition
from xwheel.model.jobs import MAX_PARAM_BYTES

__all__ = ["API_SETTINGS"]  # bodies may be as long as the longest texts


def test_what_xxl_jobs_calls_change_names_the_groups_token(api: Api, orders: Tenant) -> None:
    job_id = orders.add()
    assert orders.call("updateJob", definition(id=job_id, jobGroup=orders.group_id, executorParam="b"))["code"] == 200
    assert orders.call("startJob", {"id": job_id})["code"] == 200
    found = api.call("GET", f"jobs/{job_id}/versions").json["items"]
    assert [(item["action"], item["actor_kind"], item["actor"]) for item in found] == [
        ("start", "group", "orders"), ("edit", "group", "orders"), ("create", "group", "orders"),
    ]  # fmt: skip


def test_xxl_jobs_calls_change_nothing_that_code_owns(api: Api, orders: Tenant) -> None:
    sync(api, REPORT)
    made = job(api)
    answer = orders.call("updateJob", {"id": made["id"], **definition(name="report", executorHandler="report")})
    assert answer["code"] == 500
    assert answer["msg"].startswith("scheduleConf: release 1.0 ")
    assert f"xwheel job release {made['id']}" in answer["msg"]
    assert orders.call("removeJob", {"id": made["id"]})["code"] == 500
    assert job(api) == made
    assert orders.call("stopJob", {"id": made["id"]})["code"] == 200


@pytest.mark.parametrize("text", long_texts(MAX_PARAM_BYTES), ids=["ascii", "han"])
def test_p11_xxl_jobs_calls_take_the_same(api: Api, orders: Tenant, text: str) -> None:
    source = text * 16
    answer = orders.call("addJob", definition() | {"executorParam": text})
    assert answer["code"] == 200
    assert orders.job(int(answer["data"])).param == text
    scripted = {"glueType": "SCRIPT", "glueSource": source, "executorParam": text}
    made = int(orders.call("addJob", definition() | scripted)["data"])
    assert api.call("GET", f"jobs/{made}/glue/1").json["source"] == source
    assert orders.call("updateJob", definition() | {"id": made, "executorParam": text[::-1]})["code"] == 200
    assert orders.job(made).param == text[::-1]
    assert orders.call("triggerJob", {"id": made, "executorParam": text})["code"] == 200
    assert api.call("GET", f"runs?job_id={made}").json["items"][0]["param"] == text
    for call, fields in (("addJob", definition()), ("triggerJob", {"id": made})):
        said = orders.refused(call, fields | {"executorParam": text + "x"})
        assert said.startswith("executorParam: ")
        assert "api.max_param_bytes" in said
    said = orders.refused("addJob", definition() | scripted | {"glueSource": source + "x" * 17})
    assert said.startswith(f"glueSource: has {SOURCE_BYTES + 1} bytes")
    assert "api.max_source_bytes" in said


def test_add_job_keeps_the_script(api: Api) -> None:
    orders = Tenant(api.db, api.executor.app, "orders")
    job_id = orders.add(glueType="SCRIPT", glueSource="echo hi\n", glueRemark="hello", executorHandler="")
    (item,) = api.call("GET", f"jobs/{job_id}/glue").json["items"]
    assert (item["author"], item["remark"]) == ("Li Lei", "hello")
    assert source_of(api, {"id": job_id}) == (1, "echo hi\n")
