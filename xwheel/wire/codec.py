"""The wire's spelling and ours, both ways: the only module that knows camelCase.

What we send suits every generation at once: times under both spellings, results under both styles, payloads under
``data`` and ``content``. Only two things differ by generation: the container of callbacks (an object in the fourth)
and the path of a trigger (:mod:`xwheel.wire.contract`). What we read is tolerant where real peers deviate: unknown
keys, quoted numerals, either spelling of a key, messages of any type. Our additions sit under the key ``xwheel``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xwheel.errors import WireError
from xwheel.model import MAX_ID, OUTCOME_STATES, BlockStrategy, RunState
from xwheel.wire.contract import MAX_MESSAGE, MAX_URL, OK, TIMEOUT
from xwheel.wire.fields import (
    EXTRA,
    MAX_MS,
    as_list,
    as_object,
    cut,
    encode,
    extra_of,
    parse,
    parse_object,
    read_items,
    to_id,
    to_int,
    to_message,
    to_text,
)
from xwheel.wire.messages import (
    BadItem,
    CallbackItem,
    IdleBeatRequest,
    KillRequest,
    LogData,
    LogRequest,
    RegistryRequest,
    Response,
    TriggerRequest,
)

OBJECT_GENERATION: Final = 4
"""First generation whose callbacks are an object instead of an array."""

MAX_PARAM: Final = 2 * 1024 * 1024
MAX_SOURCE: Final = 4 * 1024 * 1024
MAX_NAME: Final = 255
MAX_WORD: Final = 64
MAX_LABELS: Final = 32
MAX_INT: Final = 2**31 - 1

_STRATEGIES: Final = {strategy.value: strategy for strategy in BlockStrategy}
_OUTCOMES: Final = {state.value: state for state in OUTCOME_STATES}


def _int(item: dict[str, Any], name: str, high: int, default: int = 0, low: int = 0) -> int:
    value = item.get(name)
    return default if value is None else to_int(name, value, low, high)


def _text(item: dict[str, Any], name: str, limit: int, default: str = "") -> str:
    value = item.get(name)
    return default if value is None else to_text(name, value, limit)


def _time(item: dict[str, Any]) -> int:
    """Read the creation time under either of its names."""
    value = item.get("logDateTime")
    if value is None:
        value = item.get("logDateTim")
    return 0 if value is None else to_int("logDateTime", value, 0, MAX_MS)


# -- envelope ---------------------------------------------------------------------------------------------------


def encode_response(response: Response) -> bytes:
    """Return the envelope that peers of every generation read."""
    return encode(
        {
            "code": response.code,
            "msg": response.message or ("Success" if response.ok else "Fail"),
            "content": response.data,
            "data": response.data,
            "success": response.ok,
            EXTRA: 1,
        }
    )


def decode_response(body: bytes) -> Response:
    """Read an envelope: ``data``, then ``content``; an array is how Go executors refuse a run.

    Raises:
        WireError: Not JSON, or no whole number under ``code``.
    """
    found = parse(body)
    if isinstance(found, list) and found:
        item = as_object("response[0]", found[0])
        code, message = _result_of(item)
        return Response(code=code, message=message)
    envelope = as_object("response", found)
    data = envelope.get("data")
    return Response(
        code=to_int("code", envelope.get("code"), -MAX_INT, MAX_INT),
        message=to_message(envelope.get("msg"), MAX_MESSAGE),
        data=envelope.get("content") if data is None else data,
        xwheel=EXTRA in envelope,
    )


# -- scheduler to executor --------------------------------------------------------------------------------------


def encode_trigger(request: TriggerRequest) -> bytes:
    """Return the body of ``/run`` and ``/trigger``; it is the same in all generations."""
    return encode(trigger_item(request))


def trigger_item(request: TriggerRequest) -> dict[str, Any]:
    """Return one trigger as the wire spells it."""
    item: dict[str, Any] = {
        "jobId": request.job_id,
        "executorHandler": request.handler,
        "executorParams": request.param,
        "executorBlockStrategy": request.block_strategy.value,
        "executorTimeout": request.timeout_s,
        "logId": request.run_id,
        "logDateTime": request.created_ms,
        "glueType": request.glue_type,
        "glueSource": request.glue_source,
        "glueUpdatetime": request.glue_updated_ms,
        "broadcastIndex": request.shard_index,
        "broadcastTotal": request.shard_total,
    }
    if request.instance:
        item[EXTRA] = {
            "planned_ms": request.planned_ms,
            "attempt": request.attempt,
            "instance": request.instance,
            "trace_parent": request.trace_parent,
        }
    return item


def decode_trigger(body: bytes) -> TriggerRequest:
    """Read a trigger; raises like :func:`read_trigger`."""
    return read_trigger(parse_object(body))


def read_trigger(item: dict[str, Any]) -> TriggerRequest:
    """Read one trigger from decoded JSON.

    Raises:
        WireError: Names the field and what is allowed.
    """
    extra = extra_of(item)
    total = _int(item, "broadcastTotal", MAX_INT, default=1)
    index = _int(item, "broadcastIndex", MAX_INT)
    if index >= max(1, total):
        raise WireError(f"broadcastIndex: must be below broadcastTotal ({total})")
    return TriggerRequest(
        job_id=to_id("jobId", item.get("jobId")),
        run_id=to_id("logId", item.get("logId")),
        created_ms=_time(item),
        handler=_text(item, "executorHandler", MAX_NAME).strip(),
        param=_text(item, "executorParams", MAX_PARAM),
        block_strategy=_strategy(_text(item, "executorBlockStrategy", MAX_WORD)),
        timeout_s=max(0, _int(item, "executorTimeout", MAX_INT, low=-MAX_INT)),
        glue_type=_text(item, "glueType", MAX_WORD, default="BEAN"),
        glue_source=_text(item, "glueSource", MAX_SOURCE),
        glue_updated_ms=_int(item, "glueUpdatetime", MAX_MS),
        shard_index=index,
        shard_total=max(1, total),
        planned_ms=_int(extra, "planned_ms", MAX_MS),
        attempt=_int(extra, "attempt", MAX_INT, default=1),
        instance=_text(extra, "instance", MAX_WORD),
        trace_parent=_text(extra, "trace_parent", MAX_NAME),
    )


def _strategy(text: str) -> BlockStrategy:
    # upstream takes every unknown value for serial
    return _STRATEGIES.get(text, BlockStrategy.SERIAL_EXECUTION)


def encode_idle_beat(request: IdleBeatRequest) -> bytes:
    """Return the body of ``/idleBeat``."""
    return encode({"jobId": request.job_id})


def decode_idle_beat(body: bytes) -> IdleBeatRequest:
    """Read ``/idleBeat``; raises :class:`WireError` naming the field."""
    return IdleBeatRequest(job_id=to_id("jobId", parse_object(body).get("jobId")))


def encode_kill(request: KillRequest) -> bytes:
    """Return the body of ``/kill``."""
    item: dict[str, Any] = {"jobId": request.job_id}
    if request.run_id:
        item[EXTRA] = {"run_id": request.run_id, "created_ms": request.created_ms}
    return encode(item)


def decode_kill(body: bytes) -> KillRequest:
    """Read ``/kill``; raises :class:`WireError` naming the field."""
    item = parse_object(body)
    extra = extra_of(item)
    return KillRequest(
        job_id=to_id("jobId", item.get("jobId")),
        run_id=_int(extra, "run_id", MAX_ID),
        created_ms=_int(extra, "created_ms", MAX_MS),
    )


def encode_log_request(request: LogRequest) -> bytes:
    """Return the body of ``/log``, with the time under both spellings."""
    return encode(
        {
            "logId": request.run_id,
            "logDateTim": request.created_ms,
            "logDateTime": request.created_ms,
            "fromLineNum": request.from_line,
        }
    )


def decode_log_request(body: bytes) -> LogRequest:
    """Read ``/log``; raises :class:`WireError` naming the field."""
    item = parse_object(body)
    return LogRequest(
        run_id=to_id("logId", item.get("logId")),
        created_ms=_time(item),
        from_line=max(1, _int(item, "fromLineNum", MAX_INT, default=1, low=-MAX_INT)),
    )


def log_payload(data: LogData) -> dict[str, Any]:
    """Return a piece of log as the wire spells it, for :attr:`Response.data`."""
    return {
        "fromLineNum": data.from_line,
        "toLineNum": data.to_line,
        "logContent": data.content,
        "isEnd": data.is_end,
    }


def read_log_data(payload: object) -> LogData:
    """Read a piece of log out of :attr:`Response.data`.

    Raises:
        WireError: Names the field and what is allowed.
    """
    item = as_object("data", payload)
    is_end = item.get("isEnd", item.get("end", False))
    return LogData(
        from_line=_int(item, "fromLineNum", MAX_INT, low=-MAX_INT),
        to_line=_int(item, "toLineNum", MAX_INT, low=-MAX_INT),
        content=to_text("logContent", item.get("logContent"), 64 * 1024 * 1024),
        is_end=is_end is True or is_end == "true",
    )


# -- executor to scheduler --------------------------------------------------------------------------------------


def encode_registry(request: RegistryRequest) -> bytes:
    """Return the body of a beat or a farewell."""
    return encode(
        {
            "registryGroup": request.group,
            "registryKey": request.app_name,
            "registryValue": request.address,
            EXTRA: {
                "instance": request.instance,
                "boot": request.boot,
                "version": request.version,
                "capacity": request.capacity,
                "labels": request.labels,
            },
        }
    )


def decode_registry(body: bytes) -> RegistryRequest:
    """Read a beat or a farewell; the address stays as spelled.

    Raises:
        WireError: A field is blank, too long or of the wrong type; the message names it.
    """
    item = parse_object(body)
    values = {name: _text(item, name, MAX_URL) for name in ("registryGroup", "registryKey", "registryValue")}
    for name, value in values.items():
        if not value.strip():
            raise WireError(f"{name}: must not be blank")
    extra = extra_of(item)
    return RegistryRequest(
        group=values["registryGroup"],
        app_name=values["registryKey"],
        address=values["registryValue"],
        instance=_text(extra, "instance", MAX_WORD),
        boot=_text(extra, "boot", MAX_WORD),
        version=_text(extra, "version", MAX_WORD),
        capacity=_int(extra, "capacity", MAX_INT),
        labels=_labels(extra.get("labels")),
    )


def _labels(value: Any) -> dict[str, str]:
    labels = as_object("labels", {} if value is None else value)
    if len(labels) > MAX_LABELS:
        raise WireError(f"labels: at most {MAX_LABELS} are allowed")
    return {
        to_text("labels", key, MAX_WORD): to_text(f"labels.{key[:MAX_WORD]}", text, MAX_NAME)
        for key, text in labels.items()
    }


def encode_callbacks(items: Sequence[CallbackItem], *, generation: int = 3) -> bytes:
    """Return a batch of outcomes: an array, from the fourth generation on an object."""
    wire = [callback_item(item) for item in items]
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

    Returns:
        The items that could be read, and those that could not: one bad item fails alone.

    Raises:
        WireError: The body as a whole cannot be read.
    """
    found = parse(body)
    if isinstance(found, dict):
        found = found.get("callbackList", [found])
    return read_items(as_list("callbackList", found), read_callback, "logId")


