"""Jobs: definition rows and the cursor of their next fire."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, insert, select, text, update
from sqlalchemy.sql.elements import TextClause

from xwheel.errors import NotFoundError
from xwheel.model import PARTITIONS, BlockScope, DeliveryPolicy, Job, JoinMode, MisfirePolicy, RetryBackoff
from xwheel.storage.bulk import ById, any_of, fetch_rows, update_many
from xwheel.storage.tables import job

LIST_COLUMNS: Final = ("calendar_exclude", "calendar_require", "retry_delays_ms")
ENUM_COLUMNS: Final = {
    "misfire_policy": MisfirePolicy,
    "block_scope": BlockScope,
    "retry_backoff": RetryBackoff,
    "delivery": DeliveryPolicy,
    "join_mode": JoinMode,
}
# in the order of the record, so that a row goes into it by position
_JOB_NAMES: Final = Job.__struct_fields__
JOB_COLUMNS = [job.c[name] for name in _JOB_NAMES]
_ENUM_PLACES: list[tuple[int, dict[Any, Any]]] = [
    (_JOB_NAMES.index(name), {member.value: member for member in kind}) for name, kind in ENUM_COLUMNS.items()
]
# drivers may give 0 and 1, which are the same keys
_ENUM_PLACES += [(_JOB_NAMES.index(name), {False: False, True: True}) for name in ("enabled", "recover_lost")]
_LIST_PLACES: Final = [_JOB_NAMES.index(name) for name in LIST_COLUMNS]

_JOBS = ById(job.c.id, lambda among: select(*JOB_COLUMNS).where(among))
_JOBS_THERE = ById(job.c.id, lambda among: select(*JOB_COLUMNS).where(among, job.c.deleted_ms.is_(None)))
_LOCK_FIRES = ById(
    job.c.id,
    lambda among: (
        select(job.c.id, job.c.revision, job.c.next_fire_ms, job.c.enabled)
        .where(among)
        .order_by(job.c.id)
        .with_for_update()
    ),
)


class JobCursor(NamedTuple):
    """Where a job's schedule stands after a claim; exactly one of next fire and awaited root for a fixed delay."""

    id: int
    next_fire_ms: int | None
    last_fire_ms: int | None
    awaits_root: int | None
    enabled: bool
    schedule_error: str


def insert_job(conn: Connection, values: Mapping[str, Any]) -> Job:
    """Create a job; its partition follows from its id."""
    result = conn.execute(insert(job).values(**_row(values), partition=0))
    assert result.inserted_primary_key is not None  # noqa: S101 - a single insert always has one
    job_id = result.inserted_primary_key[0]
    conn.execute(update(job).where(job.c.id == job_id).values(partition=job_id % PARTITIONS))
    return get_job(conn, job_id)


def get_job(conn: Connection, job_id: int, *, lock: bool = False) -> Job:
    """Return a job that is not deleted.

    Args:
        conn: Connection.
        job_id: Its id.
        lock: Hold its row until the transaction ends.

    Raises:
        NotFoundError: It does not exist.
    """
    query = select(*JOB_COLUMNS).where(job.c.id == job_id, job.c.deleted_ms.is_(None))
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFoundError("job", job_id)
    return _job(row)


def list_jobs(
    conn: Connection,
    *,
    group_id: int | None = None,
    name: str | None = None,
    after_id: int = 0,
    limit: int = 100,
) -> list[Job]:
    """Return jobs by id, after a given one."""
    # the sum keeps MariaDB from walking all jobs that are not deleted up to the first one of the page
    query = select(*JOB_COLUMNS).where(job.c.id > after_id, (job.c.deleted_ms + 0).is_(None))
    if group_id is not None:
        query = query.where(job.c.group_id == group_id)
    if name is not None:
        query = query.where(job.c.name == name)
    return [_job(row) for row in conn.execute(query.order_by(job.c.id).limit(limit))]


def get_jobs(conn: Connection, ids: Collection[int], *, deleted: bool = True) -> dict[int, Job]:
    """Return jobs by id; deleted ones too, unless told otherwise: their runs still need them."""
    if not ids:
        return {}
    statement = _JOBS if deleted else _JOBS_THERE
    return {row[0]: _job(row) for row in fetch_rows(conn, *statement(conn, sorted(ids)))}


def update_job(conn: Connection, job_id: int, values: Mapping[str, Any]) -> Job:
    """Write changed columns of a job whose row is locked, and return it."""
    conn.execute(update(job).where(job.c.id == job_id).values(**_row(values)))
    return get_job(conn, job_id)


def stop_jobs(conn: Connection, ids: Collection[int], now_ms: int) -> None:
    """Let jobs whose rows are locked fire no more."""
    _end(conn, ids, now_ms, {})


def delete_jobs(conn: Connection, ids: Collection[int], now_ms: int) -> None:
    """Turn jobs whose rows are locked into tombstones: their runs stay readable, they never fire again."""
    _end(conn, ids, now_ms, {"deleted_ms": now_ms})


def _end(conn: Connection, ids: Collection[int], now_ms: int, further: Mapping[str, Any]) -> None:
    values = {
        "enabled": False,
        "next_fire_ms": None,
        "awaits_root": None,
        "revision": job.c.revision + 1,
        "updated_ms": now_ms,
        **further,
    }
    conn.execute(update(job).where(any_of(conn, job.c.id, sorted(ids))).values(values))


