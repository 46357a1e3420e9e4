"""The spelling of what schedulers ask of executors: runs, kills, whether a job is idle, logs."""

from __future__ import annotations

from typing import Any, Final

from xwheel.errors import WireError
from xwheel.model import MAX_ID, BlockStrategy
from xwheel.wire.codec.fields import (
    EXTRA,
    MAX_INT,
    MAX_MS,
    MAX_NAME,
    MAX_WORD,
    as_object,
    encode,
    extra_of,
    int_in,
    parse_object,
    text_bytes,
    text_in,
    time_in,
    to_id,
    to_text,
)
from xwheel.wire.contract import TEXTS_NO_LOG
from xwheel.wire.messages import KillRequest, LogData, LogRequest, TriggerRequest

MAX_PARAM: Final = 2 * 1024 * 1024
MAX_SOURCE: Final = 4 * 1024 * 1024

FIXED_BYTES: Final = 1024
"""More than a trigger takes without its long texts, whatever its numbers and its executor's instance."""

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
        item[EXTRA] = {
            "planned_ms": request.planned_ms,
            "attempt": request.attempt,
            "instance": request.instance,
        }
        if request.job_param:
            item[EXTRA]["job_param"] = request.job_param
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
    total = int_in(item, "broadcastTotal", MAX_INT, default=1)
    index = int_in(item, "broadcastIndex", MAX_INT)
    if index >= max(1, total):
        raise WireError(f"broadcastIndex: must be below broadcastTotal ({total})")
    return TriggerRequest(
        job_id=to_id("jobId", item.get("jobId")),
        run_id=to_id("logId", item.get("logId")),
        created_ms=time_in(item),
        handler=text_in(item, "executorHandler", MAX_NAME).strip(),
        param=text_in(item, "executorParams", MAX_PARAM),
        block_strategy=_strategy(text_in(item, "executorBlockStrategy", MAX_WORD)),
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
    )


def _strategy(text: str) -> BlockStrategy:
    # upstream takes every unknown value for serial
    return _STRATEGIES.get(text, BlockStrategy.SERIAL_EXECUTION)


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
    return KillRequest(
        job_id=to_id("jobId", item.get("jobId")), run_id=int_in(extra_of(item), "run_id", MAX_ID)
    )


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
    return {
        "fromLineNum": data.from_line,
        "toLineNum": data.to_line,
        "logContent": data.content,
        "isEnd": data.is_end,
    }


def read_log_data(payload: object) -> LogData:
    """Read a piece of log out of :attr:`Response.data`.

    A text that stands for a log that is not there is no line of it: reading goes on where it began. Raises WireError:
    names the field and what is allowed.
    """
    item = as_object("data", payload)
    is_end = item.get("isEnd", item.get("end", False))
    from_line = int_in(item, "fromLineNum", MAX_INT, low=-MAX_INT)
    to_line = int_in(item, "toLineNum", MAX_INT, low=-MAX_INT)
    content = to_text("logContent", item.get("logContent"), 64 * 1024 * 1024)
    if content in TEXTS_NO_LOG:
        return LogData(from_line=from_line, to_line=from_line - 1, content=content, is_end=True)
    return LogData(
        from_line=from_line, to_line=to_line, content=content, is_end=is_end is True or is_end == "true"
    )
