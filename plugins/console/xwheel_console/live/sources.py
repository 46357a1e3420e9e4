"""News that plugins bring: each is asked by itself, so that one that fails costs no other's."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import XwheelError
from xwheel.plugin import PluginDatabase
from xwheel.plugin.news import BringsNews, NewsItem

from xwheel_console.live.answers import find_newest, read_kinds, read_news
from xwheel_console.live.compare import KINDS, news_events
from xwheel_console.live.feed import LiveEvent, Receivers
from xwheel_console.live.queries import LiveRun

logger = logging.getLogger(__name__)

NEWS: Final = 1000
"""Rows of one plugin that are read at once."""

COMMIT_MS: Final = 30_000
"""Rows with smaller ids may be committed so much later than others, and are seen."""

AGAIN_MS: Final = 60_000
"""What fails is logged so often at most."""


class NewsSource:
    """What one plugin brings. One thread at a time reads it.

    Args:
        item: The plugin.
        db: The database.
        clock: Where time comes from.
    """

    def __init__(self, item: BringsNews, db: PluginDatabase, clock: Clock) -> None:
        self._item = item
        self._db = db
        self._clock = clock
        self._newest: _Newest | None = None
        self._kinds: frozenset[str] = frozenset()
        self._said_ms: int | None = None

    def begin(self, now_ms: int) -> None:
        """Take what is there as known."""
        self._newest = None
        self.events({}, now_ms)

    def events(self, runs: Mapping[int, LiveRun], now_ms: int) -> list[LiveEvent]:
        """Return what changed since the last time; nothing if the plugin fails, which keeps it for the next time.

        Args:
            runs: Known ones, whose state and job are told.
            now_ms: The time.
        """
        try:
            newest, rows = self._read(now_ms)
        except XwheelError as error:
            self._say(error)
            return []
        fresh = [row for row in reversed(rows) if newest.rows.get(row.id) != row]
        newest.note(rows, now_ms)
        is_first = self._newest is None
        self._newest = newest
        if is_first or (len(rows) >= NEWS and len(fresh) == len(rows)):
            kinds = sorted({KINDS[kind] for kind in self._kinds if kind in KINDS})
            return [LiveEvent(kind, receivers=Receivers.READERS) for kind in kinds]
        return list(news_events([row for row in fresh if row.kind in self._kinds], runs))

    def _read(self, now_ms: int) -> tuple[_Newest, Sequence[NewsItem]]:
        with self._db.read() as conn:
            newest = self._newest
            if newest is None:
                self._kinds = read_kinds(self._item)
                newest = _Newest(find_newest(self._item, conn), now_ms)
            return newest, read_news(self._item, conn, newest.before, NEWS)

    def _say(self, error: XwheelError) -> None:
        at_ms = self._clock.monotonic_ms()
        if self._said_ms is None or at_ms - self._said_ms >= AGAIN_MS:
            self._said_ms = at_ms
            logger.warning("pages that are open get no news of %s: %s", self._item.name, error)


class _Newest:
    """Rows by growing id that were seen, and from which id on they are looked for again.

    Args:
        newest: The greatest id at the beginning; rows that commit late have smaller ones.
        now_ms: When that was.
    """

    def __init__(self, newest: int, now_ms: int) -> None:
        self.before = max(0, newest - NEWS // 2)
        self.marks = [(now_ms, newest)]
        self.rows: dict[int, NewsItem] = {}

    def note(self, rows: Sequence[NewsItem], now_ms: int) -> None:
        """Note rows, newest first; what is older than transactions last is looked for no more."""
        self.rows.update((row.id, row) for row in rows)
        self.marks.append((now_ms, rows[0].id if rows else self.before))
        while len(self.marks) > 1 and self.marks[1][0] <= now_ms - COMMIT_MS:
            del self.marks[0]
        if self.marks[0][0] <= now_ms - COMMIT_MS:
            self.before = self.marks[0][1]
        self.rows = {row_id: row for row_id, row in self.rows.items() if row_id > self.before}
