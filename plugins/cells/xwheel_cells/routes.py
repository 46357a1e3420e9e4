"""The calls below ``/api/v1/cells``: what all clusters have, read at once.

A token of this node's options reads the other cells, no matter who calls here. So the calls are for those alone who may
read all groups of this cluster: roles in single groups say nothing about the groups of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from xwheel.plugin import FieldError, Permission, PluginSite, Route, RouteCall, RouteReply, RouteScope

from xwheel_cells import answers
from xwheel_cells.answers import KINDS, NEXT_JOBS, RUNS, Kind, Overview, Part, Row
from xwheel_cells.fanout import Cell, FanOut
from xwheel_cells.far import FarCell
from xwheel_cells.merging import merge, read_cursor, write_cursor
from xwheel_cells.options import MOST_CELLS, Options
from xwheel_cells.own import OwnCell
from xwheel_cells.problems import CellError

MOST_ROWS: Final = 200
USUAL_ROWS: Final = 50
USUAL_FOUND: Final = 20
MOST_SEARCHED: Final = 1000
MOST_QUESTION: Final = 128
WHOLE: Final = re.compile(r"[1-9][0-9]{0,3}")
OF_ONE_CELL: Final = ("group_id", "job_id", "root_id", "chain_id")
"""Filters by numbers, which mean something else in each cell."""


class CellState(Struct, kw_only=True):
    """A cell and how it fares; ``reason`` says why it is not reachable and what to do."""

    name: str
    url: str | None
    is_here: bool
    reachable: bool
    code: str = ""
    reason: str = ""
    version: str | None = None
    nodes: int | None = None
    answered_ms: int | None = None


class CellOverview(Struct, kw_only=True):
    """How much there is in a cell."""

    cell: str
    counts: Overview


class Found(Struct, kw_only=True):
    """What a search found in a cell; ``is_cut`` if there may be more than it was looked through."""

    jobs: Sequence[Row]
    groups: Sequence[Row]
    executors: Sequence[Row]
    is_cut: bool


class CellRoutes:
    """The calls of one node.

    Args:
        options: The plugin's options.
    """

    name = "cells"

    def __init__(self, options: Options) -> None:
        self._options = options

    def routes(self, site: PluginSite) -> Sequence[Route]:
        """Return the routes."""
        own = OwnCell(self._options.name, site)
        far = [FarCell(name, cell, site) for name, cell in self._options.cell.items()]
        self._cells = FanOut(own, far, self._options.timeout_ms)
        lists = {
            "groups": "List the groups of all cells by id.",
            "executors": "List the live executors of all cells by id.",
            "jobs": "List the jobs of all cells by id, or those that fire again, soonest first.",
            "runs": "List the runs of all cells, latest due time first.",
        }
        return [
            _route("", self.show, "List the cells, whether each answers, its version and its nodes."),
            _route("/overview", self.overview, "Count what there is in each cell, and in all together."),
            _route("/search", self.search, "Find jobs, groups and executors of all cells by parts of their names."),
            *(_route(f"/{path}", partial(self.page, KINDS[path]), words) for path, words in lists.items()),
        ]

    def show(self, call: RouteCall) -> RouteReply:
        """Ask each cell for its nodes."""
        names = self._chosen(_parameters(call, "cell"))
        found, missing = self._cells.ask(names, _nodes)
        problems = {item.cell: item for item in missing}
        items = []
        for name in names:
            cell, nodes, problem = self._cells.cells[name], found.get(name), problems.get(name)
            items.append(
                CellState(
                    name=name,
                    url=cell.url,
                    is_here=cell is self._cells.own,
                    reachable=problem is None,
                    code=problem.code if problem else "",
                    reason=problem.reason if problem else "",
                    version=nodes.version if nodes else None,
                    nodes=nodes.alive if nodes else None,
                    answered_ms=cell.answered_ms,
                )
            )
        return RouteReply(value={"items": items})

    def overview(self, call: RouteCall) -> RouteReply:
        """Ask each cell how much it has."""
        found, missing = self._cells.ask(self._chosen(_parameters(call, "cell")), _overview)
        items = [CellOverview(cell=name, counts=counts) for name, counts in found.items()]
        return RouteReply(value={"items": items, "sum": answers.summed(list(found.values())), "missing": missing})

    def search(self, call: RouteCall) -> RouteReply:
        """Ask each cell for what has a text in its name."""
        query = _parameters(call, "cell", "q", "limit")
        text = query.pop("q", "").strip()
        if not 1 <= len(text) <= MOST_QUESTION:
            raise FieldError("q", f"must be a text of 1 to {MOST_QUESTION} characters: a part of a name")
        limit = _limit(query, USUAL_FOUND)
        found, missing = self._cells.ask(self._chosen(query), partial(_search, text, limit))
        value: dict[str, object] = {"missing": missing}
        is_cut = any(one.is_cut for one in found.values())
        for path in ("jobs", "groups", "executors"):
            rows = [row for name, one in found.items() for row in _named(name, getattr(one, path))]
            is_cut = is_cut or len(rows) > limit
            value[path] = rows[:limit]
        return RouteReply(value={**value, "is_cut": is_cut})

    def page(self, kind: Kind[Any], call: RouteCall) -> RouteReply:
        """Return a page of a list over all cells."""
        query = dict(call.query)
        if kind.path == "jobs" and query.get("sort") == "next_fire":
            kind = NEXT_JOBS
        limit = _limit(query, USUAL_ROWS)
        text = query.pop("after", "")
        if text and not kind.paged:
            raise FieldError("after", "there is one page of jobs by their next fire: ask for more with limit")
        chosen = self._chosen(query)
        if len(chosen) > 1 and (field := next((name for name in OF_ONE_CELL if name in query), "")):
            raise FieldError(field, f"is a number of one cell: name that cell with cell, one of {', '.join(chosen)}")
        known = read_cursor(kind, text) if text else {}
        places = {name: known.get(name, "") for name in chosen}
        open_cells = [name for name in chosen if places[name] is not None]
        found, missing = self._cells.ask(open_cells, partial(_page, kind, query, places, limit))
        own = self._cells.own
        if own.name not in open_cells:
            self._check(kind, query)
        merged = merge(kind, found, places, limit)
        goes_on = kind.paged and merged.end is not None
        following = write_cursor(kind, {**places, **merged.places}) if goes_on else None
        value: dict[str, object] = {"items": merged.rows, "next": following, "missing": missing}
        if kind is RUNS:
            value["looked_ms"] = None if merged.end is None else -merged.end[0]
        return RouteReply(value=value)

    def _check(self, kind: Kind[Any], query: Mapping[str, str]) -> None:
        """Let this node refuse filters that are none, in its own words, where it is not asked for rows."""
        try:
            self._cells.own.ask(kind.path, {**query, "limit": 1}, 0, bytes)
        except CellError:
            return  # the other cells say what they think of it

    def _chosen(self, query: dict[str, str]) -> list[str]:
        """Return the cells that a call is about, and take what says so out of its query."""
        known = list(self._cells.cells)
        text = query.pop("cell", "")
        if not text:
            return known
        wanted = text.split(",")
        unknown = [name for name in wanted if name not in known]
        if unknown or len(wanted) > MOST_CELLS:
            shown = f"{unknown[0][:32]!r} is no cell" if unknown else "names too many"
            raise FieldError("cell", f"{shown}: name cells with commas between them, of {', '.join(known)}")
        return [name for name in known if name in wanted]


def _route(path: str, answer: Callable[[RouteCall], RouteReply], summary: str) -> Route:
    return Route(
        method="GET", path=path, answer=answer, summary=summary, permission=Permission.READ, scope=RouteScope.ALL
    )


def _parameters(call: RouteCall, *names: str) -> dict[str, str]:
    """Return the query; raises FieldError if it has others than these."""
    for name in call.query:
        if name not in names:
            raise FieldError(name[:64], f"is not a parameter here; known: {', '.join(names)}")
    return dict(call.query)


def _limit(query: dict[str, str], usual: int) -> int:
    text = query.pop("limit", str(usual))
    if not WHOLE.fullmatch(text) or int(text) > MOST_ROWS:
        raise FieldError("limit", f"must be a whole number from 1 to {MOST_ROWS}")
    return int(text)


def _nodes(cell: Cell, deadline: float) -> answers.Nodes:
    return cell.ask("nodes", {}, deadline, answers.read_nodes)


def _overview(cell: Cell, deadline: float) -> Overview:
    return cell.ask("overview", {}, deadline, answers.read_overview)


def _page(
    kind: Kind[Any], query: Mapping[str, str], places: Mapping[str, str | None], limit: int, cell: Cell, deadline: float
) -> Part:
    after = places[cell.name] or ""
    parameters: dict[str, object] = {**query, "limit": limit}
    if after:
        parameters["after"] = after
    return cell.ask(kind.path, parameters, deadline, partial(kind.read, after=after, limit=limit))


def _search(text: str, limit: int, cell: Cell, deadline: float) -> Found:
    """Ask for jobs by a text; groups and executors have no such filter, so the first thousand are looked through."""

    def ask(kind: Kind[Any], limit: int, **query: str) -> Part:
        read = partial(kind.read, after="", limit=limit)
        return cell.ask(kind.path, {**query, "limit": limit}, deadline, read)

    jobs = ask(answers.JOBS, limit, search=text)
    groups = ask(answers.GROUPS, MOST_SEARCHED)
    executors = ask(answers.EXECUTORS, MOST_SEARCHED)
    part = text.casefold()
    fitting = [_fitting(part, found.rows) for found in (groups, executors)]
    is_cut = any(found.next is not None for found in (jobs, groups, executors))
    return Found(jobs=jobs.rows, groups=fitting[0], executors=fitting[1], is_cut=is_cut)


def _fitting(part: str, rows: Sequence[Row]) -> Sequence[Row]:
    """Return those whose name, title or address has a part, whatever the case of its letters."""
    names = ("app_name", "title", "address")
    return [row for row in rows if any(part in getattr(row, name, "").casefold() for name in names)]


def _named(name: str, rows: Collection[Row]) -> Collection[Row]:
    for row in rows:
        row.cell = name
    return rows
