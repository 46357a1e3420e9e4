"""What plugins that bring news must answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xwheel.model import MAX_ID
from xwheel.plugin import BringsNews, NewsItem
from xwheel.plugin.validation import guarded, is_number, is_text, require

MAX_WORD: Final = 64


def read_kinds(item: BringsNews) -> frozenset[str]:
    """Return the kinds of objects that a plugin brings news of, once it is known to say so."""
    what = f"news {item.name}: news_kinds"
    found = guarded(what, lambda: item.news_kinds if isinstance(item.news_kinds, str) else tuple(item.news_kinds))
    is_fit = not isinstance(found, str) and all(is_text(kind, MAX_WORD, 1) for kind in found)
    require(is_fit, f"{what} must be a collection of words such as 'job'")
    return frozenset(found)


def find_newest(item: BringsNews, conn: Any) -> int:
    """Return the greatest id that a plugin has news of, once it is known to be one."""
    what = f"news {item.name}: newest()"
    found = guarded(what, lambda: item.newest(conn))
    require(is_number(found, 0, MAX_ID), f"{what} must return an id, or 0, not {type(found).__name__}")
    return found


def read_news(item: BringsNews, conn: Any, after: int, limit: int) -> Sequence[NewsItem]:
    """Return what a plugin says changed, once it is known to be that."""
    what = f"news {item.name}: news()"

    def ask() -> tuple[NewsItem, ...]:
        found = item.news(conn, after, limit)
        require(len(found) <= limit, f"{len(found)} items instead of {limit} at most")
        return tuple(found)

    rows = guarded(what, ask)
    above = MAX_ID + 1
    for row in rows:
        fault = _fault(row, after, above)
        require(not fault, f"{what}: {fault}")
        above = row.id
    return rows


def _fault(row: object, after: int, above: int) -> str:
    """Return what is wrong with an item, or nothing."""
    if type(row) is not NewsItem:
        return f"an object of {type(row).__qualname__[:MAX_WORD]} where a NewsItem is due"
    if not is_number(row.id, after + 1, above - 1):
        return f"ids must be above {after} and fall from item to item"
    if not is_text(row.kind, MAX_WORD) or not (row.state is None or is_text(row.state, MAX_WORD)):
        return f"kind and state must be texts of at most {MAX_WORD} characters"
    ids = (row.object_id, row.group_id, row.job_id)
    if not all(number is None or is_number(number, 1, MAX_ID) for number in ids):
        return "object_id, group_id and job_id must be ids, or None"
    return ""
