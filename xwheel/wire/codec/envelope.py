"""The spelling of the envelope that every call is answered with."""

from __future__ import annotations

from typing import Any

from xwheel.wire.codec.fields import EXTRA, MAX_INT, NOT_YET, as_object, encode, parse, to_int, to_message
from xwheel.wire.contract import MAX_MESSAGE
from xwheel.wire.messages import Response


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
        item = as_object("response[0]", found[0])
        code, message = read_result(item)
        return Response(code=code, message=message)
    envelope = as_object("response", found)
    data = envelope.get("data")
    extra = envelope.get(EXTRA)
    return Response(
        code=to_int("code", envelope.get("code"), -MAX_INT, MAX_INT),
        message=to_message(envelope.get("msg"), MAX_MESSAGE),
        data=envelope.get("content") if data is None else data,
        xwheel=EXTRA in envelope,
        not_yet=isinstance(extra, dict) and extra.get(NOT_YET) is True,
    )


def read_result(item: dict[str, Any]) -> tuple[int, str]:
    """Read code and message: the newer style first, then the first generation's nested one."""
    nested = item.get("executeResult")
    result: dict[str, Any] = nested if isinstance(nested, dict) else {}
    code = item.get("handleCode")
    message = item.get("handleMsg")
    # upstream reads 0 as "still running"; an outcome without a code is not one
    number = to_int("handleCode", result.get("code") if code is None else code, 1, MAX_INT)
    return number, to_message(result.get("msg") if message is None else message, MAX_MESSAGE)
