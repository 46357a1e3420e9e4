"""Read the audit of a database in the order of its chain: to verify it, and to export it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from xwheel.storage.database.engine import LONG_MS, Database

from xwheel_accounts.audit.records import AuditHead, AuditRow
from xwheel_accounts.audit.signing import SigningKeys
from xwheel_accounts.audit.verify import Retention, Verifier, VerifyReport
from xwheel_accounts.storage import audit_chain

BATCH: Final = 1000


def verify_audit(
    db: Database, keys: SigningKeys, anchors: Sequence[AuditHead] = (), retention: Retention | None = None
) -> VerifyReport:
    """Return what was changed in an audit, removed from it, inserted or cut off; nodes may go on meanwhile.

    Args:
        db: The database.
        keys: What may have signed.
        anchors: Heads that were written out.
        retention: How long rows are kept; None if that is not known.
    """
    with db.limited(statement_ms=LONG_MS):
        with db.read() as conn:
            head = audit_chain.find_head(conn)
        verifier = Verifier(keys, head, anchors, retention)
        for rows, copies, head in _sealed(db, verifier.is_behind):
            verifier.add(rows, copies, head)
        for waiting in _unsealed(db):
            with db.read() as conn:
                copies = audit_chain.find_copies(conn, waiting)
            verifier.add_unsealed(waiting, copies)
        return verifier.end(head)


def export_audit(db: Database) -> Iterator[bytes]:
    """Give the audit as lines of JSON: the sealed rows in the order of the chain, the others, and at last the head."""
    with db.limited(statement_ms=LONG_MS):
        head = None
        for rows, _, found in _sealed(db, lambda _: False):
            head = found
            yield from map(_line, rows)
        for waiting in _unsealed(db):
            yield from map(_line, waiting)
        if head is not None:
            yield msgspec.json.encode({"head": head})


def _sealed(
    db: Database, is_behind: Callable[[AuditHead | None], bool]
) -> Iterator[tuple[Sequence[AuditRow], Mapping[int, int], AuditHead | None]]:
    """Give the sealed rows in the order of the chain, which of them are copies, and the head as it was after them.

    Args:
        db: The database.
        is_behind: Returns whether there must be more rows than were given: nodes seal meanwhile.
    """
    position, seen = audit_chain.BEFORE_ALL, 0
    while True:
        with db.read(much=True) as conn:
            rows = audit_chain.list_sealed(conn, position, BATCH + 1)
            copies = audit_chain.find_copies(conn, rows)
            head = audit_chain.find_head(conn)
        # from the last row on, once more: somebody may have given its place to another one, too
        new = [row for row in rows if row.id != seen]
        yield new, copies, head
        if not new or (len(new) < BATCH and not is_behind(head)):
            return
        position, seen = new[-1].position or 0, new[-1].id


def _line(row: AuditRow) -> bytes:
    # the detail stays the text that was signed
    return msgspec.json.encode(row)


def _unsealed(db: Database) -> Iterator[Sequence[AuditRow]]:
    after_id = 0
    while True:
        with db.read(much=True) as conn:
            rows = audit_chain.list_unsealed(conn, after_id, BATCH)
        if rows:
            yield rows
        if len(rows) < BATCH:
            return
        after_id = rows[-1].id
