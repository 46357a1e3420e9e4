"""Runs: the queue of planned work and the record of everything that happened.

State changes are one guarded update on the previous state; callers that decide on what a row says lock it first,
in id order. Rows are in the order of the record, so that both ways go by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple
from sqlalchemy import Connection, Row, TextClause, bindparam, case, select, text, tuple_, update
from sqlalchemy.exc import IntegrityError

from xwheel.errors import DuplicateError
from xwheel.model import OPEN_STATES, PARTITIONS, Origin, Run, RunState
from xwheel.model.reasons import RunReason
from xwheel.storage.database import changes
from xwheel.storage.database.bulk import ById, any_of, fetch_rows, insert_many, keyed_in, update_many
from xwheel.storage.database.rows import IN_LIMIT, chunks, in_parts, one_row
from xwheel.storage.schema.tables import job, run

RunIdentity = tuple[int, str, int, int]
"""What makes a run unique: job, origin, origin key, shard."""

MOST_MS: Final = 2**62
"""Later than any due time."""

DELETED: Final = 0
"""Stands for the revision of a job that is deleted; others begin at 1."""

IDENTITIES: Final = 1000
"""Identities in one statement."""

RUN_COLUMNS = [run.c[name] for name in Run.__struct_fields__]
# plain strings: as column names they would be slow keys
_RUN_NAMES = Run.__struct_fields__
_WIDTH = len(_RUN_NAMES)
INSERTED = (*_RUN_NAMES, "open_partition")
"""The columns of a new row."""
_ORIGIN = _RUN_NAMES.index("origin")
_STATE = _RUN_NAMES.index("state")
_KILL = _RUN_NAMES.index("kill_requested")
_ORIGINS = {origin.value: origin for origin in Origin}
_STATES = {state.value: state for state in RunState}
_IDENTITY = (run.c.job_id, run.c.origin, run.c.origin_key, run.c.shard_index)

_RUNS = ById(run.c.id, lambda among: select(*RUN_COLUMNS).where(among))
_DUE = ById(
    run.c.id,
    lambda among: (
        select(*RUN_COLUMNS, job.c.revision)
        .join(job, job.c.id == run.c.job_id)
        .where(among, run.c.state == RunState.PLANNED)
    ),
)
# by nothing but the key: MariaDB would rather walk an index on the state, and lock what it meets there
_LOCK_STATES = ById(
    run.c.id,
    lambda among: (
        select(run.c.id, run.c.job_id, run.c.partition, run.c.epoch, run.c.state)
        .where(among)
        .order_by(run.c.id)
        .with_for_update()
    ),
)
_LOCK_RUNS = ById(
    run.c.id, lambda among: select(*RUN_COLUMNS).where(among).order_by(run.c.id).with_for_update()
)
_REVISIONS = ById(
    job.c.id,
    lambda among: select(job.c.id, case((job.c.deleted_ms.is_(None), job.c.revision), else_=DELETED)).where(
        among
    ),
)
_ACCEPT = ById(
    run.c.id,
    lambda among: (
        update(run)
        .where(among)
        .values(
            state=RunState.RUNNING,
            accepted_ms=bindparam("now_ms"),
            check_ms=case((run.c.kill_requested.is_(True), bindparam("now_ms")), else_=bindparam("later_ms")),
        )
    ),
)
# asked five times a second: to build it takes as long as to ask it of an empty table
_UNADOPTED = (
    select(run.c.id, run.c.due_ms)
    .where(
        run.c.open_partition.in_(bindparam("partitions", expanding=True)),
        run.c.epoch == 0,
        run.c.due_ms <= bindparam("horizon_ms"),
    )
    .limit(bindparam("most"))
)
# after a backlog PostgreSQL believes for a minute or two that very many rows match, and would read the whole table for
# those few that do; each partition in the order of the index leaves it no choice
_UNADOPTED_POSTGRESQL = text(
    "SELECT queued.id, queued.due_ms FROM unnest(CAST(:partitions AS integer[])) AS held (part) CROSS JOIN LATERAL ("
    "SELECT run.id, run.due_ms FROM run WHERE run.open_partition = held.part AND run.epoch = 0"
    " AND run.due_ms <= :horizon_ms ORDER BY run.due_ms LIMIT :most) AS queued LIMIT :most"
)


class QueuedRun(Struct, frozen=True, gc=False):
    """What memory keeps of a planned run: enough to wait for it and to find it again."""

    id: int
    job_id: int
    group_id: int
    partition: int
    epoch: int
    due_ms: int


_QUEUED = [run.c[name] for name in QueuedRun.__struct_fields__]


class DueRun(NamedTuple):
    """A planned run together with the revision of its job at the moment of reading."""

    run: Run
    job_revision: int


class FencedRow(NamedTuple):
    """What the fence writes for one run: its executor, and of how many shards it is one."""

    id: int
    address: str
    instance: str
    shard_total: int
    secret_id: int | None


def values_of(item: Run) -> tuple[Any, ...]:
    """Return a run's values for :data:`INSERTED`."""
    values = [*astuple(item), item.partition if item.state is RunState.PLANNED else None]
    values[_ORIGIN] = str(item.origin)
    values[_STATE] = str(item.state)
    return tuple(values)


