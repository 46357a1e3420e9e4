"""Versions of jobs, and of the sources of scripts: list them, read one, take one back, and save a source."""

from __future__ import annotations

import falcon

from xwheel.api.http.body import take_body, take_query
from xwheel.api.http.headers import MATCH_HEADER, wanted_revision
from xwheel.api.http.resource import Resource, readable_groups, reply, reply_page, view_of
from xwheel.api.schema.messages import DiffQuery, GlueRestore, GlueSave, JobRevision, PageQuery
from xwheel.api.schema.versions import (
    FieldDifferenceView,
    JobDifferenceView,
    JobVersionItem,
    JobVersionPage,
    JobVersionView,
)
from xwheel.api.schema.views import GlueItem, GluePage, GlueView, JobView
from xwheel.api.v1.jobs import ShowsJobs
from xwheel.api.v1.schedule import naming_schedule_fields
from xwheel.errors import NotFoundError
from xwheel.model import GlueVersion as Version
from xwheel.model import NewSource
from xwheel.model.access import current_actor
from xwheel.model.versions import (
    CHILDREN,
    CHILDREN_BEFORE,
    JobVersion,
    children_at,
    children_of,
    differences,
    source_difference,
)
from xwheel.plugin.resources import Operation
from xwheel.scheduler.scripts.scripts import Scripts
from xwheel.storage import job_versions, jobs, scripts
from xwheel.storage.database.engine import Connection


class JobVersions(Resource):
    """``/jobs/{job_id}/versions``."""

    @Operation({200: JobVersionPage}, query=PageQuery, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """List the versions of a job, deleted or not, newest first: who changed it, and why."""
        query = take_query(req, PageQuery)
        with self.db.read() as conn:
            _check_known(conn, job_id)
            found = job_versions.list_versions(conn, job_id, before=query.after, limit=query.limit + 1)
        reply_page(resp, JobVersionPage, JobVersionItem, found, query.limit, key="revision")


class JobVersionResource(ShowsJobs):
    """``/jobs/{job_id}/versions/{revision}``, what it changed, and its return."""

    @Operation({200: JobVersionView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int, revision: int) -> None:
        """Return a job as it was at a revision."""
        del req
        with self.db.read() as conn:
            _check_known(conn, job_id)
            found = _Whole(conn, job_id, job_versions.get_version(conn, job_id, revision))
        view = view_of(JobVersionView, found.version, definition=found.definition, children=found.children)
        reply(resp, view)

    @Operation({200: JobDifferenceView}, query=DiffQuery, problems=("not-found",))
    def on_get_diff(self, req: falcon.Request, resp: falcon.Response, job_id: int, revision: int) -> None:
        """Return what a version has otherwise than another one, by default the one before it."""
        query = take_query(req, DiffQuery)
        with self.db.read() as conn:
            _check_known(conn, job_id)
            new = _Whole(conn, job_id, job_versions.get_version(conn, job_id, revision))
            if query.against is None:
                before = job_versions.find_before(conn, job_id, revision)
            else:
                before = job_versions.get_version(conn, job_id, query.against)
            old = None if before is None else _Whole(conn, job_id, before)
            source = _sources(conn, job_id, before, new.version)
        parts = ({}, {}) if old is None else (old.definition, {CHILDREN: old.children})
        after = {**new.definition, CHILDREN: new.children}
        changed = differences({**parts[0], **parts[1]}, after)
        view = JobDifferenceView(
            job_id=job_id,
            against=None if before is None else before.revision,
            revision=revision,
            fields=[FieldDifferenceView(**item._asdict()) for item in changed],
            source=source,
        )
        reply(resp, view)

    @Operation(
        {200: JobView},
        body=JobRevision,
        is_body_optional=True,
        headers=(MATCH_HEADER,),
        problems=("not-found", "conflict", "name-taken", "owned-by-code"),
    )
    def on_post_restore(self, req: falcon.Request, resp: falcon.Response, job_id: int, revision: int) -> None:
        """Edit a job to be as it was at a revision, its source included; it stays started or stopped as it is."""
        body = take_body(req, JobRevision, self._limit, optional=True)
        with naming_schedule_fields():
            job = self.jobs.restore(job_id, revision, revision=wanted_revision(req, body.revision))
        self.reply_job(resp, job)


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


class _Whole:
    """A version with the children that the job had then.

    Args:
        conn: Connection.
        job_id: The job.
        version: The version.
    """

    def __init__(self, conn: Connection, job_id: int, version: JobVersion) -> None:
        now = children_of(jobs.children_of(conn, [job_id]))
        found = children_at(version.revision, job_versions.list_children_changes(conn, job_id), now)
        groups = readable_groups()
        if groups is not None:  # those of others are no business of the caller
            known = jobs.get_jobs(conn, {int(item["child_id"]) for item in found})
            found = [
                item for item in found if (job := known.get(item["child_id"])) and job.group_id in groups
            ]
        self.version = version
        self.children = found
        self.definition = {
            name: value
            for name, value in version.definition.items()
            if name not in {CHILDREN, CHILDREN_BEFORE}
        }


def _check_known(conn: Connection, job_id: int) -> None:
    """Refuse a job that there is not, and whose versions therefore are gone, too; raises NotFoundError."""
    if job_id not in jobs.get_jobs(conn, {job_id}):
        raise NotFoundError("job", job_id)


def _sources(conn: Connection, job_id: int, old: JobVersion | None, new: JobVersion) -> str | None:
    """Return what differs between the sources of two versions; None if one of them is not kept any more."""
    numbers = (old.glue_version if old else 0, new.glue_version)
    if numbers[0] == numbers[1]:
        return ""
    try:
        texts = [scripts.get_version(conn, job_id, number).source if number else "" for number in numbers]
    except NotFoundError:
        return None
    names = (f"source version {numbers[0]}", f"source version {numbers[1]}")
    return source_difference(texts[0], texts[1], names)
