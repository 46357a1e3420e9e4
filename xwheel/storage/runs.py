"""Runs: the queue of planned work and the record of everything that happened.

Open runs have a table of their own, whose rows change; a run that ends moves from there to the history, into which it
is inserted once. Who reads both reads the open ones first, or both with one statement, so that no run is missed that
moves meanwhile. State changes are one guarded update on the previous state; callers that decide on what a row says lock
it first, in id order and open ones first. Rows are in the order of the record, so that both ways go by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple
from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Row,
    Select,
    Table,
    TextClause,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.exc import IntegrityError

from xwheel.errors import DuplicateError
from xwheel.model import FINAL_STATES, OPEN_STATES, Origin, Run, RunState
from xwheel.model.reasons import WAITS, RunReason
from xwheel.storage.database import changes
from xwheel.storage.database.bulk import (
    AnyOf,
    ById,
    any_of,
    array_text,
    fetch_rows,
    insert_many,
    move_many,
    tuple_in,
    update_many,
)
from xwheel.storage.database.direct import Prepared, in_text
from xwheel.storage.database.rows import IN_LIMIT, chunks, in_parts, one_row
from xwheel.storage.run_ids import DAY_MS, day_of, first_id
from xwheel.storage.schema.tables import IS_PLANNED, IS_SENT, NOT_FIRST, RUN_TABLES, job, open_run, run_history

RunIdentity = tuple[int, str, int, int]
"""What makes a run unique: job, origin, origin key, shard."""

MOST_MS: Final = 2**62
"""Later than any due time."""

DELETED: Final = 0
"""Stands for the revision of a job that is deleted; others begin at 1."""

IDENTITIES: Final = 1000
"""Identities in one statement."""

# plain strings: as column names they would be slow keys
_RUN_NAMES = Run.__struct_fields__
_WIDTH = len(_RUN_NAMES)
_ORIGIN = _RUN_NAMES.index("origin")
_STATE = _RUN_NAMES.index("state")
_KILL = _RUN_NAMES.index("kill_requested")
_ORIGINS = {origin.value: origin for origin in Origin}
_STATES = {state.value: state for state in RunState}
_ENDED = tuple(name for name in _RUN_NAMES if name in run_history.c)
_IDENTITY = ("job_id", "origin", "origin_key", "shard_index")


def run_columns(table: Table) -> list[ColumnElement[Any]]:
    """Return what :func:`run_of` takes, of one of the :data:`RUN_TABLES`."""
    return [table.c[name] if name in table.c else null() for name in _RUN_NAMES]


def began(held: Any) -> ColumnElement[int]:
    """Return the rule of :attr:`Run.began_ms` for columns of runs."""
    taken = case((held.reason.not_like(f"{WAITS}%"), held.accepted_ms))
    return func.nullif(func.coalesce(held.started_ms, taken), literal_column("0"))


def in_both(build: Callable[[Table], Select[Any]]) -> CompoundSelect[Any]:
    """Return a query of open runs and of the history in one, from what it is for one of the tables."""
    return union_all(*map(build, RUN_TABLES))


def of_roots(table: Table, roots: Collection[int]) -> ColumnElement[bool]:
    """Return the condition that runs of a table belong to these fires."""
    ids = sorted(roots)
    is_theirs = table.c.root_id.in_(ids)
    if table is run_history:
        day = day_of(min(ids, default=0)) - 1  # of no partition before that; where ids carry no day, all are searched
        return is_theirs & (table.c.id >= first_id(day)) if day > 0 else is_theirs
    # the first run of a fire has its root's id; the index has the others
    return or_(and_(table.c.id.in_(ids), is_theirs), and_(is_theirs, NOT_FIRST))


def locked(query: Select[Any], table: Table = open_run) -> ById:
    """Return the statement that locks the runs of a query, in id order, of those whose ids it gets."""
    return ById(table.c.id, query.order_by(table.c.id).with_for_update().where, locks=True)


_OPEN = run_columns(open_run)
_RUNS = [ById(table.c.id, select(*run_columns(table)).where) for table in RUN_TABLES]
_WITH_REVISION = select(*_OPEN, job.c.revision).join(job, job.c.id == open_run.c.job_id)
_DUE = ById(open_run.c.id, _WITH_REVISION.where(open_run.c.state == RunState.PLANNED).where)
_LOCK_STATES = locked(
    select(open_run.c.id, open_run.c.job_id, open_run.c.partition, open_run.c.epoch, open_run.c.state)
)
_LOCK_RUNS = [locked(select(*run_columns(table)), table) for table in RUN_TABLES]
_REVISION = case((job.c.deleted_ms.is_(None), job.c.revision), else_=DELETED)
_REVISIONS = ById(job.c.id, select(job.c.id, _REVISION).where)
_LOCK_ANSWERED = locked(select(open_run.c.id, open_run.c.state, open_run.c.kill_requested))
_LOCK_UNTOLD = locked(select(run_history.c.id).where(run_history.c.accepted_ms.is_(None)), run_history)
# ids of older versions carry no day
_IN_HISTORY = AnyOf(
    run_history,
    ("job_id", "origin_key", "shard_index"),
    "origin",
    "uq_run_identity",
    f"(t.id >= :least OR t.id < {first_id(20_000)})",
)
_ROOTS = [ById(table.c.id, select(table.c.job_id, table.c.root_id).where) for table in RUN_TABLES]
# asked five times a second: to build it takes as long as to ask it of an empty table
_UNADOPTED = Prepared(
    select(open_run.c.id, open_run.c.due_ms)
    .where(in_text(open_run.c.partition), open_run.c.epoch == 0, IS_PLANNED)
    .where(open_run.c.due_ms <= bindparam("horizon_ms"))
    .limit(bindparam("most"))
)
_UNANSWERED = Prepared(
    select(*_OPEN)
    .where(IS_SENT, open_run.c.check_ms <= bindparam("before_ms"), open_run.c.state == RunState.DISPATCHING)
    .where(in_text(open_run.c.partition))
    .order_by(open_run.c.check_ms)
    .limit(bindparam("most"))
)
# after a backlog PostgreSQL believes for a minute or two that very many rows match, and would read the whole table for
# those few that do; each partition in the order of the index leaves it no choice
_UNADOPTED_POSTGRESQL = Prepared(
    text(
        "SELECT queued.id, queued.due_ms FROM unnest(CAST(:ids AS integer[])) AS held (part) CROSS JOIN LATERAL ("
        "SELECT open_run.id, open_run.due_ms FROM open_run WHERE open_run.partition = held.part AND open_run.epoch = 0"
        " AND open_run.state = 'planned' AND open_run.due_ms <= :horizon_ms"
        " ORDER BY open_run.due_ms LIMIT :most) AS queued LIMIT :most"
    )
)


class QueuedRun(Struct, frozen=True, gc=False):
    """What memory keeps of a planned run: enough to wait for it and to find it again."""

    id: int
    job_id: int
    group_id: int
    partition: int
    epoch: int
    due_ms: int


_QUEUED = [open_run.c[name] for name in QueuedRun.__struct_fields__]
_LOCK_QUEUED = locked(select(*_QUEUED).where(open_run.c.state == RunState.PLANNED))
_PLACE = (open_run.c.partition, open_run.c.epoch, open_run.c.due_ms, open_run.c.id)
_FIND_OVERDUE = (
    select(*_QUEUED)
    .where(in_text(open_run.c.partition), open_run.c.epoch > 0, open_run.c.due_ms <= bindparam("before_ms"), IS_PLANNED)
    .order_by(*_PLACE)
    .limit(bindparam("most"))
)
_OVERDUE = Prepared(_FIND_OVERDUE)
_AFTER = tuple_(*(bindparam(f"after_{column.name}", type_=column.type) for column in _PLACE))
_OVERDUE_AFTER = Prepared(_FIND_OVERDUE.where(tuple_(*_PLACE) > _AFTER))


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


class AcceptedRow(NamedTuple):
    """What is written for a run that an executor took: when, and when that executor is asked about it."""

    at_ms: int
    check_ms: int


def values_of(item: Run) -> tuple[Any, ...]:
    """Return a run's values, in the order of its fields."""
    values = list(astuple(item))
    values[_ORIGIN] = str(item.origin)
    values[_STATE] = str(item.state)
    return tuple(values)


