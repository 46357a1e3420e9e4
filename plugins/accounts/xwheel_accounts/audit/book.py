"""The record of what is done, as one process writes it into the audit of one database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final, cast
from weakref import WeakValueDictionary

from xwheel.config import Config
from xwheel.plugin import Deed, PluginDatabase, RefusedCall, Rows
from xwheel.runtime.sealing import read_keys
from xwheel.storage.database.engine import Database

from xwheel_accounts.audit.refusals import RefusalLog
from xwheel_accounts.audit.signing import SigningKeys
from xwheel_accounts.audit.trail import audit_row, plain_rows, signing_keys

logger = logging.getLogger(__name__)


class AuditBook:
    """Signs what is done, and counts what is refused.

    Thread-safety: any thread may ask.

    Args:
        db: The database.
        keys: The first one signs.
    """

    def __init__(self, db: Database, keys: SigningKeys) -> None:
        self.db = db
        self.keys = keys
        self.refusals = RefusalLog(db, keys)

    def rows(self, deeds: Sequence[Deed], now_ms: int) -> Rows:
        """Return signed rows, which are sealed later."""
        key = self.keys.first
        return plain_rows([audit_row(deed, key, now_ms) for deed in deeds])

    def note_refused(self, call: RefusedCall) -> None:
        """Count a refused call."""
        self.refusals.note(call)

    def warn_of_weak_key(self) -> None:
        """Say that the key is in the database; SQLite's file is the node's own, as a key file is."""
        if self.keys.first.is_kept_beside and self.db.backend != "sqlite":
            logger.warning(
                "the audit is signed with a key in the database, which anyone who can change its rows can read: set "
                "security.key_file on all nodes"
            )


class AuditRecorder:
    """Records what is done in the audit.

    Args:
        config: The settings, which name the key file.
    """

    name = "accounts"

    def __init__(self, config: Config) -> None:
        self._config = config

    def open(self, database: PluginDatabase) -> AuditBook:
        """Return the audit of a database, once its keys are read."""
        return book_of(database, self._config)


def book_of(database: PluginDatabase, config: Config) -> AuditBook:
    """Return the audit of a database: one for all parts of the process that work with it."""
    with _lock:
        found = _books.get(id(database))
        if found is None or found.db is not database:
            db = cast(Database, database)
            found = _books[id(database)] = AuditBook(db, signing_keys(db, read_keys(config.security.key_file)))
        return found


_lock: Final = threading.Lock()
_books: Final[WeakValueDictionary[int, AuditBook]] = WeakValueDictionary()
"""By the identity of the database, which each of them keeps alive."""
