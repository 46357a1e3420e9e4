"""Which runs have a log in a log store, which of these are to be fetched from executors, and which are to be deleted.

The lines are in the stores. A row is made when a log begins there, or when a run is sent to an executor that does not
ship logs, and goes once the store has deleted the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, delete, func, select, update
from sqlalchemy.exc import IntegrityError
from xwheel.errors import DuplicateError
from xwheel.model import RunState
from xwheel.storage.database.bulk import ById, any_of, insert_many, update_many
from xwheel.storage.retention import DAY_MS
from xwheel.storage.runs import in_both
from xwheel.storage.schema.tables import RUN_TABLES, job, open_run, run_history

from xwheel_run_logs.tables import run_log

FOR_EVER: Final = 2**62
"""``delete_ms`` of a log that is kept as long as its run."""

COLUMNS: Final = ("id", "job_id", "partition", "created_ms", "store", "ended", "fetch_ms", "delete_ms")


class RunLogRow(NamedTuple):
    """That a run has a log in a store, or is to have one.

    Attributes:
        id: The run.
        created_ms: When the run was made.
        store: Name of the store.
        ended: Whether all of it is there.
        fetch_ms: When its executor is asked for more; None if the executor ships it, and once all is there.
        delete_ms: When it may be deleted.
    """

    id: int
    job_id: int
    partition: int
    created_ms: int
    store: str
    ended: bool
    fetch_ms: int | None
    delete_ms: int


class LogOwner(NamedTuple):
    """A run as far as its log needs it.

    Attributes:
        secret_id: What it was sent under, see :class:`~xwheel.model.RegisteredExecutor`.
        instance: The executor instance that took it; empty for foreign ones.
        log_days: How long its job keeps logs; 0 for the node's setting.
        store: The store that has its log; None if none has.
        ended: Whether all of it is there.
    """

    id: int
    job_id: int
    group_id: int
    secret_id: int | None
    partition: int
    created_ms: int
    instance: str
    log_days: int
    store: str | None
    ended: bool


class OpenLog(NamedTuple):
    """A log that is to be fetched, and its run."""

    id: int
    job_id: int
    group_id: int
    created_ms: int
    store: str
    fetch_ms: int
    state: RunState
    address: str
    finished_ms: int | None


def _owners(run: Table) -> ById:
    query = (
        select(
            run.c.id,
            run.c.job_id,
            run.c.group_id,
            run.c.secret_id,
            run.c.partition,
            run.c.created_ms,
            func.coalesce(run.c.instance, ""),
            func.coalesce(job.c.log_retention_days, 0),
            run_log.c.store,
            func.coalesce(run_log.c.ended, False),
        )
        .join_from(run, run_log, run_log.c.id == run.c.id, isouter=True)
        .join(job, job.c.id == run.c.job_id, isouter=True)
    )
    return ById(run.c.id, query.where)


_OWNERS: Final = [_owners(table) for table in RUN_TABLES]


def _of_run(name: str) -> ColumnElement[Any]:
    """Return a column of a log's run, wherever that is."""
    return func.coalesce(open_run.c[name], run_history.c[name])


def _with_runs(query: Select[Any]) -> Select[Any]:
    for table in RUN_TABLES:
        query = query.join(table, table.c.id == run_log.c.id, isouter=True)
    return query


FETCH: Final = select(func.min(run_log.c.fetch_ms))
"""When the first log is to be fetched."""

_DUE: Final = (
    _with_runs(
        select(
            run_log.c.id,
            run_log.c.job_id,
            _of_run("group_id"),
            run_log.c.created_ms,
            run_log.c.store,
            run_log.c.fetch_ms,
            _of_run("state"),
            func.coalesce(_of_run("address"), ""),
            run_history.c.finished_ms,
        ).select_from(run_log)
    )
    .where(
        _of_run("id").is_not(None),
        run_log.c.fetch_ms <= bindparam("now_ms"),
        run_log.c.partition.in_(bindparam("partitions", expanding=True)),
        run_log.c.id.not_in(bindparam("asked", expanding=True)),
        func.coalesce(_of_run("address"), "").not_in(bindparam("busy", expanding=True)),
    )
    .order_by(run_log.c.fetch_ms)
    .limit(bindparam("most"))
)


def delete_ms(created_ms: int, days: int) -> int:
    """Return when a log may be deleted whose run was made at an instant, if logs are kept for days; 0 for ever."""
    return created_ms + days * DAY_MS if days else FOR_EVER


def find_owners(conn: Connection, ids: Collection[int]) -> dict[int, LogOwner]:
    """Return runs by id, with what is known of their logs; unknown ids are missing."""
    found: dict[int, LogOwner] = {}
    for owners in _OWNERS:  # a run that moves meanwhile is met in the first table or in the second one
        statement, values = owners(conn, sorted(set(ids) - found.keys()))
        rows = (LogOwner._make((*row[:9], bool(row[9]))) for row in statement.fetch(conn, values))
        found.update((row.id, row) for row in rows)
    return found


def find_log(conn: Connection, run_id: int) -> RunLogRow | None:
    """Return what is known of a run's log, or None if no store has one."""
    row = conn.execute(select(run_log).where(run_log.c.id == run_id)).one_or_none()
    return None if row is None else RunLogRow(**row._mapping)


