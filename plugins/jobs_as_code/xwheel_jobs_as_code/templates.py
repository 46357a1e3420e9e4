"""Parameter templates of children in files: ``${result.app_name/name}`` where a node has ``${result.ID}``.

Ids differ from one database to the next, names do not. Letters that a template gives a meaning stand in names as
``%`` and two hexadecimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from xwheel.errors import FieldError

from xwheel_jobs_as_code.state import Ref

_TOKEN: Final = re.compile(r"\$(?:\$|\{result\.([^{}$]*?)(:json)?\})")
_ID: Final = re.compile(r"[1-9][0-9]{0,15}")
_SPECIAL: Final = re.compile(r"[%{}$:]")
_ESCAPED: Final = re.compile(r"%([0-9A-F]{2})")


def to_names(text: str, name_of: Callable[[int], Ref | None]) -> str:
    """Return a node's template as files have it; ids of jobs that are gone stay."""

    def fill(match: re.Match[str]) -> str:
        ref = name_of(int(match[1])) if match[1] and _ID.fullmatch(match[1]) else None
        return match[0] if ref is None else f"${{result.{_quoted(ref)}{match[2] or ''}}}"

    return _TOKEN.sub(fill, text)


def to_ids(text: str, ids: Mapping[Ref, int]) -> str:
    """Return a file's template as nodes have it; every name must be known."""

    def fill(match: re.Match[str]) -> str:
        ref = _ref(match[1])
        return match[0] if ref is None else f"${{result.{ids[ref]}{match[2] or ''}}}"

    return _TOKEN.sub(fill, text)


def named_in(text: str | None) -> list[Ref]:
    """Return the jobs whose result a file's template names."""
    found = (_ref(match[1]) for match in _TOKEN.finditer(text or ""))
    return [ref for ref in found if ref is not None]


def refuse_ids(text: str | None) -> None:
    """Refuse ids, which mean another job on another database.

    Raises:
        FieldError: The template has one.
    """
    for match in _TOKEN.finditer(text or ""):
        if match[1] and _ID.fullmatch(match[1]):
            raise FieldError("param", f"{match[0]} names an id: write ${{result.app_name/name}} in files")


def _quoted(ref: Ref) -> str:
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", str(ref))


def _ref(text: str | None) -> Ref | None:
    before, slash, after = (text or "").partition("/")
    if not slash:
        return None
    return Ref(before, _ESCAPED.sub(lambda match: chr(int(match[1], 16)), after))
