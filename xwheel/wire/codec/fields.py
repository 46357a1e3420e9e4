"""Decodes JSON and reads single values out of it, as tolerantly as Gson does and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from xwheel.errors import WireError
from xwheel.model import MAX_ID
from xwheel.wire.messages import BadItem

MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""

_DIGITS: Final = 20

EXTRA: Final = "xwheel"
NOT_YET: Final = "not_yet"
"""Key of our additions to a message; other peers ignore it."""

MAX_BATCH: Final = 10_000
"""Items of one list; the body limit usually comes first."""

MAX_INT: Final = 2**31 - 1
MAX_NAME: Final = 255
SHORT: Final = 256
MAX_WORD: Final = 64

encode: Final = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder()

T = TypeVar("T")


def parse(body: bytes) -> Any:
    """Decode JSON. Raises WireError: empty, not JSON, not UTF-8, or nested too deeply."""
    if not body or body.isspace():
        raise WireError("request body is empty")
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"request body is not JSON: {error}") from None
    except RecursionError:
        raise WireError("request body is nested too deeply") from None


def parse_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object; raises like :func:`parse`."""
    return as_object("request body", parse(body))


def as_object(name: str, value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object. Raises WireError: it is not one."""
    if not isinstance(value, dict):
        raise WireError(f"{name}: must be a JSON object")
    return value


def as_list(name: str, value: Any) -> list[Any]:
    """Return the value if it is a JSON array of a bearable length.

    Raises WireError: it is not one, or too long.
    """
    if not isinstance(value, list) or len(value) > MAX_BATCH:
        raise WireError(f"{name}: must be a JSON array of at most {MAX_BATCH} items")
    return value


def extra_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return our additions to a message; empty if the peer is not xwheel."""
    extra = item.get(EXTRA)
    return extra if isinstance(extra, dict) else {}


def to_int(name: str, value: Any, low: int, high: int) -> int:
    """Return an integer; quoted numerals and whole floats count.

    Raises WireError: not a whole number from ``low`` to ``high``.
    """
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
    """Return a string; numerals and booleans become text, null becomes empty.

    Raises WireError: an object, an array, or more than ``limit`` characters.
    """
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


def read_items(
    items: list[Any], read: Callable[[dict[str, Any]], T], id_key: str
) -> tuple[list[T], list[BadItem]]:
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
