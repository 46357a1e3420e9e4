"""The spelling of what executors tell schedulers: beats, farewells and outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xwheel.errors import WireError
from xwheel.model import MAX_ID, OUTCOME_STATES, RunState
from xwheel.wire.codec.envelope import read_result
from xwheel.wire.codec.fields import (
    EXTRA,
    MAX_MS,
    MAX_NAME,
    MAX_WORD,
    as_list,
    as_object,
    cut,
    encode,
    extra_of,
    int_in,
    parse,
    parse_object,
    read_items,
    text_in,
    time_in,
    to_id,
    to_text,
)
from xwheel.wire.contract import MAX_MESSAGE, MAX_URL, OK, TIMEOUT
from xwheel.wire.messages import BadItem, CallbackItem, RegistryRequest

OBJECT_GENERATION: Final = 4
"""First generation whose callbacks are an object instead of an array."""

MAX_LABELS: Final = 32

_OUTCOMES: Final = {state.value: state for state in OUTCOME_STATES}


def encode_registry(request: RegistryRequest) -> bytes:
    """Return the body of a beat or a farewell."""
    declares = {"release": request.release, "declared": request.declared} if request.declared else {}
    return encode(
        {
            "registryGroup": request.group,
            "registryKey": request.app_name,
            "registryValue": request.address,
            EXTRA: {"instance": request.instance, "boot": request.boot, "labels": request.labels, **declares},
        }
    )


def decode_registry(body: bytes) -> RegistryRequest:
    """Read a beat or a farewell; the address stays as spelled.

    Raises WireError: a field is blank, too long or of the wrong type; the message names it.
    """
    item = parse_object(body)
    values = {
        name: text_in(item, name, MAX_URL) for name in ("registryGroup", "registryKey", "registryValue")
    }
    for name, value in values.items():
        if not value.strip():
            raise WireError(f"{name}: must not be blank")
    extra = extra_of(item)
    return RegistryRequest(
        group=values["registryGroup"],
        app_name=values["registryKey"],
        address=values["registryValue"],
        instance=text_in(extra, "instance", MAX_WORD),
        boot=text_in(extra, "boot", MAX_WORD),
        labels=_labels(extra.get("labels")),
        release=text_in(extra, "release", MAX_WORD),
        declared=text_in(extra, "declared", MAX_WORD),
    )


def _labels(value: Any) -> dict[str, str]:
    labels = as_object("labels", {} if value is None else value)
    if len(labels) > MAX_LABELS:
        raise WireError(f"labels: at most {MAX_LABELS} are allowed")
    return {
        to_text("labels", key, MAX_WORD): to_text(f"labels.{key[:MAX_WORD]}", text, MAX_NAME)
        for key, text in labels.items()
    }


def encode_callbacks(items: Sequence[CallbackItem], *, generation: int = 3, instance: str = "") -> bytes:
    """Return a batch of outcomes: an array, from the fourth generation on an object.

    The generation is that of the scheduler that gets them; an empty instance leaves the executor's instance unsaid.
    """
    wire = [callback_item(item) for item in items]
    if instance:
        for entry in wire:
            entry[EXTRA]["instance"] = instance
    return encode({"callbackList": wire} if generation >= OBJECT_GENERATION else wire)


def callback_item(item: CallbackItem) -> dict[str, Any]:
    """Return one outcome as the wire spells it, in both styles."""
    message = cut(item.message, MAX_MESSAGE)
    return {
        "logId": item.run_id,
        "logDateTim": item.created_ms,
        "logDateTime": item.created_ms,
        "handleCode": item.code,
        "handleMsg": message,
        "executeResult": {"code": item.code, "msg": message, "content": None},
        EXTRA: {
            "job_id": item.job_id,
            "state": item.state.value,
            "reason": item.reason,
            "started_ms": item.started_ms,
            "finished_ms": item.finished_ms,
        },
    }


def decode_callbacks(body: bytes) -> tuple[list[CallbackItem], list[BadItem]]:
    """Read outcomes from an array, an object with ``callbackList``, or a single item.

    Returns the items that could be read, and those that could not: one bad item fails alone.
    Raises WireError: the body as a whole cannot be read.
    """
    found = parse(body)
    if isinstance(found, dict):
        found = found.get("callbackList", [found])
    return read_items(as_list("callbackList", found), read_callback, "logId")


def read_callback(item: dict[str, Any]) -> CallbackItem:
    """Read one outcome from decoded JSON. Raises WireError: names the field and what is allowed."""
    code, message = read_result(item)
    extra = extra_of(item)
    state = _OUTCOMES.get(text_in(extra, "state", MAX_WORD))
    return CallbackItem(
        run_id=to_id("logId", item.get("logId")),
        created_ms=time_in(item),
        code=code,
        message=message,
        job_id=int_in(extra, "job_id", MAX_ID),
        state=state or state_of(code),
        reason=text_in(extra, "reason", MAX_WORD),
        started_ms=int_in(extra, "started_ms", MAX_MS),
        finished_ms=int_in(extra, "finished_ms", MAX_MS),
        instance=text_in(extra, "instance", MAX_WORD),
    )


def state_of(code: int) -> RunState:
    """Return what a bare handle code means."""
    if code == OK:
        return RunState.SUCCEEDED
    return RunState.TIMED_OUT if code == TIMEOUT else RunState.FAILED