def add_logs(conn: Connection, rows: Sequence[RunLogRow]) -> None:
    """Insert those that are not there.

    Raises:
        DuplicateError: Another transaction inserted one of them meanwhile; this one must be given up.
    """
    if not rows:
        return
    ids = [row.id for row in rows]
    known = set(conn.execute(select(run_log.c.id).where(any_of(conn, run_log.c.id, ids))).scalars())
    missing = [tuple(row) for row in rows if row.id not in known]
    try:
        insert_many(conn, run_log, COLUMNS, missing)
    except IntegrityError as error:
        raise DuplicateError(f"one of {len(missing)} logs, first {missing[0][0]}, exists by now") from error


def end_logs(conn: Connection, ids: Collection[int]) -> None:
    """Write that all of these logs is in their store."""
    update_many(conn, run_log, ("ended", "fetch_ms"), [(number, True, None) for number in sorted(ids)])


def list_due(
    conn: Connection,
    partitions: Collection[int],
    now_ms: int,
    limit: int,
    *,
    asked: Collection[int] = (),
    busy: Collection[str] = (),
) -> list[OpenLog]:
    """Return logs of these partitions that are to be fetched by now, longest due first.

    Those that are asked for already are left out, and those of executors that are too busy to be asked for more.
    """
    values = {
        "partitions": sorted(partitions),
        "now_ms": now_ms,
        "most": limit,
        "asked": sorted(asked),
        "busy": sorted(busy),
    }
    return [OpenLog._make((*row[:6], RunState(row[6]), *row[7:])) for row in conn.execute(_DUE, values)]


def put_off(conn: Connection, rows: Sequence[tuple[int, int | None]]) -> None:
    """Write when logs are fetched next: ``(id, fetch_ms)``, None for no more."""
    update_many(conn, run_log, ("fetch_ms",), sorted(rows))


def let_go(conn: Connection, ids: Iterable[int]) -> None:
    """Write that the logs of runs that are deleted may be, too."""
    wanted = sorted(ids)
    if wanted:
        conn.execute(update(run_log).where(any_of(conn, run_log.c.id, wanted)).values(delete_ms=0, fetch_ms=None))


def find_left(conn: Connection, after_id: int, limit: int) -> tuple[list[int], int | None]:
    """Return which of a page of all logs have no run any more, and after which id the next page begins.

    Logs that may be deleted by now are among them.
    """
    query = select(run_log.c.id).where(run_log.c.id > after_id).order_by(run_log.c.id).limit(limit)
    ids = list(conn.execute(query).scalars())
    known = in_both(lambda table: select(table.c.id).where(any_of(conn, table.c.id, ids)))
    there = set(conn.execute(known).scalars()) if ids else set()
    return [number for number in ids if number not in there], ids[-1] if len(ids) == limit else None


class OldLog(NamedTuple):
    """A log that may be deleted, as it seemed when it began.

    Attributes:
        days: The present retention of its job in days; 0 for the setting's.
        state: The state of its run; None if that is deleted.
    """

    row: RunLogRow
    days: int
    state: RunState | None


def list_old(conn: Connection, now_ms: int, limit: int) -> list[OldLog]:
    """Return logs that may be deleted by now."""
    query = (
        _with_runs(select(run_log, func.coalesce(job.c.log_retention_days, 0), _of_run("state")))
        .join(job, job.c.id == run_log.c.job_id, isouter=True)
        .where(run_log.c.delete_ms <= now_ms)
        .order_by(run_log.c.delete_ms)
        .limit(limit)
    )
    return [OldLog(RunLogRow(*row[:8]), row[8], RunState(row[9]) if row[9] else None) for row in conn.execute(query)]


def list_retentions(conn: Connection, after_id: int, limit: int) -> list[tuple[int, int]]:
    """Return a page of all jobs, with how long they keep their logs: ``(id, days)``, 0 for the setting's."""
    query = select(job.c.id, job.c.log_retention_days).where(job.c.id > after_id).order_by(job.c.id).limit(limit)
    return [(row[0], row[1]) for row in conn.execute(query)]


def shorten(conn: Connection, job_id: int, days: int, now_ms: int, limit: int) -> int:
    """Let logs of a job go that are older than its retention, which was longer when they began; return how many."""
    query = (
        select(run_log.c.id)
        .where(run_log.c.job_id == job_id, run_log.c.created_ms < now_ms - days * DAY_MS, run_log.c.delete_ms > now_ms)
        .order_by(run_log.c.created_ms)
        .limit(limit)
    )
    ids = list(conn.execute(query).scalars())
    postpone(conn, [(number, now_ms) for number in ids])
    return len(ids)


def postpone(conn: Connection, rows: Sequence[tuple[int, int]]) -> None:
    """Write when logs may be deleted: ``(id, delete_ms)``."""
    update_many(conn, run_log, ("delete_ms",), sorted(rows))


def delete_logs(conn: Connection, ids: Collection[int]) -> None:
    """Delete rows whose logs are gone from their store."""
    if ids:
        conn.execute(delete(run_log).where(any_of(conn, run_log.c.id, sorted(ids))))
