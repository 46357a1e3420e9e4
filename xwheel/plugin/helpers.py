"""What plugins have in common: secrets that must not be shown, and whether a node's libraries are there."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from html.entities import codepoint2name
from importlib.util import find_spec
from typing import Final
from urllib.parse import quote, quote_plus


def has_node_libraries() -> bool:
    """Return whether the libraries of a node are installed; an executor or the command line alone has none of them.

    For hooks of a plugin whose commands work without them: what needs a database is not registered there.
    """
    return find_spec("sqlalchemy") is not None


class SecretMask:
    """Takes secrets out of texts, such as answers that repeat them, however these spell them.

    Each character may be as it is, or as URLs, forms, JSON, JavaScript and HTML write it, in either case and mixed;
    the whole may be in base64 at any of its three places, for URLs or not, in lines or not, and in hexadecimal numbers.

    Immutable. It takes the ``secrets`` as they are; empty ones do not count.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({text for text in secrets if text}, key=len, reverse=True)
        plain: set[str] = set()
        for text in known:
            plain |= {text, quote(text, safe=""), quote_plus(text), json.dumps(text, ensure_ascii=False)[1:-1]}
        self._plain = sorted(plain, key=len, reverse=True)
        self._patterns = [re.compile("|".join(_spelled(text))) for text in known]
        #: characters of the longest spelling: so many at the end of a text that was cut may be part of a secret
        self.longest = max((sum(map(_most_of, text)) for text in known), default=0)

    def hide(self, text: str) -> str:
        """Return the text with ``***`` in place of secrets."""
        for spelling in self._plain:
            text = text.replace(spelling, "***")
        for pattern in self._patterns:
            text = pattern.sub("***", text)
        return text


SHORTEST_CODED: Final = 6
"""Characters of a secret in base64 or hexadecimal numbers below which it is not looked for: other words are like it."""

_ESCAPES: Final = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_BASE64: Final = "[A-Za-z0-9+/_-]"
_LINE_END: Final = r"(?:\r?\n|(?:\\r)?\\n|(?:%0[dD])?%0[aA])?"  # as it may stand anywhere in base64


def _spelled(secret: str) -> Iterator[str]:
    yield "".join(map(_of_character, secret))
    data = secret.encode("utf-8", "surrogatepass")
    if len(data.hex()) >= SHORTEST_CODED:
        yield _any_case(data.hex())
    for place in range(3):
        coded = base64.b64encode(b"\0" * place + data).decode()
        # what is of this secret alone; a character at either end may be of its neighbours, too
        own = coded[(0, 2, 3)[place] : (place + len(data)) * 8 // 6]
        if len(own) >= SHORTEST_CODED:
            inner = _LINE_END.join(map(_of_base64, own))
            yield f"(?:{_BASE64}{_LINE_END})?{inner}(?:{_LINE_END}{_BASE64})?(?:=|%3[dD]){{0,2}}"


def _of_base64(character: str) -> str:
    """Return the pattern of a character of base64: two are others in URLs, and may be escaped there."""
    other = {"+": "-", "/": "_"}.get(character)
    return character if other is None else f"(?:{_of_character(character)}|{other})"


def _of_character(character: str) -> str:
    """Return the pattern of all spellings of a character, longest first; what was tried is not tried in another way."""
    code, units = ord(character), character.encode("utf-16-be", "surrogatepass").hex()
    octets = character.encode("utf-8", "surrogatepass")
    found = [
        "".join(f"%(?:25)?{_any_case(f'{octet:02x}')}" for octet in octets),
        "".join(rf"\\{{1,2}}u{_any_case(units[place : place + 4])}" for place in range(0, len(units), 4)),
        rf"&(?:amp;)?#(?:0{{0,4}}{code}|[xX]0{{0,4}}{_any_case(f'{code:x}')});?",
    ]
    if len(octets) == 1:
        found.append(rf"\\x{_any_case(f'{code:02x}')}")
    if name := {39: "apos", **codepoint2name}.get(code):
        found.append(f"&(?:amp;)?{name};?")
    if character == " ":
        found.append(r"\+")
    if character in _ESCAPES:
        found.append(rf"\\{_ESCAPES[character]}")
    elif not character.isalnum():
        found.append(rf"\\{re.escape(character)}")
    return f"(?>{'|'.join(found)}|{re.escape(character)})"


def _any_case(digits: str) -> str:
    return "".join(f"[{one}{one.upper()}]" if one.isalpha() else one for one in digits)


def _most_of(character: str) -> int:
    return max(14, 5 * len(character.encode("utf-8", "surrogatepass")))
