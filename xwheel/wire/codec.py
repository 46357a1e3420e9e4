"""The wire's spelling and ours, both ways, under one name; only this module knows camelCase.

What we send suits every generation at once: times under both spellings, results under both styles, payloads under
``data`` and ``content``. Only two things differ by generation: the container of callbacks (an object in the fourth)
and the path of a trigger (:mod:`xwheel.wire.contract`). What we read is tolerant where real peers deviate: unknown
keys, quoted numerals, either spelling of a key, messages of any type. Our additions sit under the key ``xwheel``.

In this order: single values, the envelope around every answer, what schedulers ask of executors, what executors tell
them, and what only xwheel peers say to one another: ``/runBatch``, ``/runState`` and ``/api/shipLogs``. Runs and
outcomes inside these are spelled as in XXL-JOB's own messages; the rest is short and ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from xwheel.errors import WireError
from xwheel.model import MAX_ID, OUTCOME_STATES, BlockStrategy, RunState
from xwheel.wire.contract import MAX_MESSAGE, MAX_URL, OK, TEXTS_NO_LOG, TIMEOUT
from xwheel.wire.messages import (
    Answers,
    BadItem,
    BatchAnswer,
    CallbackItem,
    ExecutionState,
    KillRequest,
    LogData,
    LogPart,
    LogReceipt,
    LogRequest,
    RegistryRequest,
    Response,
    RunKey,
    StateAnswer,
    TriggerRequest,
)

T = TypeVar("T")

MAX_MS: Final = 253_402_300_799_999  # the last millisecond of the year 9999
_DIGITS: Final = 20

EXTRA: Final = "xwheel"  # key of our additions to a message; other peers ignore it
NOT_YET: Final = "not_yet"

MAX_EARLY_MS: Final = 10_000  # how long before it is due a run may be sent
MAX_BATCH: Final = 10_000  # items of one list; the body limit usually comes first
MAX_INT: Final = 2**31 - 1
MAX_NAME: Final = 255
SHORT: Final = 256
MAX_WORD: Final = 64

encode: Final = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder()


def parse(body: bytes) -> Any:
    """Decode JSON, and what peers write as if it were JSON. Raises WireError: empty, not JSON, or nested too deeply.

    That is NaN and numbers of thousands of digits, for the reader of the field to judge; and halves of surrogate pairs
    and bytes that are no UTF-8, which become replacement characters. So what one item says wrongly refuses no other.
    """
    if not body or body.isspace():
        raise WireError("request body is empty")
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            return _readable(json.loads(body.decode(errors="replace"), parse_int=_whole))
        except ValueError:
            raise WireError(f"request body is not JSON: {error}") from None
        except RecursionError:
            raise WireError("request body is nested too deeply") from None
    except RecursionError:
        raise WireError("request body is nested too deeply") from None


def _whole(digits: str) -> int | float:
    """Return a whole number, or infinity for one with more digits than Python reads (some thousands)."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _readable(value: Any) -> Any:
    """Return decoded JSON with each half of a surrogate pair replaced: no such text can be stored or sent on."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {_readable(name): _readable(item) for name, item in value.items()}
    return value


def parse_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object; raises like :func:`parse`."""
    return as_object("request body", parse(body))


def as_object(name: str, value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object. Raises WireError: it is not one."""
    if not isinstance(value, dict):
        raise WireError(f"{name}: must be a JSON object")
    return value


def as_list(name: str, value: Any) -> list[Any]:
    """Return the value if it is a JSON array of a bearable length. Raises WireError: it is not one, or too long."""
    if not isinstance(value, list) or len(value) > MAX_BATCH:
        raise WireError(f"{name}: must be a JSON array of at most {MAX_BATCH} items")
    return value


def extra_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return our additions to a message; empty if the peer is not xwheel."""
    extra = item.get(EXTRA)
    return extra if isinstance(extra, dict) else {}


def to_int(name: str, value: Any, low: int, high: int) -> int:
    """Return an integer; quoted numerals and whole floats count. Raises WireError: not one from ``low`` to ``high``."""
    number: int | None = None
    if type(value) is int:
        number = value
    elif isinstance(value, str) and len(value) <= _DIGITS:
        text = value.strip()
        if text.isascii() and text.removeprefix("-").isdigit():
            number = int(text)
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if number is None or not low <= number <= high:
        raise WireError(f"{name}: must be a whole number from {low} to {high}")
    return number


def to_id(name: str, value: Any) -> int:
    """Return an id, 1 to 2**53 - 1. Raises WireError: it is not one."""
    return to_int(name, value, 1, MAX_ID)


def to_text(name: str, value: Any, limit: int) -> str:
    """Return text, also of numerals, booleans and null (empty). Raises WireError: something else, or over ``limit``."""
    if value is None:
        return ""
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str) or len(value) > limit:
        raise WireError(f"{name}: must be text of at most {limit} characters")
    return value