def run_of(row: Row[Any] | Sequence[Any]) -> Run:
    """Return a run from a row of :data:`RUN_COLUMNS`, which may have further columns behind them."""
    values = list(row[:_WIDTH])
    values[_ORIGIN] = _ORIGINS[values[_ORIGIN]]
    values[_STATE] = _STATES[values[_STATE]]
    values[_KILL] = bool(values[_KILL])
    # by position and from dictionaries: a tenth of the time that keywords and calls of the enums take
    return Run(*values)


def identity_of(item: Run) -> RunIdentity:
    """Return what makes a run unique."""
    return (item.job_id, str(item.origin), item.origin_key, item.shard_index)


def insert_runs(conn: Connection, runs: Sequence[Run]) -> None:
    """Insert runs as they are; a planned one enters the queue.

    Raises DuplicateError: one of them exists already; the transaction must be given up.
    """
    if not runs:
        return
    try:
        insert_many(conn, run, INSERTED, [values_of(item) for item in runs])
    except IntegrityError as error:
        raise DuplicateError(
            f"a run of job {runs[0].job_id} or of another one in the batch exists already"
        ) from error
    changes.note(
        conn,
        (
            changes.change(item, item.state, item.dispatched_ms or item.created_ms, item.reason, item.message)
            for item in runs
        ),
    )


def get_run(conn: Connection, run_id: int) -> Run:
    """Return a run. Raises NotFoundError: it does not exist."""
    return run_of(one_row(conn, select(*RUN_COLUMNS).where(run.c.id == run_id), "run", run_id))


def get_runs(conn: Connection, ids: Collection[int]) -> dict[int, Run]:
    """Return runs by id; those that are gone are missing."""
    if not ids:
        return {}
    return {row[0]: run_of(row) for row in fetch_rows(conn, *_RUNS(conn, sorted(ids)))}


def get_origins(conn: Connection, ids: Collection[int]) -> dict[int, Origin]:
    """Return why runs existed."""
    query = select(run.c.id, run.c.origin).where(run.c.id.in_(sorted(ids)))
    return {row.id: Origin(row.origin) for row in conn.execute(query)}


def find_run(conn: Connection, identity: RunIdentity) -> Run | None:
    """Return the run with this identity, or None."""
    same = (column == value for column, value in zip(_IDENTITY, identity, strict=True))
    row = conn.execute(select(*RUN_COLUMNS).where(*same)).one_or_none()
    return None if row is None else run_of(row)


def find_existing(conn: Connection, runs: Iterable[Run]) -> set[RunIdentity]:
    """Return which identities have a row already."""
    query = select(*_IDENTITY)
    keys = [identity_of(item) for item in runs]
    rows = in_parts(conn, keys, IDENTITIES, lambda part: query.where(keyed_in(conn, _IDENTITY, part)))
    return {(row.job_id, row.origin, row.origin_key, row.shard_index) for row in rows}