def find_due_jobs(
    conn: Connection, partitions: Sequence[int], horizon_ms: int, limit: int, *, after_ms: int | None = None
) -> tuple[list[int], bool]:
    """Return ids of jobs due until ``horizon_ms``, oldest first within each partition, without locking.

    Args:
        conn: Connection.
        partitions: Where they are.
        horizon_ms: The last due time that counts.
        limit: How many, in all; each partition gets the same share.
        after_ms: Only those due later than this; None for all.

    Returns:
        The ids, and whether some partition may have more.

    Each partition is its own index range with its own limit: a million overdue jobs cost no sort.
    """
    if not partitions:
        return [], False
    each = max(1, -(-limit // len(partitions)))
    values = {"horizon_ms": horizon_ms, "each": each}
    if after_ms is not None:
        values["after_ms"] = after_ms
    ids = list(conn.execute(_due_query(tuple(partitions), after_ms is not None), values).scalars())
    fullest = max(Counter(job_id % PARTITIONS for job_id in ids).values(), default=0)
    return ids, fullest >= each


@lru_cache(maxsize=128)
def _due_query(partitions: tuple[int, ...], is_bounded: bool) -> TextClause:
    """Return the union of one limited range for each partition.

    Written as text: building sixty-four selects out of objects took a hundred times as long as running them.
    """
    bound = "AND job.next_fire_ms > :after_ms " if is_bounded else ""
    parts = (
        f"SELECT id FROM (SELECT job.id AS id FROM job WHERE job.partition = {int(partition)} "  # noqa: S608 - numbers
        f"AND job.next_fire_ms <= :horizon_ms {bound}ORDER BY job.next_fire_ms LIMIT :each) AS part{int(partition)}"
        for partition in partitions
    )
    return text(" UNION ALL ".join(parts))


def lock_fires(conn: Connection, ids: Collection[int]) -> dict[int, tuple[int, int | None, bool]]:
    """Lock jobs in id order; return their revision, next fire and whether they are started, to compare with a copy."""
    found = fetch_rows(conn, *_LOCK_FIRES(conn, sorted(ids)))
    return {job_id: (revision, next_ms, bool(enabled)) for job_id, revision, next_ms, enabled in found}


def update_fires(conn: Connection, updates: Sequence[JobCursor]) -> int:
    """Write the cursors of claimed jobs."""
    return update_many(conn, job, JobCursor._fields[1:], updates)


def update_seen_fires(conn: Connection, updates: Sequence[JobCursor], seen: Mapping[int, Job]) -> bool:
    """Write the cursors of claimed jobs if all of them still are as they were seen.

    Args:
        conn: A connection inside a writing transaction.
        updates: Where their schedules stand now.
        seen: The jobs as they were read, by id.

    Returns:
        Whether they are. If not, some may be written: roll back.
    """
    if conn.dialect.name == "sqlite":  # a writer is alone, so the update itself may compare
        rows = [
            (*cursor, was.revision, was.next_fire_ms, was.enabled)
            for cursor in updates
            for was in (seen[cursor.id],)
        ]
        names = ("revision", "next_fire_ms", "enabled")
        return update_many(conn, job, JobCursor._fields[1:], rows, seen=names) == len(rows)
    now = lock_fires(conn, seen)
    if any(now.get(was.id) != (was.revision, was.next_fire_ms, was.enabled) for was in seen.values()):
        return False
    update_fires(conn, updates)
    return True


def lock_jobs(conn: Connection, ids: Collection[int]) -> dict[int, Job]:
    """Lock jobs in id order."""
    if not ids:
        return {}
    query = (
        select(*JOB_COLUMNS)
        .where(any_of(conn, job.c.id, sorted(ids)), job.c.deleted_ms.is_(None))
        .order_by(job.c.id)
    )
    return {row.id: _job(row) for row in conn.execute(query.with_for_update())}


def find_calendar_users(conn: Connection, name: str) -> list[int]:
    """Return ids of jobs that exclude or require a calendar."""
    quoted = json.dumps(name, ensure_ascii=False)
    used = job.c.calendar_exclude.contains(quoted, autoescape=True) | job.c.calendar_require.contains(
        quoted, autoescape=True
    )
    return list(
        conn.execute(select(job.c.id).where(used, job.c.deleted_ms.is_(None)).order_by(job.c.id)).scalars()
    )


def find_calendar_user(conn: Connection, name: str) -> int | None:
    """Return the first job that uses a calendar, or None."""
    return next(iter(find_calendar_users(conn, name)), None)


def _job(row: Row[Any]) -> Job:
    # the same as asking the row and the enums by name, in a fraction of the time
    values = list(row)
    for place, members in _ENUM_PLACES:
        values[place] = members[values[place]]
    for place in _LIST_PLACES:
        text = values[place]
        values[place] = tuple(json.loads(text)) if text != "[]" else ()
    return Job(*values)


def _row(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as their columns take them."""
    lists = {
        name: json.dumps(list(values[name]), ensure_ascii=False) for name in LIST_COLUMNS if name in values
    }
    return {**values, **lists}