def int_in(item: dict[str, Any], name: str, high: int, default: int = 0, low: int = 0) -> int:
    """Read a number under a key; a missing one is the default. Raises like :func:`to_int`."""
    value = item.get(name)
    return default if value is None else to_int(name, value, low, high)


def text_in(item: dict[str, Any], name: str, limit: int, default: str = "") -> str:
    """Read a string under a key; a missing one is the default. Raises like :func:`to_text`."""
    value = item.get(name)
    return default if value is None else to_text(name, value, limit)


def time_in(item: dict[str, Any]) -> int:
    """Read the creation time under either of its names; 0 if there is none."""
    value = item.get("logDateTime")
    if value is None:
        value = item.get("logDateTim")
    return 0 if value is None else to_int("logDateTime", value, 0, MAX_MS)


def text_bytes(*texts: str) -> int:
    """Return how many bytes texts take as JSON, at most; few characters are not encoded for it."""
    count = sum(map(len, texts))
    return 6 * count if count <= SHORT else sum([len(encode(text)) for text in texts])


def to_message(value: Any, limit: int) -> str:
    """Return a message for people; anything that is no string becomes its JSON text, and long ones are cut.

    Python executors send a handler's return value here, whatever its type.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        try:
            value = msgspec.json.encode(value).decode()
        except RecursionError:
            value = "(nested too deeply to show)"
    return cut(value, limit)


def cut(text: str, limit: int) -> str:
    """Shorten a message to ``limit`` characters and say so at its end; repairs what UTF-8 cannot carry."""
    if len(text) > limit:
        note = f" … ({len(text)} characters)"
        text = text[: limit - len(note)] + note
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def read_items(items: list[Any], read: Callable[[dict[str, Any]], T], id_key: str) -> tuple[list[T], list[BadItem]]:
    """Read each item by itself; return the good ones and the bad ones."""
    good: list[T] = []
    bad: list[BadItem] = []
    for index, item in enumerate(items):
        try:
            good.append(read(as_object(f"item {index}", item)))
        except WireError as error:
            bad.append(BadItem(index=index, run_id=_id_or_zero(item, id_key), error=str(error)))
    return good, bad


def _id_or_zero(item: Any, id_key: str) -> int:
    try:
        return to_id(id_key, as_object("item", item).get(id_key))
    except WireError:
        return 0


def encode_response(response: Response) -> bytes:
    """Return the envelope that peers of every generation read."""
    return encode(
        {
            "code": response.code,
            "msg": response.message or ("Success" if response.ok else "Fail"),
            "content": response.data,
            "data": response.data,
            "success": response.ok,
            EXTRA: {NOT_YET: True} if response.not_yet else 1,
        }
    )


def decode_response(body: bytes) -> Response:
    """Read an envelope: ``data``, then ``content``; an array is how Go executors refuse a run.

    Raises WireError: not JSON, or no whole number under ``code``.
    """
    found = parse(body)
    if isinstance(found, list) and found:
        code, message = read_result(as_object("response[0]", found[0]))
        return Response(code=code, message=message)
    envelope = as_object("response", found)
    data = envelope.get("data")
    return Response(
        code=to_int("code", envelope.get("code"), -MAX_INT, MAX_INT),
        message=to_message(envelope.get("msg"), MAX_MESSAGE),
        data=envelope.get("content") if data is None else data,
        xwheel=EXTRA in envelope,
        not_yet=extra_of(envelope).get(NOT_YET) is True,
    )


def read_result(item: dict[str, Any]) -> tuple[int, str]:
    """Read code and message: the newer style first, then the first generation's nested one."""
    nested = item.get("executeResult")
    result: dict[str, Any] = nested if isinstance(nested, dict) else {}
    code, message = item.get("handleCode"), item.get("handleMsg")
    # upstream reads 0 as "still running"; an outcome without a code is not one
    number = to_int("handleCode", result.get("code") if code is None else code, 1, MAX_INT)
    return number, to_message(result.get("msg") if message is None else message, MAX_MESSAGE)


