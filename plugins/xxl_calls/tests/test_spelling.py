"""The job calls of the fourth generation as its Java client spells them, and whatever else may arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xwheel.api.schema.messages import JobCreate
from xwheel.errors import WireError
from xwheel.model import MisfirePolicy

from xwheel_xxl_calls import spelling
from xwheel_xxl_calls.spelling import JobDefinition, JobTrigger

DATA = Path(__file__).parent / "data"

NIGHTLY = JobDefinition(
    group_id=1,
    name="Nightly close",
    author="Li Lei",
    alarm_email="ops@example.org,dba@example.org",
    schedule_type="CRON",
    schedule_conf="0 0 2 * * ? *",
    misfire_policy=MisfirePolicy.FIRE_ONCE,
    route_strategy="ROUND",
    block_strategy="DISCARD_LATER",
    handler="closeBooksHandler",
    param='{"day":"yesterday"}',
    timeout_s=600,
    max_retries=2,
    glue_type="BEAN",
    has_source=False,
)
QUOTED = JobDefinition(
    group_id=1,
    name="7",
    author="",
    alarm_email="",
    schedule_type="NONE",
    schedule_conf="",
    misfire_policy=MisfirePolicy.SKIP,
    route_strategy="FIRST",
    block_strategy="SERIAL_EXECUTION",
    handler="demoJobHandler",
    param="",
    timeout_s=0,
    max_retries=3,
    glue_type="BEAN",
    has_source=False,
)
HOURLY = JobDefinition(
    group_id=None,
    name="Hourly close",
    author="Han Meimei",
    alarm_email="",
    schedule_type="FIX_RATE",
    schedule_conf="3600",
    misfire_policy=MisfirePolicy.SKIP,
    route_strategy="LAST",
    block_strategy="SERIAL_EXECUTION",
    handler="closeHourHandler",
    param="p",
    timeout_s=0,
    max_retries=0,
    glue_type="",
    has_source=False,
)


def golden(name: str) -> bytes:
    return (DATA / f"{name}.json").read_bytes()


def test_jobs_are_read_as_they_are_spelled() -> None:
    assert spelling.decode_new_job(golden("job.add.g4")) == NIGHTLY
    assert spelling.decode_new_job(golden("job.add.quoted")) == QUOTED
    assert spelling.decode_job_update(golden("job.update.g4")) == (1, HOURLY)


def test_triggers_and_ids_are_read_as_they_are_spelled() -> None:
    assert spelling.decode_job_id(golden("job.id.g4")) == 1
    assert spelling.decode_job_id(b'{"id":"1"}') == 1
    assert spelling.decode_job_trigger(golden("job.trigger.g4")) == JobTrigger(
        job_id=1, param="again", addresses=("http://10.0.0.5:9999/", "http://10.0.0.6:9999/")
    )
    assert spelling.decode_job_trigger(golden("job.trigger.plain")) == JobTrigger(job_id=1, param="", addresses=())


def test_the_last_of_two_equal_keys_counts_as_for_gson() -> None:
    assert spelling.decode_job_id(b'{"id":1,"id":2}') == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"scheduleType": "FIX_DELAY"}, "scheduleType: must be one of NONE, CRON, FIX_RATE, not 'FIX_DELAY'"),
        ({"scheduleType": None}, "scheduleType: must be one of NONE, CRON, FIX_RATE"),
        ({"scheduleType": "cron"}, "scheduleType: must be one of"),
        ({"scheduleType": "x" * 1000}, "scheduleType: must be one of"),
        ({"misfireStrategy": ""}, "misfireStrategy: must be one of DO_NOTHING, FIRE_ONCE_NOW"),
        ({"misfireStrategy": "fire_all"}, "misfireStrategy: must be one of"),
        (
            {"executorBlockStrategy": "PARALLEL"},
            "executorBlockStrategy: must be one of SERIAL_EXECUTION, DISCARD_LATER, COVER_EARLY, not 'PARALLEL'",
        ),
        ({"jobGroup": "one"}, "jobGroup: must be a whole number"),
        ({"executorTimeout": 1.5}, "executorTimeout: must be a whole number"),
        ({"executorTimeout": "soon"}, "executorTimeout: must be a whole number"),
        ({"executorFailRetryCount": True}, "executorFailRetryCount: must be a whole number"),
        ({"name": {"a": 1}}, "name: must be text"),
        ({"executorParam": ["a"]}, "executorParam: must be text"),
        ({"author": "x" * 65}, "author: must be text of at most 64 characters"),
        ({"author": "a\nalarmEmail: b"}, "author: must not contain line breaks"),
        ({"author": "a\u2028b"}, "author: must not contain line breaks"),
        ({"alarmEmail": "x" * 256}, "alarmEmail: must be text of at most 255 characters"),
        ({"alarmEmail": "a\x00b"}, "alarmEmail: must not contain line breaks"),
    ],
)
def test_what_is_no_definition_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    body = json.loads(golden("job.add.g4")) | changes
    with pytest.raises(WireError) as caught:
        spelling.decode_new_job(json.dumps(body).encode())
    assert str(caught.value).startswith(field)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [None, 0, -1, 2**53, "x", "", 1.5, True, [], {}])
def test_what_is_no_id_is_refused(value: Any) -> None:
    for read in (spelling.decode_job_id, spelling.decode_job_trigger, spelling.decode_job_update):
        with pytest.raises(WireError, match="id: must be a whole number from 1 to"):
            read(json.dumps({"id": value}).encode())


def test_every_field_of_ours_that_a_client_sends_has_its_spelling() -> None:
    ours = set(JobDefinition.__struct_fields__) & {field.name for field in msgspec.structs.fields(JobCreate)}
    spelled = {spelling.wire_name(name) for name in ours}
    assert spelled == {
        "jobGroup", "name", "scheduleType", "scheduleConf", "misfireStrategy", "executorRouteStrategy",
        "executorBlockStrategy", "executorHandler", "executorParam", "executorTimeout",
        "executorFailRetryCount", "glueType",
    }  # fmt: skip


READERS = [spelling.decode_new_job, spelling.decode_job_update, spelling.decode_job_id, spelling.decode_job_trigger]
KEYS = sorted({*json.loads(golden("job.add.quoted")), "id", "addressList"})
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner),
    max_leaves=20,
)


WRITERS = {"alarm_email": {"alarmEmail"}, "source": {"glueSource"}, "remark": {"glueRemark"}}
WRITERS |= {"has_source": {"glueSource", "glueRemark"}, "job_id": {"id"}, "addresses": {"addressList"}}


def refusal_of(read: Any, body: bytes) -> str:
    """Return why a reader refuses a body; empty if it takes it."""
    try:
        read(body)
    except WireError as error:
        return str(error)
    return ""


def fields_of(found: Any) -> dict[str, Any]:
    """Return what any of the readers returns, by field."""
    if isinstance(found, tuple):
        return {"id": found[0], **fields_of(found[1])}
    return {"id": found} if isinstance(found, int) else msgspec.structs.asdict(found)


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(message=st.dictionaries(st.sampled_from(KEYS), values) | values)
def test_json_of_any_shape(read: Any, message: object) -> None:
    refusal = refusal_of(read, json.dumps(message).encode())
    name = refusal.partition(":")[0]
    if not isinstance(message, dict):
        assert name == "request body"
        return
    assert name in {"", *KEYS}
    needed = {"id"} if read is not spelling.decode_new_job else set()
    if read in (spelling.decode_new_job, spelling.decode_job_update):
        needed |= {"scheduleType", "misfireStrategy", "executorBlockStrategy"}
    assert refusal or needed <= set(message)


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(changes=st.dictionaries(st.sampled_from(KEYS), values, max_size=3))
def test_a_good_message_with_anything_in_some_fields(read: Any, changes: dict[str, Any]) -> None:
    """One of them is refused by its name, or they alone differ in what is read."""
    good = json.loads(golden("job.update.g4"))
    body = json.dumps(good | changes).encode()
    if refusal := refusal_of(read, body):
        assert refusal.partition(":")[0] in changes
        return
    plain, found = fields_of(read(json.dumps(good).encode())), fields_of(read(body))
    for name in plain:
        assert found[name] == plain[name] or changes.keys() & WRITERS.get(name, {spelling.wire_name(name)})


@given(texts=st.fixed_dictionaries(dict.fromkeys(("name", "scheduleConf", "executorParam"), st.text())))
def test_texts_come_through_as_they_are(texts: dict[str, str]) -> None:
    body = json.dumps(json.loads(golden("job.add.g4")) | texts).encode()
    found = spelling.decode_new_job(body)
    assert found.name == texts["name"]
    assert (found.schedule_conf, found.param) == (texts["scheduleConf"], texts["executorParam"])


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(body=st.binary(max_size=200))
def test_bytes_of_any_kind(read: Any, body: bytes) -> None:
    refusal = refusal_of(read, body)
    try:
        json.loads(body)
    except ValueError:
        assert refusal.startswith(("request body is empty", "request body is not JSON"))


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
def test_deep_nesting(read: Any) -> None:
    for opening, closing in (("[", "]"), ('{"id":', "}")):
        with pytest.raises(WireError, match=r"^request body is nested too deeply$"):
            read((opening * 200_000 + "1" + closing * 200_000).encode())


def test_every_golden_file_is_used() -> None:
    text = Path(__file__).read_text()
    for path in DATA.glob("*.json"):
        assert path.stem in text or path.stem.partition(".")[2] in text, path
