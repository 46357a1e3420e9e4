"""Whatever arrives, readers answer with a record or a WireError that names the field; what we write, we read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xwheel.errors import WireError
from xwheel.model import MAX_ID, OUTCOME_STATES, BlockStrategy, RunState
from xwheel.wire import codec, contract
from xwheel.wire.messages import CallbackItem, KillRequest, LogRequest, RegistryRequest, Response, TriggerRequest

RUN = TriggerRequest(job_id=7, run_id=12, created_ms=1790000000123, handler="demo", param="p", instance="f00d")
OUTCOME = CallbackItem(run_id=12, created_ms=1790000000123, code=200, message="done", state=RunState.SUCCEEDED)
BEAT = RegistryRequest(group="EXECUTOR", app_name="demo", address="http://10.0.0.5:9999/", instance="f00d")
GOOD: dict[Callable[[bytes], object], bytes] = {
    codec.decode_trigger: codec.encode_trigger(RUN),
    codec.decode_callbacks: codec.encode_callbacks([OUTCOME], generation=4),
    codec.decode_registry: codec.encode_registry(BEAT),
    codec.decode_idle_beat: codec.encode_idle_beat(7),
    codec.decode_kill: codec.encode_kill(KillRequest(job_id=7, run_id=12)),
    codec.decode_log_request: codec.encode_log_request(LogRequest(run_id=12, created_ms=5, from_line=3)),
    codec.decode_response: codec.encode_response(Response(code=500, message="no", data={"a": 1})),
    codec.decode_batch: codec.encode_batch("f00d", [RUN]),
    codec.decode_states: codec.encode_states("f00d", []),
}
READERS = list(GOOD)
REQUIRED = {
    codec.decode_trigger: {"jobId", "logId"},
    codec.decode_registry: {"registryGroup", "registryKey", "registryValue"},
    codec.decode_idle_beat: {"jobId"},
    codec.decode_kill: {"jobId"},
    codec.decode_log_request: {"logId"},
    codec.decode_response: {"code"},
    codec.decode_batch: {"runs"},
    codec.decode_states: {"keys"},
}
LISTS = {codec.decode_callbacks, codec.decode_response}
"""What reads an array, too: outcomes, and refusals as Go executors spell them."""
KEYS = [
    "jobId", "logId", "logDateTim", "logDateTime", "executorHandler", "executorParams", "executorTimeout",
    "executorBlockStrategy", "glueType", "broadcastIndex", "broadcastTotal", "handleCode", "handleMsg",
    "executeResult", "callbackList", "registryGroup", "registryKey", "registryValue", "fromLineNum", "code", "msg",
    "data", "content", "xwheel", "labels", "instance", "run_id", "runs", "keys", "state", "boot",
]  # fmt: skip
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner),
    max_leaves=20,
)


def refusal_of(read: Any, body: bytes) -> str:
    """Return why a reader refuses a body; empty if it takes it."""
    try:
        read(body)
    except WireError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(message=st.dictionaries(st.sampled_from(KEYS), values) | values)
def test_json_of_any_shape(read: Any, message: object) -> None:
    refusal = refusal_of(read, json.dumps(message).encode())
    name = refusal.partition(":")[0].split(".")[0]
    if isinstance(message, dict):
        given_keys = {key for key, value in message.items() if value is not None}
        needed = REQUIRED.get(read, set())
        assert refusal or needed <= given_keys
        assert name in {"", "response", "planned_ms", "attempt", *KEYS}
        # a field is refused for what stands there, or because it has to stand there
        assert name in {"", "response", *needed} or name in json.dumps(message).replace("Tim", "Time")
    elif not isinstance(message, list) or read not in LISTS:
        assert name in {"request body", "response", "callbackList"}


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(others=st.dictionaries(st.text(max_size=5).map("x-{}".format), values, max_size=4))
def test_keys_that_nobody_knows_change_nothing(read: Any, others: dict[str, object]) -> None:
    body = json.dumps({**others, **json.loads(GOOD[read]), **others}).encode()
    assert read(body) == read(GOOD[read])


def read_or_refusal(read: Callable[[bytes], object], body: bytes) -> object:
    try:
        return read(body)
    except WireError as error:
        return str(error)


RUN_ITEM = json.loads(codec.encode_trigger(RUN))


ABSENT = object()
ODD = [
    ABSENT, None, True, 1, "", "12", " x ", "y" * 65, "y" * 256, 1.0, 1.5, -1, 0, 2**31 - 1, 2**31, 2**53 - 1, 2**53,
    2**70, 253_402_300_799_999, 253_402_300_800_000, [], {}, "COVER_EARLY", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize(
    "path", [(key,) for key in RUN_ITEM] + [("xwheel", key) for key in (*RUN_ITEM["xwheel"], "job_param")] + [()]
)
def test_a_batch_is_read_alike_in_one_go_and_item_by_item(path: tuple[str, ...]) -> None:
    for value in ODD:
        item = {**RUN_ITEM, "xwheel": dict(RUN_ITEM["xwheel"])}
        batch: dict[str, Any] = {"instance": "f00d", "runs": [item, RUN_ITEM]}
        place = item["xwheel"] if path[1:] else item if path else batch
        key = path[-1] if path else "instance"
        place.pop(key, None)
        if value is not ABSENT:
            place[key] = value
        body = json.dumps(batch).encode()
        assert read_or_refusal(codec.decode_batch, body) == read_or_refusal(codec.read_batch, body)


OUTCOME_ITEM = json.loads(
    codec.encode_callbacks([msgspec.structs.replace(OUTCOME, job_id=7, started_ms=5)], instance="f00d")
)[0]


@pytest.mark.parametrize("path", [(key,) for key in OUTCOME_ITEM] + [("xwheel", key) for key in OUTCOME_ITEM["xwheel"]])
def test_outcomes_are_read_alike_in_one_go_and_item_by_item(path: tuple[str, ...]) -> None:
    for value in [*ODD, "x" * 100_000, "running", "failed", {"state": "lost"}]:
        item = {**OUTCOME_ITEM, "xwheel": dict(OUTCOME_ITEM["xwheel"])}
        place = item["xwheel"] if path[1:] else item
        place.pop(path[-1])
        if value is not ABSENT:
            place[path[-1]] = value
        for outcomes in ([item, OUTCOME_ITEM], {"callbackList": [item]}, item):
            body = json.dumps(outcomes).encode()
            assert read_or_refusal(codec.decode_callbacks, body) == read_or_refusal(codec.read_callbacks, body)


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(body=st.binary(max_size=200))
def test_bytes_of_any_kind(read: Any, body: bytes) -> None:
    refusal = refusal_of(read, body)
    try:
        json.loads(body)
    except ValueError:
        assert refusal.startswith(("request body is empty", "request body is not JSON"))


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(data=st.data())
def test_a_good_message_cut_anywhere_is_refused(read: Any, data: st.DataObject) -> None:
    body = GOOD[read]
    refusal = refusal_of(read, body[: data.draw(st.integers(0, len(body) - 1))])
    assert refusal.startswith(("request body is empty", "request body is not JSON"))


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@pytest.mark.parametrize("depth", [2_000, 200_000])
def test_deep_nesting(read: Any, depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        for body in (opening * depth + "1" + closing * depth, '{"handleMsg":' + opening * depth):
            with pytest.raises(WireError, match=r"^request body is nested too deeply$"):
                read(body.encode())


ids = st.integers(1, MAX_ID)
times = st.integers(0, 253_402_300_799_999)
words = st.text(st.characters(blacklist_categories=("Cs",)), max_size=30)


@given(
    st.builds(
        TriggerRequest,
        job_id=ids,
        run_id=ids,
        created_ms=times,
        handler=words.map(str.strip),
        param=words,
        block_strategy=st.sampled_from(BlockStrategy),
        timeout_s=st.integers(0, 2**31 - 1),
        glue_source=words,
        instance=st.just("f00d"),
        planned_ms=times,
        attempt=st.integers(1, 100),
    )
)
def test_triggers_come_back(request_: TriggerRequest) -> None:
    assert codec.decode_trigger(codec.encode_trigger(request_)) == request_


@given(
    st.lists(
        st.builds(
            CallbackItem,
            run_id=ids,
            job_id=ids,
            created_ms=times,
            code=st.integers(1, 999),
            message=words,
            state=st.sampled_from(sorted(OUTCOME_STATES)),
            reason=words,
            started_ms=times,
            finished_ms=times,
        ),
        max_size=5,
    ),
    st.sampled_from([1, 2, 3, 4]),
)
def test_outcomes_come_back(items: list[CallbackItem], generation: int) -> None:
    assert codec.decode_callbacks(codec.encode_callbacks(items, generation=generation)) == (items, [])


@given(st.text(max_size=300))
def test_addresses_are_normal_or_refused(text: str) -> None:
    found = ""

    def read(body: bytes) -> None:
        nonlocal found
        found = contract.normalise_address(body.decode("utf-8", "surrogatepass"))

    refusal = refusal_of(read, text.encode("utf-8", "surrogatepass"))
    if not found:
        assert refusal.startswith(f"{contract.ADDRESS_FIELD}: ")
        return
    assert contract.normalise_address(found) == found
    assert found.isascii()
    assert len(found) <= 260
