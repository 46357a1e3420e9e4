"""What changed a moment ago, as plugins say it to what tells open pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable


class NewsItem(NamedTuple):
    """Something that changed: one row."""

    id: int  #: of the row; rows that come later have greater ones
    kind: str  #: kind of the object that changed; empty for a row of which pages are told nothing
    object_id: int | None  #: the object's id; None if it has none that is a number
    group_id: int | None  #: the group whose readers are told; None for an object of all groups
    state: str | None  #: the state that it has now, or what was done to it; None if that is not known
    job_id: int | None = None  #: the job that it is about, or None


@runtime_checkable
class BringsNews(Protocol):
    """Routes or resources of a plugin that know what changed, for pages that stay open.

    While such a page is open, each process that serves one asks once a second, on a connection of SQLAlchemy in a
    transaction for reading of its own: each answer is one statement that an index answers. A row of which another item
    is returned later changed again. Rows are asked for again until half a minute after their ids came up, since others
    may commit before them. One that fails, or answers with something else, costs its own news until it answers again;
    the log names it.
    """

    name: str  #: by which the log names it
    #: the kinds of objects that it may tell of: ``job``, ``run``. If very much changed at once, pages are told that
    #: anything of these kinds may have
    news_kinds: Collection[str]

    def newest(self, conn: Any) -> int:
        """Return the greatest id of a row that there is; 0 for none."""

    def news(self, conn: Any, after: int, limit: int) -> Sequence[NewsItem]:
        """Return at most ``limit`` rows with greater ids than ``after``, those with the greatest, newest first."""
