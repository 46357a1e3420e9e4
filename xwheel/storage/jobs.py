"""Jobs: definition rows, the cursor of their next fire, and which job runs after which.

A page of jobs reads a bounded number of rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import EnumType
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, get_origin, get_type_hints
from zlib import crc32

from sqlalchemy import (
    Column,
    Connection,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.sql.elements import TextClause

from xwheel.errors import NotFoundError
from xwheel.model import PARTITIONS, ChildLink, Job, Origin, Run
from xwheel.storage.database.bulk import ById, any_of, fetch_rows, tuple_in, update_many
from xwheel.storage.database.direct import Prepared
from xwheel.storage.database.rows import IN_LIMIT, IS_MEMBER, chunks, groups_among, hold, in_parts, insert_row, one_row
from xwheel.storage.runs import in_both, of_roots, run_columns, run_of
from xwheel.storage.schema.tables import child_arrival, executor_group, job, job_child

LOOK: Final = 10_000  # rows that a page of jobs reads at most, where no index answers
NAMES: Final = 20_000  # names of jobs that are looked through for how they begin
PAIRS: Final = 1000  # pairs of ids in one statement

# in the order of the record, so that a row goes into it by position
_JOB_NAMES: Final = Job.__struct_fields__
JOB_COLUMNS = [job.c[name] for name in _JOB_NAMES]
_KINDS: Final = get_type_hints(Job)
# drivers may give 0 and 1 for booleans, which are the same keys
_CHOICES: Final[list[tuple[int, dict[Any, Any]]]] = [
    (place, {False: False, True: True} if _KINDS[name] is bool else {str(one): one for one in _KINDS[name]})
    for place, name in enumerate(_JOB_NAMES)
    if isinstance(_KINDS[name], EnumType) or _KINDS[name] is bool
]
LISTS: Final = {name: place for place, name in enumerate(_JOB_NAMES) if get_origin(_KINDS[name]) is tuple}

_JOBS = ById(job.c.id, select(*JOB_COLUMNS).where)
_JOB_THERE = Prepared(select(*JOB_COLUMNS).where(job.c.id == bindparam("key"), job.c.deleted_ms.is_(None)))
_CHANGE = update(job).where(job.c.id == bindparam("key"))
_JOBS_THERE = ById(job.c.id, select(*JOB_COLUMNS).where(job.c.deleted_ms.is_(None)).where)
_NAMED = select(job.c.id, job.c.name, executor_group.c.app_name, job.c.group_id)
NAMES_OF = ById(job.c.id, _NAMED.outerjoin(executor_group, executor_group.c.id == job.c.group_id).where)
_FIRES = select(job.c.id, job.c.revision, job.c.next_fire_ms, job.c.enabled)
_LOCK_FIRES = ById(job.c.id, _FIRES.order_by(job.c.id).with_for_update().where)
_HAS_CHILDREN = exists().where(job_child.c.parent_id == job.c.id)
_FOLLOWED = ById(
    job.c.id, select(job.c.id, job.c.awaits_root).where(or_(job.c.awaits_root.is_not(None), _HAS_CHILDREN)).where
)


class JobCursor(NamedTuple):
    """Where a job's schedule stands after a claim; exactly one of next fire and awaited root for a fixed delay."""

    id: int
    next_fire_ms: int | None
    last_fire_ms: int | None
    awaits_root: int | None
    enabled: bool
    schedule_error: str


class JobFilter(NamedTuple):
    """Which jobs are wanted; what is None wants all."""

    group_id: int | None = None
    name: str | None = None  # the whole name
    name_contains: str | None = None  # a part of the name, whatever the case
    handler: str | None = None
    enabled: bool | None = None
    schedule_type: str | None = None
    glue_type: str | None = None
    search: str | None = None  # a part of the name, the description or the handler, whatever the case
    deleted: bool = False  # deleted jobs, and only these; they are there as long as any of their runs
    groups: Collection[int] | None = None  # only jobs of these


class FoundJobs(NamedTuple):
    """Some jobs; ``next`` is the id after which the following page begins, None after the last one.

    A page may have fewer jobs than wanted, even none, and still be followed by others.
    """

    jobs: list[Job]
    next: int | None


