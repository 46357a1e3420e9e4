"""The calls: list the versions of a job, read one, compare two, and take one back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import falcon
import msgspec
from sqlalchemy import Connection
from xwheel import Config
from xwheel.api.http.body import take_body, take_query
from xwheel.api.http.headers import MATCH_HEADER, wanted_revision
from xwheel.api.http.resource import readable_groups, reply, reply_page, view_of
from xwheel.api.schema.messages import JobRevision, PageQuery
from xwheel.api.schema.views import JobView
from xwheel.errors import NotFoundError
from xwheel.model.versions import CHILDREN, CHILDREN_BEFORE, JobVersion, children_of
from xwheel.plugin import Need, Of, Operation, Permission, PluginDatabase, PluginJobs, PluginSite, ResourceRoute
from xwheel.storage import jobs, scripts
from xwheel.storage.job_versions import get_version

from xwheel_job_versions import storage
from xwheel_job_versions.comparing import children_at, differences, source_difference
from xwheel_job_versions.messages import (
    DiffQuery,
    FieldDifferenceView,
    JobDifferenceView,
    JobVersionItem,
    JobVersionPage,
    JobVersionView,
)


class JobVersionRoutes:
    """The resources of one process.

    Args:
        config: The settings.
    """

    name = "job-versions"
    chapters: Mapping[str, str] = MappingProxyType({})

    def __init__(self, config: Config) -> None:
        self._limit = config.api.max_body_bytes

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return the resources."""
        listed = JobVersions(site.database)
        one = JobVersionResource(site.database, site.jobs, self._limit)
        read = {"GET": Need(Permission.READ, Of.JOB)}
        path = "/jobs/{job_id:id}/versions"
        # with another source, SCRIPT besides
        edit = {"POST": Need(Permission.EDIT, Of.JOB)}
        return [
            ResourceRoute(path, listed, read),
            ResourceRoute(path + "/{revision:id}", one, read),
            ResourceRoute(path + "/{revision:id}/diff", one, read, "diff"),
            ResourceRoute(path + "/{revision:id}/restore", one, edit, "restore"),
        ]


class JobVersions:
    """``/jobs/{job_id}/versions``.

    Args:
        db: The database.
    """

    def __init__(self, db: PluginDatabase) -> None:
        self._db = db

    @Operation({200: JobVersionPage}, query=PageQuery, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """List the versions of a job, deleted or not, newest first: who changed it, and why."""
        query = take_query(req, PageQuery)
        with self._db.read() as conn:
            _check_known(conn, job_id)
            found = storage.list_versions(conn, job_id, before=query.after, limit=query.limit + 1)
        reply_page(resp, JobVersionPage, JobVersionItem, found, query.limit, key="revision")


class JobVersionResource:
    """``/jobs/{job_id}/versions/{revision}``, what it changed, and its return.

    Args:
        db: The database.
        jobs: Changes jobs as the caller.
        limit: Bytes that a body may have.
    """

    def __init__(self, db: PluginDatabase, jobs: PluginJobs, limit: int) -> None:
        self._db = db
        self._jobs = jobs
        self._limit = limit

    @Operation({200: JobVersionView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int, revision: int) -> None:
        """Return a job as it was at a revision."""
        del req
        with self._db.read() as conn:
            _check_known(conn, job_id)
            found = _Whole(conn, job_id, get_version(conn, job_id, revision))
        view = view_of(JobVersionView, found.version, definition=found.definition, children=found.children)
        reply(resp, view)

    @Operation({200: JobDifferenceView}, query=DiffQuery, problems=("not-found",))
    def on_get_diff(self, req: falcon.Request, resp: falcon.Response, job_id: int, revision: int) -> None:
        """Return what a version has otherwise than another one, by default the one before it."""
        query = take_query(req, DiffQuery)
        with self._db.read() as conn:
            _check_known(conn, job_id)
            new = _Whole(conn, job_id, get_version(conn, job_id, revision))
            if query.against is None:
                before = storage.find_before(conn, job_id, revision)
            else:
                before = get_version(conn, job_id, query.against)
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
        job = self._jobs.restore(job_id, revision, seen=wanted_revision(req, body.revision))
        resp.etag = str(job["revision"])
        resp.data = msgspec.json.encode(job)


class _Whole:
    """A version with the children that the job had then.

    Args:
        conn: Connection.
        job_id: The job.
        version: The version.
    """

    def __init__(self, conn: Connection, job_id: int, version: JobVersion) -> None:
        now = children_of(jobs.children_of(conn, [job_id]))
        found = children_at(version.revision, storage.list_children_changes(conn, job_id), now)
        groups = readable_groups()
        if groups is not None:  # those of others are no business of the caller
            known = jobs.get_jobs(conn, {int(item["child_id"]) for item in found})
            found = [item for item in found if (job := known.get(item["child_id"])) and job.group_id in groups]
        self.version = version
        self.children = found
        self.definition = {
            name: value for name, value in version.definition.items() if name not in {CHILDREN, CHILDREN_BEFORE}
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
