"""What a search in a log takes and gives."""

from __future__ import annotations

from msgspec import Struct
from xwheel.api.schema import fields
from xwheel.api.schema.messages import Input


class LogSearch(Input, frozen=True, kw_only=True):
    """A text that lines of a log hold, in upper or lower case."""

    text: fields.Searched
    from_line: fields.Line = 1
    limit: fields.PageSize = 100


class LogMatch(Struct, frozen=True, kw_only=True):
    """A line in which a text was found."""

    line: int
    text: str


class LogMatches(Struct, frozen=True, kw_only=True):
    """What a search in a log found; search again from ``next_line`` until ``is_end``, or until nothing is new."""

    run_id: int
    items: list[LogMatch]
    next_line: int
    is_end: bool
