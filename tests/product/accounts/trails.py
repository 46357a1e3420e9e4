"""Where tests record what is done: in the audit of a database, by keys of their choice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from xwheel_accounts.audit.book import AuditBook
from xwheel_accounts.audit.signing import SigningKeys
from xwheel_accounts.audit.trail import signing_keys
from xwheel_accounts.gate import AccountsGate
from xwheel_accounts.tables import AccountsTables
from xwheel_devtools.testing import ManualClock

from xwheel.access.rights import Rights
from xwheel.clock import Clock
from xwheel.config import Config
from xwheel.plugin.registries import Registry
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage.database.engine import Database

RIGHTS = Rights({"accounts": AccountsGate(Config())})


class KeyedRecorder:
    """The audit with keys of the test's choice."""

    name = "accounts"

    def __init__(self, keys: SigningKeys) -> None:
        self._keys = keys

    def open(self, database: Database) -> AuditBook:
        return AuditBook(database, self._keys)


def trail_of(db: Database, clock: Clock | None = None, keys: SigningKeys | None = None) -> AuditTrail:
    """Return where something is recorded in a database, by these keys or by one that is kept there."""
    recorder = KeyedRecorder(keys or signing_keys(db, KeyRing()))
    plugins: Any = SimpleNamespace(
        recorders=Registry("recorder", {"accounts": recorder}), tables={"accounts": AccountsTables()}
    )
    return AuditTrail(plugins, db, clock or ManualClock())