MAX_PARAM: Final = 2 * 1024 * 1024
MAX_SOURCE: Final = 4 * 1024 * 1024

# more than a trigger takes without its long texts, whatever its numbers and its executor's instance
FIXED_BYTES: Final = 1024
_STRATEGIES: Final = {strategy.value: strategy for strategy in BlockStrategy}


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
        item[EXTRA] = {"planned_ms": request.planned_ms, "attempt": request.attempt, "instance": request.instance}
        if request.job_param:
            item[EXTRA]["job_param"] = request.job_param
        if request.due_ms:
            item[EXTRA] |= {"due_ms": request.due_ms, "sent_ms": request.sent_ms}
    return item


def trigger_bytes(*texts: str) -> int:
    """Return how many bytes a trigger takes as JSON, at most.

    ``texts`` are all that have no bound of their own: handler, parameter, glue type, source.
    """
    return FIXED_BYTES + text_bytes(*texts)


def decode_trigger(body: bytes) -> TriggerRequest:
    """Read a trigger; raises like :func:`read_trigger`."""
    return read_trigger(parse_object(body))


def read_trigger(item: dict[str, Any]) -> TriggerRequest:
    """Read one trigger from decoded JSON. Raises WireError: names the field and what is allowed."""
    extra = extra_of(item)
    strategy = text_in(item, "executorBlockStrategy", MAX_WORD)
    total = int_in(item, "broadcastTotal", MAX_INT, default=1)
    index = int_in(item, "broadcastIndex", MAX_INT)
    if index >= max(1, total):
        raise WireError(f"broadcastIndex: must be below broadcastTotal ({total})")
    due_ms, sent_ms = int_in(extra, "due_ms", MAX_MS), int_in(extra, "sent_ms", MAX_MS)
    _check_early(due_ms, sent_ms)
    return TriggerRequest(
        job_id=to_id("jobId", item.get("jobId")),
        run_id=to_id("logId", item.get("logId")),
        created_ms=time_in(item),
        handler=text_in(item, "executorHandler", MAX_NAME).strip(),
        param=text_in(item, "executorParams", MAX_PARAM),
        # upstream takes every unknown value for serial
        block_strategy=_STRATEGIES.get(strategy, BlockStrategy.SERIAL_EXECUTION),
        timeout_s=max(0, int_in(item, "executorTimeout", MAX_INT, low=-MAX_INT)),
        glue_type=text_in(item, "glueType", MAX_WORD, default="BEAN"),
        glue_source=text_in(item, "glueSource", MAX_SOURCE),
        glue_updated_ms=int_in(item, "glueUpdatetime", MAX_MS),
        shard_index=index,
        shard_total=max(1, total),
        planned_ms=int_in(extra, "planned_ms", MAX_MS),
        attempt=int_in(extra, "attempt", MAX_INT, default=1),
        instance=text_in(extra, "instance", MAX_WORD),
        job_param=text_in(extra, "job_param", MAX_PARAM),
        due_ms=due_ms,
        sent_ms=sent_ms,
    )


def _check_early(due_ms: int, sent_ms: int) -> None:
    if due_ms and not sent_ms <= due_ms <= sent_ms + MAX_EARLY_MS:
        raise WireError(f"due_ms: must be at most {MAX_EARLY_MS} ms after sent_ms")


_Id: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]
_Int: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
_Ms: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_MS)]
_Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_WORD)]
_Param: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_PARAM)]


class _OwnExtra(msgspec.Struct, gc=False):
    planned_ms: _Ms = 0
    attempt: _Int = 1
    instance: _Word = ""
    job_param: _Param = ""
    due_ms: _Ms = 0
    sent_ms: _Ms = 0


