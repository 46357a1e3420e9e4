"""XXL-JOB's six job calls: what each does, and what each refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.component.api.conftest import Api
from tests.support.job_calls import SUCCESS, Tenant, definition
from tests.support.paths import DOCS
from tests.support.rows import make_executor
from xwheel.errors import ConfigError, DatabaseUnreachableError
from xwheel.model import BlockStrategy, MisfirePolicy, Origin, RunState
from xwheel.storage import runs

ADDRESS = "http://10.0.0.1:9999"


def test_a_job_is_added_stopped(orders: Tenant) -> None:
    job_id = orders.add(
        misfireStrategy="FIRE_ONCE_NOW",
        executorRouteStrategy="ROUND",
        executorBlockStrategy="DISCARD_LATER",
        executorTimeout="600",
        executorFailRetryCount=2,
        executorHandler=" closeBooksHandler ",
    )
    job = orders.job(job_id)
    assert (job.group_id, job.name, job.enabled, job.next_fire_ms) == (orders.group_id, "close", False, None)
    assert (job.schedule_type, job.schedule_conf, job.timezone) == ("CRON", "0 0 2 * * ? *", "UTC")
    assert (job.misfire_policy, job.route_strategy) == (MisfirePolicy.FIRE_ONCE, "ROUND")
    assert job.block_strategy == BlockStrategy.DISCARD_LATER
    assert (job.handler, job.param, job.timeout_s, job.max_retries) == ("closeBooksHandler", "own", 600, 2)
    assert (job.glue_type, job.description) == ("BEAN", "author: Li Lei")


@pytest.mark.parametrize(
    ("sent", "kept"), [("DO_NOTHING", MisfirePolicy.SKIP), ("FIRE_ONCE_NOW", MisfirePolicy.FIRE_ONCE)]
)
def test_the_misfire_policy_stays_as_it_was_sent(orders: Tenant, sent: str, kept: MisfirePolicy) -> None:
    job = orders.job(orders.add(misfireStrategy=sent))
    assert (job.misfire_policy, job.misfire_threshold_ms) == (kept, None)


def test_the_group_may_be_left_out(orders: Tenant) -> None:
    answer = orders.call("addJob", definition())
    assert orders.job(int(answer["data"])).group_id == orders.group_id


def test_new_jobs_live_in_the_configured_zone(api_with: Callable[..., Api]) -> None:
    api = api_with(job_openapi_timezone="Asia/Shanghai")
    tenant = Tenant(api.db, api.executor.app, "orders")
    job_id = tenant.add()
    assert tenant.job(job_id).timezone == "Asia/Shanghai"
    with api.db.write() as conn:
        conn.exec_driver_sql("UPDATE job SET timezone = 'Europe/Berlin'")
    assert tenant.call("updateJob", definition(id=job_id)) == SUCCESS
    assert tenant.job(job_id).timezone == "Europe/Berlin"


@pytest.mark.parametrize("job_openapi", [True, False])
def test_an_unknown_zone_stops_the_start(api_with: Callable[..., Api], job_openapi: bool) -> None:
    with pytest.raises(ConfigError, match="^api.job_openapi_timezone: "):
        api_with(job_openapi=job_openapi, job_openapi_timezone="Mars/Olympus")


def test_what_has_no_effect_is_told(orders: Tenant) -> None:
    answer = orders.call(
        "addJob", definition(alarmEmail="ops@example.org", glueSource="echo", scheduleType="NONE", scheduleConf="left")
    )
    assert answer["code"] == 200
    for part in ("alarmEmail is kept", "glueSource and glueRemark are not", "scheduleConf is not kept"):
        assert part in answer["msg"]
    job = orders.job(int(answer["data"]))
    assert job.description == "author: Li Lei\nalarmEmail: ops@example.org"
    assert job.schedule_conf == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jobGroup": 99}, "jobGroup: there is no group 99; yours is 1"),
        ({"jobGroup": 0}, "jobGroup: there is no group 0; yours is 1"),
        ({"name": None}, "name: must be text of 1 to 128 characters: not only blanks"),
        ({"name": "  "}, "name: must be text of 1 to 128 characters: not only blanks"),
        ({"name": "x" * 129}, "name: must be text of 1 to 128 characters: not only blanks"),
        ({"name": "a\x00b"}, "name: must not contain the character NUL"),
        ({"scheduleType": "FIX_DELAY"}, "scheduleType: must be one of NONE, CRON, FIX_RATE, not 'FIX_DELAY'"),
        ({"scheduleType": None}, "scheduleType: must be one of NONE, CRON, FIX_RATE"),
        ({"scheduleConf": "0 0 25 * * ?"}, "scheduleConf: "),
        ({"scheduleConf": None}, "scheduleConf: "),
        ({"scheduleType": "FIX_RATE", "scheduleConf": "0"}, "scheduleConf: "),
        ({"misfireStrategy": "FIRE_ALL"}, "misfireStrategy: must be one of DO_NOTHING, FIRE_ONCE_NOW"),
        ({"executorRouteStrategy": "NEAREST"}, "executorRouteStrategy: 'NEAREST' is not installed; known: "),
        ({"executorRouteStrategy": None}, "executorRouteStrategy: must be text of 1 to 64 characters"),
        ({"executorBlockStrategy": "NONE"}, "executorBlockStrategy: must be one of SERIAL_EXECUTION, "),
        ({"executorTimeout": -1}, "executorTimeout: must be a whole number from 0 to 31536000"),
        ({"executorTimeout": 31_536_001}, "executorTimeout: must be a whole number from 0 to 31536000"),
        ({"executorFailRetryCount": 10_000}, "executorFailRetryCount: must be a whole number from 0 to 9999"),
        ({"executorHandler": None}, "executorHandler: must name a handler"),
        ({"executorHandler": "x" * 256}, "executorHandler: must be text of 0 to 255 characters"),
        ({"executorParam": "x" * 65_536}, "executorParam: must be text of at most 65535 bytes as UTF-8"),
        ({"glueType": "GLUE_SHELL"}, "glueType: 'GLUE_SHELL' is not installed; known: BEAN, SCRIPT"),
        ({"glueType": None}, "glueType: must be text of 1 to 64 characters"),
        ({"glueType": "SCRIPT", "glueSource": "a\x00"}, "glueSource: must not contain"),
        ({"glueRemark": "x" * 256}, "glueRemark: must be text of at most 255 characters"),
        ({"author": "x" * 65}, "author: must be text of at most 64 characters"),
    ],
)
def test_what_is_no_job_is_refused_by_the_callers_name_of_the_field(
    orders: Tenant, api: Api, changes: dict[str, Any], message: str
) -> None:
    before = api.rows()
    assert orders.refused("addJob", definition() | changes).startswith(message)
    assert api.rows() == before


@pytest.mark.parametrize(
    ("changes", "is_good"),
    [
        ({"name": "x" * 128}, True),
        ({"executorParam": "x" * 65_535}, True),
        ({"executorHandler": "x" * 255}, True),
        ({"executorTimeout": 31_536_000, "executorFailRetryCount": 9999}, True),
        ({"author": "x" * 64, "alarmEmail": "y" * 255}, True),
        ({"scheduleType": "FIX_RATE", "scheduleConf": "1"}, True),
        ({"scheduleType": "FIX_RATE", "scheduleConf": 30}, True),
        ({"childJobId": "1", "triggerStatus": 1, "unknown": {"a": []}}, True),
    ],
)
def test_limits_are_inclusive(orders: Tenant, changes: dict[str, Any], is_good: bool) -> None:
    answer = orders.call("addJob", definition() | changes)
    assert (answer["code"] == 200) is is_good
    assert orders.job(int(answer["data"])).enabled is False


def test_an_update_replaces_all_but_group_and_glue(orders: Tenant, api: Api) -> None:
    job_id = orders.add(alarmEmail="ops@example.org")
    api.parts.jobs.edit(job_id, {"description": "Closes the books.\nauthor: Li Lei\nalarmEmail: ops@example.org"})
    answer = orders.call(
        "updateJob",
        definition(
            id=str(job_id),
            jobGroup=99,
            glueType="GLUE_SHELL",
            name="hourly",
            author="Han Meimei",
            scheduleType="FIX_RATE",
            scheduleConf="3600",
            executorParam=None,
        ),
    )
    assert answer == SUCCESS
    job = orders.job(job_id)
    assert (job.group_id, job.glue_type, job.name) == (orders.group_id, "BEAN", "hourly")
    assert (job.schedule_type, job.schedule_conf, job.param) == ("FIX_RATE", "3600", "")
    assert job.description == "Closes the books.\nauthor: Han Meimei"


def test_an_update_to_another_router_leaves_the_options_of_the_old_one_behind(orders: Tenant, api: Api) -> None:
    job_id = orders.add()
    with api.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE job SET route_options = 'zone=a' WHERE id = {job_id}")
    assert orders.call("updateJob", definition(id=job_id, executorRouteStrategy="LAST")) == SUCCESS
    assert (orders.job(job_id).route_strategy, orders.job(job_id).route_options) == ("LAST", "")


def test_an_update_of_a_started_job_moves_its_next_fire(orders: Tenant) -> None:
    job_id = orders.add()
    assert orders.call("startJob", {"id": job_id}) == SUCCESS
    before = orders.job(job_id)
    assert orders.call("updateJob", definition(id=job_id, scheduleConf="0 0 3 * * ? *")) == SUCCESS
    after = orders.job(job_id)
    assert before.next_fire_ms is not None
    assert (after.enabled, after.next_fire_ms) == (True, before.next_fire_ms + 3_600_000)


def test_an_update_that_cannot_be_kept_changes_nothing(orders: Tenant, api: Api) -> None:
    job_id = orders.add()
    api.parts.jobs.edit(job_id, {"description": "x" * 1024})
    before = api.rows()
    assert "author: is kept with alarmEmail in the job's description" in orders.refused(
        "updateJob", definition(id=job_id)
    )
    for changes in ({"name": ""}, {"executorHandler": " "}, {"scheduleConf": "every day"}):
        message = orders.refused("updateJob", definition(id=job_id, author="", **changes))
        assert message.startswith(f"{next(iter(changes))}: ")
    assert api.rows() == before


@pytest.mark.parametrize(("edits", "code"), [(2, 200), (3, 500)])
def test_an_update_keeps_what_others_write_meanwhile(
    orders: Tenant, api: Api, monkeypatch: pytest.MonkeyPatch, edits: int, code: int
) -> None:
    job_id = orders.add()
    edit = api.parts.jobs.edit
    others = iter(range(edits))

    def late(*args: Any, **options: Any) -> Any:
        if (number := next(others, None)) is not None:
            edit(job_id, {"description": f"edit {number}"})
        return edit(*args, **options)

    monkeypatch.setattr(api.parts.jobs, "edit", late)
    answer = orders.call("updateJob", definition(id=job_id, name="mine"))
    assert answer["code"] == code
    job = orders.job(job_id)
    assert (job.name, job.description) == (("mine", "edit 1\nauthor: Li Lei") if code == 200 else ("close", "edit 2"))


def test_an_outage_answers_503(orders: Tenant, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = orders.add()

    def fail(*_args: object, **_options: object) -> None:
        raise DatabaseUnreachableError("it is away")

    monkeypatch.setattr(api.parts.jobs, "edit", fail)
    answer = orders.post("updateJob", definition(id=job_id))
    assert (answer.status_code, answer.json["code"], answer.headers["retry-after"]) == (503, 500, "1")


def test_a_job_is_started_and_stopped_as_often_as_one_likes(orders: Tenant) -> None:
    job_id = orders.add()
    for _ in range(2):
        assert orders.call("startJob", {"id": job_id}) == SUCCESS
        assert orders.job(job_id).next_fire_ms is not None
    for _ in range(2):
        assert orders.call("stopJob", {"id": job_id}) == SUCCESS
        assert orders.job(job_id).next_fire_ms is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scheduleType": "NONE"}, "scheduleType: job 1 has none (NONE), so it cannot be started"),
        ({"scheduleConf": "0 0 0 1 1 ? 2020"}, "scheduleConf: the job would never fire"),
    ],
)
def test_a_job_that_never_fires_is_not_started(orders: Tenant, changes: dict[str, Any], message: str) -> None:
    job_id = orders.add(**changes)
    assert orders.refused("startJob", {"id": job_id}).startswith(message)
    assert orders.job(job_id).enabled is False


def test_a_removed_job_is_gone_and_may_be_removed_again(orders: Tenant) -> None:
    job_id = orders.add()
    for _ in range(2):
        assert orders.call("removeJob", {"id": job_id}) == SUCCESS
    for call, body in (
        ("startJob", {"id": job_id}),
        ("stopJob", {"id": job_id}),
        ("triggerJob", {"id": job_id}),
        ("updateJob", definition(id=job_id)),
    ):
        assert orders.refused(call, body) == f"job {job_id} does not exist"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, ""),
        ({"executorParam": None}, ""),
        ({"executorParam": ""}, ""),
        ({"executorParam": "again"}, "again"),
        ({"executorParam": 7, "addressList": ""}, "7"),
        ({"executorParam": "again", "addressList": " , "}, "again"),
    ],
)
def test_a_trigger_plans_a_run_with_its_param_and_not_the_jobs(
    orders: Tenant, api: Api, body: dict[str, Any], param: str
) -> None:
    job_id = orders.add()
    assert orders.call("triggerJob", {"id": job_id, **body}) == SUCCESS
    with api.db.read() as conn:
        (run,) = runs.list_runs(conn, job_id=job_id)
    assert (run.param, run.origin, run.state, run.address) == (param, Origin.API, RunState.PLANNED, None)


def test_a_trigger_may_name_one_registered_executor(orders: Tenant, api: Api) -> None:
    job_id = orders.add()
    api.parts.registry.register("orders", make_executor(ADDRESS), api.clock.now_ms())
    for spelled in (ADDRESS, f"{ADDRESS}/", f"HTTP://10.0.0.1:9999, {ADDRESS}/"):
        assert orders.call("triggerJob", {"id": job_id, "addressList": spelled}) == SUCCESS
    with api.db.read() as conn:
        assert [run.address for run in runs.list_runs(conn, job_id=job_id)] == [ADDRESS] * 3


def test_p5_a_trigger_may_name_several(orders: Tenant, api: Api) -> None:
    job_id = orders.add()
    other = "http://10.0.0.2:9999"
    for address in (ADDRESS, other):
        api.parts.registry.register("orders", make_executor(address, instance=address), api.clock.now_ms())
    for spelled in (f"{ADDRESS},{other}", f"{ADDRESS}/\r\n{other}\n", f" {ADDRESS} , \n{other},{ADDRESS}"):
        assert orders.call("triggerJob", {"id": job_id, "addressList": spelled}) == SUCCESS
    with api.db.read() as conn:
        assert [run.address for run in runs.list_runs(conn, job_id=job_id)] == [f"{ADDRESS} {other}"] * 3
    many = [f"http://10.0.1.{100 + number}:9999" for number in range(12)]
    for address in many:
        api.parts.registry.register("orders", make_executor(address, instance=address), api.clock.now_ms())
    said = orders.refused("triggerJob", {"id": job_id, "addressList": ",".join(many)})
    assert said.startswith("addressList: have 275 characters")


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ("http://10.9.9.9:9999", "addressList: http://10.9.9.9:9999 is no live executor of the job's group"),
        ("http://169.254.169.254/latest", "addressList: http://169.254.169.254:80/latest is no live executor"),
        (f"{ADDRESS},http://10.0.0.2:9999", "addressList: http://10.0.0.2:9999 is no live executor"),
        ("10.0.0.1:9999", "addressList: must be http(s)://"),
        ("http://u:p@10.0.0.1:9999", "addressList: must be http(s)://"),
        ("file:///etc/passwd", "addressList: must be http(s)://"),
        ("x" * 5000, "addressList: must be text of at most 4096 characters"),
        (["http://10.0.0.1:9999"], "addressList: must be text"),
    ],
)
def test_a_trigger_goes_nowhere_else(orders: Tenant, api: Api, addresses: Any, message: str) -> None:
    job_id = orders.add()
    api.parts.registry.register("orders", make_executor(ADDRESS), api.clock.now_ms())
    api.group("billing")
    api.parts.registry.register("billing", make_executor("http://10.9.9.9:9999"), api.clock.now_ms())
    before = api.rows()
    body = {"id": job_id, "addressList": addresses}
    assert orders.refused("triggerJob", body).startswith(message)
    assert api.rows() == before


def test_a_dead_executor_gets_nothing(orders: Tenant, api: Api) -> None:
    job_id = orders.add()
    api.parts.registry.register("orders", make_executor(ADDRESS), api.clock.now_ms())
    api.clock.advance(90_001)
    message = orders.refused("triggerJob", {"id": job_id, "addressList": ADDRESS})
    assert message == f"addressList: {ADDRESS} is no live executor of the job's group"


def test_the_calls_can_be_switched_off(api_with: Callable[..., Api]) -> None:
    api = api_with(job_openapi=False)
    tenant = Tenant(api.db, api.executor.app, "orders")
    message = tenant.refused("addJob", definition())
    assert message == "/api/addJob: no such call; known: callback, registry, registryRemove, shipLogs"


def test_the_page_tells_every_field_and_its_example_works(orders: Tenant) -> None:
    page = (DOCS / "reference" / "xxl-job-openapi.md").read_text()
    for name in (*definition(), "jobGroup", "alarmEmail", "glueSource", "glueRemark", "addressList"):
        assert f"`{name}`" in page
    for call in ("addJob", "updateJob", "removeJob", "startJob", "stopJob", "triggerJob"):
        assert f"| `{call}` |" in page
    example = page[page.index("-d '") + 4 : page.index("}'") + 1]
    answer = orders.call("addJob", example.encode())
    assert json.loads(page[page.index("```json") + 7 : page.rindex("```")]) == answer | {"content": "7", "data": "7"}
    assert orders.call("startJob", {"id": answer["data"]}) == SUCCESS


def test_a_group_that_lists_groovy_takes_jobs_of_it(orders: Tenant, api: Api) -> None:
    body = definition(glueType="GLUE_GROOVY", glueSource="class Job {}", glueRemark="first", executorHandler=None)
    assert "glueType: 'GLUE_GROOVY' is not installed" in orders.call("addJob", body)["msg"]
    api.call("PATCH", f"groups/{orders.group_id}", {"glue_types": ["GLUE_GROOVY"]})
    answer = orders.call("addJob", body)
    assert answer["code"] == 200
    job = orders.job(int(answer["data"]))
    assert (job.glue_type, job.glue_version) == ("GLUE_GROOVY", 1)
    assert api.call("GET", f"jobs/{job.id}/glue/1").json["source"] == "class Job {}"
