"""Cut text to what a provider takes, between characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MORE: Final = "…"


def cut_bytes(text: str, limit: int) -> str:
    """Return the text, cut to a number of UTF-8 bytes; where something is missing it ends with an ellipsis."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    return data[: max(0, limit - len(MORE.encode()))].decode("utf-8", "ignore") + MORE


def cut_utf16(text: str, limit: int) -> str:
    """Return the text, cut to a number of UTF-16 units, which is how Telegram counts characters."""
    data = text.encode("utf-16-le", "replace")
    if len(data) <= 2 * limit:
        return data.decode("utf-16-le")
    return data[: 2 * max(0, limit - 1)].decode("utf-16-le", "ignore") + MORE


def fit(text: str, make: Callable[[str], bytes], limit: int) -> bytes:
    """Return what ``make`` builds from the text, cut as far as it takes to have at most ``limit`` bytes.

    Characters that JSON escapes take up to six bytes each, so the size is known only once it is built.
    """
    made = make(text)
    while len(made) > limit and text:
        text = cut_bytes(text, len(text.encode()) * 3 // 4 - 1)
        if text == MORE:
            text = ""
        made = make(text)
    return made