class _OwnTrigger(msgspec.Struct, gc=False, rename="camel"):
    """A trigger as :func:`trigger_item` spells it for an xwheel executor; all others are read key by key."""

    job_id: _Id
    log_id: _Id
    log_date_time: _Ms
    executor_handler: Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
    executor_params: _Param
    executor_block_strategy: _Word
    executor_timeout: _Int
    glue_type: _Word
    glue_source: Annotated[str, msgspec.Meta(max_length=MAX_SOURCE)]
    glue_updatetime: _Ms
    broadcast_index: _Int
    broadcast_total: Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)]
    xwheel: _OwnExtra


class _OwnBatch(msgspec.Struct, gc=False):
    instance: _Word
    runs: Annotated[list[_OwnTrigger], msgspec.Meta(max_length=MAX_BATCH)]


_read_own_batch: Final = msgspec.json.Decoder(_OwnBatch).decode


def _own_request(item: _OwnTrigger) -> TriggerRequest:
    if item.broadcast_index >= item.broadcast_total:
        raise WireError("broadcastIndex: must be below broadcastTotal")
    extra = item.xwheel
    _check_early(extra.due_ms, extra.sent_ms)
    return TriggerRequest(
        job_id=item.job_id,
        run_id=item.log_id,
        created_ms=item.log_date_time,
        handler=item.executor_handler.strip(),
        param=item.executor_params,
        block_strategy=_STRATEGIES.get(item.executor_block_strategy, BlockStrategy.SERIAL_EXECUTION),
        timeout_s=item.executor_timeout,
        glue_type=item.glue_type,
        glue_source=item.glue_source,
        glue_updated_ms=item.glue_updatetime,
        shard_index=item.broadcast_index,
        shard_total=item.broadcast_total,
        planned_ms=extra.planned_ms,
        attempt=extra.attempt,
        instance=extra.instance,
        job_param=extra.job_param,
        due_ms=extra.due_ms,
        sent_ms=extra.sent_ms,
    )


def encode_idle_beat(job_id: int) -> bytes:
    """Return the body of ``/idleBeat``, which asks whether a job has neither a running nor a waiting run."""
    return encode({"jobId": job_id})


def decode_idle_beat(body: bytes) -> int:
    """Return the job of ``/idleBeat``; raises :class:`WireError` naming the field."""
    return to_id("jobId", parse_object(body).get("jobId"))


def encode_kill(request: KillRequest) -> bytes:
    """Return the body of ``/kill``."""
    item: dict[str, Any] = {"jobId": request.job_id}
    if request.run_id:
        item[EXTRA] = {"run_id": request.run_id}
    return encode(item)


def decode_kill(body: bytes) -> KillRequest:
    """Read ``/kill``; raises :class:`WireError` naming the field."""
    item = parse_object(body)
    return KillRequest(job_id=to_id("jobId", item.get("jobId")), run_id=int_in(extra_of(item), "run_id", MAX_ID))


def encode_log_request(request: LogRequest) -> bytes:
    """Return the body of ``/log``, with the time under both spellings."""
    item: dict[str, Any] = {
        "logId": request.run_id,
        "logDateTim": request.created_ms,
        "logDateTime": request.created_ms,
        "fromLineNum": request.from_line,
    }
    if request.tail:
        item[EXTRA] = {"tail": request.tail}
    return encode(item)


def decode_log_request(body: bytes) -> LogRequest:
    """Read ``/log``; raises :class:`WireError` naming the field."""
    item = parse_object(body)
    return LogRequest(
        run_id=to_id("logId", item.get("logId")),
        created_ms=time_in(item),
        from_line=max(1, int_in(item, "fromLineNum", MAX_INT, default=1, low=-MAX_INT)),
        tail=int_in(extra_of(item), "tail", MAX_INT),
    )


def log_payload(data: LogData) -> dict[str, Any]:
    """Return a piece of log as the wire spells it, for :attr:`Response.data`."""
    return {"fromLineNum": data.from_line, "toLineNum": data.to_line, "logContent": data.content, "isEnd": data.is_end}


