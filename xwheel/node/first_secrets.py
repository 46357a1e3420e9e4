"""The secrets that a cluster's first start makes: each is stored once, and shown once it is known to be stored."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
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
Announce = Callable[[str], None]  # gets the line that shows a secret

FIRST_NAME: Final = "first"
UNKNOWN: Final = "shown once, and valid only if the database stored it before it went away, which is not known"


@dataclass(eq=False, repr=False)
class FirstSecret:
    """A secret that this start makes if there is none.

    :meth:`ensure` may be called again after any failure. A COMMIT whose answer was lost leaves open whether the secret
    was stored; the next call asks the database, and shows the secret if it is the one that is stored. ``is_shown`` says
    whether it was.
    """

    words: str  # what it is called where it is shown
    value: str
    announce: Announce
    _: KW_ONLY
    is_there: Callable[[Connection], bool]  # whether there is a secret of this kind
    is_ours: Callable[[Connection], bool]  # whether this one is stored
    # stores this one, or raises a ConflictError or DuplicateError: another one is stored
    store: Callable[[Connection], None]
    prepare: Callable[[], None] = lambda: None  # computes what storing needs and what takes long

    def __post_init__(self) -> None:
        self.is_shown = self._is_unknown = False

    def ensure(self, db: Database) -> None:
        """Store the secret and show it, unless there is another one already."""
        if self.is_shown or self._find(db):
            return
        self.prepare()
        try:
            db.transaction(self.store)
        except CommitUnknownError:
            self._is_unknown = True
            raise
        except (ConflictError, DuplicateError):
            # of another node, which is faster and shows it; or ours, of a COMMIT that took its time
            self._find(db)
            return
        self._show("shown once")

    def show_unknown(self) -> None:
        """Show the secret if it may be stored: the start is given up, and it could not be shown later."""
        if self._is_unknown:
            self._show(UNKNOWN)

    def _find(self, db: Database) -> bool:
        with db.read() as conn:
            is_there = self.is_there(conn)
            is_ours = is_there and self.is_ours(conn)
        if is_there:
            self._is_unknown = False  # if that is another one, ours is not needed
        if is_ours:
            self._show("shown once")
        return is_there

    def _show(self, how: str) -> None:
        if not self.is_shown:
            self.is_shown, self._is_unknown = True, False
            self.announce(f"{self.words} ({how}): {self.value}")


def make_executor_token(announce: Announce) -> FirstSecret:
    """Return the token that all executors share."""
    value = secrets.token_urlsafe(32)

    def is_ours(conn: Connection) -> bool:
        kept = settings.find_setting(conn, EXECUTOR_TOKEN) or ""
        return hmac.compare_digest(kept.encode(), value.encode())

    return FirstSecret(
        "executor token",
        value,
        announce,
        is_there=lambda conn: settings.find_setting(conn, EXECUTOR_TOKEN) is not None,
        is_ours=is_ours,
        # as it is: calls to executors carry it
        store=lambda conn: settings.insert_setting(conn, EXECUTOR_TOKEN, value),
    )


def make_management_token(audit: AuditTrail, now_ms: int, announce: Announce) -> FirstSecret:
    """Return a token of the management API that may do everything: one without a group, an account or an end."""
    value = secrets.token_urlsafe(32)

    def is_ours(conn: Connection) -> bool:
        digest = tokens.digest_token(value)
        return any(hmac.compare_digest(known.digest, digest) for known in tokens.list_tokens(conn))

    def store(conn: Connection) -> None:
        is_taken = tokens.find_token(conn, FIRST_NAME) is not None
        # in this order: one that another node stores meanwhile is seen here, or has the name
        if tokens.has_unrestricted(conn):
            raise ConflictError("another node has made a management token")
        name = f"{FIRST_NAME}-{now_ms}" if is_taken else FIRST_NAME
        found = tokens.insert_token(conn, name, value, now_ms)
        audit.record(conn, "token.create", "token", name, after=found)

    return FirstSecret(
        "management token", value, announce, is_there=tokens.has_unrestricted, is_ours=is_ours, store=store
    )


def first_credentials(plugins: Plugins, audit: AuditTrail, now_ms: int, announce: Announce) -> list[FirstSecret]:
    """Return what gates of plugins make at a first start, which lets the first person in; one may raise PluginError."""
    found: list[FirstSecret] = []
    for name, gate in sorted(plugins.gates.items()):
        if isinstance(gate, MakesFirst):
            made = guarded(f"gate {name}", lambda: gate.first_credential(now_ms))  # noqa: B023 - called at once
            found.append(_secret_of_gate(f"gate {name}: first credential", made, audit, announce))
    return found


def _secret_of_gate(what: str, made: FirstCredential, audit: AuditTrail, announce: Announce) -> FirstSecret:
    def ask(call: Callable[[], T]) -> T:
        # what the database cannot do now is told from a failure of the plugin
        return guarded(what, call, allowed=StorageError)

    return FirstSecret(
        str(made.words),
        str(made.value),
        announce,
        is_there=lambda conn: bool(ask(lambda: made.is_there(conn))),
        is_ours=lambda conn: bool(ask(lambda: made.is_ours(conn))),
        store=lambda conn: ask(lambda: made.store(conn, audit)),
        prepare=lambda: ask(made.prepare),
    )


def ensure_executor_token(config: Config, db: Database, made: FirstSecret) -> str:
    """Return the token shared with executors: the configured one, or what the first start made, such as this one.

    Raises ConfigError if it is well known or too short.
    """
    if config.api.executor_token is None:
        made.ensure(db)
    return find_executor_token(config, db) or made.value
