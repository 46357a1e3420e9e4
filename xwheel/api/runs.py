"""Runs: what happened and what will, and their logs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import falcon

from xwheel.api.body import take_query
from xwheel.api.errors import BusyError
from xwheel.api.messages import LogQuery, RunQuery
from xwheel.api.resource import ApiParts, Resource, reply, view_of
from xwheel.api.views import LogView, Page, RunView
from xwheel.errors import ExecutorUnreachableError
from xwheel.model import FINAL_STATES
from xwheel.model import Run as RunRecord
from xwheel.storage import runs


class Runs(Resource):
    """``/runs``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List runs, latest due time first."""
        query = take_query(req, RunQuery)
        before: tuple[int, int] | None = None
        if query.after is not None:
            due_ms, _, run_id = query.after.partition("-")
            before = (int(due_ms), int(run_id))
        with self._db.read() as conn:
            found = runs.list_runs(
                conn, job_id=query.job_id, state=query.state, before=before, limit=query.limit + 1
            )
        items = [view_of(RunView, run) for run in found[: query.limit]]
        more = len(found) > query.limit
        reply(resp, Page(items=items, next=f"{items[-1].due_ms}-{items[-1].id}" if more else None))


class Run(Resource):
    """``/runs/{run_id}``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Return a run."""
        del req
        with self._db.read() as conn:
            run = runs.get_run(conn, run_id)
        reply(resp, view_of(RunView, run))


class RunLog(Resource):
    """``/runs/{run_id}/log``: asks the executor that has the log.

    At most a quarter of the listener's threads wait for executors at once, so that slow ones cannot starve the rest.
    """

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._places = threading.BoundedSemaphore(max(1, parts.config.threads // 4))

    def on_get(self, req: falcon.Request, resp: falcon.Response, run_id: int) -> None:
        """Return a piece of the log; empty while the run was not sent."""
        query = take_query(req, LogQuery)
        with self._db.read() as conn:
            run = runs.get_run(conn, run_id)
        is_final = (
            run.state in FINAL_STATES
        )  # as of before the log is read: what comes later may be missing in it
        if run.address is None:
            view = _view(run, query.from_line, query.from_line, "", is_final)
        else:
            view = self._fetch(run, run.address, query.from_line, is_final)
        reply(resp, view)

    def _fetch(self, run: RunRecord, address: str, from_line: int, is_final: bool) -> LogView:
        now_ms = self._parts.clock.now_ms()
        # whoever listens there now gets our token, so it must be an executor that is registered now
        if all(executor.address != address for executor in self._parts.registry.live(run.group_id, now_ms)):
            raise ExecutorUnreachableError(
                address, f"no live executor, so run {run.id} has no log", sent=False
            )
        with self._place():
            data = self._parts.fetch_log(run, from_line)
        # foreign peers may count on without content, or call the end of the file the end of the run
        next_line = max(from_line, data.to_line + 1) if data.content else from_line
        return _view(run, from_line, next_line, data.content, is_final and (data.is_end or not data.content))

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise BusyError("too many logs are being read from executors: ask again in a moment")
        try:
            yield
        finally:
            self._places.release()


def _view(run: RunRecord, from_line: int, next_line: int, content: str, is_end: bool) -> LogView:
    return LogView(run_id=run.id, from_line=from_line, next_line=next_line, content=content, is_end=is_end)
