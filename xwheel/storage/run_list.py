"""Pages of runs, latest due time first: each is answered from an index and reads a bounded number of rows.

What no index answers is searched for in at most :data:`LOOK` rows a page; the page then says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Select,
    String,
    TextClause,
    and_,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)

from xwheel.model import PARTITIONS, Run, RunState
from xwheel.storage.database.rows import groups_among
from xwheel.storage.runs import get_runs
from xwheel.storage.schema.tables import FOLLOWS, IS_SENT, RARE, job, run

LOOK: Final = 5000
SEARCH: Final = 10_000
"""Rows that are looked through for a text or a duration, which no index knows."""

FEW: Final = 32
"""Jobs whose runs are read from the index, job by job."""

COMMON_STATES: Final = frozenset(
    {RunState.PLANNED, RunState.DISPATCHING, RunState.RUNNING, RunState.SUCCEEDED}
)
WAITING: Final = frozenset({RunState.PLANNED, RunState.DISPATCHING, RunState.RUNNING})


class Key(NamedTuple):
    """Where a run stands in the order of lists."""

    due_ms: int
    id: int


class RunFilter(NamedTuple):
    """Which runs are wanted; what is None or empty wants all.

    Attributes:
        states: Only in one of these states.
        from_ms: Due at or after this time.
        to_ms: Due before this time.
        root_id: Shards and retries of one fire.
        chain_id: A fire with everything that followed from it.
        address: Sent to this executor.
        job_ids: Only of these jobs; none at all for an empty collection.
        message: A part of the message, whatever the case of the letters a to z.
        min_duration_ms: Only runs that took as long, or are running for as long.
        now_ms: Until when those are running that did not end.
        groups: Only runs of these groups.
    """

    job_id: int | None = None
    group_id: int | None = None
    states: frozenset[RunState] = frozenset()
    from_ms: int | None = None
    to_ms: int | None = None
    root_id: int | None = None
    chain_id: int | None = None
    origin: str | None = None
    address: str | None = None
    job_ids: Collection[int] | None = None
    message: str | None = None
    min_duration_ms: int | None = None
    now_ms: int = 0
    groups: Collection[int] | None = None


class FoundRuns(NamedTuple):
    """Some runs; ``next`` is where the following page begins, None after the last one.

    A page may have fewer runs than wanted, even none, and still be followed by others.
    """

    runs: list[Run]
    next: Key | None


class _RangePage(NamedTuple):
    """Keys of one index range, latest first, and up to where it was read; None if to its end."""

    keys: list[Key]
    horizon: Key | None


def page_runs(
    conn: Connection,
    wanted: RunFilter,
    *,
    before: Key | None = None,
    limit: int = 50,
    look: int | None = None,
) -> FoundRuns:
    """Return a page of at most ``limit`` runs, from where the page before ended.

    At most ``look`` rows are read for what no index answers, or one page for each of the groups if that is more;
    :data:`LOOK` of them unless told otherwise, :data:`SEARCH` for a text or a duration. With ``groups``, where the page
    ends is told by runs of these alone.
    """
    own = groups_among(wanted.groups, wanted.group_id)
    if own is not None and not own:
        return FoundRuns([], None)
    if wanted.job_ids is not None and wanted.job_id is not None:
        wanted = wanted._replace(job_ids=[wanted.job_id] if wanted.job_id in wanted.job_ids else [])
    if wanted.job_ids is not None and not wanted.job_ids:
        return FoundRuns([], None)
    if look is None:
        look = SEARCH if _is_searched(wanted) else LOOK
    plan = _plan if wanted.groups is None else _plan_of_groups
    if own is not None:
        wanted = wanted._replace(group_id=own[0] if len(own) == 1 else None, groups=own)
    walks = [walk(conn, before, limit, look) for walk in plan(conn, wanted, look)]
    horizon = max((walk.horizon for walk in walks if walk.horizon is not None), default=None)
    keys = sorted({key for walk in walks for key in walk.keys}, reverse=True)
    if horizon is not None:
        keys = [key for key in keys if key >= horizon]
    following = keys[limit - 1] if len(keys) > limit else horizon
    known = get_runs(conn, [key.id for key in keys[:limit]])
    page = [known[key.id] for key in keys[:limit] if key.id in known]
    # one that is planned may have moved meanwhile
    return FoundRuns([item for item in page if own is None or item.group_id in own], following)


_Walker = Callable[[Connection, Key | None, int, int], _RangePage]


def _plan(conn: Connection, wanted: RunFilter, look: int) -> list[_Walker]:
    """Return the index ranges that hold all wanted runs."""
    if wanted.root_id is not None:
        return [_walker(wanted, run.c.root_id == wanted.root_id)]
    if wanted.chain_id is not None:
        return _of_chain(wanted)
    if wanted.states and wanted.states <= WAITING:
        found = _waiting(conn, wanted.states, look)
        if found is not None:
            return [_picker(wanted, found)]
    few = _few_jobs(wanted)
    if few:
        ways = [wanted._replace(job_id=job_id, job_ids=None) for job_id in few]
        return [_walker(way, run.c.job_id == way.job_id, run.c.job_id, len(ways)) for way in ways]
    if wanted.states and not wanted.states & COMMON_STATES:
        # SQLite and PostgreSQL use a partial index only if the query repeats its condition
        return [
            _walker(wanted._replace(states=frozenset({state})), and_(run.c.state == str(state), RARE))
            for state in sorted(wanted.states)
        ]
    return [_walker(wanted, None)] if wanted.groups is None else _by_group(wanted, wanted.groups)


def _few_jobs(wanted: RunFilter) -> Collection[int]:
    """Return the only jobs whose runs are wanted, if they are few."""
    if wanted.job_id is not None:
        return [wanted.job_id]
    return wanted.job_ids if wanted.job_ids is not None and len(wanted.job_ids) <= FEW else ()


def _plan_of_groups(conn: Connection, wanted: RunFilter, look: int) -> list[_Walker]:
    """Return the index ranges that hold all wanted runs, in which others are not told of by where a page ends."""
    groups = wanted.groups or ()
    if wanted.root_id is not None:
        return [_walker(wanted, run.c.root_id == wanted.root_id, is_short=True)]
    if wanted.chain_id is not None:
        found = _chain(conn, wanted.chain_id, look)
        if found is not None:
            return [_picker(wanted, found)]
    if wanted.states and wanted.states <= WAITING:
        found = _waiting(conn, wanted.states, look)
        if found is not None:
            return [_picker(wanted, found)]
    if wanted.job_id is not None:
        query = select(job.c.group_id).where(job.c.id == wanted.job_id)
        if conn.execute(query).scalar_one_or_none() in groups:
            return [_walker(wanted, run.c.job_id == wanted.job_id, run.c.job_id)]
    return _by_group(wanted, groups)


def _of_chain(wanted: RunFilter) -> list[_Walker]:
    """Return the fire that began a chain, and what followed from it."""
    return [
        _walker(wanted, run.c.root_id == wanted.chain_id),
        _walker(wanted, run.c.chain_id == wanted.chain_id, run.c.chain_id, only=FOLLOWS),
    ]


def _by_group(wanted: RunFilter, groups: Collection[int]) -> list[_Walker]:
    ways = [wanted._replace(group_id=group_id) for group_id in groups]
    return [_walker(way, run.c.group_id == way.group_id, run.c.group_id, len(ways)) for way in ways]


def _walker(
    wanted: RunFilter,
    indexed: ColumnElement[bool] | None,
    lead: Column[int] | None = None,
    parts: int = 1,
    *,
    only: TextClause | None = None,
    is_short: bool = False,
) -> _Walker:
    """Return what reads an index range.

    Args:
        wanted: Which runs.
        indexed: What the index answers.
        lead: Its first column, where that has one value.
        parts: This many walkers share what may be read.
        only: What all rows of a partial index have; SQLite and PostgreSQL use one only if the query repeats it.
        is_short: The range ends where nothing is found any more.
    """
    partial = () if only is None else (only,)

    def walk(conn: Connection, before: Key | None, limit: int, look: int) -> _RangePage:
        if parts > 1:
            look = max(limit + 1, look // parts)
        rest, is_searched = _rest(wanted, indexed), _is_searched(wanted)
        # MariaDB reads a range of an index backwards only if that is all it needs, so it gets the rest by the ids; and
        # no server copies long texts
        is_apart = is_searched or (lead is run.c.group_id and conn.dialect.name == "mysql")
        columns = () if is_apart else (run.c[name] for name in rest)
        inner = select(run.c.id, run.c.due_ms, *columns).where(*_range(conn, wanted, before), *partial)
        if lead is not None and conn.dialect.name == "postgresql":
            # sorted by what is one value: else, if it is that of many runs, all runs are walked by their time instead
            value = getattr(wanted, lead.name)
            inner = inner.where(lead.between(value, value)).order_by(lead.desc())
        elif indexed is not None:
            inner = inner.where(indexed)
        inner = inner.order_by(run.c.due_ms.desc(), run.c.id.desc())
        if not rest and not is_searched:
            keys = _keys(conn, inner.limit(limit + 1))
            return _RangePage(keys, keys[-1] if len(keys) > limit else None)
        seen = inner.limit(look).subquery("seen")
        query, held = select(seen.c.id, seen.c.due_ms), seen.c
        if is_apart:
            row = run.alias("row")
            query, held = query.join(row, row.c.id == seen.c.id), row.c
        query = query.where(*(held[name].in_(some) for name, some in rest.items()))
        if is_searched:
            query = query.where(*_searched(wanted, held))
        keys = _keys(conn, query.order_by(seen.c.due_ms.desc(), seen.c.id.desc()).limit(limit + 1))
        if len(keys) > limit:
            return _RangePage(keys, keys[-1])
        if is_short and not keys:
            return _RangePage(keys, None)
        last = _keys(conn, inner.offset(look - 1).limit(1))
        return _RangePage(keys, last[0] if last else None)

    return walk


def _rest(wanted: RunFilter, indexed: ColumnElement[bool] | None) -> dict[str, list[Any]]:
    """Return what the index range does not answer: columns, and which values they may have."""
    names = ("job_id", "group_id", "root_id", "chain_id", "origin", "address")
    tests: dict[str, list[Any]] = {
        name: [value] for name in names if (value := getattr(wanted, name)) is not None
    }
    if wanted.job_ids is not None:
        tests["job_id"] = sorted(wanted.job_ids)
    if wanted.groups is not None and wanted.group_id is None:
        tests["group_id"] = list(wanted.groups)
    if wanted.states:
        tests["state"] = [str(state) for state in sorted(wanted.states)]
    served = "" if indexed is None else str(indexed)
    return {name: values for name, values in tests.items() if f"run.{name} = " not in served}


def _is_searched(wanted: RunFilter) -> bool:
    return wanted.message is not None or wanted.min_duration_ms is not None


def _searched(wanted: RunFilter, held: Any) -> list[ColumnElement[bool]]:
    """Return what runs must have that no index knows; ``held`` are their columns."""
    tests: list[ColumnElement[bool]] = []
    if wanted.message is not None:
        # servers differ in which letters they know the case of; those from a to z they all do
        plain = wanted.message.translate(_LOWER)
        lower = func.lower(held.message)
        either = {plain, wanted.message.lower()}
        tests.append(or_(*(lower.contains(text, autoescape=True) for text in sorted(either))))
    if wanted.min_duration_ms is not None:
        ended = func.coalesce(held.finished_ms, literal(wanted.now_ms, BigInteger))
        tests.append(ended - held.accepted_ms >= wanted.min_duration_ms)
    return tests


_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


def _hidden(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return column if isinstance(column.type, String) else column + 0


def _range(
    conn: Connection, wanted: RunFilter, before: Key | None, due_ms: ColumnElement[int] = run.c.due_ms
) -> list[ColumnElement[bool]]:
    limits = []
    if wanted.from_ms is not None:
        limits.append(due_ms >= wanted.from_ms)
    if wanted.to_ms is not None:
        limits.append(due_ms < wanted.to_ms)
    if before is not None:
        if conn.dialect.name in {"sqlite", "postgresql"}:
            limits.append(tuple_(due_ms, run.c.id) < tuple_(*before))
        else:  # MariaDB reads no range from a comparison of rows
            limits.append(due_ms <= before.due_ms)
            limits.append(or_(due_ms < before.due_ms, run.c.id < before.id))
    return limits


def _waiting(conn: Connection, states: frozenset[RunState], look: int) -> Select[Any] | None:
    """Return a query for the ids of all open rows, or None if they are too many to be sorted."""
    parts = []
    if RunState.PLANNED in states:
        parts.append(select(run.c.id).where(run.c.open_partition.in_(range(PARTITIONS))).limit(look + 1))
    if states != {RunState.PLANNED}:
        parts.append(select(run.c.id).where(IS_SENT).limit(look + 1))
    return _few(conn, parts, look)


def _chain(conn: Connection, chain_id: int, look: int) -> Select[Any] | None:
    """Return a query for the ids of a chain's runs, or None if they are too many to be sorted."""
    conditions = (run.c.root_id == chain_id, and_(run.c.chain_id == chain_id, FOLLOWS))
    parts = [select(run.c.id).where(condition).limit(look + 1) for condition in conditions]
    return _few(conn, parts, look)


