"""Selectors of labels: ``gpu=yes,zone in (a,b),!spot``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xwheel.plugin import RouteError

_KEY: Final = r"[^\s,()|!=]{1,64}"
_VALUE: Final = r"[^\s,()|!=]{1,255}"
_REQUIREMENT: Final = re.compile(
    rf"""\s*(?:
        !\s*(?P<absent>{_KEY})
        | (?P<key>{_KEY})\s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})
        | (?P<member>{_KEY})\s+(?P<word>in|notin)\s*\((?P<values>\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*)\)
        | (?P<present>{_KEY})
    )\s*""",
    re.VERBOSE,
)
_COMMA: Final = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must be.

    Attributes:
        values: The values that count; None for any value.
        wanted: Whether the label must have one of them, or must not.
    """

    key: str
    values: frozenset[str] | None
    wanted: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet it; a label that is missing has no value."""
        value = labels.get(self.key)
        if value is None:
            return not self.wanted
        return self.wanted == (self.values is None or value in self.values)


def parse_selector(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a selector, all of which must hold.

    Raises:
        RouteError: It is empty or cannot be read.
    """
    found = []
    for part in _COMMA.split(text):
        match = _REQUIREMENT.fullmatch(part)
        if match is None:
            raise RouteError(
                f"cannot read {part.strip()[:64]!r} as a selector: write key=value, key!=value, key in (a,b), "
                "key notin (a,b), key or !key, with commas between"
            )
        found.append(_requirement(match))
    return tuple(found)


def _requirement(match: re.Match[str]) -> Requirement:
    part = match.groupdict()
    if part["absent"]:
        return Requirement(part["absent"], None, False)
    if part["key"]:
        return Requirement(part["key"], frozenset({part["value"]}), part["sign"] != "!=")
    if part["member"]:
        values = frozenset(value.strip() for value in part["values"].split(","))
        return Requirement(part["member"], values, part["word"] == "in")
    return Requirement(part["present"], None, True)
