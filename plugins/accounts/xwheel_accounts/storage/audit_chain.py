"""The chain of the audit: rows that wait for their seal, rows in their order, and the head, which is locked first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, insert, literal, select, update
from sqlalchemy.exc import IntegrityError
from xwheel.errors import DuplicateError
from xwheel.storage.database.bulk import any_of, update_many

from xwheel_accounts.audit.records import AuditHead, AuditRow
from xwheel_accounts.tables import audit, audit_head

THE_HEAD: Final = 1
BEFORE_ALL: Final = -(2**62)
"""Where the chain begins, wherever somebody put rows."""

_HEAD: Final = tuple(audit_head.c[name] for name in AuditHead.__struct_fields__)
_ROW: Final = tuple(audit.c[name] for name in AuditRow.__struct_fields__)


def find_head(conn: Connection, *, lock: bool = False) -> AuditHead | None:
    """Return the head; None while nothing was ever sealed.

    Args:
        conn: Connection.
        lock: Hold it until the transaction ends: the one who has it seals.
    """
    query = select(*_HEAD).where(audit_head.c.id == THE_HEAD)
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else AuditHead(**row._mapping)


def insert_head(conn: Connection, head: AuditHead) -> None:
    """Write the first head.

    Raises:
        DuplicateError: There is one; the transaction must be given up.
    """
    try:
        conn.execute(insert(audit_head).values(id=THE_HEAD, **_values(head)))
    except IntegrityError as error:
        raise DuplicateError("the chain of the audit has begun already") from error


def update_head(conn: Connection, head: AuditHead) -> None:
    """Write the head again; its row is locked."""
    conn.execute(update(audit_head).where(audit_head.c.id == THE_HEAD).values(**_values(head)))


UNSEALED: Final = select(literal(0)).where(audit.c.position.is_(None)).limit(1)
"""Zero if a row waits for its seal."""


def has_unsealed(conn: Connection, *, key_id: str | None = None, but: str | None = None) -> bool:
    """Return whether a row waits for its seal.

    Args:
        conn: Connection.
        key_id: Only of rows that this key signed; None for any.
        but: Not of rows that this key signed.
    """
    query = select(audit.c.id).where(audit.c.position.is_(None), *_signed(key_id, but))
    return conn.execute(query.limit(1)).first() is not None


def list_unsealed(
    conn: Connection, after_id: int, limit: int, *, key_id: str | None = None, but: str | None = None
) -> list[AuditRow]:
    """Return committed rows that wait for their seal, by id; ``key_id`` and ``but`` as above."""
    query = select(*_ROW).where(audit.c.position.is_(None), audit.c.id > after_id, *_signed(key_id, but))
    return _rows(conn, query.order_by(audit.c.id).limit(limit))


def seal_rows(conn: Connection, places: Sequence[tuple[int, int, str]]) -> None:
    """Give rows their position and link, as ``(id, position, link)``; the head is locked."""
    update_many(conn, audit, ("position", "link"), places)


def list_sealed(conn: Connection, position: int, limit: int) -> list[AuditRow]:
    """Return sealed rows from a position on, in the order of the chain."""
    query = select(*_ROW).where(audit.c.position >= position)
    return _rows(conn, query.order_by(audit.c.position).limit(limit))


def find_copies(conn: Connection, rows: Sequence[AuditRow]) -> dict[int, int]:
    """Return which of the rows have time and random number of a row that was sealed before: id to that row's id.

    A copy with another time is not what was signed.
    """
    nonces, times = {row.nonce for row in rows}, {row.at_ms for row in rows}
    query = select(audit.c.nonce, audit.c.position, audit.c.id).where(any_of(conn, audit.c.at_ms, times))
    first: dict[int, tuple[bool, int, int]] = {}
    for row in conn.execute(query):
        if row.nonce not in nonces:
            continue
        place = (row.position is None, row.position or 0, row.id)
        first[row.nonce] = min(place, first.get(row.nonce, place))
    found = {row.id: first[row.nonce][-1] for row in rows if row.nonce in first}
    return {row_id: other for row_id, other in found.items() if other != row_id}


def delete_sealed(conn: Connection, up_to: int) -> int:
    """Delete sealed rows up to a position; the head is locked and says so. Return how many."""
    return conn.execute(delete(audit).where(audit.c.position <= up_to)).rowcount


def _signed(key_id: str | None, but: str | None) -> list[ColumnElement[bool]]:
    tests: list[ColumnElement[bool]] = []
    if key_id is not None:
        tests.append(audit.c.key_id == key_id)
    if but is not None:
        tests.append(audit.c.key_id != but)
    return tests


def _values(head: AuditHead) -> dict[str, Any]:
    return {name: getattr(head, name) for name in AuditHead.__struct_fields__}


def _rows(conn: Connection, query: Select[Any]) -> list[AuditRow]:
    return [_row(row) for row in conn.execute(query)]


def _row(row: Row[Any]) -> AuditRow:
    return AuditRow(**row._mapping)
