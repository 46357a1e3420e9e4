"""Telephone numbers, which come from alarm rules and so from users."""

from __future__ import annotations

import re
from typing import Final

_SEPARATORS: Final = re.compile(r"[ ().-]")
_E164: Final = re.compile(r"\+[1-9][0-9]{6,14}")
_DIGITS: Final = re.compile(r"[0-9]{3,15}")


def parse_number(text: str) -> str:
    """Return a number without its separators: E.164 with its plus, or digits as the gateway knows them.

    Raises:
        ValueError: It is none; the message does not repeat it.
    """
    number = _SEPARATORS.sub("", text.strip())
    if not _E164.fullmatch(number) and not _DIGITS.fullmatch(number):
        raise ValueError("must be a number such as +4915112345678 (+ and 7 to 15 digits), or 3 to 15 digits")
    return number
