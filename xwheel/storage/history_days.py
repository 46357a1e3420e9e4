"""The history by day: on PostgreSQL and MariaDB the runs of a day are a partition, which is dropped as a whole.

A run's id carries the day of its making: that of day ``d``, counted from 1970 in UTC, are those from ``d << 32`` on.
Ids from before that rule are those of days long past. Each partition has a range of ids and is called after its days;
what has none is in the last one, ``run_history_rest``, and is found, read and deleted there as anywhere.
"""

from __future__ import annotations

import logging
import re
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from xwheel.errors import DatabaseRefusedError
from xwheel.model import RunState
from xwheel.storage.database.engine import Database
from xwheel.storage.retention import DAY_MS, LEAST_DAYS, OldRun
from xwheel.storage.run_ids import day_of, first_id
from xwheel.storage.schema.tables import RARE, job, open_run, run_history

logger = logging.getLogger(__name__)

AHEAD: Final = 3
"""Days for which there are partitions before they begin; a new run is looked for in each of them."""

MOST: Final = 32
"""Partitions of the days that are kept: a question without ids locks each of them, with all of its indexes."""

MOST_IN_REST: Final = 100_000
"""Rows without a partition that may be read or moved, while writers wait, for the sake of new partitions."""

_NAMES: Final = {
    "postgresql": "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
    " WHERE inhparent = CAST('run_history' AS regclass)",
    "mysql": "SELECT partition_name FROM information_schema.partitions"
    " WHERE table_schema = DATABASE() AND table_name = 'run_history' AND partition_name IS NOT NULL",
}
# all writers wait behind one that waits for the lock on the whole table
_LIMITS: Final = {"postgresql": "SET LOCAL lock_timeout = 500", "mysql": "SET SESSION lock_wait_timeout = 1"}
_REST: Final = "PARTITION run_history_rest VALUES LESS THAN MAXVALUE"


class Days(NamedTuple):
    """A partition: its days, and the ids that only it can have, from the first one on and before the last one."""

    first: int
    end: int
    first_id: int
    end_id: int


def list_days(conn: sa.Connection) -> list[Days]:
    """Return the partitions of days in their order; none where the history has no partitions."""
    kind = conn.dialect.name
    names = conn.execute(sa.text(_NAMES[kind])).scalars() if kind in _NAMES else ()
    found = sorted(tuple(map(int, days)) for name in names for days in re.findall(r"days_(\d+)_(\d+)$", name))
    # what comes too late for a day that was dropped is in the next one on MariaDB
    least = [0, *(first_id(end) for _, end in found)]
    return [Days(first, end, least[place], first_id(end)) for place, (first, end) in enumerate(found)]


def add_days(db: Database, today: int, kept_days: int) -> list[Days]:
    """Make the partitions that are missing for the days to come; return all that are there.

    They have one day each, or more where runs are kept for long. None is made where the history has none, or while very
    many rows are in none: these are deleted one by one.
    """
    with db.read() as conn:
        days = list_days(conn)
        if not days or days[-1].end > today + AHEAD:
            return days
        first, query = days[-1].end, sa.select(run_history.c.id).where(run_history.c.id >= days[-1].end_id)
        rest = list(conn.execute(query.order_by(run_history.c.id.desc()).limit(MOST_IN_REST + 1)).scalars())
    if len(rest) > MOST_IN_REST:
        return days
    if rest and db.backend == "postgresql":
        first = max(first, day_of(rest[0]) + 1)  # MariaDB moves them
    while first <= today + AHEAD:
        end = max(first + max(1, -(-kept_days // MOST)), today + 1)
        name = f"run_history_days_{first}_{end}"
        if db.backend == "postgresql":
            ids = f"FROM ({first_id(first)}) TO ({first_id(end)})"
            change = f"CREATE TABLE {name} PARTITION OF run_history FOR VALUES {ids}"
        else:
            parts = f"PARTITION {name} VALUES LESS THAN ({first_id(end)}), {_REST}"
            change = f"ALTER TABLE run_history REORGANIZE PARTITION run_history_rest INTO ({parts})"
        if not _change(db, change):
            break
        first = end
    with db.read() as conn:
        return list_days(conn)


def drop_days(db: Database, days: Days) -> bool:
    """Drop a partition with its runs; return whether that was done, which takes the lock on the whole table."""
    drop = "DROP TABLE" if db.backend == "postgresql" else "ALTER TABLE run_history DROP PARTITION"
    return _change(db, f"{drop} run_history_days_{days.first}_{days.end}")


def _change(db: Database, statement: str) -> bool:
    """Change the partitions if their lock is to be had at once; a node may lack the right, too."""
    try:
        with db.write() as conn:
            conn.execute(sa.text(_LIMITS[db.backend]))
            try:
                conn.execute(sa.text(statement))
            finally:
                if db.backend == "mysql":
                    conn.execute(sa.text("SET SESSION lock_wait_timeout = DEFAULT"))
    except (DBAPIError, DatabaseRefusedError) as error:
        logger.info("the partitions of run_history stay as they are until the next sweep: %s", error)
        return False
    return True


def has_open(conn: sa.Connection, days: Days) -> bool:
    """Return whether a run of these days is open, or one of a fire of these days."""
    query = sa.select(open_run.c.id).where(_within(open_run.c.id, days) | _within(open_run.c.root_id, days))
    return conn.execute(query.limit(1)).first() is not None


def find_unsettled(conn: sa.Connection, days: Days, limit: int) -> list[OldRun]:
    """Return some runs of these days that an outcome may correct, or of a fire that other days have runs of too."""
    row = run_history.c
    is_here, is_root_here = _within(row.id, days), _within(row.root_id, days)
    query = sa.select(row.due_ms, row.id, row.job_id, row.root_id).limit(limit)
    for kind in (is_here & (row.state == RunState.LOST) & RARE, is_here & ~is_root_here, ~is_here & is_root_here):
        if found := [OldRun(*item) for item in conn.execute(query.where(kind))]:
            return found
    return []


def count_kept(
    conn: sa.Connection, days: Days, after_id: int, limit: int, *, before_ms: int, now_ms: int
) -> tuple[int, int, int | None]:
    """Return how many runs a page of these days has, how many are too young to go, and the last id of a full page.

    The others were due and ended ``before_ms``, or as long ago as their job says.
    """
    row, own = run_history.c, sa.cast(job.c.retention_days, sa.BigInteger)
    query = sa.select(row.id, row.job_id, row.due_ms, row.finished_ms)
    query = query.where(row.id > after_id, row.id < days.end_id)
    page = query.order_by(row.id).limit(limit).subquery("page")
    own_ms = now_ms - sa.case((own > LEAST_DAYS, own), else_=LEAST_DAYS) * DAY_MS
    limit_ms = sa.case((own > 0, own_ms), else_=before_ms)
    is_old = (page.c.due_ms < limit_ms) & (page.c.finished_ms < limit_ms)
    counts = sa.select(sa.func.count(), sa.func.count(sa.case((is_old, 1))), sa.func.max(page.c.id))
    runs, old, last_id = conn.execute(counts.join_from(page, job, job.c.id == page.c.job_id, isouter=True)).one()
    return runs, runs - old, last_id if runs == limit else None


def _within(column: sa.Column[int], days: Days) -> sa.ColumnElement[bool]:
    return sa.and_(column >= days.first_id, column < days.end_id)