def read_log_data(payload: object) -> LogData:
    """Read a piece of log out of :attr:`Response.data`.

    A text that stands for a log that is not there is no line of it: reading goes on where it began. Raises WireError.
    """
    item = as_object("data", payload)
    is_end = item.get("isEnd", item.get("end", False))
    from_line = int_in(item, "fromLineNum", MAX_INT, low=-MAX_INT)
    to_line = int_in(item, "toLineNum", MAX_INT, low=-MAX_INT)
    content = to_text("logContent", item.get("logContent"), 64 * 1024 * 1024)
    if content in TEXTS_NO_LOG:
        return LogData(from_line=from_line, to_line=from_line - 1, content=content, is_end=True)
    return LogData(from_line=from_line, to_line=to_line, content=content, is_end=is_end is True or is_end == "true")


OBJECT_GENERATION: Final = 4  # the first whose callbacks are an object instead of an array
EARLY_GENERATION: Final = 5  # xwheel's executors that take runs before they are due
MAX_LABELS: Final = 32

_OUTCOMES: Final = {state.value: state for state in OUTCOME_STATES}


def encode_registry(request: RegistryRequest) -> bytes:
    """Return the body of a beat or a farewell."""
    more: dict[str, object] = {"early": True} if request.early else {}
    if request.declared:
        more |= {"release": request.release, "declared": request.declared}
    return encode(
        {
            "registryGroup": request.group,
            "registryKey": request.app_name,
            "registryValue": request.address,
            EXTRA: {"instance": request.instance, "boot": request.boot, "labels": request.labels, **more},
        }
    )


def decode_registry(body: bytes) -> RegistryRequest:
    """Read a beat or a farewell; the address stays as spelled. Raises WireError naming a blank or wrong field."""
    item = parse_object(body)
    values = {name: text_in(item, name, MAX_URL) for name in ("registryGroup", "registryKey", "registryValue")}
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
        early=extra.get("early") is True,
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


class _OwnReport(msgspec.Struct, gc=False):
    job_id: _Id
    state: RunState
    reason: _Word
    started_ms: _Ms
    finished_ms: _Ms
    instance: _Word


class _OwnOutcome(msgspec.Struct, gc=False, rename="camel"):
    """An outcome as :func:`callback_item` spells it for an xwheel scheduler; all others are read key by key."""

    log_id: _Id
    log_date_time: _Ms
    handle_code: Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)]
    handle_msg: Annotated[str, msgspec.Meta(max_length=MAX_MESSAGE)]
    xwheel: _OwnReport


_read_own_outcomes: Final = msgspec.json.Decoder(
    Annotated[list[_OwnOutcome], msgspec.Meta(max_length=MAX_BATCH)]
).decode


def decode_callbacks(body: bytes) -> tuple[list[CallbackItem], list[BadItem]]:
    """Read outcomes, the good and the bad ones, from an array, an object with ``callbackList``, or a single item.

    Raises WireError: the body as a whole cannot be read.
    """
    # as in decode_batch
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        own = _read_own_outcomes(body)
        if OUTCOME_STATES.issuperset([item.xwheel.state for item in own]):
            return [_own_outcome(item) for item in own], []
    return read_callbacks(body)


def _own_outcome(item: _OwnOutcome) -> CallbackItem:
    report = item.xwheel
    return CallbackItem(
        run_id=item.log_id,
        created_ms=item.log_date_time,
        code=item.handle_code,
        message=item.handle_msg,
        job_id=report.job_id,
        state=report.state,
        reason=report.reason,
        started_ms=report.started_ms,
        finished_ms=report.finished_ms,
        instance=report.instance,
    )


def read_callbacks(body: bytes) -> tuple[list[CallbackItem], list[BadItem]]:
    """Do the same item by item, whatever the spelling."""
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


_STATES: Final = {state.value: state for state in ExecutionState}
_KEY_PARTS: Final = 3


def encode_batch(instance: str, runs: Sequence[TriggerRequest]) -> bytes:
    """Return the body of ``/runBatch``: many runs for one xwheel executor."""
    return encode({"instance": instance, "runs": [trigger_item(run) for run in runs]})


