"""What the APIs know callers by, made of the database and the settings."""

from __future__ import annotations

from xwheel.access.rights import Rights
from xwheel.access.tokens import TokenManager, TokenStore
from xwheel.clock import Clock
from xwheel.plugin.discovery import Plugins
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage.database.engine import Database


class AccessParts:
    """Tokens of one process.

    Args:
        db: The database.
        clock: Where time comes from.
        plugins: Gates among them know accounts, to which tokens may belong.
        trail: Records who did what.
    """

    def __init__(self, db: Database, clock: Clock, plugins: Plugins, trail: AuditTrail) -> None:
        self.rights = Rights(plugins.gates)
        self.tokens = TokenStore(db, clock, self.rights)
        self.token_changes = TokenManager(db, clock, trail, self.rights, self.tokens.forget)
