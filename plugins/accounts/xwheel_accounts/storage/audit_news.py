"""The newest rows of the audit, asked once a second while pages are open."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from xwheel_accounts.tables import audit


class AuditedChange(NamedTuple):
    """A row of the audit: what was done to which object."""

    id: int
    action: str
    object_kind: str
    object_id: str
    group_id: int | None
    outcome: str


# to build it takes longer than to ask it of few rows
_AUDITED: Final = (
    select(*(audit.c[name] for name in AuditedChange._fields))
    .where(audit.c.id > bindparam("after"))
    .order_by(audit.c.id.desc())
    .limit(bindparam("most"))
)


def list_audited(conn: Connection, after: int, limit: int) -> list[AuditedChange]:
    """Return at most ``limit`` rows of the audit whose id is greater, newest first."""
    return [AuditedChange(*row) for row in conn.execute(_AUDITED, {"after": after, "most": limit})]


def find_newest_id(conn: Connection) -> int:
    """Return the greatest id of the audit; 0 if there is no row."""
    return conn.execute(select(func.max(audit.c.id))).scalar() or 0
