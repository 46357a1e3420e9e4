"""What people changed, for pages that stay open: the newest rows of the audit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from xwheel.model import MAX_ID
from xwheel.plugin import AuditOutcome, NewsItem

from xwheel_accounts.storage import audit_news
from xwheel_accounts.storage.audit_news import AuditedChange


class AuditNews:
    """Brings news of what people changed."""

    news_kinds: Collection[str] = ("run", "job", "group", "schedule", "calendar", "alarm_rule", "account")

    def newest(self, conn: Any) -> int:
        """Return the greatest id of a row of the audit; 0 for none."""
        return audit_news.find_newest_id(conn)

    def news(self, conn: Any, after: int, limit: int) -> Sequence[NewsItem]:
        """Return rows of the audit, newest first; what was refused changed nothing."""
        return [_item(row) for row in audit_news.list_audited(conn, after, limit)]


def _item(row: AuditedChange) -> NewsItem:
    kind = row.object_kind if row.outcome == AuditOutcome.DONE else ""
    number = int(row.object_id) if row.object_id.isdecimal() else 0
    object_id = number if 0 < number <= MAX_ID else None
    job_id = object_id if kind == "job" else None
    return NewsItem(row.id, kind, object_id, row.group_id, row.action.rpartition(".")[2], job_id)
