"""Check e-mail addresses, which come from alarm rules and so from users."""

from __future__ import annotations

import re
from typing import Final

MAX_ADDRESS: Final = 254
# what RFC 5322 calls a dot-atom; quoted local parts exist on paper only, and would let white space in
_LOCAL: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")


def parse_address(text: str) -> str:
    """Return an address as it goes to the server: its domain in ASCII.

    Raises:
        ValueError: It is none; the message does not repeat it.
    """
    local, at, domain = text.strip().rpartition("@")
    if not at or not _LOCAL.fullmatch(local):
        raise ValueError("must be an address such as ops@example.com, plain ASCII before the @, without a name")
    try:
        ascii_domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        ascii_domain = ""
    if not all(_LABEL.fullmatch(label) for label in ascii_domain.split(".")):
        raise ValueError("must have a domain after the @, such as ops@example.com")
    if len(local) + 1 + len(ascii_domain) > MAX_ADDRESS:
        raise ValueError(f"may have at most {MAX_ADDRESS} characters")
    return f"{local}@{ascii_domain}"
