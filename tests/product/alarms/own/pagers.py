"""Alarms of another kind, in one file: each job that fails pages those who watch its group, until someone says "seen".

It takes the place of xwheel-alarms and knows nothing of xwheel but ``xwheel.plugin``, and of channels their contract.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    delete,
    insert,
    select,
    update,
)
from xwheel_alarms import Alarm, AlarmKind

from xwheel.plugin import (
    Changes,
    Migration,
    Permission,
    PluginDatabase,
    PluginSite,
    Route,
    RouteCall,
    RouteReply,
    RouteScope,
    Rows,
    RunState,
    hookimpl,
)

BAD = {RunState.FAILED, RunState.TIMED_OUT, RunState.LOST, RunState.REFUSED}
AGAIN_MS = 60_000

metadata = MetaData()
WATCH = Table(
    "pagers_watch",
    metadata,
    Column("group_id", BigInteger, primary_key=True, autoincrement=False),
    Column("channel", String(64), nullable=False),
)
PAGE = Table(
    "pagers_page",
    metadata,
    Column("run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", BigInteger, nullable=False),
    Column("group_id", BigInteger, nullable=False),
    Column("partition", SmallInteger, nullable=False),
    Column("reason", String(200), nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("sent", Integer, nullable=False),
)


class PagerTables:
    name = "pagers"

    def migrations(self) -> Sequence[Migration]:
        return [Migration("1", metadata.create_all)]

    def tables(self) -> Sequence[str]:
        return list(metadata.tables)


class Pagers:
    """Observes runs, answers ``/api/v1/pagers``, and pages between calls."""

    name = "pagers"

    def __init__(self) -> None:
        self.wakeup = threading.Event()
        self._watched: Mapping[int, str] = {}

    # in the transactions of the scheduler

    def refresh(self, database: PluginDatabase, now_ms: int) -> None:
        with database.read() as conn:
            self._watched = {row.group_id: row.channel for row in conn.execute(select(WATCH))}

    def rows(self, changes: Changes) -> Rows:
        pages = [
            {
                "run_id": run.id,
                "job_id": run.job_id,
                "group_id": run.group_id,
                "partition": run.partition,
                "reason": end.reason[:200],
                "due_ms": changes.now_ms,
                "sent": 0,
            }
            for run, end in changes.ended
            if end.state in BAD and run.id not in changes.retried and run.group_id in self._watched
        ]
        return {"pagers_page": pages} if pages else {}

    def committed(self, rows: Rows) -> None:
        self.wakeup.set()

    # calls

    def routes(self, site: PluginSite) -> Sequence[Route]:
        self._site = site
        write: dict[str, Any] = {"permission": Permission.EDIT, "scope": RouteScope.GROUP}
        run: dict[str, Any] = {"permission": Permission.RUN, "scope": RouteScope.RUN}
        return [
            Route(method="GET", path="", answer=self._list, summary="List pages.", permission=Permission.READ),
            Route(method="PUT", path="/groups/{group_id:id}", answer=self._watch, summary="Watch a group.", **write),
            Route(method="POST", path="/runs/{run_id:id}/seen", answer=self._see, summary="Page no more.", **run),
        ]

    def _list(self, call: RouteCall) -> RouteReply:
        groups = call.actor.grants.groups_with(Permission.READ)
        with self._site.database.read() as conn:
            pages = [dict(row) for row in conn.execute(select(PAGE)).mappings()]
        return RouteReply(value=[page for page in pages if groups is None or page["group_id"] in groups])

    def _watch(self, call: RouteCall) -> RouteReply:
        group_id, channel = call.path["group_id"], str(call.json().get("channel"))

        def work(conn: Any) -> None:
            conn.execute(delete(WATCH).where(WATCH.c.group_id == group_id))
            conn.execute(insert(WATCH).values(group_id=group_id, channel=channel))
            self._site.record(conn, "pagers.watch", "group", group_id, group_id=group_id, after={"channel": channel})

        self._site.database.transaction(work)
        self.refresh(self._site.database, self._site.now_ms())
        return RouteReply()

    def _see(self, call: RouteCall) -> RouteReply:
        gone = delete(PAGE).where(PAGE.c.run_id == call.path["run_id"])
        self._site.database.transaction(lambda conn: conn.execute(gone))
        return RouteReply()

    # between calls

    def step(self, now_ms: int) -> int:
        held = sorted(self._site.partitions.held())
        due = select(PAGE).where(PAGE.c.partition.in_(held), PAGE.c.due_ms <= now_ms).limit(100)
        with self._site.database.read() as conn:
            pages = [dict(row) for row in conn.execute(due).mappings()] if held else []
        for page in pages:
            self._page(page, now_ms)
        return 1000

    def _page(self, page: Mapping[str, Any], now_ms: int) -> None:
        # written first: a page that was sent by a node that died is sent again after a minute, and never twice at once
        again = update(PAGE).where(PAGE.c.run_id == page["run_id"])
        again = again.values(due_ms=now_ms + AGAIN_MS, sent=page["sent"] + 1)
        self._site.database.transaction(lambda conn: conn.execute(again))
        channels = self._site.registered("xwheel_register_alarms")
        name = self._watched.get(page["group_id"], "")
        if name in channels:
            told: dict[str, Any] = {"kind": AlarmKind.FAILED, "at_ms": now_ms, "job": None, "group": None, "run": None}
            title, reason = f"Job {page['job_id']} needs someone", page["reason"]
            channels[name].send(Alarm(id=page["run_id"], title=title, text=title, reason=reason, **told))

    def end(self) -> None:
        """Keep nothing."""


@hookimpl
def xwheel_register_tables() -> Iterable[PagerTables]:
    return [PagerTables()]


@hookimpl
def xwheel_register_routes() -> Iterable[Pagers]:
    return [Pagers()]