def run_of(row: Row[Any] | Sequence[Any]) -> Run:
    """Return a run from a row of :func:`run_columns`, which may have further columns behind them."""
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
    """Insert runs as they are, those that have ended already into the history.

    Raises DuplicateError: one of them exists already; the transaction must be given up.
    """
    if not runs:
        return
    try:
        # all of them here first: two that are made at the same time meet in one index, even if one has ended
        insert_many(conn, open_run, _RUN_NAMES, [values_of(item) for item in runs])
        is_known = _is_in_history(conn, runs)
    except IntegrityError:
        is_known = True
    if is_known:
        raise DuplicateError(f"a run of job {runs[0].job_id} or of another one in the batch exists already")
    if ended := [(item.id,) for item in runs if item.state in FINAL_STATES]:
        move_many(conn, open_run, run_history, _ENDED, (), ended)
    made = (
        changes.change(item, item.state, item.dispatched_ms or item.created_ms, item.reason, item.message)
        for item in runs
    )
    changes.note(conn, made)


def _is_in_history(conn: Connection, runs: Sequence[Run]) -> bool:
    by_origin: dict[Origin, list[Run]] = {}
    for item in runs:
        by_origin.setdefault(item.origin, []).append(item)
    for origin, items in by_origin.items():
        keys = [(item.job_id, item.origin_key, item.shard_index) for item in items]
        values: dict[str, Any] = {"origin": str(origin)}
        if conn.dialect.name != "sqlite":
            values["least"] = first_id(_first_day(origin, min(item.origin_key for item in items)))
        if _IN_HISTORY.is_any(conn, keys, values):
            return True
    return False


