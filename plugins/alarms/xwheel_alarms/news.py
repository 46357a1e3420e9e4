"""Alarms that are new or in another state, for pages that stay open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xwheel.plugin.news import NewsItem

from xwheel_alarms.storage import news


class AlarmNews:
    """Brings news of alarms."""

    news_kinds: Final = ("alarm",)

    def newest(self, conn: Any) -> int:
        """Return the greatest id of an alarm; 0 for none."""
        return news.find_newest_id(conn)

    def news(self, conn: Any, after: int, limit: int) -> Sequence[NewsItem]:
        """Return alarms, newest first."""
        return [
            NewsItem(row.id, "alarm", row.id, row.group_id, row.state, row.job_id)
            for row in news.list_alarmed(conn, after, limit)
        ]
