"""The wire's spelling and ours, both ways, under one name; only the codecs of this folder know camelCase.

What we send suits every generation at once: times under both spellings, results under both styles, payloads under
``data`` and ``content``. Only two things differ by generation: the container of callbacks (an object in the fourth)
and the path of a trigger (:mod:`xwheel.wire.contract`). What we read is tolerant where real peers deviate: unknown
keys, quoted numerals, either spelling of a key, messages of any type. Our additions sit under the key ``xwheel``.
"""

from __future__ import annotations

from xwheel.wire.codec.envelope import decode_response, encode_response
from xwheel.wire.codec.reports import decode_callbacks, decode_registry, encode_callbacks, encode_registry
from xwheel.wire.codec.runs import (
    decode_idle_beat,
    decode_kill,
    decode_log_request,
    decode_trigger,
    encode_idle_beat,
    encode_kill,
    encode_log_request,
    encode_trigger,
    log_payload,
    read_log_data,
)

__all__ = [
    "decode_callbacks",
    "decode_idle_beat",
    "decode_kill",
    "decode_log_request",
    "decode_registry",
    "decode_response",
    "decode_trigger",
    "encode_callbacks",
    "encode_idle_beat",
    "encode_kill",
    "encode_log_request",
    "encode_registry",
    "encode_response",
    "encode_trigger",
    "log_payload",
    "read_log_data",
]
