"""Request headers of the management API: for which revision a change is meant, which calls are the same, and why."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

import falcon

from xwheel.api.http.body import InputError

MATCH_HEADER: Final = "If-Match"
MATCH: Final = r'(\*|"[1-9][0-9]{0,15}")'
KEY_HEADER: Final = "Idempotency-Key"
MAX_KEY: Final = 255
REASON_HEADER: Final = "Xwheel-Reason"
MAX_REASON: Final = 500
ENCODED: Final = r"(?:[!-$&-~ ]|%[0-9A-Fa-f]{2})*"  # printable ASCII, with escapes


def wanted_revision(req: falcon.Request, given: int | None) -> int | None:
    """Return the revision that a change is meant for: of the body, or the header's entity tag; None for any.

    Raises InputError if the header is none of our entity tags, or names another revision than the body.
    """
    header = req.get_header(MATCH_HEADER)
    if header is None:
        return given
    if not re.fullmatch(MATCH, header):
        raise InputError(MATCH_HEADER, 'must be a revision in quotes, such as "5", or *')
    if header == "*":
        return given
    revision = int(header.strip('"'))
    if given not in (None, revision):
        raise InputError(MATCH_HEADER, f"names revision {revision}, the body {given}: send one of them")
    return revision


def idempotency_key(req: falcon.Request) -> str | None:
    """Return the key under which a repeated call gets the first one's run; None without the header.

    Raises InputError if it is too long or not printable ASCII.
    """
    key = req.get_header(KEY_HEADER)
    if key is None:
        return None
    if not 0 < len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise InputError(
            KEY_HEADER, f"must be 1 to {MAX_KEY} printable ASCII characters", {"min_length": 1, "max_length": MAX_KEY}
        )
    return key


def reason_of(req: falcon.Request) -> str:
    """Return why the caller does it, in their words; empty without the header.

    Raises InputError for what is not UTF-8 behind percent signs, is too long, or is not one line of text.
    """
    header = req.get_header(REASON_HEADER)
    if header is None:
        return ""
    try:
        if not re.fullmatch(ENCODED, header):
            raise ValueError(header)
        text = unquote_to_bytes(header).decode("utf-8")
    except ValueError:
        raise InputError(REASON_HEADER, "must be text in UTF-8 with percent signs, such as late%20report") from None
    if len(text) > MAX_REASON:
        raise InputError(REASON_HEADER, f"may have at most {MAX_REASON} characters", {"max_length": MAX_REASON})
    if not text.isprintable():
        raise InputError(REASON_HEADER, "must be one line, without control characters")
    return text.strip()
