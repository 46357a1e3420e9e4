"""The secrets that a cluster's first start makes: each is stored once, and shown once it is known to be stored."""

from __future__ import annotations

import hmac
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from xwheel.config import Config
from xwheel.errors import ConflictError, DuplicateError, StorageError
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.gates import FirstCredential, MakesFirst
from xwheel.plugin.validation import guarded
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.executors.secrets import EXECUTOR_TOKEN, find_executor_token
from xwheel.storage import settings
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import CommitUnknownError, Connection, Database

T = TypeVar("T")

FIRST_NAME: Final = "first"
UNKNOWN: Final = (
    "shown once, and valid only if the database stored it before it went away, which is not known"
)


class FirstSecret(ABC):
    """A secret that this start makes if there is none.

    :meth:`ensure` may be called again after any failure. A COMMIT whose answer was lost leaves open whether the secret
    was stored; the next call asks the database, and shows the secret if it is the one that is stored.

    Attributes:
        words: What it is called where it is shown.
        value: The secret.

    Args:
        announce: Gets the line that shows it.
    """

    words: str

    def __init__(self, value: str, announce: Callable[[str], None]) -> None:
        self.value = value
        self._announce = announce
        self._is_shown = self._is_unknown = False

    def ensure(self, db: Database) -> None:
        """Store the secret and show it, unless there is another one already."""
        if self._is_shown or self._is_there(db):
            return
        self.prepare()
        try:
            db.transaction(self.store)
        except CommitUnknownError:
            self._is_unknown = True
            raise
        except (ConflictError, DuplicateError):
            # of another node, which is faster and shows it; or ours, of a COMMIT that took its time
            self._is_there(db)
            return
        self._show("shown once")

    def show_unknown(self) -> None:
        """Show the secret if it may be stored: the start is given up, and it could not be shown later."""
        if self._is_unknown:
            self._show(UNKNOWN)

    def _is_there(self, db: Database) -> bool:
        """Return whether there is one, and show it if it is ours."""
        with db.read() as conn:
            is_there = self.is_there(conn)
            is_ours = is_there and self.is_ours(conn)
        if is_there:
            self._is_unknown = False  # if that is another one, ours is not needed
        if is_ours:
            self._show("shown once")
        return is_there

    def _show(self, how: str) -> None:
        if not self._is_shown:
            self._is_shown, self._is_unknown = True, False
            self._announce(f"{self.words} ({how}): {self.value}")

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Compute what :meth:`store` needs and what takes long."""

    @abstractmethod
    def is_there(self, conn: Connection) -> bool:
        """Return whether there is a secret of this kind."""

    @abstractmethod
    def is_ours(self, conn: Connection) -> bool:
        """Return whether this one is stored."""

    @abstractmethod
    def store(self, conn: Connection) -> None:
        """Store this one.

        Raises:
            ConflictError: Another one is stored.
            DuplicateError: Another one is stored.
        """


class ExecutorToken(FirstSecret):
    """The token that all executors share."""

    words = "executor token"

    def __init__(self, announce: Callable[[str], None]) -> None:
        super().__init__(secrets.token_urlsafe(32), announce)

    def is_there(self, conn: Connection) -> bool:
        """Return whether a start has stored one."""
        return settings.find_setting(conn, EXECUTOR_TOKEN) is not None

    def is_ours(self, conn: Connection) -> bool:
        """Return whether this one is stored."""
        kept = settings.find_setting(conn, EXECUTOR_TOKEN) or ""
        return hmac.compare_digest(kept.encode(), self.value.encode())

    def store(self, conn: Connection) -> None:
        """Store it as it is: calls to executors carry it."""
        settings.insert_setting(conn, EXECUTOR_TOKEN, self.value)


class ManagementToken(FirstSecret):
    """A token of the management API that may do everything.

    Args:
        audit: Records that it was made.
        now_ms: The time.
        announce: Gets the line that shows it.
    """

    words = "management token"

    def __init__(self, audit: AuditTrail, now_ms: int, announce: Callable[[str], None]) -> None:
        super().__init__(secrets.token_urlsafe(32), announce)
        self._audit = audit
        self._now_ms = now_ms

    def is_there(self, conn: Connection) -> bool:
        """Return whether there is one without a group, an account or an end."""
        return tokens.has_unrestricted(conn)

    def is_ours(self, conn: Connection) -> bool:
        """Return whether this one is stored."""
        digest = tokens.digest_token(self.value)
        return any(hmac.compare_digest(known.digest, digest) for known in tokens.list_tokens(conn))

    def store(self, conn: Connection) -> None:
        """Store its digest."""
        is_taken = tokens.find_token(conn, FIRST_NAME) is not None
        # in this order: one that another node stores meanwhile is seen here, or has the name
        if tokens.has_unrestricted(conn):
            raise ConflictError("another node has made a management token")
        name = f"{FIRST_NAME}-{self._now_ms}" if is_taken else FIRST_NAME
        found = tokens.insert_token(conn, name, self.value, self._now_ms)
        self._audit.record(conn, "token.create", "token", name, after=found)


class FirstOfGate(FirstSecret):
    """What a gate of a plugin makes, which lets the first person in.

    Args:
        gate: The gate's name.
        made: What it made.
        audit: Records that it was stored.
        announce: Gets the line that shows it.
    """

    def __init__(
        self, gate: str, made: FirstCredential, audit: AuditTrail, announce: Callable[[str], None]
    ) -> None:
        super().__init__(str(made.value), announce)
        self.words = str(made.words)
        self._what = f"gate {gate}: first credential"
        self._made = made
        self._audit = audit

    def prepare(self) -> None:
        """Let the gate compute what takes long."""
        self._guarded(self._made.prepare)

    def is_there(self, conn: Connection) -> bool:
        """Return whether somebody may sign in."""
        return bool(self._guarded(lambda: self._made.is_there(conn)))

    def is_ours(self, conn: Connection) -> bool:
        """Return whether this one is stored."""
        return bool(self._guarded(lambda: self._made.is_ours(conn)))

    def store(self, conn: Connection) -> None:
        """Let the gate store it."""
        self._guarded(lambda: self._made.store(conn, self._audit))

    def _guarded(self, call: Callable[[], T]) -> T:
        # what the database cannot do now is told from a failure of the plugin
        return guarded(self._what, call, allowed=StorageError)


def first_credentials(
    plugins: Plugins, audit: AuditTrail, now_ms: int, announce: Callable[[str], None]
) -> list[FirstSecret]:
    """Return what gates of plugins make at a first start.

    Raises:
        PluginError: One of them fails.
    """
    found: list[FirstSecret] = []
    for name, gate in sorted(plugins.gates.items()):
        if isinstance(gate, MakesFirst):
            made = guarded(f"gate {name}", lambda: gate.first_credential(now_ms))  # noqa: B023 - called at once
            found.append(FirstOfGate(name, made, audit, announce))
    return found


def ensure_executor_token(config: Config, db: Database, made: ExecutorToken) -> str:
    """Return the token shared with executors: the configured one, or what the first start made, such as this one.

    Raises:
        ConfigError: It is well known or too short.
    """
    if config.api.executor_token is None:
        made.ensure(db)
    return find_executor_token(config, db) or made.value