def _few(conn: Connection, parts: Sequence[Select[Any]], look: int) -> Select[Any] | None:
    """Return a query for all ids that some queries find, or None if they are more than ``look``."""
    # SQLite takes no LIMIT inside of a union but in a subquery of its own
    named = [select(part.subquery(f"part{place}").c.id) for place, part in enumerate(parts)]
    ids = union_all(*named).subquery("few")
    if conn.execute(select(func.count(literal_column("1"))).select_from(ids)).scalar_one() > look:
        return None
    return select(ids.c.id)


def _picker(wanted: RunFilter, ids: Select[Any]) -> _Walker:
    def pick(conn: Connection, before: Key | None, limit: int, look: int) -> _RangePage:
        del look
        # expressions keep planners from looking for these few rows in the index of all runs of a group or a time
        due_ms = run.c.due_ms + 0
        query = select(run.c.id, run.c.due_ms).where(run.c.id.in_(ids), *_range(conn, wanted, before, due_ms))
        query = query.where(
            *(_hidden(run.c[name]).in_(values) for name, values in _rest(wanted, None).items()),
            *_searched(wanted, run.c),
        )
        query = query.order_by(due_ms.desc(), run.c.id.desc())
        keys = _keys(conn, query.limit(limit + 1))
        return _RangePage(keys, keys[-1] if len(keys) > limit else None)

    return pick


def _keys(conn: Connection, query: Select[Any]) -> list[Key]:
    return [Key(row.due_ms, row.id) for row in conn.execute(query)]