def read_callback(item: dict[str, Any]) -> CallbackItem:
    """Read one outcome from decoded JSON.

    Raises:
        WireError: Names the field and what is allowed.
    """
    code, message = _result_of(item)
    extra = extra_of(item)
    state = _OUTCOMES.get(_text(extra, "state", MAX_WORD))
    return CallbackItem(
        run_id=to_id("logId", item.get("logId")),
        created_ms=_time(item),
        code=code,
        message=message,
        job_id=_int(extra, "job_id", MAX_ID),
        state=state or state_of(code),
        reason=_text(extra, "reason", MAX_WORD),
        started_ms=_int(extra, "started_ms", MAX_MS),
        finished_ms=_int(extra, "finished_ms", MAX_MS),
    )


def state_of(code: int) -> RunState:
    """Return what a bare handle code means."""
    if code == OK:
        return RunState.SUCCEEDED
    return RunState.TIMED_OUT if code == TIMEOUT else RunState.FAILED


def _result_of(item: dict[str, Any]) -> tuple[int, str]:
    """Read code and message: the newer style first, then the first generation's nested one."""
    nested = item.get("executeResult")
    result: dict[str, Any] = nested if isinstance(nested, dict) else {}
    code = item.get("handleCode")
    message = item.get("handleMsg")
    # upstream reads 0 as "still running"; an outcome without a code is not one
    number = to_int("handleCode", result.get("code") if code is None else code, 1, MAX_INT)
    return number, to_message(result.get("msg") if message is None else message, MAX_MESSAGE)
