"""Rows of the audit: who did what, signed; the core inserts them in the transaction of what was done."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from msgspec.structs import replace
from sqlalchemy import Connection
from xwheel.errors import DuplicateError
from xwheel.model.deeds import Deed, clean
from xwheel.plugin import Rows
from xwheel.runtime.sealing import KeyRing
from xwheel.storage import settings
from xwheel.storage.database.bulk import insert_many
from xwheel.storage.database.engine import Database

from xwheel_accounts.audit.records import AuditRow, detail_of
from xwheel_accounts.audit.signing import KEY_BYTES, SigningKey, SigningKeys, kept_beside
from xwheel_accounts.tables import audit

LABEL: Final = "xwheel audit"
KEY: Final = "audit_key"
"""The setting with the key that signs where there is no key file."""

NONCE_BITS: Final = 53
MOST_REASON: Final = 500
_LENGTHS: Final = {column.name: getattr(column.type, "length", None) or MOST_REASON for column in audit.columns}
INSERTED: Final = tuple(name for name in audit.columns.keys() if name not in {"id", "position", "link"})  # noqa: SIM118


def signing_keys(db: Database, keys: KeyRing, *, make: bool = True) -> SigningKeys:
    """Return what signs the audit: the keys of the key file, or one that is made once and kept in the database.

    The latter proves little: who can change rows can read it. With a key file, it verifies what it signed before.

    Args:
        db: The database.
        keys: The keys of the key file, if there is one.
        make: Make a key and keep it, if there is none at all; without, nothing verifies.
    """
    found = [SigningKey(name, secret) for name, secret in keys.derive(LABEL)]
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


def audit_row(deed: Deed, key: SigningKey, now_ms: int) -> AuditRow:
    """Return a signed row that is not sealed yet.

    Args:
        deed: What was done.
        key: What signs it.
        now_ms: The time of a deed that names none.
    """
    actor = deed.actor
    row = AuditRow(
        at_ms=now_ms if deed.at_ms is None else deed.at_ms,
        actor_kind=str(actor.kind),
        actor=_fit("actor", actor.name),
        account_id=actor.account_id,
        credential=_fit("credential", actor.credential),
        address=_fit("address", actor.address),
        action=_fit("action", deed.action),
        object_kind=_fit("object_kind", deed.kind),
        object_id=_fit("object_id", str(deed.object_id)),
        group_id=deed.group_id,
        outcome=str(deed.outcome),
        reason=_fit("reason", actor.reason),
        detail=detail_of(deed.before, deed.after),
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
    insert_many(conn, audit, INSERTED, [_values(row) for row in rows])


def plain_rows(rows: Sequence[AuditRow]) -> Rows:
    """Return rows as the core takes them."""
    return {audit.name: [dict(zip(INSERTED, _values(row), strict=True)) for row in rows]}


_values: Final = attrgetter(*INSERTED)
