"""What clients of the management API ask of the audit, and get."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct
from xwheel.api.schema.derived import fields_of, page_of
from xwheel.api.schema.fields import Id, PageSize, RunCursor, Time
from xwheel.api.schema.messages import Input
from xwheel.plugin import AuditOutcome

from xwheel_accounts.audit.records import AuditRow

AuditedName = Annotated[str, Meta(min_length=1, max_length=255)]
ActionName = Annotated[str, Meta(min_length=1, max_length=64)]
KindName = Annotated[str, Meta(min_length=1, max_length=32)]


class AuditSearch(Input, frozen=True, kw_only=True):
    """Which rows of the audit, newest first; written at ``from_ms`` or later, and before ``to_ms``."""

    actor: AuditedName | None = None
    action: ActionName | None = None
    object_kind: KindName | None = None
    object_id: AuditedName | None = None
    group_id: Id | None = None
    outcome: AuditOutcome | None = None
    from_ms: Time | None = None
    to_ms: Time | None = None


class AuditQuery(AuditSearch, frozen=True, kw_only=True):
    """Which rows of the audit, and which page of them."""

    after: RunCursor | None = None
    limit: PageSize = 50


@fields_of(AuditRow, without=("detail", "nonce", "key_id", "mac", "link"))
class AuditView(Struct, frozen=True, kw_only=True):
    """Who did what to one object; ``position`` is null for a second or so, until the row is sealed."""

    detail: dict[str, Any]


AuditPage = page_of("AuditPage", AuditView, "rows, which may be short or empty", key=str)
