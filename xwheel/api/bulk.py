"""The same done to many jobs in one call; each has its own result."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import falcon

from xwheel.api.body import take_body
from xwheel.api.errors import problem_of
from xwheel.api.messages import Bulk, BulkRun
from xwheel.api.operation import operation
from xwheel.api.resource import Resource, reply
from xwheel.api.schedule import blaming_the_schedule
from xwheel.api.views import BulkItem, BulkView
from xwheel.errors import XwheelError
from xwheel.scheduler.bulk_manage import BulkAction, BulkResult

DONE = {
    BulkAction.START: HTTPStatus.OK,
    BulkAction.STOP: HTTPStatus.OK,
    BulkAction.RUN: HTTPStatus.CREATED,
    BulkAction.DELETE: HTTPStatus.NO_CONTENT,
}


class BulkJobs(Resource):
    """``/jobs/bulk/{start,stop,run,delete}``."""

    @operation({200: BulkView}, body=Bulk)
    def on_post_start(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Let many jobs fire."""
        self._apply(resp, BulkAction.START, take_body(req, Bulk, self._limit).ids)

    @operation({200: BulkView}, body=Bulk)
    def on_post_stop(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Stop many jobs."""
        self._apply(resp, BulkAction.STOP, take_body(req, Bulk, self._limit).ids)

    @operation({200: BulkView}, body=Bulk)
    def on_post_delete(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Delete many jobs."""
        self._apply(resp, BulkAction.DELETE, take_body(req, Bulk, self._limit).ids)

    @operation({200: BulkView}, body=BulkRun)
    def on_post_run(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Plan one run of each of many jobs."""
        body = take_body(req, BulkRun, self._limit)
        self._apply(resp, BulkAction.RUN, body.ids, body.param)

    def _apply(
        self, resp: falcon.Response, action: BulkAction, ids: Sequence[int], param: str | None = None
    ) -> None:
        results = self._parts.bulk.apply(action, ids, param=param)
        items = [_item(result, DONE[action]) for result in results]
        reply(resp, BulkView(items=items, failed=sum(item.problem is not None for item in items)))


def _item(result: BulkResult, done: HTTPStatus) -> BulkItem:
    problem = None if result.error is None else problem_of(_as_alone(result.error))
    status = done.value if problem is None else problem.status
    return BulkItem(id=result.job_id, status=status, run_id=result.run_id, problem=problem)


def _as_alone(error: XwheelError) -> XwheelError:
    """Return the error as a call for this job alone would have told it."""
    try:
        with blaming_the_schedule():
            raise error
    except XwheelError as told:
        return told