def list_runs(
    conn: Connection, *, job_id: int | None = None, before: tuple[int, int] | None = None, limit: int = 100
) -> list[Run]:
    """Return runs of all jobs or of one, latest due time first, from behind the run with this ``(due_ms, id)``."""
    query = select(*RUN_COLUMNS)
    if job_id is not None:
        query = query.where(run.c.job_id == job_id)
    if before is not None:
        # MariaDB reads no range from a comparison of rows
        query = query.where(run.c.due_ms <= before[0], tuple_(run.c.due_ms, run.c.id) < tuple_(*before))
    query = query.order_by(run.c.due_ms.desc(), run.c.id.desc()).limit(limit)
    return [run_of(row) for row in conn.execute(query)]


def find_unadopted(
    conn: Connection, partitions: Collection[int], horizon_ms: int, limit: int
) -> list[tuple[int, int]]:
    """Return planned rows that no node adopted yet, due until ``horizon_ms``, as ``(id, due_ms)``.

    Where there are more than ``limit``, the earliest due of each partition come first.
    """
    ordered = sorted(partitions)
    values = {"partitions": ordered, "horizon_ms": horizon_ms, "most": limit}
    first_few = _UNADOPTED_POSTGRESQL if conn.dialect.name == "postgresql" else _UNADOPTED
    found = [(run_id, due_ms) for run_id, due_ms in conn.execute(first_few, values)]
    if len(found) < limit:
        return found
    query = _queue_query(tuple((part, 0, 0) for part in ordered))
    rows = conn.execute(query, {"horizon_ms": horizon_ms, "each": -(-limit // len(partitions))})
    first = {run_id: due_ms for run_id, due_ms, _ in rows}
    return list((first | dict(found)).items())[:limit]


def find_left(
    conn: Connection, epochs: Mapping[int, int], limit: int
) -> tuple[list[tuple[int, int]], set[int]]:
    """Return planned rows that former holders of partitions adopted, as ``(id, due_ms)``, the earliest due first.

    ``epochs`` is partition to the epoch under which it is held now. At most ``limit`` rows come, about evenly from all
    partitions, and with them the partitions that may have more.
    """
    found: dict[int, int] = {}
    unfinished = set(epochs)
    while unfinished and len(found) < limit:  # a crowded partition gets what the others leave
        each = -(-limit // len(unfinished))
        query = _queue_query(tuple((part, 1, epochs[part] - 1) for part in sorted(unfinished)))
        rows = conn.execute(query, {"horizon_ms": MOST_MS, "each": each}).all()
        found |= {run_id: due_ms for run_id, due_ms, _ in rows}
        counts = Counter(part for _, _, part in rows)
        full = {part for part in counts if counts[part] >= each}
        if full == unfinished:
            break
        unfinished = full
    return list(found.items()), unfinished


def find_planned(conn: Connection, identities: Sequence[RunIdentity]) -> list[int]:
    """Return the ids of the still planned runs among these identities."""
    query = select(run.c.id).where(run.c.state == RunState.PLANNED).order_by(run.c.id)
    rows = in_parts(conn, identities, IDENTITIES, lambda part: query.where(keyed_in(conn, _IDENTITY, part)))
    return [row.id for row in rows]


def list_planned(conn: Connection, ids: Sequence[int]) -> list[Run]:
    """Return those of the runs that are still planned."""
    query = select(*RUN_COLUMNS).where(any_of(conn, run.c.id, ids), run.c.state == RunState.PLANNED)
    return [run_of(row) for row in conn.execute(query)]


def lock_planned_rows(conn: Connection, ids: Sequence[int]) -> list[QueuedRun]:
    """Lock those of the rows that are still planned, in id order."""
    query = select(*_QUEUED).where(any_of(conn, run.c.id, sorted(ids)), run.c.state == RunState.PLANNED)
    return [QueuedRun(*row) for row in conn.execute(query.order_by(run.c.id).with_for_update())]


def update_epochs(conn: Connection, rows: Sequence[tuple[int, int]]) -> int:
    """Adopt locked rows: ``(id, epoch)``."""
    return update_many(conn, run, ("epoch",), rows)


def find_overdue(
    conn: Connection, epochs: Mapping[int, int], before_ms: int, limit: int, after: QueuedRun | None = None
) -> list[QueuedRun]:
    """Return adopted rows of these partitions that were due until ``before_ms``; memory may have lost them.

    Rows of an older epoch are among them. A page begins behind the row ``after``.
    """
    place = (run.c.open_partition, run.c.epoch, run.c.due_ms, run.c.id)
    query = select(*_QUEUED).where(
        run.c.open_partition.in_(sorted(part for part in epochs if after is None or part >= after.partition)),
        run.c.epoch > 0,
        run.c.due_ms <= before_ms,
    )
    if after is not None:
        query = query.where(tuple_(*place) > tuple_(after.partition, after.epoch, after.due_ms, after.id))
    return [QueuedRun(*row) for row in conn.execute(query.order_by(*place).limit(limit)).all()]


def load_due(conn: Connection, ids: Sequence[int]) -> list[DueRun]:
    """Read planned runs with the current revision of their jobs; those that left the state are missing."""
    return [
        DueRun(run_of(row), row[-1])
        for part in chunks(ids, IN_LIMIT)
        for row in fetch_rows(conn, *_DUE(conn, part))
    ]


def lock_planned(conn: Connection, ids: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """Lock runs that are still planned; return id to ``(partition, epoch, revision of the job, or DELETED)``.

    The jobs are read once the runs are locked, and are not locked themselves: that order belongs to edits. An edit
    or stop that was committed before the second statement shows its revision there. One that comes later waits for
    these runs if it wants to cancel them, finds them gone, and so comes after the send. A delete cannot cancel what
    another transaction was about to write: the transaction that sends it sees here that the job is deleted.
    """
    found = fetch_rows(conn, *_LOCK_STATES(conn, sorted(ids)))
    locked = [row[:4] for row in found if row[4] == RunState.PLANNED]
    owners = {job_id for _, job_id, _, _ in locked}
    revisions: dict[int, int] = dict(fetch_rows(conn, *_REVISIONS(conn, sorted(owners))))
    return {
        run_id: (partition, epoch, revisions.get(job_id, DELETED))
        for run_id, job_id, partition, epoch in locked
    }


def update_fenced(conn: Connection, rows: Sequence[FencedRow], *, now_ms: int, check_ms: int) -> int:
    """Write which executors get these locked runs; the rows leave the queue and are dispatching from now on."""
    columns = (*FencedRow._fields[1:], "state", "open_partition", "dispatched_ms", "check_ms")
    values = [(*row, RunState.DISPATCHING, None, now_ms, check_ms) for row in rows]
    return update_many(conn, run, columns, values)


def update_accepted(conn: Connection, accepted: Mapping[int, Sequence[int]], now_ms: int) -> set[int]:
    """Note that executors took runs; an outcome that was reported before stays.

    A run that was to be killed before it was accepted is due for a check at once: the check sends the kill.
    ``accepted`` holds run ids by the time of their next check. Those that were still waiting for an answer come back.
    """
    ids = sorted(run_id for part in accepted.values() for run_id in part)
    # all at once and in id order, or else outcomes are met the other way round
    locked = fetch_rows(conn, *_LOCK_STATES(conn, ids))
    waiting = {run_id for run_id, _, _, _, state in locked if state == RunState.DISPATCHING}
    for check_ms, part in accepted.items():
        statement, values = _ACCEPT(conn, [run_id for run_id in part if run_id in waiting])
        conn.execute(statement, {**values, "now_ms": now_ms, "later_ms": check_ms})
    return waiting


def list_unanswered(conn: Connection, partitions: Collection[int], before_ms: int, limit: int) -> list[Run]:
    """Return rows that are still dispatching although their send must be over."""
    query = (
        select(*RUN_COLUMNS)
        .where(
            run.c.check_ms <= before_ms,
            run.c.state == RunState.DISPATCHING,
            run.c.partition.in_(sorted(partitions)),
        )
        .order_by(run.c.check_ms)
        .limit(limit)
    )
    return [run_of(row) for row in conn.execute(query)]


def lock_runs(conn: Connection, ids: Sequence[int]) -> dict[int, Run]:
    """Lock runs in id order, whatever their state; unknown ids are missing."""
    return {row[0]: run_of(row) for row in fetch_rows(conn, *_LOCK_RUNS(conn, sorted(ids)))}


def update_groups(conn: Connection, rows: Sequence[tuple[int, int]]) -> int:
    """Let locked runs that are planned follow their job into its new group: ``(id, group id)``."""
    return update_many(conn, run, ("group_id",), rows)


def update_finished(conn: Connection, rows: Sequence[tuple[Any, ...]]) -> int:
    """Close locked rows: ``(id, state, reason, result_code, message, finished_ms)``; they leave the queue."""
    columns = ("state", "reason", "result_code", "message", "finished_ms", "open_partition", "check_ms")
    return update_many(conn, run, columns, [(*row, None, None) for row in rows])


def find_open_roots(conn: Connection, roots: Collection[int]) -> set[int]:
    """Return which of these fires still have a run that is not final."""
    query = select(run.c.root_id).where(
        run.c.root_id.in_(sorted(roots)), run.c.state.in_([str(state) for state in OPEN_STATES])
    )
    return set(conn.execute(query.distinct()).scalars())


def find_planned_jobs(conn: Connection, limit: int) -> list[int]:
    """Return jobs that have planned fires of their schedule."""
    query = select(run.c.job_id).where(
        run.c.open_partition.in_(range(PARTITIONS)), run.c.origin == str(Origin.SCHEDULE)
    )
    return list(conn.execute(query.distinct().limit(limit)).scalars())


def lock_planned_of_jobs(
    conn: Connection, job_ids: Collection[int], origins: Collection[Origin]
) -> list[Run]:
    """Lock the still planned runs of jobs whose rows are locked, in id order; an edit or stop cancels them.

    They are found without a lock among all that is planned in the partitions of these jobs, and locked by their keys:
    a search that locks would wait for transactions that fire other runs there, and hold them up.
    """
    query = select(run.c.id).where(
        run.c.open_partition.in_(sorted({job_id % PARTITIONS for job_id in job_ids})),
        (run.c.job_id + 0).in_(sorted(job_ids)),  # a sum, so that no index leads through all runs of a job
        run.c.origin.in_([str(origin) for origin in origins]),
    )
    locked: list[Run] = []
    for part in chunks(sorted(conn.execute(query).scalars()), IN_LIMIT):
        locked += lock_runs(conn, part).values()
    return [item for item in locked if item.state is RunState.PLANNED]


def cancel_runs(conn: Connection, ids: Sequence[int], *, reason: RunReason, now_ms: int) -> int:
    """Cancel locked runs that are planned, and free their due times: the key becomes the negated id."""
    columns = ("state", "reason", "finished_ms", "open_partition", "origin_key")
    values = [(item, RunState.CANCELLED, reason, now_ms, None, -item) for item in ids]
    return update_many(conn, run, columns, values)


@lru_cache(maxsize=64)
def _queue_query(ranges: tuple[tuple[int, int, int], ...]) -> TextClause:
    """Return the union of one limited range of the queue for each partition between two epochs."""
    parts = (
        f"SELECT id, due_ms, {part:d} AS part FROM (SELECT run.id AS id, run.due_ms AS due_ms FROM run"  # noqa: S608 - numbers
        f" WHERE run.open_partition = {part:d} AND run.epoch BETWEEN {least:d} AND {most:d}"
        " AND run.due_ms <= :horizon_ms ORDER BY run.open_partition, run.epoch, run.due_ms LIMIT :each)"
        f" AS part{part:d}"
        for part, least, most in ranges
    )
    return text(" UNION ALL ".join(parts))