class Arrival(NamedTuple):
    """A parent of a joining child succeeded in a chain."""

    child_id: int
    chain_id: int
    parent_id: int
    root_id: int
    created_ms: int


def insert_job(conn: Connection, values: Mapping[str, Any]) -> Job:
    """Create a job; its partition follows from its id, also where ids rise by more than one, as members' do."""
    job_id = insert_row(conn, job, {**_row(values), "partition": 0})
    number = crc32(b"%d" % job_id) if conn.info.get(IS_MEMBER) else job_id
    return update_job(conn, job_id, {"partition": number % PARTITIONS})


def get_job(conn: Connection, job_id: int, *, lock: bool = False) -> Job:
    """Return a job that is not deleted; ``lock`` holds its row until the transaction ends.

    Raises NotFoundError: it does not exist.
    """
    if lock:
        query = select(*JOB_COLUMNS).where(job.c.id == job_id, job.c.deleted_ms.is_(None))
        return _job(one_row(conn, query, "job", job_id, lock=True))
    rows = _JOB_THERE.fetch(conn, {"key": job_id})
    if not rows:
        raise NotFoundError("job", job_id)
    return _job(rows[0])


def get_jobs(conn: Connection, ids: Collection[int], *, deleted: bool = True) -> dict[int, Job]:
    """Return jobs by id; deleted ones too, unless told otherwise: their runs still need them."""
    if not ids:
        return {}
    statement = _JOBS if deleted else _JOBS_THERE
    return {row[0]: _job(row) for row in fetch_rows(conn, *statement(conn, sorted(ids)))}


def lock_jobs(conn: Connection, ids: Collection[int]) -> dict[int, Job]:
    """Lock jobs that are not deleted, in id order."""
    if not ids:
        return {}
    query = select(*JOB_COLUMNS).where(any_of(conn, job.c.id, sorted(ids)), job.c.deleted_ms.is_(None))
    found = {row.id: _job(row) for row in conn.execute(query.order_by(job.c.id).with_for_update())}
    hold(conn, "job", found)
    return found


