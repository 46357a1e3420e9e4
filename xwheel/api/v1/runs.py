"""Runs: what happened and what will, and their logs."""

from __future__ import annotations

from typing import Final

import falcon

from xwheel.api.http.body import InputError, take_body, take_query
from xwheel.api.http.csv_file import MEDIA, reply_csv
from xwheel.api.http.headers import KEY_HEADER, idempotency_key
from xwheel.api.http.places import Places
from xwheel.api.http.resource import PlansRuns, Resource, readable_groups, reply, run_views
from xwheel.api.parts import ApiParts
from xwheel.api.schema.messages import LogQuery, Nothing, Rerun, RunQuery, RunSearch
from xwheel.api.schema.views import LogView, RunPage, RunView
from xwheel.model import Run as RunRecord
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.resources import Operation
from xwheel.plugin.run_logs import LogText, ReadsLogs
from xwheel.plugin.validation import log_text
from xwheel.scheduler.runs.kill import RunKiller
from xwheel.scheduler.runs.logs import ExecutorLogs
from xwheel.storage import runs
from xwheel.storage.jobs import find_by_beginning
from xwheel.storage.run_list import Key, RunFilter, page_runs
from xwheel.wire.contract import as_registered

OTHERS: Final = frozenset({"states", "job_ids", "now_ms", "groups"})
"""What of a filter is not in the query by its name."""


class Runs(Resource):
    """``/runs``, also as a file."""

    @Operation({200: RunPage}, query=RunQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List runs, latest due time first."""
        query = take_query(req, RunQuery)
        before: Key | None = None
        if query.after is not None:
            due_ms, _, run_id = query.after.partition("-")
            before = Key(int(due_ms), int(run_id))
        items, following = self._page(query, before, query.limit)
        after = None if following is None else f"{following.due_ms}-{following.id}"
        looked_ms = None if following is None else following.due_ms
        reply(resp, RunPage(items=items, next=after, looked_ms=looked_ms))

    @Operation({200: None}, query=RunSearch, media=MEDIA)
    def on_get_csv(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return runs as a CSV file, latest due time first, 10,000 at most."""
        query = take_query(req, RunSearch)
        reply_csv(resp, "runs", RunView, lambda after, limit: self._page(query, after, limit))

    def _page(self, query: RunSearch, before: Key | None, limit: int) -> tuple[list[RunView], Key | None]:
        groups = readable_groups()
        wanted = RunFilter(
            **{name: getattr(query, name) for name in RunFilter._fields if name not in OTHERS},
            states=frozenset(query.state),
            now_ms=self.clock.now_ms(),
            groups=groups,
        )
        if query.address is not None:
            wanted = wanted._replace(address=as_registered(query.address))
        with self.db.read() as conn:
            if query.job_name is not None:
                wanted = wanted._replace(job_ids=find_by_beginning(conn, query.job_name, groups))
            page = page_runs(conn, wanted, before=before, limit=limit)
            return run_views(conn, page.runs), page.next


class RunResource(PlansRuns):
    """``/runs/{run_id}`` and what can be done with a run."""

    killer: RunKiller

    @Operation({200: RunView}, problems=("not-found",))
    def on_get(self, _req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Return a run."""
        with self.db.read() as conn:
            run = runs.get_run(conn, run_id)
        self.reply_run(resp, run)

    @Operation({200: RunView}, body=Nothing, is_body_optional=True, problems=("not-found", "conflict"))
    def on_post_kill(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """End a run: a planned one is cancelled, one that was sent is ended by its executor."""
        take_body(req, Nothing, self._limit, optional=True)
        self.reply_run(resp, self.killer.kill(run_id))

    @Operation(
        {201: RunView}, body=Rerun, is_body_optional=True, headers=(KEY_HEADER,), problems=("not-found", "conflict")
    )
    def on_post_rerun(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Plan a new run of the same job with the same parameter, due at once."""
        body = take_body(req, Rerun, self._limit, optional=True)
        key = idempotency_key(req)
        with self.db.read() as conn:
            known = runs.get_run(conn, run_id)
        param = known.param if body.param is None else body.param
        self.plan_run(resp, known.job_id, key, param, again=run_id)


class RunLogResource(Resource):
    """``/runs/{run_id}/log``: read through a plugin that has logs of runs, otherwise at the executor.

    At most a quarter of the listener's threads read logs at once, so that slow executors and stores cannot starve the
    rest, and those of one group at most half of these, so that they cannot starve the other groups.
    """

    plugins: Plugins
    logs: ExecutorLogs

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._places = Places(max(1, self.config.api.threads // 4), "logs are being read")

    @Operation(
        {200: LogView},
        query=LogQuery,
        problems=("not-found", "busy", "executor-unreachable", "executor-refused", "log-store"),
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Return a piece of the log; empty while the run was not sent."""
        query = take_query(req, LogQuery)
        if query.tail is not None and query.from_line != 1:
            raise InputError("tail", "ask for this many last lines, or for those from a line on, not for both")
        with self.db.read() as conn:
            run = runs.get_run(conn, run_id)
        with self._places.hold(run.group_id):
            text = self._read(run, query)
        reply(resp, LogView(run_id=run.id, **text._asdict()))

    def _read(self, run: RunRecord, query: LogQuery) -> LogText:
        of_plugins = self.plugins.offering(ReadsLogs)
        logs = of_plugins[0] if of_plugins else self.logs
        return log_text(
            logs, lambda: logs.read_log(run, query.from_line) if query.tail is None else logs.tail_log(run, query.tail)
        )
