"""Whose declarations the jobs of a group follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError
from xwheel.errors import DuplicateError
from xwheel.storage.database.rows import IN_LIMIT, hold, in_parts

from xwheel_jobs_as_code.declarations.tables import declaration_owner


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationOwner:
    """Whose declarations the jobs of a group follow; the release is empty before the first complete sync."""

    group_id: int
    release: str = ""
    digest: str = ""
    seen_ms: int | None = None
    synced_ms: int | None = None


def get_owner(conn: Connection, group_id: int, *, lock: bool = False) -> DeclarationOwner:
    """Return whose declarations a group follows; ``lock`` holds the row, which :func:`insert_owner` made."""
    query = select(declaration_owner).where(declaration_owner.c.group_id == group_id)
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if lock:
        hold(conn, "owner", [group_id])
    return DeclarationOwner(group_id=group_id) if row is None else DeclarationOwner(**row._mapping)


def get_owners(conn: Connection, group_ids: Collection[int]) -> dict[int, DeclarationOwner]:
    """Return whose declarations groups follow, by group; those that never synced are missing."""
    query = select(declaration_owner)
    rows = in_parts(
        conn, sorted(group_ids), IN_LIMIT, lambda part: query.where(declaration_owner.c.group_id.in_(list(part)))
    )
    return {row.group_id: DeclarationOwner(**row._mapping) for row in rows}


def list_owners(
    conn: Connection, *, after_id: int = 0, limit: int | None = None, groups: Collection[int] | None = None
) -> list[DeclarationOwner]:
    """Return all that ever synced, by group; only those of some ``groups`` unless None."""
    query = select(declaration_owner).where(declaration_owner.c.group_id > after_id, declaration_owner.c.release != "")
    if groups is not None:
        query = query.where(declaration_owner.c.group_id.in_(sorted(groups)))
    rows = conn.execute(query.order_by(declaration_owner.c.group_id).limit(limit))
    return [DeclarationOwner(**row._mapping) for row in rows]


def has_owner(conn: Connection, group_id: int) -> bool:
    """Return whether a group has the row that syncs lock."""
    query = select(declaration_owner.c.group_id).where(declaration_owner.c.group_id == group_id)
    return conn.execute(query).first() is not None


def insert_owner(conn: Connection, group_id: int) -> None:
    """Make the row that syncs of a group lock.

    Raises:
        DuplicateError: It is there.
    """
    try:
        conn.execute(insert(declaration_owner).values(group_id=group_id, release="", digest=""))
    except IntegrityError as error:
        raise DuplicateError(f"group {group_id} has an owner of its declarations") from error


def update_owner(conn: Connection, group_id: int, values: Mapping[str, Any]) -> None:
    """Write changed columns of a group's row, which is locked."""
    conn.execute(update(declaration_owner).where(declaration_owner.c.group_id == group_id).values(**dict(values)))
