"""Executor groups, and their live executors."""

from __future__ import annotations

from functools import partial

import falcon

from xwheel.api.http.body import take_body, take_changes, take_query
from xwheel.api.http.resource import ApiParts, Resource, reply, reply_page, view_of
from xwheel.api.openapi.operation import Operation
from xwheel.api.schema.messages import ExecutorQuery, GroupChange, GroupCreate, GroupQuery
from xwheel.api.schema.views import ExecutorPage, ExecutorView, GroupPage, GroupView
from xwheel.model import RegisteredExecutor
from xwheel.storage import executors


class Groups(Resource):
    """``/groups``."""

    @Operation({200: GroupPage}, query=GroupQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List groups by id."""
        query = take_query(req, GroupQuery)
        with self._db.read() as conn:
            found = executors.list_groups(
                conn, prefix=query.app_name or "", after_id=query.after, limit=query.limit + 1
            )
        reply_page(resp, GroupPage, GroupView, found, query.limit)

    @Operation({201: GroupView}, body=GroupCreate, problems=("conflict",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a group."""
        body = take_body(req, GroupCreate, self._limit)
        now_ms = self._parts.clock.now_ms()
        group = self._db.transaction(
            lambda conn: executors.insert_group(
                conn,
                app_name=body.app_name,
                title=body.title or body.app_name,
                max_running=body.max_running,
                now_ms=now_ms,
            )
        )
        resp.location = f"/api/v1/groups/{group.id}"
        reply(resp, view_of(GroupView, group), 201)


class Group(Resource):
    """``/groups/{group_id}``."""

    @Operation({200: GroupView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, group_id: int) -> None:
        """Return a group."""
        del req
        with self._db.read() as conn:
            group = executors.get_group(conn, group_id)
        reply(resp, view_of(GroupView, group))

    @Operation({200: GroupView}, body=GroupChange, problems=("not-found",))
    def on_patch(self, req: falcon.Request, resp: falcon.Response, group_id: int) -> None:
        """Change a group's title or limit."""
        changes = take_changes(req, GroupChange, self._limit)
        now_ms = self._parts.clock.now_ms()
        group = self._db.transaction(lambda conn: executors.update_group(conn, group_id, changes, now_ms))
        reply(resp, view_of(GroupView, group))

    @Operation({204: None}, problems=("not-found", "conflict"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, group_id: int) -> None:
        """Delete a group without jobs."""
        del req
        self._db.transaction(lambda conn: executors.delete_group(conn, group_id))
        resp.status = 204


class GroupExecutors(Resource):
    """``/groups/{group_id}/executors``."""

    @Operation({200: ExecutorPage}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, group_id: int) -> None:
        """List all live executors of a group, suspects last."""
        del req
        with self._db.read() as conn:
            executors.get_group(conn, group_id)
        live = self._parts.registry.live(group_id, self._parts.clock.now_ms())
        reply(resp, ExecutorPage(items=[_executor_view(self._parts, executor) for executor in live]))


class Executors(Resource):
    """``/executors``."""

    @Operation({200: ExecutorPage}, query=ExecutorQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the live executors of all groups or of one, by id."""
        query = take_query(req, ExecutorQuery)
        live = self._parts.registry.all(self._parts.clock.now_ms())
        found = sorted(
            (item for item in live if item.id > query.after and query.group_id in (None, item.group_id)),
            key=lambda item: item.id,
        )
        reply_page(resp, ExecutorPage, partial(_executor_view, self._parts), found, query.limit)


def _executor_view(parts: ApiParts, executor: RegisteredExecutor) -> ExecutorView:
    secret, earlier = parts.registry.secret_names(executor)
    return view_of(
        ExecutorView, executor, labels=dict(executor.labels), secret=secret, earlier_secret=earlier
    )
