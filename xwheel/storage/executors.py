"""Executors as they registered, which is what routing goes by, and the groups that they belong to."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from xwheel.errors import ConflictError
from xwheel.model import NO_SECRET, SHARED_SECRET, ExecutorGroup, RegisteredExecutor
from xwheel.storage.alarms import rules
from xwheel.storage.database.bulk import fetch_rows, update_many
from xwheel.storage.database.rows import insert_row, one_row
from xwheel.storage.schema.tables import (
    IS_SENT,
    api_token,
    executor,
    executor_group,
    executor_secret,
    job,
    run,
)

REGISTERED: Final = (
    "group_id", "address", "registered_as", "kind", "generation", "instance", "boot", "seen_ms", "secret_id",
)  # fmt: skip
"""Columns of an executor's row that hold what it registered with, beside its labels."""


def save_executor(conn: Connection, item: RegisteredExecutor) -> RegisteredExecutor:
    """Write a registration: a new row, or the changed facts of the row with the same group and address.

    An instance is one journal, which one process holds: at its former address there is none any more.
    """
    values = {name: getattr(item, name) for name in REGISTERED}
    values["labels"] = json.dumps(dict(item.labels), ensure_ascii=False) if item.labels else None
    same = and_(executor.c.group_id == item.group_id, executor.c.address == item.address)
    before = conn.execute(select(executor.c.secret_id).where(same)).scalar_one_or_none()
    if before is not None and before != item.secret_id:
        values["earlier_secret_id"] = before
    if conn.execute(update(executor).where(same).values(values)).rowcount == 0:
        conn.execute(insert(executor).values(values))
    if item.instance:
        moved = and_(executor.c.instance == item.instance, executor.c.address != item.address)
        conn.execute(delete(executor).where(executor.c.group_id == item.group_id, moved))
    row = conn.execute(select(executor).where(same)).one()
    return _executor(row, item.suspect_until_ms)


def is_elsewhere(conn: Connection, item: RegisteredExecutor, since_ms: int) -> bool:
    """Return whether an executor of another group that was seen since then has the address.

    An executor that registered with a group's token does not keep away one that registers with a secret.
    """
    others = select(executor.c.id).where(
        executor.c.address == item.address,
        executor.c.group_id != item.group_id,
        executor.c.seen_ms >= since_ms,
    )
    if item.secret_id != NO_SECRET:
        others = others.where(func.coalesce(executor.c.secret_id, SHARED_SECRET) != NO_SECRET)
    return conn.execute(others.limit(1)).first() is not None


def delete_executor(conn: Connection, group_id: int, address: str) -> int:
    """Take an executor out of the registry; return how many rows went."""
    same = and_(executor.c.group_id == group_id, executor.c.address == address)
    return conn.execute(delete(executor).where(same)).rowcount


def list_executors(conn: Connection) -> list[RegisteredExecutor]:
    """Return all executors, sorted by address within their group: the order that shards follow."""
    return ExecutorReader().read(conn)


class ExecutorReader:
    """Reads all executors again and again: a row that is as it was is the same record, which costs a tenth."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], RegisteredExecutor] = {}

    def read(self, conn: Connection) -> list[RegisteredExecutor]:
        """Return all executors, as :func:`list_executors` does."""
        query = select(executor).order_by(executor.c.group_id, executor.c.address)
        rows = [tuple(row) for row in fetch_rows(conn, query)]
        names = executor.c.keys()
        self._known = {
            row: self._known.get(row) or _record(dict(zip(names, row, strict=True))) for row in rows
        }
        return list(self._known.values())


def update_beats(conn: Connection, beats: Sequence[tuple[int, int]]) -> int:
    """Write the last beats, ``(executor id, seen_ms)``, in one statement; return how many rows were there."""
    return update_many(conn, executor, ("seen_ms",), beats)


def sweep_executors(conn: Connection, before_ms: int) -> int:
    """Delete executors not seen since; the statement itself compares, so that a beat just written counts."""
    return conn.execute(delete(executor).where(executor.c.seen_ms < before_ms)).rowcount


def count_runs(conn: Connection) -> dict[str, int]:
    """Return how many runs are dispatching or running at each address; every open row has a time of its next check."""
    query = select(run.c.address, func.count()).where(IS_SENT).group_by(run.c.address)
    return {row[0]: row[1] for row in conn.execute(query) if row[0] is not None}


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
        group_id = insert_row(conn, executor_group, values)
    except IntegrityError as error:
        raise ConflictError(f"a group with app name {app_name} exists already") from error
    return get_group(conn, group_id)


def get_group(conn: Connection, group_id: int, *, lock: bool = False) -> ExecutorGroup:
    """Return a group; ``lock`` holds its row until the transaction ends.

    Raises:
        NotFoundError: It does not exist.
    """
    query = select(executor_group).where(executor_group.c.id == group_id)
    return _group(one_row(conn, query.with_for_update() if lock else query, "group", group_id))


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
    rules.delete_rules_of(conn, group_id=group_id)
    conn.execute(delete(executor_group).where(executor_group.c.id == group_id))


def _group(row: Row[tuple[object, ...]]) -> ExecutorGroup:
    return ExecutorGroup(**row._mapping)


def _executor(row: Row[Any], suspect_until_ms: int = 0) -> RegisteredExecutor:
    return _record(dict(row._mapping), suspect_until_ms)


def _record(values: dict[str, Any], suspect_until_ms: int = 0) -> RegisteredExecutor:
    labels = values.pop("labels")
    return RegisteredExecutor(
        **values, suspect_until_ms=suspect_until_ms, labels=json.loads(labels) if labels else {}
    )
