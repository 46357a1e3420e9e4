"""Registered executors: the one source of truth for routing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, func, insert, select, update

from xwheel.model import NO_SECRET, SHARED_SECRET, RegisteredExecutor
from xwheel.storage.bulk import update_many
from xwheel.storage.tables import IS_SENT, executor, run


def save_executor(conn: Connection, item: RegisteredExecutor) -> RegisteredExecutor:
    """Write a registration: a new row, or the changed facts of the row with the same group and address.

    An instance is one journal, which one process holds: where it lived before, nobody lives any more.
    """
    values = {
        "group_id": item.group_id,
        "address": item.address,
        "registered_as": item.registered_as,
        "kind": item.kind,
        "generation": item.generation,
        "instance": item.instance,
        "boot": item.boot,
        "seen_ms": item.seen_ms,
        "labels": json.dumps(dict(item.labels), ensure_ascii=False) if item.labels else None,
    }
    same = and_(executor.c.group_id == item.group_id, executor.c.address == item.address)
    before = conn.execute(select(executor.c.secret_id).where(same)).scalar_one_or_none()
    values["secret_id"] = item.secret_id
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

    Who proved but a group's token keeps nobody away who proved a secret.
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
    query = select(executor).order_by(executor.c.group_id, executor.c.address)
    return [_executor(row) for row in conn.execute(query)]


def update_beats(conn: Connection, beats: Sequence[tuple[int, int]]) -> int:
    """Write the last beats, ``(executor id, seen_ms)``, in one statement; return how many rows were there."""
    return update_many(conn, executor, ("seen_ms",), beats)


def sweep_executors(conn: Connection, before_ms: int) -> int:
    """Delete executors not seen since; the test stands in the statement, so a beat just flushed wins."""
    return conn.execute(delete(executor).where(executor.c.seen_ms < before_ms)).rowcount


def count_runs(conn: Connection) -> dict[str, int]:
    """Return how many runs are dispatching or running at each address; every open row has a time of its next check."""
    query = select(run.c.address, func.count()).where(IS_SENT).group_by(run.c.address)
    return {row[0]: row[1] for row in conn.execute(query) if row[0] is not None}


def _executor(row: Row[Any], suspect_until_ms: int = 0) -> RegisteredExecutor:
    values = dict(row._mapping)
    labels = values.pop("labels")
    return RegisteredExecutor(
        **values, suspect_until_ms=suspect_until_ms, labels=json.loads(labels) if labels else {}
    )