def page_jobs(
    conn: Connection, wanted: JobFilter, *, after_id: int = 0, limit: int = 50, look: int = LOOK
) -> FoundJobs:
    """Return a page of at most ``limit`` jobs by id, after a given one.

    At most ``look`` rows are read, or one page for each of the groups that may be seen if that is more.
    """
    own = groups_among(wanted.groups, wanted.group_id)
    parts: Sequence[int | None] = [None] if own is None else own
    if len(parts) > 1:
        look = max(limit + 1, look // len(parts))
    ways = [wanted._replace(group_id=group_id, groups=None) for group_id in parts]
    ranges = [_range_of_jobs(conn, way, after_id, limit, look) for way in ways]
    horizon = min((until for _, until in ranges if until is not None), default=None)
    ids = sorted(one for found, _ in ranges for one in found if horizon is None or one <= horizon)
    following = ids[limit - 1] if len(ids) > limit else horizon
    known = get_jobs(conn, ids[:limit], deleted=wanted.deleted)
    page = [known[item] for item in ids[:limit] if item in known]
    # one may have moved meanwhile
    return FoundJobs([item for item in page if own is None or item.group_id in own], following)


def _range_of_jobs(
    conn: Connection, wanted: JobFilter, after_id: int, limit: int, look: int
) -> tuple[list[int], int | None]:
    """Return ids of wanted jobs of one group, or of all, and up to where they were looked for; None for the end."""
    columns = columns_of(wanted)
    # the sum keeps MariaDB from walking all jobs that are not deleted up to the first one of the page
    place = (job.c.deleted_ms + 0).is_(None) if not wanted.deleted else job.c.deleted_ms.is_not(None)
    query = select(*columns).where(job.c.id > after_id, place)
    if wanted.group_id is not None:
        query = query.where(job.c.group_id == wanted.group_id)
    is_plain = wanted._replace(group_id=None, deleted=False) == JobFilter()
    most = limit + 1 if is_plain else look
    rows = conn.execute(query.order_by(job.c.id).limit(most)).all()
    ids = [row.id for row in rows if fits(row, wanted)]
    return ids, rows[-1].id if len(rows) == most else None


_EXACT: Final = ("name", "handler", "enabled", "schedule_type", "glue_type")


def columns_of(wanted: JobFilter) -> list[Column[Any]]:
    """Return the columns that say whether a job is wanted."""
    names = ["id", *_EXACT, *(["description"] if wanted.search is not None else [])]
    return [job.c[name] for name in names]


def fits(row: Row[Any], wanted: JobFilter) -> bool:
    """Return whether a job is wanted, of those in the right group that are deleted or not as it was wanted.

    Compared here and not in the database: each of them has its own idea of letters and their case.
    """
    if any(getattr(wanted, name) not in (None, getattr(row, name)) for name in _EXACT):
        return False
    if wanted.name_contains is not None and wanted.name_contains.casefold() not in row.name.casefold():
        return False
    if wanted.search is None:
        return True
    part = wanted.search.casefold()
    return any(part in text.casefold() for text in (row.name, row.handler, row.description))


def find_by_beginning(
    conn: Connection, beginning: str, groups: Collection[int] | None = None, *, look: int = NAMES
) -> list[int]:
    """Return ids of jobs, deleted ones too, whose names begin so, whatever the case; of some ``groups`` unless None.

    At most ``look`` jobs are looked through, the newest first.
    """
    query = select(job.c.id, job.c.name).order_by(job.c.id.desc()).limit(look)
    if groups is not None:
        query = query.where(job.c.group_id.in_(sorted(groups)))
    part = beginning.casefold()
    return [row.id for row in conn.execute(query) if row.name.casefold().startswith(part)]


def find_names(
    conn: Connection, ids: Collection[int], groups: Collection[int] | None = None
) -> dict[int, tuple[str, str]]:
    """Return names of jobs, deleted ones too, and the app names of their groups, by id.

    Unknown ids are missing, and jobs that are in none of some ``groups`` now, unless that is None.
    """
    if not ids:
        return {}
    rows = fetch_rows(conn, *NAMES_OF(conn, sorted(ids)))
    return {
        job_id: (name, app_name or "")
        for job_id, name, app_name, group_id in rows
        if groups is None or group_id in groups
    }


def find_namesake(conn: Connection, group_id: int, name: str) -> int | None:
    """Return the id of a job of a group that has this name and is not deleted, or None."""
    query = select(job.c.id).where(job.c.group_id == group_id, job.c.name == name, job.c.deleted_ms.is_(None))
    return conn.execute(query.limit(1)).scalar_one_or_none()


def find_glue_user(conn: Connection, group_id: int, glue_types: Collection[str]) -> Job | None:
    """Return a job of a group that has one of these glue types, the first one by id, or None."""
    query = select(*JOB_COLUMNS).where(job.c.group_id == group_id, job.c.deleted_ms.is_(None))
    query = query.where(job.c.glue_type.in_(sorted(glue_types)))
    row = conn.execute(query.order_by(job.c.id).limit(1)).one_or_none()
    return None if row is None else _job(row)


def find_calendar_users(conn: Connection, name: str) -> list[int]:
    """Return ids of jobs that exclude or require a calendar."""
    quoted = json.dumps(name, ensure_ascii=False)
    columns = (job.c.calendar_exclude, job.c.calendar_require)
    used = or_(*(column.contains(quoted, autoescape=True) for column in columns))
    query = select(job.c.id).where(used, job.c.deleted_ms.is_(None)).order_by(job.c.id)
    return list(conn.execute(query).scalars())


def update_job(conn: Connection, job_id: int, values: Mapping[str, Any]) -> Job:
    """Write changed columns of a job whose row is locked, and return it."""
    conn.execute(_CHANGE, {**_row(values), "key": job_id})
    return get_job(conn, job_id)


def stop_jobs(conn: Connection, ids: Collection[int], now_ms: int, *, deleted_ms: int | None = None) -> None:
    """Let jobs whose rows are locked fire no more; ``deleted_ms`` is written if given."""
    stopped = {"enabled": False, "next_fire_ms": None, "awaits_root": None}
    change = update(job).where(any_of(conn, job.c.id, sorted(ids))).values(stopped)
    change = change.values(revision=job.c.revision + 1, updated_ms=now_ms)
    conn.execute(change if deleted_ms is None else change.values(deleted_ms=deleted_ms))


def delete_jobs(conn: Connection, ids: Collection[int], now_ms: int) -> None:
    """Turn jobs whose rows are locked into tombstones: their runs stay readable, they never fire again."""
    stop_jobs(conn, ids, now_ms, deleted_ms=now_ms)


def find_due_jobs(
    conn: Connection, partitions: Sequence[int], horizon_ms: int, limit: int, *, after_ms: int | None = None
) -> tuple[list[int], bool]:
    """Return ids of jobs due until ``horizon_ms``, oldest first within each partition, without locking.

    Each partition is its own index range with its own share of the limit: a million overdue jobs cost no sort. With
    them comes whether some partition may have more. ``after_ms`` leaves out what was due until then.
    """
    if not partitions:
        return [], False
    each = max(1, -(-limit // len(partitions)))
    query = _due_ids(tuple(partitions), is_bounded=after_ms is not None)
    values = {"horizon_ms": horizon_ms, "each": each, **({} if after_ms is None else {"after_ms": after_ms})}
    rows = query.fetch(conn, values)
    fullest = max(Counter(part for _, part in rows).values(), default=0)
    return [job_id for job_id, _ in rows], fullest >= each


def find_ahead(conn: Connection, partitions: Collection[int], at_ms: int, after_id: int, limit: int) -> list[int]:
    """Return ids of started jobs, above one and in order, whose last fire or last change is later than an instant."""
    query = select(job.c.id).where(
        job.c.id > after_id,
        job.c.enabled,
        or_(job.c.last_fire_ms > at_ms, job.c.updated_ms > at_ms),
        job.c.partition.in_(sorted(partitions)),
    )
    return list(conn.execute(query.order_by(job.c.id).limit(limit)).scalars())


def lock_fires(conn: Connection, ids: Collection[int]) -> dict[int, tuple[int, int | None, bool]]:
    """Lock jobs in id order; return their revision, next fire and whether they are started, to compare with a copy."""
    found = fetch_rows(conn, *_LOCK_FIRES(conn, sorted(ids)))
    return {job_id: (revision, next_ms, bool(enabled)) for job_id, revision, next_ms, enabled in found}


def update_fires(conn: Connection, updates: Sequence[JobCursor]) -> int:
    """Write the cursors of claimed jobs."""
    return update_many(conn, job, JobCursor._fields[1:], updates)


def update_seen_fires(conn: Connection, updates: Sequence[JobCursor], seen: Mapping[int, Job]) -> bool:
    """Write the cursors of claimed jobs if all of them are still as they were ``seen``; return whether they are.

    If not, some may be written: roll back.
    """
    before = {job_id: (was.revision, was.next_fire_ms, was.enabled) for job_id, was in seen.items()}
    if conn.dialect.name == "sqlite":  # a writer is alone, so the update itself may compare
        names = ("revision", "next_fire_ms", "enabled")
        rows = [(*cursor, *before[cursor.id]) for cursor in updates]
        return update_many(conn, job, JobCursor._fields[1:], rows, seen=names) == len(rows)
    if lock_fires(conn, seen) != before:
        return False
    update_fires(conn, updates)
    return True


def find_followed(conn: Connection, ids: Collection[int]) -> dict[int, int | None]:
    """Return which of these jobs do something when a run of theirs ends: they have children, or wait for a root.

    Job id to the root that it waits for, None for one that only has children; nothing is locked. Most jobs have
    neither, so most batches get nothing back.
    """
    return dict(fetch_rows(conn, *_FOLLOWED(conn, sorted(ids))))


def children_of(conn: Connection, parents: Collection[int]) -> list[ChildLink]:
    """Return the links of parents, ordered by parent and child."""
    return _links(conn, job_child.c.parent_id, parents)


def parents_of(conn: Connection, children: Collection[int]) -> list[ChildLink]:
    """Return the links to children, ordered by parent and child."""
    return _links(conn, job_child.c.child_id, children)


def replace_children(conn: Connection, parent_id: int, links: Sequence[ChildLink]) -> None:
    """Make these the links of a parent."""
    conn.execute(delete(job_child).where(job_child.c.parent_id == parent_id))
    if links:
        names = job_child.c.keys()
        conn.execute(insert(job_child), [{name: getattr(link, name) for name in names} for link in links])


def delete_links(conn: Connection, job_ids: Collection[int]) -> None:
    """Take jobs out of all chains: as parents, as children, and with what arrived for them."""
    ids = sorted(job_ids)
    # one index each: a condition on either column would read the whole table
    conn.execute(delete(job_child).where(job_child.c.parent_id.in_(ids)))
    conn.execute(delete(job_child).where(job_child.c.child_id.in_(ids)))
    conn.execute(delete(child_arrival).where(child_arrival.c.child_id.in_(ids)))


def list_root_runs(conn: Connection, roots: Collection[int]) -> list[Run]:
    """Return all runs of these fires: every shard and every attempt."""

    def of(part: Sequence[int], table: Table) -> Select[Any]:
        return select(*run_columns(table)).where(of_roots(table, part))

    parts = chunks(sorted(roots), IN_LIMIT)
    found = {row[0]: run_of(row) for part in parts for row in conn.execute(in_both(partial(of, part)))}
    return [run for _, run in sorted(found.items())]


def find_recovered(conn: Connection, shards: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return which ``(root, shard index)`` have had a recovery run; one that was cancelled unsent does not count."""

    def of(roots: Sequence[int], table: Table) -> Select[Any]:
        return select(table.c.root_id, table.c.shard_index).where(
            # cancelling by an edit, a stop or a late outcome negates the key
            table.c.origin == str(Origin.RECOVERY),
            table.c.origin_key > 0,
            of_roots(table, roots),
        )

    parts = chunks(sorted({root for root, _ in shards}), PAIRS)
    return {(row.root_id, row.shard_index) for part in parts for row in conn.execute(in_both(partial(of, part)))}


def list_arrivals(conn: Connection, places: Iterable[tuple[int, int]]) -> list[Arrival]:
    """Return what has arrived at ``(child, chain)`` so far."""
    key = (child_arrival.c.child_id, child_arrival.c.chain_id)
    query = select(*(child_arrival.c[name] for name in Arrival._fields))
    rows = in_parts(conn, sorted(set(places)), PAIRS, lambda part: query.where(tuple_in(conn, key, part)))
    return [Arrival(*row) for row in rows]


def insert_arrivals(conn: Connection, arrivals: Sequence[Arrival]) -> None:
    """Note arrivals that are not there yet; the child's row is locked."""
    if arrivals:
        conn.execute(insert(child_arrival), [arrival._asdict() for arrival in arrivals])


def _job(row: Row[Any]) -> Job:
    # the same as asking the row and the enums by name, in a fraction of the time
    values = list(row)
    for place, members in _CHOICES:
        values[place] = members[values[place]]
    for place in LISTS.values():
        values[place] = tuple(json.loads(values[place])) if values[place] != "[]" else ()
    return Job(*values)


def _row(values: Mapping[str, Any]) -> dict[str, Any]:
    lists = LISTS.keys() & values.keys()
    return {**values, **{name: json.dumps(list(values[name]), ensure_ascii=False) for name in lists}}


@lru_cache(maxsize=128)
def due_query(partitions: tuple[int, ...], columns: str = "id", *, is_bounded: bool = False) -> TextClause:
    """Return the union of one limited range for each partition, whose number comes last.

    Written as text: building sixty-four selects out of objects took a hundred times as long as running them.
    """
    bound = "AND next_fire_ms > :after_ms " if is_bounded else ""
    parts = (
        f"SELECT {columns}, {part:d} FROM (SELECT {columns} FROM job WHERE job.partition = {part:d} "  # noqa: S608 - numbers
        f"AND next_fire_ms <= :horizon_ms {bound}ORDER BY next_fire_ms LIMIT :each) AS part{part:d}"
        for part in partitions
    )
    return text(" UNION ALL ".join(parts))


@lru_cache(maxsize=128)
def _due_ids(partitions: tuple[int, ...], *, is_bounded: bool) -> Prepared:
    return Prepared(due_query(partitions, is_bounded=is_bounded))


def _links(conn: Connection, column: Column[int], ids: Collection[int]) -> list[ChildLink]:
    query = select(job_child).order_by(job_child.c.parent_id, job_child.c.child_id)
    rows = in_parts(conn, sorted(ids), IN_LIMIT, lambda part: query.where(column.in_(part)))
    return [ChildLink(**row._mapping) for row in rows]
