"""Who did what, where versions of jobs do not say it: read from the audit, if the plugin that keeps it is there."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import Connection
from xwheel.model.access import Permission, current_actor
from xwheel.plugin import PluginSite

RECORDERS: Final = "xwheel_register_recorders"
KEEPER: Final = "accounts"
"""The recorder whose rows can be read here."""

PAUSED: Final = "schedule.pause"


class AuditAccess(StrEnum):
    """Whether the audit was read."""

    READ = "read"
    ABSENT = "absent"  # the plugin that keeps it is not installed, or is disabled
    HIDDEN = "hidden"  # the caller may not read these rows


class AuditedDeed(NamedTuple):
    """A row of the audit."""

    id: int
    at_ms: int
    action: str
    actor: str
    actor_kind: str
    reason: str


class AuditReader:
    """Reads the audit for the caller that is being answered, who sees here no more of it than elsewhere.

    Args:
        site: What the plugin works with.
    """

    def __init__(self, site: PluginSite) -> None:
        self._site = site

    def access(self, group_id: int | None) -> AuditAccess:
        """Return whether the caller gets rows about objects of a group; None for what belongs to no group."""
        if KEEPER not in self._site.registered(RECORDERS):
            return AuditAccess.ABSENT
        groups = current_actor().grants.groups_with(Permission.ADMIN)
        return AuditAccess.READ if groups is None or group_id in groups else AuditAccess.HIDDEN

    def newest(self, conn: Connection, kind: str, object_id: object, *, to_ms: int | None = None) -> AuditedDeed | None:
        """Return what was done last to an object, before ``to_ms`` if given, or None."""
        # not there where the plugin is not
        from xwheel_accounts.storage.audit_list import AuditFilter, page_audit

        wanted = AuditFilter(object_kind=kind, object_id=str(object_id), to_ms=to_ms)
        rows = page_audit(conn, wanted, limit=1).rows
        return None if not rows else AuditedDeed(*(getattr(rows[0], name) for name in AuditedDeed._fields))
