"""The audit: who did what, written in the transaction of what was done, and signed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import Connection

from xwheel.clock import Clock
from xwheel.errors import DuplicateError
from xwheel.model.access import Actor, current_actor
from xwheel.model.audit import AuditEntry, AuditOutcome, AuditRow, clean, detail_of
from xwheel.runtime.sealing import KeyRing
from xwheel.runtime.signing import KEY_BYTES, SigningKey, SigningKeys, kept_beside
from xwheel.storage import settings
from xwheel.storage.database.bulk import insert_many
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.access_tables import audit

LABEL: Final = "xwheel audit"
KEY: Final = "audit_key"
"""The setting with the key that signs where there is no key file."""

NONCE_BITS: Final = 53
MOST_REASON: Final = 500
_LENGTHS: Final = {
    column.name: getattr(column.type, "length", None) or MOST_REASON for column in audit.columns
}
INSERTED: Final = tuple(name for name in audit.columns.keys() if name not in {"id", "position", "link"})  # noqa: SIM118


_INSERT: Final = {
    name: f"INSERT INTO audit ({', '.join(INSERTED)}) VALUES ({', '.join([mark] * len(INSERTED))})"  # noqa: S608
    for name, mark in (("sqlite", "?"), ("mysql", "%s"), ("postgresql", "%s"))
}


def signing_keys(db: Database, keys: KeyRing, *, make: bool = True) -> SigningKeys:
    """Return what signs the audit: the keys of the key file, or one that is made once and kept in the database.

    The latter proves little: who can change rows can read it. With a key file, it verifies what it signed before.

    Args:
        db: The database.
        keys: The keys of the key file, if there is one.
        make: Make a key and keep it, if there is none at all; without, nothing verifies.
    """
    found = keys.signing_keys(LABEL)
    with db.read() as conn:
        kept = settings.find_setting(conn, KEY)
    if kept is None and not found:
        kept = _make_key(db) if make else secrets.token_hex(KEY_BYTES)
    if kept is not None:
        found = [*found, kept_beside(bytes.fromhex(kept))]
    return SigningKeys(found)


def _make_key(db: Database) -> str:
    made = secrets.token_hex(KEY_BYTES)
    try:
        db.transaction(lambda conn: settings.insert_setting(conn, KEY, made))
    except DuplicateError:
        # another node starts too, and was faster
        with db.read() as conn:
            made = settings.find_setting(conn, KEY) or made
    return made


class AuditTrail:
    """Records what is done, in the transaction that does it.

    Thread-safety: any thread may record; nothing is kept between calls.

    Args:
        keys: What signs rows.
        clock: Where time comes from.
    """

    def __init__(self, keys: SigningKeys, clock: Clock) -> None:
        self.keys = keys
        self._clock = clock

    def record(
        self,
        conn: Connection,
        action: str,
        kind: str,
        object_id: object,
        *,
        group_id: int | None = None,
        before: object = None,
        after: object = None,
        outcome: AuditOutcome = AuditOutcome.DONE,
    ) -> None:
        """Record what the actor of this thread does to one object; the arguments are those of :class:`AuditEntry`."""
        entry = AuditEntry(
            action=action,
            kind=kind,
            object_id=object_id,
            group_id=group_id,
            before=before,
            after=after,
            outcome=outcome,
        )
        self.record_many(conn, [entry])

    def record_many(
        self, conn: Connection, entries: Sequence[AuditEntry], *, actor: Actor | None = None
    ) -> None:
        """Record what is done to many objects, in one statement; by the actor of this thread unless one is named."""
        who = actor or current_actor()
        insert_rows(conn, [self._row(who, self.keys.first, entry) for entry in entries])

    def _row(self, actor: Actor, key: SigningKey, entry: AuditEntry) -> AuditRow:
        row = AuditRow(
            at_ms=self._clock.now_ms() if entry.at_ms is None else entry.at_ms,
            actor_kind=str(actor.kind),
            actor=_fit("actor", actor.name),
            account_id=actor.account_id,
            credential=_fit("credential", actor.credential),
            address=_fit("address", actor.address),
            action=_fit("action", entry.action),
            object_kind=_fit("object_kind", entry.kind),
            object_id=_fit("object_id", str(entry.object_id)),
            group_id=entry.group_id,
            outcome=str(entry.outcome),
            reason=_fit("reason", actor.reason),
            detail=detail_of(entry.before, entry.after),
            nonce=secrets.randbits(NONCE_BITS),
            key_id=key.name,
        )
        return sign(row, key)


def sign(row: AuditRow, key: SigningKey) -> AuditRow:
    """Return a row with its signature."""
    return replace(row, mac=key.sign(row.signed_bytes()))


def _fit(name: str, text: str) -> str:
    return clean(text, _LENGTHS[name])


def insert_rows(conn: Connection, rows: Sequence[AuditRow]) -> None:
    """Insert signed rows that are not sealed yet."""
    if len(rows) == 1:
        # as most are: PostgreSQL takes half as long again for arrays of one
        conn.exec_driver_sql(_INSERT[conn.dialect.name], _values(rows[0]))
    else:
        insert_many(conn, audit, INSERTED, [_values(row) for row in rows])


def _values(row: AuditRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in INSERTED)
