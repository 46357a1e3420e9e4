"""Versions of the sources of scripts: list them, read one, take one back, and save a source."""

from __future__ import annotations

import falcon

from xwheel.api.http.body import take_body, take_query
from xwheel.api.http.headers import MATCH_HEADER, wanted_revision
from xwheel.api.http.resource import Resource, reply, reply_page, view_of
from xwheel.api.schema.messages import GlueRestore, GlueSave, PageQuery
from xwheel.api.schema.views import GlueItem, GluePage, GlueView
from xwheel.model import GlueVersion as Version
from xwheel.model import NewSource
from xwheel.model.access import current_actor
from xwheel.plugin.resources import Operation
from xwheel.scheduler.scripts.scripts import Scripts
from xwheel.storage import jobs, scripts


class GlueVersions(Resource):
    """``/jobs/{job_id}/glue``."""

    scripts: Scripts

    @Operation({200: GluePage}, query=PageQuery, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """List the versions of a job's source, newest first, without the sources."""
        query = take_query(req, PageQuery)
        with self.db.read() as conn:
            jobs.get_job(conn, job_id)
            found = scripts.list_versions(conn, job_id, before=query.after, limit=query.limit + 1)
        reply_page(resp, GluePage, GlueItem, found, query.limit, key="number")

    @Operation({201: GlueView}, body=GlueSave, headers=(MATCH_HEADER,), problems=("not-found", "conflict"))
    def on_post(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Save a new version of a job's source; every run that is sent from now on carries it."""
        body = take_body(req, GlueSave, self._limit)
        new = NewSource(source=body.source, author=body.author or current_actor().name, remark=body.remark)
        made = self.scripts.save(job_id, new, revision=wanted_revision(req, body.revision))
        _reply_made(resp, made)


class GlueVersionResource(Resource):
    """``/jobs/{job_id}/glue/{number}`` and its return."""

    scripts: Scripts

    @Operation({200: GlueView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int, number: int) -> None:
        """Return a version of a job's source."""
        del req
        with self.db.read() as conn:
            jobs.get_job(conn, job_id)
            found = scripts.get_version(conn, job_id, number)
        reply(resp, view_of(GlueView, found))

    @Operation(
        {201: GlueView},
        body=GlueRestore,
        is_body_optional=True,
        headers=(MATCH_HEADER,),
        problems=("not-found", "conflict"),
    )
    def on_post_restore(self, req: falcon.Request, resp: falcon.Response, job_id: int, number: int) -> None:
        """Save the source of an old version as the newest one; nothing of what came between is lost."""
        body = take_body(req, GlueRestore, self._limit, optional=True)
        made = self.scripts.restore(
            job_id,
            number,
            author=body.author or current_actor().name,
            remark=body.remark,
            revision=wanted_revision(req, body.revision),
        )
        _reply_made(resp, made)


def _reply_made(resp: falcon.Response, made: Version) -> None:
    resp.location = f"/api/v1/jobs/{made.job_id}/glue/{made.number}"
    reply(resp, view_of(GlueView, made), 201)