def _first_day(origin: Origin, key: int) -> int:
    """Return the first day on which a run with this key, or with a greater one, may have got its id."""
    if origin is Origin.API:
        return 0  # a digest, or the id that it would have itself
    # planned shortly before it is due at the earliest; others have the id of a run that was there before
    return (key // DAY_MS if origin is Origin.SCHEDULE else day_of(key)) - 1


def get_run(conn: Connection, run_id: int) -> Run:
    """Return a run. Raises NotFoundError: it does not exist."""
    query = in_both(lambda table: select(*run_columns(table)).where(table.c.id == run_id))
    return run_of(one_row(conn, query, "run", run_id))


def get_runs(conn: Connection, ids: Collection[int]) -> dict[int, Run]:
    """Return runs by id; those that are gone are missing."""
    return _runs_by_id(conn, _RUNS, ids)


def _runs_by_id(conn: Connection, queries: Iterable[ById], ids: Iterable[int]) -> dict[int, Run]:
    found: dict[int, Run] = {}
    for query in queries:
        missing = sorted(set(ids) - found.keys())
        if missing:
            found.update((row[0], run_of(row)) for row in fetch_rows(conn, *query(conn, missing)))
    return found


def get_origins(conn: Connection, ids: Collection[int]) -> dict[int, Origin]:
    """Return why runs existed."""
    query = in_both(lambda table: select(table.c.id, table.c.origin).where(table.c.id.in_(sorted(ids))))
    return {row.id: Origin(row.origin) for row in conn.execute(query)}


def find_run(conn: Connection, identity: RunIdentity) -> Run | None:
    """Return the run with this identity, or None."""

    def of(table: Table) -> Select[Any]:
        same = (table.c[name] == value for name, value in zip(_IDENTITY, identity, strict=True))
        return select(*run_columns(table)).where(*same)

    row = conn.execute(in_both(of)).one_or_none()
    return None if row is None else run_of(row)


def find_existing(conn: Connection, runs: Iterable[Run]) -> set[RunIdentity]:
    """Return which identities have a row already."""
    keys = [identity_of(item) for item in runs]
    return {
        tuple(row)
        for table in RUN_TABLES
        for row in _rows_of(conn, select(*(table.c[name] for name in _IDENTITY)), table, keys)
    }


def list_runs(
    conn: Connection, *, job_id: int | None = None, before: tuple[int, int] | None = None, limit: int = 100
) -> list[Run]:
    """Return runs of all jobs or of one, latest due time first, from behind the run with this ``(due_ms, id)``."""
    found: dict[int, Run] = {}
    for table in RUN_TABLES:
        key = (table.c.due_ms, table.c.id)
        query = select(*run_columns(table))
        if job_id is not None:
            query = query.where(table.c.job_id == job_id)
        if before is not None:
            # MariaDB reads no range from a comparison of rows
            query = query.where(key[0] <= before[0], tuple_(*key) < tuple_(*before))
        rows = conn.execute(query.order_by(key[0].desc(), key[1].desc()).limit(limit))
        found.update((row[0], run_of(row)) for row in rows)
    return sorted(found.values(), key=lambda item: (item.due_ms, item.id), reverse=True)[:limit]


def find_unadopted(conn: Connection, partitions: Collection[int], horizon_ms: int, limit: int) -> list[tuple[int, int]]:
    """Return planned rows that no node adopted yet, due until ``horizon_ms``, as ``(id, due_ms)``.

    Where there are more than ``limit``, the earliest due of each partition come first.
    """
    ordered = sorted(partitions)
    is_postgresql = conn.dialect.name == "postgresql"
    first_few = _UNADOPTED_POSTGRESQL if is_postgresql else _UNADOPTED
    ids = array_text(ordered) if is_postgresql else ordered
    found: list[tuple[int, int]] = [
        (run_id, due_ms)
        for run_id, due_ms in first_few.fetch(conn, {"ids": ids, "horizon_ms": horizon_ms, "most": limit})
    ]
    if len(found) < limit:
        return found
    query = _queue_query(tuple((part, 0, 0) for part in ordered))
    rows = conn.execute(query, {"horizon_ms": horizon_ms, "each": -(-limit // len(partitions))})
    first = {run_id: due_ms for run_id, due_ms, _ in rows}
    return list((first | dict(found)).items())[:limit]


def find_left(conn: Connection, epochs: Mapping[int, int], limit: int) -> tuple[list[tuple[int, int]], set[int]]:
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
    query = select(open_run.c.id).where(open_run.c.state == RunState.PLANNED).order_by(open_run.c.id)
    return [row.id for row in _rows_of(conn, query, open_run, identities)]


def _rows_of(conn: Connection, query: Select[Any], table: Table, identities: Sequence[RunIdentity]) -> Iterator[Any]:
    columns = [table.c[name] for name in _IDENTITY]
    is_one = partial(tuple_in, conn, columns, is_unique=True)
    return in_parts(conn, identities, IDENTITIES, lambda part: query.where(is_one(part)))


def list_planned(conn: Connection, ids: Sequence[int]) -> list[Run]:
    """Return those of the runs that are still planned."""
    query = select(*_OPEN).where(any_of(conn, open_run.c.id, ids), open_run.c.state == RunState.PLANNED)
    return [run_of(row) for row in conn.execute(query)]


def lock_planned_rows(conn: Connection, ids: Sequence[int]) -> list[QueuedRun]:
    """Lock those of the rows that are still planned, in id order."""
    return [QueuedRun(*row) for row in fetch_rows(conn, *_LOCK_QUEUED(conn, sorted(ids)))]


def update_epochs(conn: Connection, rows: Sequence[tuple[int, int]]) -> int:
    """Adopt locked rows: ``(id, epoch)``."""
    return update_many(conn, open_run, ("epoch",), rows)


def find_overdue(
    conn: Connection, epochs: Mapping[int, int], before_ms: int, limit: int, after: QueuedRun | None = None
) -> list[QueuedRun]:
    """Return adopted rows of these partitions that were due until ``before_ms``; memory may have lost them.

    Rows of an older epoch are among them. A page begins behind the row ``after``.
    """
    values: dict[str, Any] = {"ids": sorted(epochs), "before_ms": before_ms, "most": limit}
    if after is None:
        return [QueuedRun(*row) for row in _OVERDUE.fetch(conn, values)]
    values["ids"] = [part for part in values["ids"] if part >= after.partition]
    values |= {f"after_{column.name}": getattr(after, column.name) for column in _PLACE}
    return [QueuedRun(*row) for row in _OVERDUE_AFTER.fetch(conn, values)]


def load_due(conn: Connection, ids: Sequence[int]) -> list[DueRun]:
    """Read planned runs with the current revision of their jobs; those that left the state are missing."""
    return [
        DueRun(run_of(row), row[-1]) for part in chunks(ids, IN_LIMIT) for row in fetch_rows(conn, *_DUE(conn, part))
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
    return {run_id: (partition, epoch, revisions.get(job_id, DELETED)) for run_id, job_id, partition, epoch in locked}


def update_fenced(conn: Connection, rows: Sequence[FencedRow], *, now_ms: int, check_ms: int) -> int:
    """Write which executors get these locked runs, which are dispatching from now on."""
    columns = (*FencedRow._fields[1:], "state", "dispatched_ms", "check_ms")
    values = [(*row, RunState.DISPATCHING, now_ms, check_ms) for row in rows]
    return update_many(conn, open_run, columns, values)


def update_accepted(conn: Connection, accepted: Mapping[int, AcceptedRow], now_ms: int) -> set[int]:
    """Note that executors took runs; an outcome that was reported before stays, and only learns when that was.

    A run that was to be killed before it was accepted is due for a check at once: the check sends the kill.
    ``accepted`` is by run id. Those that were still waiting for an answer come back.
    """
    # all at once and in id order, or else outcomes are met the other way round
    locked = fetch_rows(conn, *_LOCK_ANSWERED(conn, sorted(accepted)))
    waiting = [(run_id, killed) for run_id, state, killed in locked if state == RunState.DISPATCHING]
    rows = []
    for run_id, is_killed in waiting:
        at_ms, check_ms = accepted[run_id]
        rows.append((run_id, RunState.RUNNING, at_ms, now_ms if is_killed else check_ms))
    update_many(conn, open_run, ("state", "accepted_ms", "check_ms"), rows)
    if ended := sorted(accepted.keys() - {row[0] for row in locked}):
        untold = fetch_rows(conn, *_LOCK_UNTOLD(conn, ended))
        update_many(conn, run_history, ("accepted_ms",), [(run_id, accepted[run_id].at_ms) for (run_id,) in untold])
    return {run_id for run_id, _ in waiting}


def list_unanswered(conn: Connection, partitions: Collection[int], before_ms: int, limit: int) -> list[Run]:
    """Return rows that are still dispatching although their send must be over."""
    values = {"ids": sorted(partitions), "before_ms": before_ms, "most": limit}
    return [run_of(row) for row in _UNANSWERED.fetch(conn, values)]


def lock_runs(conn: Connection, ids: Sequence[int]) -> dict[int, Run]:
    """Lock runs in id order, open ones first, whatever their state; unknown ids are missing."""
    return _runs_by_id(conn, _LOCK_RUNS, ids)


def find_roots(conn: Connection, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return job and root of runs, as ``(job id, root id)``, each pair once; unknown ids are missing."""
    found = {(job_id, root_id) for query in _ROOTS for job_id, root_id in fetch_rows(conn, *query(conn, ids))}
    return sorted(found)


def update_groups(conn: Connection, rows: Sequence[tuple[int, int]]) -> int:
    """Let locked runs that are planned follow their job into its new group: ``(id, group id)``."""
    return update_many(conn, open_run, ("group_id",), rows)


def close_runs(conn: Connection, rows: Sequence[tuple[Any, ...]], *, corrected: Collection[int] = ()) -> int:
    """End locked runs: ``(id, state, reason, result_code, message, accepted_ms, started_ms, finished_ms)``.

    They move to the history, where those that are ``corrected`` are: they were taken for lost.
    """
    names = ("state", "reason", "result_code", "message", "accepted_ms", "started_ms", "finished_ms")
    moving = [row for row in rows if row[0] not in corrected] if corrected else rows
    count = move_many(conn, open_run, run_history, _ENDED, names, moving)
    again = [row for row in rows if row[0] in corrected]
    return count + update_many(conn, run_history, names, again)


def find_open_roots(conn: Connection, roots: Collection[int]) -> set[int]:
    """Return which of these fires still have a run that is not final."""
    query = select(open_run.c.root_id).where(of_roots(open_run, roots))
    return set(conn.execute(query.distinct()).scalars())


def find_planned_jobs(conn: Connection, limit: int) -> list[int]:
    """Return jobs that have planned fires of their schedule."""
    query = select(open_run.c.job_id).where(
        open_run.c.state == RunState.PLANNED, open_run.c.origin == str(Origin.SCHEDULE)
    )
    return list(conn.execute(query.distinct().limit(limit)).scalars())


def find_early_jobs(conn: Connection, now_ms: int) -> list[int]:
    """Return jobs of whose fires executors have some that are not due yet."""
    query = select(open_run.c.job_id).where(
        IS_SENT, open_run.c.due_ms > now_ms, open_run.c.origin == str(Origin.SCHEDULE)
    )
    return list(conn.execute(query.distinct()).scalars())


def lock_unsent_of_jobs(
    conn: Connection, job_ids: Collection[int], origins: Collection[Origin], recalled: Collection[int] = ()
) -> list[Run]:
    """Lock the still planned runs of jobs whose rows are locked, in id order; an edit or stop cancels them.

    With them come those of the ``recalled`` that are open: no executor has them, or will have them.

    They are found without a lock among all that is open of these jobs, and locked by their keys: a search that locks
    would wait for transactions that fire other runs there, and hold them up.
    """
    query = select(open_run.c.id).where(
        open_run.c.job_id.in_(sorted(job_ids)),
        open_run.c.origin.in_([str(origin) for origin in origins]),
        open_run.c.state == RunState.PLANNED,
    )
    parts = chunks(sorted({*conn.execute(query).scalars(), *recalled}), IN_LIMIT)
    locked = (item for part in parts for item in lock_runs(conn, part).values())
    return [
        item
        for item in locked
        if item.job_id in job_ids
        and (item.state is RunState.PLANNED or (item.state in OPEN_STATES and item.id in recalled))
    ]


def find_early(conn: Connection, job_ids: Collection[int], origins: Collection[Origin], now_ms: int) -> list[Run]:
    """Return what executors of ours have of these jobs that is not due yet."""
    query = select(*_OPEN).where(
        open_run.c.job_id.in_(sorted(job_ids)),
        open_run.c.origin.in_([str(origin) for origin in origins]),
        IS_SENT,
        open_run.c.due_ms > now_ms,
        open_run.c.instance != "",
    )
    return [run_of(row) for row in conn.execute(query)]


def cancel_runs(conn: Connection, ids: Sequence[int], *, reason: RunReason, now_ms: int) -> int:
    """Cancel locked runs that were not sent, and free their due times: the key becomes the negated id."""
    names = ("state", "reason", "finished_ms", "origin_key")
    values = [(item, str(RunState.CANCELLED), str(reason), now_ms, -item) for item in ids]
    return move_many(conn, open_run, run_history, _ENDED, names, values)


def free_skipped(conn: Connection, job_ids: Collection[int], after_ms: int) -> None:
    """Free the due times after an instant that skip rows of jobs stand for, as :func:`cancel_runs` does."""
    changed = run_history
    at = and_(changed.c.job_id.in_(sorted(job_ids)), changed.c.due_ms > after_ms)
    skipped = and_(changed.c.state == RunState.SKIPPED, changed.c.origin == Origin.SCHEDULE)
    conn.execute(update(changed).where(at, skipped).values(origin_key=-changed.c.id))


@lru_cache(maxsize=64)
def _queue_query(ranges: tuple[tuple[int, int, int], ...]) -> TextClause:
    parts = (
        f"SELECT id, due_ms, {part:d} AS part FROM (SELECT open_run.id AS id, open_run.due_ms AS due_ms FROM open_run"  # noqa: S608 - numbers
        f" WHERE open_run.partition = {part:d} AND open_run.epoch BETWEEN {least:d} AND {most:d}"
        " AND open_run.due_ms <= :horizon_ms AND open_run.state = 'planned'"
        " ORDER BY open_run.partition, open_run.epoch, open_run.due_ms LIMIT :each)"
        f" AS part{part:d}"
        for part, least, most in ranges
    )
    return text(" UNION ALL ".join(parts))
