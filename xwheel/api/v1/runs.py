"""Runs: what happened and what will, and their logs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import falcon

from xwheel.api.http.body import take_body, take_query
from xwheel.api.http.errors import BusyError
from xwheel.api.http.headers import KEY_HEADER, idempotency_key
from xwheel.api.http.resource import ApiParts, Resource, plan_run, reply, run_views
from xwheel.api.openapi.operation import Operation
from xwheel.api.schema.messages import LogQuery, Nothing, Rerun, RunQuery
from xwheel.api.schema.views import LogView, RunPage, RunView
from xwheel.errors import ExecutorUnreachableError
from xwheel.model import FINAL_STATES
from xwheel.model import Run as RunRecord
from xwheel.storage import runs
from xwheel.storage.run_list import Key, RunFilter, page_runs


class Runs(Resource):
    """``/runs``."""

    @Operation({200: RunPage}, query=RunQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List runs, latest due time first."""
        query = take_query(req, RunQuery)
        before: Key | None = None
        if query.after is not None:
            due_ms, _, run_id = query.after.partition("-")
            before = Key(int(due_ms), int(run_id))
        wanted = RunFilter(
            **{name: getattr(query, name) for name in RunFilter._fields if name != "states"},
            states=frozenset(query.state),
        )
        with self._db.read() as conn:
            page = page_runs(conn, wanted, before=before, limit=query.limit)
            items = run_views(conn, page.runs)
        following = None if page.next is None else f"{page.next.due_ms}-{page.next.id}"
        reply(resp, RunPage(items=items, next=following))


class RunResource(Resource):
    """``/runs/{run_id}`` and what can be done with a run."""

    @Operation({200: RunView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Return a run."""
        del req
        with self._db.read() as conn:
            (view,) = run_views(conn, [runs.get_run(conn, run_id)])
        reply(resp, view)

    @Operation({200: RunView}, body=Nothing, is_body_optional=True, problems=("not-found", "conflict"))
    def on_post_kill(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """End a run: a planned one is cancelled, one that was sent is ended by its executor."""
        take_body(req, Nothing, self._limit, optional=True)
        run = self._parts.kill(run_id)
        with self._db.read() as conn:
            (view,) = run_views(conn, [run])
        reply(resp, view)

    @Operation(
        {201: RunView},
        body=Rerun,
        is_body_optional=True,
        headers=(KEY_HEADER,),
        problems=("not-found", "conflict"),
    )
    def on_post_rerun(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Plan a new run of the same job with the same parameter, due at once."""
        body = take_body(req, Rerun, self._limit, optional=True)
        key = idempotency_key(req)
        with self._db.read() as conn:
            known = runs.get_run(conn, run_id)
        param = known.param if body.param is None else body.param
        plan_run(self._parts, resp, known.job_id, key, param)


class RunLogResource(Resource):
    """``/runs/{run_id}/log``: asks the executor that has the log.

    At most a quarter of the listener's threads wait for executors at once, so that slow ones cannot starve the rest,
    and for those of one group at most half of these, so that they cannot starve the other groups.
    """

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._places = Places(max(1, parts.config.threads // 4))

    @Operation(
        {200: LogView},
        query=LogQuery,
        problems=("not-found", "busy", "executor-unreachable", "executor-refused"),
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Return a piece of the log; empty while the run was not sent."""
        query = take_query(req, LogQuery)
        with self._db.read() as conn:
            run = runs.get_run(conn, run_id)
        # as of before the log is read: what comes later may be missing in it
        is_final = run.state in FINAL_STATES
        if run.address is None:
            view = _view(run, query.from_line, query.from_line, "", is_final)
        else:
            view = self._fetch(run, run.address, query.from_line, is_final)
        reply(resp, view)

    def _fetch(self, run: RunRecord, address: str, from_line: int, is_final: bool) -> LogView:
        # the process that listens there now gets our token, so it must be an executor that is registered now
        if not self._parts.is_live(run.group_id, address):
            raise ExecutorUnreachableError(
                address, f"no live executor, so run {run.id} has no log", sent=False
            )
        with self._places.hold(run.group_id):
            data = self._parts.fetch_log(run, from_line)
        # foreign peers may count on without content, or call the end of the file the end of the run
        next_line = max(from_line, data.to_line + 1) if data.content else from_line
        return _view(run, from_line, next_line, data.content, is_final and (data.is_end or not data.content))


class Places:
    """Places for calls that go on to executors, and at most half of them for those of one group.

    Thread-safety: every method may be called by any thread.

    Args:
        total: How many there are.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._lock = threading.Lock()
        self._held: Counter[int] = Counter()

    @contextmanager
    def hold(self, group_id: int) -> Iterator[None]:
        """Hold a place for a group as long as the block lasts; never wait for one.

        Raises:
            BusyError: There is none.
        """
        with self._lock:
            if self._held.total() >= self._total:
                raise BusyError("too many logs are being read from executors: ask again in a moment")
            if self._held[group_id] >= (self._total + 1) // 2:
                raise BusyError("too many logs of this group are being read: ask again in a moment")
            self._held[group_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[group_id] -= 1
                if not self._held[group_id]:
                    del self._held[group_id]


def _view(run: RunRecord, from_line: int, next_line: int, content: str, is_end: bool) -> LogView:
    return LogView(run_id=run.id, from_line=from_line, next_line=next_line, content=content, is_end=is_end)
