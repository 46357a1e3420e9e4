"""Pages of runs, latest due time first: each is answered from an index and reads a bounded number of rows.

What no index answers is searched for in at most :data:`LOOK` rows a page; the page then says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from xwheel.model import OPEN_STATES, Run, RunState
from xwheel.storage.database.rows import groups_among
from xwheel.storage.runs import began, get_runs, of_roots
from xwheel.storage.schema.tables import FOLLOWS, IS_SENT, RARE, job, open_run, run_history

LOOK: Final = 5000
SEARCH: Final = 10_000
"""Rows that are looked through for a text or a duration, which no index knows."""

FEW: Final = 32
"""Jobs whose runs are read from the index, job by job."""


class Key(NamedTuple):
    """Where a run stands in the order of lists."""

    due_ms: int
    id: int


class RunFilter(NamedTuple):
    """Which runs are wanted; what is None or empty wants all."""

    job_id: int | None = None
    group_id: int | None = None
    states: frozenset[RunState] = frozenset()  # only in one of these states
    from_ms: int | None = None  # due at or after this time
    to_ms: int | None = None  # due before this time
    root_id: int | None = None  # shards and retries of one fire
    chain_id: int | None = None  # a fire with everything that followed from it
    origin: str | None = None
    address: str | None = None  # sent to this executor
    job_ids: Collection[int] | None = None  # only of these jobs; none at all for an empty collection
    message: str | None = None  # a part of the message, whatever the case of the letters a to z
    min_duration_ms: int | None = None  # only runs that took as long, or are running for as long
    now_ms: int = 0  # until when those are running that did not end
    groups: Collection[int] | None = None  # only runs of these groups


class FoundRuns(NamedTuple):
    """Some runs; ``next`` is where the following page begins, None after the last one.

    A page may have fewer runs than wanted, even none, and still be followed by others.
    """

    runs: list[Run]
    next: Key | None


_RangePage = tuple[list[Key], Key | None]
"""Keys of one index range, latest first, and up to where it was read; None if to its end."""

_Walker = Callable[[sa.Connection, Key | None, int, int], _RangePage]


def page_runs(
    conn: sa.Connection, wanted: RunFilter, *, before: Key | None = None, limit: int = 50, look: int | None = None
) -> FoundRuns:
    """Return a page of at most ``limit`` runs, from where the page before ended.

    At most ``look`` rows are read for what no index answers, or one page for each of the groups if that is more;
    :data:`LOOK` of them unless told otherwise, :data:`SEARCH` for a text or a duration. With ``groups``, where the page
    ends is told by runs of these alone.
    """
    own = groups_among(wanted.groups, wanted.group_id)
    if wanted.job_ids is not None and wanted.job_id is not None:
        wanted = wanted._replace(job_ids=[wanted.job_id] if wanted.job_id in wanted.job_ids else [])
    if any(among is not None and not among for among in (own, wanted.job_ids)):
        return FoundRuns([], None)
    if look is None:
        look = SEARCH if _is_searched(wanted) else LOOK
    is_limited = wanted.groups is not None
    if own is not None:
        wanted = wanted._replace(group_id=own[0] if len(own) == 1 else None, groups=own)
    walks = [walk(conn, before, limit, look) for walk in _plan(conn, wanted, look, is_limited)]
    horizon = max((until for _, until in walks if until is not None), default=None)
    keys = sorted({key for found, _ in walks for key in found}, reverse=True)
    if horizon is not None:
        keys = [key for key in keys if key >= horizon]
    following = keys[limit - 1] if len(keys) > limit else horizon
    known = get_runs(conn, [key.id for key in keys[:limit]])
    page = [known[key.id] for key in keys[:limit] if key.id in known]
    # one that is planned may have moved meanwhile
    return FoundRuns([item for item in page if own is None or item.group_id in own], following)


def _plan(conn: sa.Connection, wanted: RunFilter, look: int, is_limited: bool) -> list[_Walker]:
    """Return what reads open runs, which comes first since they move, and the index ranges that hold all others.

    For who ``is_limited`` to some groups, others in the ranges are not told of by where a page ends.
    """
    ended = wanted._replace(states=wanted.states - OPEN_STATES)
    walks: list[_Walker] = []
    if not wanted.states or wanted.states & OPEN_STATES:
        walks.append(_open_runs(wanted))
    if not wanted.states or ended.states:
        walks += _plan_of_ended(conn, ended, look, is_limited)
    return walks


def _open_runs(wanted: RunFilter) -> _Walker:
    """Return what reads open runs: these few need no index in the order of lists, which every fire would pay for."""
    row, states = open_run.c, wanted.states & OPEN_STATES

    def walk(conn: sa.Connection, before: Key | None, limit: int, _look: int) -> _RangePage:
        query = sa.select(row.id, row.due_ms).where(*_range(conn, wanted, before, open_run))
        rest = _rest(wanted._replace(states=states, root_id=None, chain_id=None), None)
        query = query.where(*(row[name].in_(values) for name, values in rest.items()))
        if wanted.root_id is not None:
            query = query.where(of_roots(open_run, [wanted.root_id]))
        if wanted.chain_id is not None:
            follows = sa.and_(row.chain_id == wanted.chain_id, FOLLOWS)
            is_one = sa.or_(of_roots(open_run, [wanted.chain_id]), follows)
            query = query.where(is_one, row.chain_id == wanted.chain_id)
        if states and RunState.PLANNED not in states:
            query = query.where(IS_SENT)
        query = query.where(*_searched(wanted, row)).order_by(row.due_ms.desc(), row.id.desc())
        keys = _keys(conn, query.limit(limit + 1))
        return keys, keys[-1] if len(keys) > limit else None

    return walk


def _plan_of_ended(conn: sa.Connection, wanted: RunFilter, look: int, is_limited: bool) -> list[_Walker]:
    row = run_history.c
    if wanted.root_id is not None:
        return [_walker(wanted, row.root_id == wanted.root_id, is_short=is_limited)]
    if wanted.chain_id is not None:
        # the fire that began it, and what followed from it
        root, others = row.root_id == wanted.chain_id, row.chain_id == wanted.chain_id
        if not is_limited:
            return [_walker(wanted, root), _walker(wanted, others, row.chain_id, only=FOLLOWS)]
        if found := _few(conn, wanted, [root, sa.and_(others, FOLLOWS)], look):
            return found
    return _plan_of_groups(conn, wanted) if is_limited else _plan_of_all(wanted)


def _plan_of_groups(conn: sa.Connection, wanted: RunFilter) -> list[_Walker]:
    groups = wanted.groups or ()
    if wanted.job_id is not None:
        query = sa.select(job.c.group_id).where(job.c.id == wanted.job_id)
        if conn.execute(query).scalar_one_or_none() in groups:
            return [_walker(wanted, run_history.c.job_id == wanted.job_id, run_history.c.job_id)]
    return _by_group(wanted, groups)


def _plan_of_all(wanted: RunFilter) -> list[_Walker]:
    row = run_history.c
    jobs = wanted.job_ids if wanted.job_id is None else [wanted.job_id]
    if jobs is not None and len(jobs) <= FEW:
        ways = [wanted._replace(job_id=job_id, job_ids=None) for job_id in jobs]
        return [_walker(way, row.job_id == way.job_id, row.job_id, len(ways)) for way in ways]
    if wanted.states and RunState.SUCCEEDED not in wanted.states:
        # SQLite and PostgreSQL use a partial index only if the query repeats its condition
        return [
            _walker(wanted._replace(states=frozenset({state})), sa.and_(row.state == str(state), RARE))
            for state in sorted(wanted.states)
        ]
    return [_walker(wanted, None)] if wanted.groups is None else _by_group(wanted, wanted.groups)


def _by_group(wanted: RunFilter, groups: Collection[int]) -> list[_Walker]:
    row, ways = run_history.c, [wanted._replace(group_id=group_id) for group_id in groups]
    return [_walker(way, row.group_id == way.group_id, row.group_id, len(ways)) for way in ways]


def _walker(
    wanted: RunFilter,
    indexed: sa.ColumnElement[bool] | None,
    lead: sa.Column[int] | None = None,
    parts: int = 1,
    *,
    only: sa.TextClause | None = None,
    is_short: bool = False,
) -> _Walker:
    """Return what reads the index range that ``indexed`` names; ``lead`` is its first column where that has one value.

    As many walkers as ``parts`` share what may be read. All rows of a partial index are ``only`` such; SQLite and
    PostgreSQL use one only if the query repeats that. A range that ``is_short`` ends where nothing is found any more.
    """
    partial = () if only is None else (only,)

    def walk(conn: sa.Connection, before: Key | None, limit: int, look: int) -> _RangePage:
        if parts > 1:
            look = max(limit + 1, look // parts)
        rest, is_searched = _rest(wanted, indexed), _is_searched(wanted)
        # MariaDB reads a range of an index backwards only if that is all it needs, so it gets the rest by the ids; and
        # no server copies long texts
        is_apart = is_searched or (lead is run_history.c.group_id and conn.dialect.name == "mysql")
        columns = () if is_apart else (run_history.c[name] for name in rest)
        inner = sa.select(run_history.c.id, run_history.c.due_ms, *columns)
        inner = inner.where(*_range(conn, wanted, before, run_history), *partial)
        if lead is not None and conn.dialect.name == "postgresql":
            # sorted by what is one value: else, if it is that of many runs, all runs are walked by their time instead
            value = getattr(wanted, lead.name)
            inner = inner.where(lead.between(value, value)).order_by(lead.desc())
        elif indexed is not None:
            inner = inner.where(indexed)
        inner = inner.order_by(run_history.c.due_ms.desc(), run_history.c.id.desc())
        if not rest and not is_searched:
            keys = _keys(conn, inner.limit(limit + 1))
            return keys, keys[-1] if len(keys) > limit else None
        seen = inner.limit(look).subquery("seen")
        query, held = sa.select(seen.c.id, seen.c.due_ms), seen.c
        if is_apart:
            row: Any = run_history.alias("row")
            on: sa.ColumnElement[bool] = row.c.id == seen.c.id
            if conn.dialect.name == "postgresql":  # one by one: else a plan for any values reads all partitions
                row, on = sa.select(row).where(on).limit(1).lateral("row"), sa.true()
            query, held = query.join(row, on), row.c
        query = query.where(*(held[name].in_(some) for name, some in rest.items()))
        if is_searched:
            query = query.where(*_searched(wanted, held))
        keys = _keys(conn, query.order_by(seen.c.due_ms.desc(), seen.c.id.desc()).limit(limit + 1))
        if len(keys) > limit:
            return keys, keys[-1]
        last = [] if is_short and not keys else _keys(conn, inner.offset(look - 1).limit(1))
        return keys, last[0] if last else None

    return walk


def _rest(wanted: RunFilter, indexed: sa.ColumnElement[bool] | None) -> dict[str, list[Any]]:
    names = ("job_id", "group_id", "root_id", "chain_id", "origin", "address")
    tests: dict[str, list[Any]] = {name: [value] for name in names if (value := getattr(wanted, name)) is not None}
    if wanted.job_ids is not None:
        tests["job_id"] = sorted(wanted.job_ids)
    if wanted.groups is not None and wanted.group_id is None:
        tests["group_id"] = list(wanted.groups)
    if wanted.states:
        tests["state"] = [str(state) for state in sorted(wanted.states)]
    served = "" if indexed is None else str(indexed)
    return {name: values for name, values in tests.items() if f"run_history.{name} = " not in served}


def _is_searched(wanted: RunFilter) -> bool:
    return wanted.message is not None or wanted.min_duration_ms is not None


def _searched(wanted: RunFilter, held: Any) -> list[sa.ColumnElement[bool]]:
    """Return what runs must have that no index knows; ``held`` are their columns."""
    tests: list[sa.ColumnElement[bool]] = []
    if wanted.message is not None:
        # servers differ in which letters they know the case of; those from a to z they all do
        plain = wanted.message.translate(_LOWER)
        lower = sa.func.lower(held.message)
        either = {plain, wanted.message.lower()}
        tests.append(sa.or_(*(lower.contains(text, autoescape=True) for text in sorted(either))))
    if wanted.min_duration_ms is not None:
        ended = sa.func.coalesce(held.finished_ms, sa.literal(wanted.now_ms, sa.BigInteger))
        tests.append(ended - began(held) >= wanted.min_duration_ms)
    return tests


_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


def _range(
    conn: sa.Connection,
    wanted: RunFilter,
    before: Key | None,
    table: sa.Table,
    due_ms: sa.ColumnElement[int] | None = None,
) -> list[sa.ColumnElement[bool]]:
    if due_ms is None:
        due_ms = table.c.due_ms
    limits = []
    if wanted.from_ms is not None:
        limits.append(due_ms >= wanted.from_ms)
    if wanted.to_ms is not None:
        limits.append(due_ms < wanted.to_ms)
    if before is not None:
        if conn.dialect.name in {"sqlite", "postgresql"}:
            limits.append(sa.tuple_(due_ms, table.c.id) < sa.tuple_(*before))
        else:  # MariaDB reads no range from a comparison of rows
            limits.append(due_ms <= before.due_ms)
            limits.append(sa.or_(due_ms < before.due_ms, table.c.id < before.id))
    return limits


def _hidden(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return column if isinstance(column.type, sa.String) else column + 0


def _few(
    conn: sa.Connection, wanted: RunFilter, conditions: Sequence[sa.ColumnElement[bool]], look: int
) -> list[_Walker]:
    """Return what picks from the rows that meet a condition, or nothing if they are too many to be sorted."""
    # SQLite takes no LIMIT inside of a union but in a subquery of its own
    parts = [sa.select(run_history.c.id).where(condition).limit(look + 1).subquery() for condition in conditions]
    ids = sa.union_all(*(sa.select(part.c.id) for part in parts)).subquery("few")
    query = sa.select(sa.func.count(sa.literal_column("1"))).select_from(ids)
    if conn.execute(query).scalar_one() > look:
        return []

    def pick(conn: sa.Connection, before: Key | None, limit: int, _look: int) -> _RangePage:
        # expressions keep planners from looking for these few rows in the index of all runs of a group or a time
        due_ms = run_history.c.due_ms + 0
        query = sa.select(run_history.c.id, run_history.c.due_ms).where(
            run_history.c.id.in_(sa.select(ids.c.id)),
            *_range(conn, wanted, before, run_history, due_ms),
            *(_hidden(run_history.c[name]).in_(values) for name, values in _rest(wanted, None).items()),
            *_searched(wanted, run_history.c),
        )
        keys = _keys(conn, query.order_by(due_ms.desc(), run_history.c.id.desc()).limit(limit + 1))
        return keys, keys[-1] if len(keys) > limit else None

    return [pick]


def _keys(conn: sa.Connection, query: sa.Select[Any]) -> list[Key]:
    return [Key(row.due_ms, row.id) for row in conn.execute(query)]
