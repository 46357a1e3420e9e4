"""The hourly report: what became of each job's runs, by the hour in which they were due.

It is recounted from the runs by the node that does the upkeep, never written by an outcome. Times of hours are the
epoch milliseconds of their beginning; days are days of UTC. The overview says how much there is of everything, counted
only as far as it costs nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Connection, Select, Subquery, Table, case, delete, func, insert, literal_column, select
from sqlalchemy.sql.elements import ColumnElement
from xwheel.model import OPEN_STATES, PARTITIONS, RunState
from xwheel.storage.database.rows import groups_among
from xwheel.storage.retention import DAY_MS
from xwheel.storage.runs import began, in_both
from xwheel.storage.schema.tables import IS_SENT, executor_group, job, open_run

from xwheel_reports.tables import hourly_report

HOUR_MS: Final = 3_600_000
MOST_BUCKETS: Final = 1000
MOST: Final = 10_000
"""The overview counts no further: this many means at least this many."""

COUNTED: Final = ("group_id", "state", "reason", "skip_count", "due_ms", "accepted_ms", "started_ms", "finished_ms")
IS_PLANNED: Final = open_run.c.state == RunState.PLANNED


class Counts(NamedTuple):
    """What became of some runs.

    Attributes:
        open_runs: Planned, dispatching or running.
        skipped: Due times, not rows.
        duration_sum_ms: From begun to finished, over the runs that began and ended.
        lateness_max_ms: From due to accepted.
    """

    open_runs: int = 0
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    killed: int = 0
    lost: int = 0
    refused: int = 0
    cancelled: int = 0
    skipped: int = 0
    duration_sum_ms: int = 0
    duration_max_ms: int = 0
    lateness_max_ms: int = 0

    @property
    def fires(self) -> int:
        """How many runs and skipped due times there are."""
        return sum(self[:9])


MAXIMA: Final = Counts._fields.index("duration_max_ms")
"""Where the counts begin of which the greatest counts; those before are added up."""


class JobHour(NamedTuple):
    """A row of the report."""

    job_id: int
    group_id: int
    counts: Counts


class Overview(NamedTuple):
    """How many there are, each at most :data:`MOST`.

    Attributes:
        scheduled_jobs: Jobs that wait for their next due time.
        open_runs: Dispatching or running.
    """

    groups: int
    jobs: int
    scheduled_jobs: int
    planned_runs: int
    open_runs: int


class Bucket(NamedTuple):
    """The counts of an hour or a day."""

    from_ms: int
    counts: Counts


def count_part(conn: Connection, from_ms: int, to_ms: int, after_job: int, last_job: int, limit: int) -> list[JobHour]:
    """Count the runs that were due in a part of an hour, job by job in id order, for a range of jobs.

    Neither ``to_ms`` nor ``after_job`` is included. Reads every run of that part, by due time, and sorts them in
    memory; see :func:`find_part_end`.
    """

    def of(table: Table) -> Select[Any]:
        # the sum hides the column from the planner, which would otherwise walk all runs of these jobs
        job_id = table.c.job_id + literal_column("0")
        query = select(job_id.label("job"), *(table.c[name] for name in COUNTED))
        due = (table.c.due_ms >= from_ms, table.c.due_ms < to_ms)
        return query.where(*due, job_id > after_job, job_id <= last_job)

    run = in_both(of).subquery("due_then")
    query = select(run.c.job, func.max(run.c.group_id), *_counters(run)).group_by(run.c.job)
    query = query.order_by(run.c.job).limit(limit)
    return [_job_hour(row) for row in conn.execute(query)]


def find_part_end(conn: Connection, from_ms: int, to_ms: int, limit: int) -> int:
    """Return until when no more than this many runs are due, or one millisecond later if they are due all at once."""

    def of(table: Table) -> Select[Any]:
        due_ms = table.c.due_ms
        query = select(due_ms).where(due_ms >= from_ms, due_ms < to_ms).order_by(due_ms)
        return select(query.limit(limit + 1).subquery().c.due_ms)

    due = in_both(of).subquery("due")
    query = select(due.c.due_ms).order_by(due.c.due_ms).limit(1).offset(limit)
    found: int | None = conn.execute(query).scalar_one_or_none()
    return to_ms if found is None else max(found, from_ms + 1)


def add(one: JobHour, other: JobHour) -> JobHour:
    """Return what two parts of an hour say of a job together."""
    mine, theirs = one.counts, other.counts
    sums = map(operator.add, mine[:MAXIMA], theirs[:MAXIMA])
    maxima = map(max, mine[MAXIMA:], theirs[MAXIMA:])
    return JobHour(one.job_id, max(one.group_id, other.group_id), Counts(*sums, *maxima))


def list_hour(conn: Connection, hour_ms: int, after_job: int, last_job: int) -> list[JobHour]:
    """Return what the report says of an hour and a range of jobs, ``after_job`` not included, in id order."""
    columns = [hourly_report.c[name] for name in ("job_id", "group_id", *Counts._fields)]
    query = select(*columns).where(
        hourly_report.c.hour_ms == hour_ms, hourly_report.c.job_id > after_job, hourly_report.c.job_id <= last_job
    )
    return [_job_hour(row) for row in conn.execute(query.order_by(hourly_report.c.job_id))]


def replace_hour(conn: Connection, hour_ms: int, gone: Collection[int], rows: Sequence[JobHour]) -> None:
    """Write rows of an hour in place of those of the same jobs, and take out those of jobs that are gone."""
    ids = sorted({row.job_id for row in rows}.union(gone))
    if ids:
        same = hourly_report.c.hour_ms == hour_ms
        conn.execute(delete(hourly_report).where(same, hourly_report.c.job_id.in_(ids)))
    if rows:
        values: list[dict[str, int]] = [
            {"hour_ms": hour_ms, "job_id": row.job_id, "group_id": row.group_id, **row.counts._asdict()} for row in rows
        ]
        conn.execute(insert(hourly_report), values)


def find_last_hour(conn: Connection) -> int | None:
    """Return the latest hour in the report, or None if there is none."""
    return conn.execute(select(func.max(hourly_report.c.hour_ms))).scalar()


def find_open_hours(conn: Connection, before_ms: int, limit: int) -> list[int]:
    """Return the latest hours before an instant that still count open runs; reads the whole report."""
    query = (
        select(hourly_report.c.hour_ms)
        .where(hourly_report.c.hour_ms < before_ms, hourly_report.c.open_runs > 0)
        .distinct()
        .order_by(hourly_report.c.hour_ms.desc())
        .limit(limit)
    )
    return list(conn.execute(query).scalars())


def delete_reports(conn: Connection, before_ms: int, limit: int) -> int:
    """Delete report rows of hours before an instant; return how many."""
    hour, job_id = hourly_report.c.hour_ms, hourly_report.c.job_id
    query = select(hour, job_id).where(hour < before_ms).order_by(hour, job_id).limit(limit)
    last: dict[int, int] = {row.hour_ms: row.job_id for row in conn.execute(query)}
    # in key order, so that all earlier rows of the hour are in this batch or gone
    return sum(
        conn.execute(delete(hourly_report).where(hour == hour_ms, job_id <= last_id)).rowcount
        for hour_ms, last_id in last.items()
    )


def list_report(
    conn: Connection,
    from_ms: int,
    to_ms: int,
    *,
    group_id: int | None = None,
    job_id: int | None = None,
    by: Literal["hour", "day"] = "hour",
    limit: int = MOST_BUCKETS,
    groups: Collection[int] | None = None,
) -> list[Bucket]:
    """Return the counts of each hour or day that has any, earliest first, and never more than 1000.

    An hour counts if it began at ``from_ms`` or later and before ``to_ms``. A job counts for the group that it was in
    when it ran. Only what ran in some ``groups`` counts unless None.
    """
    hour = hourly_report.c.hour_ms
    # a literal, since a parameter in two places is two parameters, and PostgreSQL would see two expressions
    bucket = hour if by == "hour" else hour - hour % literal_column(str(DAY_MS))
    query = (
        select(bucket.label("bucket"), *_sums())
        .where(*_part(from_ms, to_ms, group_id, job_id, groups))
        .group_by(literal_column("bucket"))
        .order_by(literal_column("bucket"))
        .limit(min(limit, MOST_BUCKETS))
    )
    return [Bucket(int(row[0]), _counts(row[1:])) for row in conn.execute(query)]


def get_totals(
    conn: Connection,
    from_ms: int,
    to_ms: int,
    *,
    group_id: int | None = None,
    job_id: int | None = None,
    groups: Collection[int] | None = None,
) -> Counts:
    """Return the counts of a stretch of hours together; see :func:`list_report` for the arguments."""
    query = select(*_sums()).where(*_part(from_ms, to_ms, group_id, job_id, groups))
    return _counts(conn.execute(query).one())


def get_overview(conn: Connection, groups: Collection[int] | None = None) -> Overview:
    """Count from indexes; only what is of some ``groups`` unless None.

    Of open runs, those of the groups are counted among the first :data:`MOST` there are.
    """
    partitions = range(PARTITIONS)
    if groups is not None:
        return _overview_of(conn, sorted(groups))
    return Overview(
        groups=_count(conn, select(executor_group.c.id)),
        jobs=_count(conn, select(job.c.id).where(job.c.deleted_ms.is_(None))),
        scheduled_jobs=_count(conn, select(job.c.id).where(job.c.partition.in_(partitions), job.c.next_fire_ms > 0)),
        planned_runs=_count(conn, select(open_run.c.id).where(IS_PLANNED)),
        open_runs=_count(conn, select(open_run.c.id).where(IS_SENT)),
    )


def _overview_of(conn: Connection, groups: Sequence[int]) -> Overview:
    there = select(job.c.next_fire_ms).where(job.c.group_id.in_(groups), job.c.deleted_ms.is_(None))
    some = there.limit(MOST).subquery("some")
    count = func.count(literal_column("1"))
    known, scheduled = conn.execute(select(count, func.count(some.c.next_fire_ms)).select_from(some)).one()
    planned = select(open_run.c.group_id).where(IS_PLANNED).limit(MOST).subquery()
    sent = select(open_run.c.group_id).where(IS_SENT).limit(MOST).subquery()
    open_runs = [
        int(conn.execute(select(count).select_from(rows).where(rows.c.group_id.in_(groups))).scalar_one())
        for rows in (planned, sent)
    ]
    return Overview(
        _count(conn, select(executor_group.c.id).where(executor_group.c.id.in_(groups))),
        int(known),
        int(scheduled),
        *open_runs,
    )


def _counters(run: Subquery) -> tuple[ColumnElement[Any], ...]:
    """Return one expression over run rows for each field of :class:`Counts`."""

    def count(*states: RunState) -> ColumnElement[Any]:
        return func.sum(case((run.c.state.in_([str(state) for state in states]), 1), else_=0))

    due_times = case((run.c.skip_count > 1, run.c.skip_count), else_=1)
    # clocks of two nodes may differ by less than what they measure
    duration = case((run.c.finished_ms > began(run.c), run.c.finished_ms - began(run.c)), else_=0)
    lateness = case((run.c.accepted_ms > run.c.due_ms, run.c.accepted_ms - run.c.due_ms), else_=0)
    ends = (RunState(name) for name in Counts._fields[1:8])
    return (
        count(*sorted(OPEN_STATES)),
        *(count(state) for state in ends),
        func.sum(case((run.c.state == RunState.SKIPPED, due_times), else_=0)),
        func.sum(duration),
        func.max(duration),
        func.max(lateness),
    )


def _sums() -> list[ColumnElement[Any]]:
    """Return one expression over report rows for each field of :class:`Counts`."""
    return [
        func.max(hourly_report.c[name]) if "_max_" in name else func.sum(hourly_report.c[name])
        for name in Counts._fields
    ]


def _part(
    from_ms: int, to_ms: int, group_id: int | None, job_id: int | None, groups: Collection[int] | None
) -> list[ColumnElement[bool]]:
    wanted = [hourly_report.c.hour_ms >= from_ms, hourly_report.c.hour_ms < to_ms]
    own = groups_among(groups, group_id)
    if own is not None:
        wanted.append(hourly_report.c.group_id == own[0] if len(own) == 1 else hourly_report.c.group_id.in_(own))
    if job_id is not None:
        wanted.append(hourly_report.c.job_id == job_id)
    return wanted


def _job_hour(row: Sequence[Any]) -> JobHour:
    return JobHour(int(row[0]), int(row[1]), _counts(row[2:]))


def _counts(values: Sequence[Any]) -> Counts:
    # sums are decimals on some databases, and null over nothing
    return Counts._make([int(value or 0) for value in values])


def _count(conn: Connection, query: Select[Any]) -> int:
    some = query.limit(MOST).subquery("some")
    return int(conn.execute(select(func.count(literal_column("1"))).select_from(some)).scalar_one())
