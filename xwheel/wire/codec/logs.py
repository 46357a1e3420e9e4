"""The spelling of ``/api/shipLogs``, with which xwheel's executors hand logs to its schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xwheel.errors import WireError
from xwheel.wire.codec.fields import (
    MAX_WORD,
    as_list,
    as_object,
    encode,
    int_in,
    parse_object,
    read_items,
    text_in,
    time_in,
    to_id,
    to_int,
    to_message,
    to_text,
)
from xwheel.wire.contract import MAX_MESSAGE
from xwheel.wire.messages import BadItem, LogPart, LogReceipt

MAX_LINE: Final = 2**53
MAX_CONTENT: Final = 4 * 1024 * 1024
"""Characters of one part."""


def encode_log_parts(instance: str, parts: Sequence[LogPart]) -> bytes:
    """Return the body: parts of logs of one executor instance."""
    return encode({"instance": instance, "logs": [_part_item(part) for part in parts]})


def _part_item(part: LogPart) -> dict[str, Any]:
    return {
        "logId": part.run_id,
        "logDateTime": part.created_ms,
        "fromLineNum": part.from_line,
        "logContent": part.content,
        "isEnd": part.is_end,
    }


def decode_log_parts(body: bytes) -> tuple[str, list[LogPart], list[BadItem]]:
    """Read the body; a part that cannot be read fails alone.

    Returns the instance that sends, the good parts and the bad ones. Raises WireError if the whole body cannot be read.
    """
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
            {"id": one.run_id, "next": one.next_line, "settled": one.settled, "msg": one.message}
            for one in receipts
        ]
    }


def read_receipts(payload: object) -> list[LogReceipt]:
    """Read the reply; receipts that cannot be read are left out.

    Raises WireError: the reply as a whole cannot be read.
    """
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
