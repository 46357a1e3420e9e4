"""What changed a moment ago, as plugins say it to what tells open pages; and what they must answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from xwheel.model import MAX_ID
from xwheel.plugin.validation import guarded, is_number, is_text, require

MAX_WORD: Final = 64


class NewsItem(NamedTuple):
    """Something that changed: one row.

    Args:
        id: Of the row; rows that come later have greater ones.
        kind: Kind of the object that changed; empty for a row of which pages are told nothing.
        object_id: The object's id; None if it has none that is a number.
        group_id: The group whose readers are told; None for an object of all groups.
        state: The state that it has now, or what was done to it; None if that is not known.
        job_id: The job that it is about, or None.
    """

    id: int
    kind: str
    object_id: int | None
    group_id: int | None
    state: str | None
    job_id: int | None = None


@runtime_checkable
class BringsNews(Protocol):
    """Routes or resources of a plugin that know what changed, for pages that stay open.

    While such a page is open, each process that serves one asks once a second, in a transaction for reading of its own:
    each answer is one statement that an index answers. A row of which another item is returned later changed again.
    Rows are asked for again until half a minute after their ids came up, since others may commit before them. One that
    fails, or answers with something else, costs its own news until it answers again; the log names it.

    Attributes:
        name: By which the log names it.
        news_kinds: The kinds of objects that it may tell of: ``job``, ``alarm``. If very much changed at once, pages
            are told that anything of these kinds may have.
    """

    name: str
    news_kinds: Collection[str]

    def newest(self, conn: Any) -> int:
        """Return the greatest id of a row that there is; 0 for none.

        Args:
            conn: A connection of SQLAlchemy for reading.
        """

    def news(self, conn: Any, after: int, limit: int) -> Sequence[NewsItem]:
        """Return at most ``limit`` rows with greater ids than ``after``, those with the greatest, newest first.

        Args:
            conn: A connection of SQLAlchemy for reading.
            after: An id.
            limit: How many.
        """


def read_kinds(item: BringsNews) -> frozenset[str]:
    """Return the kinds of objects that a plugin brings news of, once it is known to say so."""
    what = f"news {item.name}: news_kinds"
    found = guarded(
        what, lambda: item.news_kinds if isinstance(item.news_kinds, str) else tuple(item.news_kinds)
    )
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
