"""Whatever arrives, readers answer with a record or a WireError; what we write, we read back."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xwheel.errors import WireError
from xwheel.model import MAX_ID, OUTCOME_STATES, BlockStrategy
from xwheel.wire import batch_codec, codec, contract
from xwheel.wire.messages import CallbackItem, TriggerRequest

READERS = [
    codec.decode_trigger,
    codec.decode_callbacks,
    codec.decode_registry,
    codec.decode_idle_beat,
    codec.decode_kill,
    codec.decode_log_request,
    codec.decode_response,
    batch_codec.decode_batch,
    batch_codec.decode_states,
]
KEYS = [
    "jobId", "logId", "logDateTim", "logDateTime", "executorHandler", "executorParams", "executorTimeout",
    "executorBlockStrategy", "glueType", "broadcastIndex", "broadcastTotal", "handleCode", "handleMsg",
    "executeResult", "callbackList", "registryGroup", "registryKey", "registryValue", "fromLineNum", "code", "msg",
    "data", "content", "xwheel", "labels", "instance", "run_id", "runs", "keys", "state", "capacity",
]  # fmt: skip
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(message=st.dictionaries(st.sampled_from(KEYS), values) | values)
@settings(max_examples=150, deadline=None)
def test_json_of_any_shape(read: Any, message: object) -> None:
    with suppress(WireError):
        read(json.dumps(message).encode())


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(body=st.binary(max_size=200))
@settings(max_examples=50, deadline=None)
def test_bytes_of_any_kind(read: Any, body: bytes) -> None:
    with suppress(WireError):
        read(body)


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@pytest.mark.parametrize("depth", [2_000, 200_000])
def test_deep_nesting(read: Any, depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        for body in (opening * depth + "1" + closing * depth, '{"handleMsg":' + opening * depth):
            with pytest.raises(WireError):
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
        trace_parent=words,
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
    try:
        found = contract.normalise_address(text)
    except WireError:
        return
    assert contract.normalise_address(found) == found
    assert found.isascii()
    assert len(found) <= 260
