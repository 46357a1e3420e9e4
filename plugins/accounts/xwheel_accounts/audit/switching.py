"""Go on with a chain that the key in the database began, once there is a key file: it is signed again, once.

Anyone who can change rows can read the key in the database, so its signature counts only for as long as no key of a key
file made a link. Rows that wait at that moment are sealed with it, too; later ones of it are not sealed at all.
"""

from __future__ import annotations

from typing import Final

from xwheel.storage.database.engine import Connection, Database

from xwheel_accounts.audit.chain import is_signed, linked_bytes, seal, sign_head
from xwheel_accounts.audit.records import AuditHead
from xwheel_accounts.audit.signing import SigningKey, SigningKeys
from xwheel_accounts.storage import audit_chain

WALKED: Final = 1000


def is_of(head: AuditHead | None, key: SigningKey | None) -> bool:
    """Return whether a head is there and names a key."""
    return head is not None and key is not None and head.key_id == key.name


def is_all_linked(db: Database, head: AuditHead, key: SigningKey) -> bool:
    """Return whether a key made all links from a head's base up to the head, and nothing comes behind."""
    position, link = head.base_position, head.base_link
    with db.read() as conn:
        if any((row.position or 0) <= position for row in audit_chain.list_sealed(conn, audit_chain.BEFORE_ALL, 1)):
            return False
    while True:
        with db.read(much=True) as conn:
            rows = audit_chain.list_sealed(conn, position + 1, WALKED)
        for row in rows:
            position += 1
            if row.position != position or not key.has_signed(linked_bytes(link, position, row), row.link or ""):
                return False
            link = row.link or ""
        if len(rows) < WALKED:
            return (position, link) == (head.position, head.link)


def switch(conn: Connection, head: AuditHead, keys: SigningKeys, now_ms: int, batch: int) -> tuple[AuditHead, int]:
    """Seal rows that wait with the key that the chain began with, and sign the head with the first one.

    Args:
        conn: Connection; the head's row is locked.
        head: The head, whose chain was looked at.
        keys: The keys.
        now_ms: Now.
        batch: This many rows at once.

    Returns:
        The head, and how many rows were sealed.
    """
    old, count = keys.beside, 0
    if old is None or not is_signed(head, keys):
        return head, 0
    while True:
        rows = audit_chain.list_unsealed(conn, 0, batch, key_id=old.name)
        if rows:
            head, places = seal(head, rows, old, now_ms)
            audit_chain.seal_rows(conn, places)
            count += len(rows)
        if len(rows) < batch:
            break
    head = sign_head(head, keys.first)
    audit_chain.update_head(conn, head)
    return head, count
