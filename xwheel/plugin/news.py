"""What changed a moment ago, as plugins say it to what tells open pages; and what they must answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from xwheel.errors import PluginError
from xwheel.model import MAX_ID
from xwheel.plugin.validation import guarded

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
        ...

    def news(self, conn: Any, after: int, limit: int) -> Sequence[NewsItem]:
        """Return at most ``limit`` rows with greater ids than ``after``, those with the greatest, newest first.

        Args:
            conn: A connection of SQLAlchemy for reading.
            after: An id.
            limit: How many.
        """
        ...


def read_kinds(item: BringsNews) -> frozenset[str]:
    """Return the kinds of objects that a plugin brings news of.

    Raises:
        PluginError: It does not say so.
    """
    what = f"news {item.name}: news_kinds"
    found = guarded(
        what, lambda: item.news_kinds if isinstance(item.news_kinds, str) else tuple(item.news_kinds)
    )
    if isinstance(found, str) or not all(_is_word(kind) and kind for kind in found):
        raise PluginError(f"{what} must be a collection of words such as 'job'")
    return frozenset(found)


def find_newest(item: BringsNews, conn: Any) -> int:
    """Return the greatest id that a plugin has news of.

    Raises:
        PluginError: It failed, or answered with something else.
    """
    found = guarded(f"news {item.name}: newest()", lambda: item.newest(conn))
    if not _is_number(found, 0):
        raise PluginError(f"news {item.name}: newest() must return an id, or 0, not {type(found).__name__}")
    return found


def read_news(item: BringsNews, conn: Any, after: int, limit: int) -> Sequence[NewsItem]:
    """Return what a plugin says changed, once it is known to be that.

    Raises:
        PluginError: It failed, or answered with something else.
    """
    what = f"news {item.name}: news()"

    def ask() -> tuple[NewsItem, ...]:
        found = item.news(conn, after, limit)
        if len(found) > limit:
            raise PluginError(f"{len(found)} items instead of {limit} at most")
        return tuple(found)

    rows = guarded(what, ask)
    above = MAX_ID + 1
    for row in rows:
        if fault := _fault(row, after, above):
            raise PluginError(f"{what}: {fault}")
        above = row.id
    return rows


def _fault(row: object, after: int, above: int) -> str:
    """Return what is wrong with an item, or nothing."""
    if type(row) is not NewsItem:
        return f"an object of {type(row).__qualname__[:MAX_WORD]} where a NewsItem is due"
    if not _is_number(row.id, after + 1) or row.id >= above:
        return f"ids must be above {after} and fall from item to item"
    if not _is_word(row.kind) or not (row.state is None or _is_word(row.state)):
        return f"kind and state must be texts of at most {MAX_WORD} characters"
    if not all(
        number is None or _is_number(number, 1) for number in (row.object_id, row.group_id, row.job_id)
    ):
        return "object_id, group_id and job_id must be ids, or None"
    return ""


def _is_number(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= MAX_ID


def _is_word(value: object) -> bool:
    return type(value) is str and len(value) <= MAX_WORD
