"""Executor groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from xwheel.errors import ConflictError, NotFoundError
from xwheel.model import ExecutorGroup
from xwheel.storage import alarm_rules
from xwheel.storage.tables import api_token, executor, executor_group, executor_secret, job


def insert_group(
    conn: Connection, *, app_name: str, title: str, now_ms: int, max_running: int = 0
) -> ExecutorGroup:
    """Create a group.

    Raises:
        ConflictError: The app name is taken.
    """
    values = {
        "app_name": app_name,
        "title": title,
        "max_running": max_running,
        "created_ms": now_ms,
        "updated_ms": now_ms,
    }
    try:
        result = conn.execute(insert(executor_group).values(values))
    except IntegrityError as error:
        raise ConflictError(f"a group with app name {app_name} exists already") from error
    assert result.inserted_primary_key is not None  # noqa: S101 - a single insert always has one
    return get_group(conn, result.inserted_primary_key[0])


def get_group(conn: Connection, group_id: int) -> ExecutorGroup:
    """Return a group.

    Raises:
        NotFoundError: It does not exist.
    """
    row = conn.execute(select(executor_group).where(executor_group.c.id == group_id)).one_or_none()
    if row is None:
        raise NotFoundError("group", group_id)
    return _group(row)


def get_groups(conn: Connection, ids: Collection[int]) -> dict[int, ExecutorGroup]:
    """Return groups by id; unknown ids are missing."""
    query = select(executor_group).where(executor_group.c.id.in_(sorted(ids)))
    return {row.id: _group(row) for row in conn.execute(query)}


def find_group(conn: Connection, app_name: str) -> ExecutorGroup | None:
    """Return the group with this app name, or None."""
    row = conn.execute(select(executor_group).where(executor_group.c.app_name == app_name)).one_or_none()
    return None if row is None else _group(row)


def list_groups(
    conn: Connection, *, prefix: str = "", after_id: int = 0, limit: int = 1000
) -> list[ExecutorGroup]:
    """Return groups by id whose app name begins with a text."""
    query = select(executor_group).where(executor_group.c.id > after_id)
    if prefix:
        query = query.where(func.substr(executor_group.c.app_name, 1, len(prefix)) == prefix)
    return [_group(row) for row in conn.execute(query.order_by(executor_group.c.id).limit(limit))]


def update_group(conn: Connection, group_id: int, changes: Mapping[str, Any], now_ms: int) -> ExecutorGroup:
    """Change a group's title or limit; the app name is its identity and stays.

    Raises:
        NotFoundError: It does not exist.
    """
    conn.execute(
        update(executor_group).where(executor_group.c.id == group_id).values(**changes, updated_ms=now_ms)
    )
    return get_group(conn, group_id)


def delete_group(conn: Connection, group_id: int) -> None:
    """Delete a group without jobs, its executors, its tokens and secrets, and its alarm rules.

    Raises:
        NotFoundError: It does not exist.
        ConflictError: It still has jobs.
    """
    get_group(conn, group_id)
    has_jobs = select(job.c.id).where(job.c.group_id == group_id, job.c.deleted_ms.is_(None)).limit(1)
    if conn.execute(has_jobs).first() is not None:
        raise ConflictError(f"group {group_id} still has jobs: delete them first")
    conn.execute(delete(executor).where(executor.c.group_id == group_id))
    conn.execute(delete(api_token).where(api_token.c.group_id == group_id))
    conn.execute(delete(executor_secret).where(executor_secret.c.group_id == group_id))
    alarm_rules.delete_rules_of(conn, group_id=group_id)
    conn.execute(delete(executor_group).where(executor_group.c.id == group_id))


def _group(row: Row[tuple[object, ...]]) -> ExecutorGroup:
    return ExecutorGroup(**row._mapping)
