"""Which executor secret a caller shows, and which one an executor is called with: never another than it proved."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.config import Config, check_secret
from xwheel.errors import ConfigError
from xwheel.model import NO_SECRET, SHARED_SECRET
from xwheel.runtime.sealing import KeyRing
from xwheel.storage import settings
from xwheel.storage.access import executor_secrets
from xwheel.storage.access.executor_secrets import StoredSecret
from xwheel.storage.access.tokens import digest_token
from xwheel.storage.database.engine import Connection, Database

logger = logging.getLogger(__name__)

FRESH_MS: Final = 1000
EXTRA_READS: Final = 5
# between two reads of fresh secrets for callers that are not known, once as many as that came at the same time
EXTRA_MS: Final = 200
SHARED_NAME: Final = "shared"
EXECUTOR_TOKEN: Final = "executor_token"  # noqa: S105 - a setting's name, not the secret


@dataclass(eq=False, repr=False)
class ExecutorSecrets:
    """The executor secrets of all groups and the token that all executors share.

    The registry's loop reads them each second, so a change counts within a second. Secrets are opened once, when they
    are read first, and not for each send.

    Thread-safety: every method may be called from any thread; the copies are replaced whole.

    Raises ConfigError if the shared token is empty, so that everybody would have it.
    """

    db: Database
    clock: Clock
    shared: str  # the token that all executors share
    keys: KeyRing

    def __post_init__(self) -> None:
        if not self.shared:
            raise ConfigError("the executor API needs a token")
        self._shared_digest = digest_token(self.shared)
        self._reading = threading.Lock()
        self._known: Mapping[int, tuple[StoredSecret, str]] = {}  # rows, and what they hold once it is opened
        self._read_ms: int | None = None
        self._reads = 0
        self._extra_ms = 0

    def find(self, token: str) -> tuple[int, StoredSecret | None] | None:
        """Return the id of the secret that a caller shows, with its row unless it is the shared one, or None.

        Every digest is compared, in constant time; expired secrets are unknown. The database is asked only about a
        token that is not known, so that beats are taken while it is away: an executor may start a moment after another
        node made its secret. However many strangers call, that is a few times a second.
        """
        digest = digest_token(token)
        return self._find(digest) or (self._find(digest) if self._read_again() else None)

    def _find(self, digest: bytes) -> tuple[int, StoredSecret | None] | None:
        now_ms = self.clock.now_ms()
        found = [
            (secret.id, secret)
            for secret, _ in self._known.values()
            if hmac.compare_digest(secret.digest, digest) and secret.is_live(now_ms)
        ]
        if hmac.compare_digest(self._shared_digest, digest):
            return (SHARED_SECRET, None)
        return found[0] if found else None

    def value(self, secret_id: int | None) -> str:
        """Return what an executor is sent that registered with this secret; nothing if it expired or is not known.

        None, from a node of an older version, stands for the shared one.
        """
        if secret_id is None or secret_id == SHARED_SECRET:
            return self.shared
        known = self._known.get(secret_id)
        return known[1] if known is not None and known[0].is_live(self.clock.now_ms()) else ""

    def is_live(self, secret_id: int | None) -> bool:
        """Return whether who proved this secret still may call; who proved a group's token always may."""
        if secret_id is None or secret_id in (SHARED_SECRET, NO_SECRET):
            return True
        known = self._known.get(secret_id)
        return known is not None and known[0].is_live(self.clock.now_ms())

    def has_live(self, group_id: int) -> bool:
        """Return whether a group has a secret of its own that has not ended."""
        now_ms = self.clock.now_ms()
        return any(secret.group_id == group_id and secret.is_live(now_ms) for secret, _ in self._known.values())

    def name(self, secret_id: int | None) -> str | None:
        """Return what people call a secret; None for none, and for one that was deleted."""
        if secret_id == SHARED_SECRET:
            return SHARED_NAME
        known = None if secret_id is None else self._known.get(secret_id)
        return None if known is None else known[0].name

    def look(self) -> None:
        """Read the secrets now; for who changed them here and need not wait for the loop."""
        with self.db.read() as conn:
            self.refresh(conn)

    def refresh(self, conn: Connection) -> None:
        """Read the secrets; they are open to :meth:`value` afterwards."""
        self._known = {row.id: (row, self._value_of(row)) for row in executor_secrets.list_secrets(conn)}
        self._read_ms = self.clock.monotonic_ms()

    def _read_again(self) -> bool:
        """Read the secrets, unless strangers had that done too often; return whether they may be others now."""
        asked = self._reads
        with self._reading:  # one thread reads, the others have its answer
            if self._reads == asked:
                now_ms = self.clock.monotonic_ms()
                if self._read_ms is not None and now_ms - self._read_ms < FRESH_MS:
                    due_ms = max(self._extra_ms, now_ms)
                    if due_ms > now_ms + (EXTRA_READS - 1) * EXTRA_MS:
                        return False
                    self._extra_ms = due_ms + EXTRA_MS
                self._reads += 1  # before it reads: who asks from here on may miss something
                self.look()
        return True

    def _value_of(self, row: StoredSecret) -> str:
        before = self._known.get(row.id)
        if before is not None and before[0].sealed == row.sealed:
            return before[1]
        try:
            return self.keys.open(row.sealed)
        except ConfigError as error:
            # its executors are called without a token, which they refuse
            logger.error("executor secret %s cannot be used: %s", row.name, error)
            return ""


def find_executor_token(config: Config, db: Database) -> str | None:
    """Return the token that all executors share: the configured one, or what the first node made; None before that.

    Raises ConfigError if it is well known or too short.
    """
    if config.api.executor_token is not None:
        return check_secret("api.executor_token", config.api.executor_token.get_secret_value())
    with db.read() as conn:
        kept = settings.find_setting(conn, EXECUTOR_TOKEN)
    return None if kept is None else check_secret("the executor token in the database", kept)