def decode_batch(body: bytes) -> tuple[str, list[TriggerRequest], list[BadItem]]:
    """Read ``/runBatch``: the instance meant, the good and the bad runs. Raises WireError: the body cannot be read."""
    # what xwheel's own schedulers send is read in one go; a batch with anything else in it, item by item
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, WireError):
        batch = _read_own_batch(body)
        return batch.instance, [_own_request(item) for item in batch.runs], []
    return read_batch(body)


def read_batch(body: bytes) -> tuple[str, list[TriggerRequest], list[BadItem]]:
    """Do the same item by item, whatever the spelling."""
    item = parse_object(body)
    good, bad = read_items(as_list("runs", item.get("runs")), read_trigger, "logId")
    return to_text("instance", item.get("instance"), MAX_WORD), good, bad


def batch_payload(instance: str, answers: Sequence[BatchAnswer]) -> dict[str, Any]:
    """Return the reply to ``/runBatch`` for :attr:`Response.data`."""
    return {"instance": instance, "runs": [_batch_item(answer) for answer in answers]}


def _batch_item(answer: BatchAnswer) -> dict[str, Any]:
    item: dict[str, Any] = {"id": answer.run_id, "code": answer.code, "msg": answer.message}
    if answer.not_yet:
        item[NOT_YET] = True
    return item


def read_batch_reply(payload: object) -> Answers[BatchAnswer]:
    """Read the reply to ``/runBatch``; raises like :func:`read_state_reply`."""
    return _read_answers(payload, _read_batch_answer)


def _read_answers(payload: object, read: Callable[[dict[str, Any]], T]) -> Answers[T]:
    item = as_object("data", payload)
    answers, _ = read_items(as_list("runs", item.get("runs")), read, "id")
    return Answers(to_text("instance", item.get("instance"), MAX_WORD), answers)


def _read_batch_answer(item: dict[str, Any]) -> BatchAnswer:
    return BatchAnswer(
        run_id=to_id("id", item.get("id")),
        code=to_int("code", item.get("code"), 1, MAX_INT),
        message=to_message(item.get("msg"), MAX_MESSAGE),
        not_yet=item.get(NOT_YET) is True,
    )


def encode_states(instance: str, keys: Sequence[RunKey]) -> bytes:
    """Return the body of ``/runState``, which asks an xwheel executor about runs."""
    parts = [(key.run_id, key.job_id, key.created_ms) for key in keys]
    return encode({"instance": instance, "keys": parts})


def decode_states(body: bytes) -> tuple[str, list[RunKey]]:
    """Read ``/runState``: the instance that is meant, and the runs. Raises WireError naming the field."""
    item = parse_object(body)
    instance = to_text("instance", item.get("instance"), MAX_WORD)
    return instance, [_read_key(key) for key in as_list("keys", item.get("keys"))]


def recalled_payload(run_ids: Sequence[int]) -> dict[str, Any]:
    """Return the reply to ``/recall``: what will not start."""
    return {"runs": run_ids}


def read_recalled(payload: object) -> set[int]:
    """Read it. Raises WireError: names the field and what is allowed."""
    return {to_id("runs", item) for item in as_list("runs", as_object("data", payload).get("runs"))}


def _read_key(value: Any) -> RunKey:
    parts = as_list("keys", value)
    if len(parts) != _KEY_PARTS:
        raise WireError("keys: each must be [run id, job id, creation time]")
    return RunKey(
        run_id=to_id("keys.0", parts[0]),
        job_id=to_id("keys.1", parts[1]),
        created_ms=to_int("keys.2", parts[2], 0, MAX_MS),
    )


def state_payload(instance: str, answers: Sequence[StateAnswer]) -> dict[str, Any]:
    """Return the reply to ``/runState`` for :attr:`Response.data`."""
    return {
        "instance": instance,
        "runs": [
            {
                "id": answer.run_id,
                "state": answer.state.value,
                "running_ms": answer.running_ms,
                "outcome": callback_item(answer.outcome) if answer.outcome else None,
            }
            for answer in answers
        ],
    }


def read_state_reply(payload: object) -> Answers[StateAnswer]:
    """Read the reply to ``/runState``, without what cannot be read. Raises WireError: the whole cannot be read."""
    return _read_answers(payload, _read_state_answer)


def _read_state_answer(item: dict[str, Any]) -> StateAnswer:
    state = _STATES.get(to_text("state", item.get("state"), MAX_WORD))
    if state is None:
        raise WireError(f"state: must be one of {', '.join(_STATES)}")
    outcome = item.get("outcome")
    return StateAnswer(
        run_id=to_id("id", item.get("id")),
        state=state,
        running_ms=int_in(item, "running_ms", MAX_MS),
        outcome=read_callback(as_object("outcome", outcome)) if outcome else None,
    )


def refusals_payload(items: list[BadItem]) -> dict[str, Any]:
    """Return what an xwheel scheduler answers to a callback whose items it refuses for good."""
    return {"refused": [{"id": item.run_id, "index": item.index, "msg": item.error} for item in items]}


def read_refusals(payload: object) -> list[BadItem]:
    """Read which outcomes of a callback were refused for good; empty if none were or the peer is foreign."""
    if not isinstance(payload, dict) or not isinstance(payload.get("refused"), list):
        return []
    good, _ = read_items(payload["refused"], _read_refusal, "id")
    return good


def _read_refusal(item: dict[str, Any]) -> BadItem:
    return BadItem(
        index=to_int("index", item.get("index"), 0, MAX_INT),
        run_id=to_int("id", item.get("id"), 0, MAX_ID),
        error=to_message(item.get("msg"), MAX_MESSAGE),
    )


MAX_LINE: Final = 2**53
MAX_CONTENT: Final = 4 * 1024 * 1024  # characters of one part


def encode_log_parts(instance: str, parts: Sequence[LogPart]) -> bytes:
    """Return the body: parts of logs of one executor instance."""
    items = [
        {
            "logId": part.run_id,
            "logDateTime": part.created_ms,
            "fromLineNum": part.from_line,
            "logContent": part.content,
            "isEnd": part.is_end,
        }
        for part in parts
    ]
    return encode({"instance": instance, "logs": items})


def decode_log_parts(body: bytes) -> tuple[str, list[LogPart], list[BadItem]]:
    """Read the body: the instance that sends, the good and the bad parts. Raises WireError: it cannot be read."""
    item = parse_object(body)
    good, bad = read_items(as_list("logs", item.get("logs")), _read_part, "logId")
    return to_text("instance", item.get("instance"), MAX_WORD), good, bad


def _read_part(item: dict[str, Any]) -> LogPart:
    content = text_in(item, "logContent", MAX_CONTENT)
    if content and not content.endswith("\n"):
        raise WireError("logContent: must be whole lines, each with a line feed at its end")
    return LogPart(
        run_id=to_id("logId", item.get("logId")),
        created_ms=time_in(item),
        from_line=to_int("fromLineNum", item.get("fromLineNum"), 1, MAX_LINE),
        content=content,
        is_end=item.get("isEnd") is True,
    )


def receipts_payload(receipts: Sequence[LogReceipt]) -> dict[str, Any]:
    """Return the reply, for :attr:`Response.data`."""
    return {
        "logs": [
            {"id": one.run_id, "next": one.next_line, "settled": one.settled, "msg": one.message} for one in receipts
        ]
    }


def read_receipts(payload: object) -> list[LogReceipt]:
    """Read the reply; receipts that cannot be read are left out. Raises WireError: the whole cannot be read."""
    item = as_object("data", payload)
    good, _ = read_items(as_list("logs", item.get("logs")), _read_receipt, "id")
    return good


def _read_receipt(item: dict[str, Any]) -> LogReceipt:
    return LogReceipt(
        run_id=to_id("id", item.get("id")),
        next_line=int_in(item, "next", MAX_LINE, default=1, low=1),
        settled=item.get("settled") is True,
        message=to_message(item.get("msg"), MAX_MESSAGE),
    )


def wishes_payload(*, ship_logs: bool) -> dict[str, Any]:
    """Return what an xwheel scheduler answers to the beat of an xwheel executor."""
    return {"shipLogs": ship_logs}


def wants_logs(payload: object) -> bool:
    """Return whether the scheduler that answered a beat wants logs shipped."""
    return isinstance(payload, dict) and payload.get("shipLogs") is True
