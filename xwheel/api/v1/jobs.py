"""Jobs: definitions, start and stop, copies, and a run by hand."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import falcon

from xwheel import cron
from xwheel.api.http.body import fields_in, take_body, take_changes, take_query
from xwheel.api.http.errors import problem_of
from xwheel.api.http.headers import KEY_HEADER, MATCH_HEADER, idempotency_key, wanted_revision
from xwheel.api.http.resource import Resource, naming, plan_run, reply, view_of
from xwheel.api.openapi.operation import Operation
from xwheel.api.schema.messages import (
    Bulk,
    BulkRun,
    ChildrenChange,
    JobChange,
    JobCopy,
    JobCreate,
    JobQuery,
    JobRevision,
    RunRequest,
)
from xwheel.api.schema.views import BulkItem, BulkView, ChildItem, FamilyView, JobPage, JobView, RunView
from xwheel.api.v1.schedule import check_calendars, naming_schedule_fields
from xwheel.errors import FieldError, WireError, XwheelError
from xwheel.model import ChildLink, NewSource
from xwheel.model import Job as JobRecord
from xwheel.scheduler.manage.jobs import BulkAction, BulkResult
from xwheel.storage import jobs, scripts
from xwheel.storage.jobs import JobFilter, page_jobs
from xwheel.wire import contract

COPY_SUFFIX: Final = " (copy)"
MAX_NAME: Final = 128


_SWITCHES: Final = Operation(
    {200: JobView},
    body=JobRevision,
    is_body_optional=True,
    headers=(MATCH_HEADER,),
    problems=("not-found", "conflict"),
)


class Jobs(Resource):
    """``/jobs``."""

    @Operation({200: JobPage}, query=JobQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List jobs by id."""
        query = take_query(req, JobQuery)
        wanted = JobFilter(**{name: getattr(query, name) for name in JobFilter._fields})
        with self._db.read() as conn:
            page = page_jobs(conn, wanted, after_id=query.after, limit=query.limit)
        reply(resp, JobPage(items=[view_of(JobView, job) for job in page.jobs], next=page.next))

    @Operation({201: JobView}, body=JobCreate, problems=("name-taken",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a job."""
        body = take_body(req, JobCreate, self._limit)
        values = fields_in(body)
        enabled = values.pop("enabled")
        source = new_source(values.pop("glue_source"), req.context.caller)
        check_calendars(self._parts.calendars, values)
        with naming("group_id", "group"), naming_schedule_fields():
            cron.zone(body.timezone)
            job = self._parts.jobs.create(values, enabled=enabled, source=source, unique=True)
        resp.location = f"/api/v1/jobs/{job.id}"
        reply_job(resp, job, 201)


class JobResource(Resource):
    """``/jobs/{job_id}`` and what can be done with a job."""

    @Operation({200: JobView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Return a job."""
        del req
        with self._db.read() as conn:
            job = jobs.get_job(conn, job_id)
        reply_job(resp, job)

    @Operation(
        {200: JobView},
        body=JobChange,
        headers=(MATCH_HEADER,),
        problems=("not-found", "conflict", "name-taken"),
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Change fields of a job."""
        changes = take_changes(req, JobChange, self._limit)
        revision = wanted_revision(req, changes.pop("revision", None))
        source = new_source(changes.pop("glue_source", None), req.context.caller)
        check_calendars(self._parts.calendars, changes)
        with naming_schedule_fields():
            if "timezone" in changes:
                cron.zone(changes["timezone"])
            job = self._parts.jobs.edit(job_id, changes, revision=revision, source=source, unique=True)
        reply_job(resp, job)

    @Operation({204: None}, headers=(MATCH_HEADER,), problems=("not-found", "conflict"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Delete a job; its runs stay readable."""
        self._parts.jobs.delete(job_id, revision=wanted_revision(req, None))
        resp.status = 204

    @_SWITCHES
    def on_post_start(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Let a job fire; nothing changes if it does already."""
        body = take_body(req, JobRevision, self._limit, optional=True)
        with naming_schedule_fields():
            job = self._parts.jobs.start(job_id, revision=wanted_revision(req, body.revision))
        reply_job(resp, job)

    @_SWITCHES
    def on_post_stop(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Stop a job and cancel its planned fires and retries; what was sent goes on."""
        body = take_body(req, JobRevision, self._limit, optional=True)
        reply_job(resp, self._parts.jobs.stop(job_id, revision=wanted_revision(req, body.revision)))

    @Operation({201: JobView}, body=JobCopy, is_body_optional=True, problems=("not-found", "name-taken"))
    def on_post_copy(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Make a stopped job with the same definition and source; its children and parents are not copied."""
        body = take_body(req, JobCopy, self._limit, optional=True)
        source = None
        with self._db.read() as conn:
            known = jobs.get_job(conn, job_id)
            if known.glue_version:
                text = scripts.get_version(conn, job_id, known.glue_version).source
                source = new_source(text, req.context.caller, f"copied from job {job_id}")
        values = {
            name: getattr(known, name)
            for name in JobCreate.__struct_fields__
            if name not in {"enabled", "anchor_ms", "glue_source"}
        }
        values["name"] = body.name or known.name[: MAX_NAME - len(COPY_SUFFIX)] + COPY_SUFFIX
        values["group_id"] = body.group_id or known.group_id
        with naming("group_id", "group"), naming_schedule_fields():
            job = self._parts.jobs.create(values, source=source, unique=True)
        resp.location = f"/api/v1/jobs/{job.id}"
        reply_job(resp, job, 201)

    @Operation(
        {201: RunView},
        body=RunRequest,
        is_body_optional=True,
        headers=(KEY_HEADER,),
        problems=("not-found", "conflict"),
    )
    def on_post_run(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Plan a run that is due at once, whether the job is started or not."""
        body = take_body(req, RunRequest, self._limit, optional=True)
        key = idempotency_key(req)
        address = None if body.address is None else self._registered(job_id, body.address)
        plan_run(self._parts, resp, job_id, key, body.param, address)

    def _registered(self, job_id: int, spelled: str) -> str:
        """Return the address as the registry has it.

        Raises:
            NotFoundError: The job does not exist.
            FieldError: It is not that of a live executor of the job's group: a job's runs go nowhere else.
        """
        with self._db.read() as conn:
            job = jobs.get_job(conn, job_id)
        try:
            address = contract.normalise_address(spelled, "address")
        except WireError as error:
            raise FieldError("address", str(error).removeprefix("address: ")) from error
        if not self._parts.is_live(job.group_id, address):
            raise FieldError("address", f"{address} is no live executor of group {job.group_id}")
        return address


def new_source(text: str | None, author: str, remark: str = "") -> NewSource | None:
    """Return a source that comes with a job, or None."""
    return None if text is None else NewSource(source=text, author=author, remark=remark)


def reply_job(resp: falcon.Response, job: JobRecord, status: int = 200) -> None:
    """Make a job the response, its revision as the entity tag."""
    resp.etag = str(job.revision)
    reply(resp, view_of(JobView, job), status)


DONE = {
    BulkAction.START: HTTPStatus.OK,
    BulkAction.STOP: HTTPStatus.OK,
    BulkAction.RUN: HTTPStatus.CREATED,
    BulkAction.DELETE: HTTPStatus.NO_CONTENT,
}


class BulkJobs(Resource):
    """``/jobs/bulk/{start,stop,run,delete}``."""

    @Operation({200: BulkView}, body=Bulk)
    def on_post_start(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Let many jobs fire."""
        self._apply(resp, BulkAction.START, take_body(req, Bulk, self._limit).ids)

    @Operation({200: BulkView}, body=Bulk)
    def on_post_stop(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Stop many jobs."""
        self._apply(resp, BulkAction.STOP, take_body(req, Bulk, self._limit).ids)

    @Operation({200: BulkView}, body=Bulk)
    def on_post_delete(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Delete many jobs."""
        self._apply(resp, BulkAction.DELETE, take_body(req, Bulk, self._limit).ids)

    @Operation({200: BulkView}, body=BulkRun)
    def on_post_run(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Plan one run of each of many jobs."""
        body = take_body(req, BulkRun, self._limit)
        self._apply(resp, BulkAction.RUN, body.ids, body.param)

    def _apply(
        self, resp: falcon.Response, action: BulkAction, ids: Sequence[int], param: str | None = None
    ) -> None:
        results = self._parts.jobs.change_many(action, ids, param=param)
        items = [_item(result, DONE[action]) for result in results]
        reply(resp, BulkView(items=items, failed=sum(item.problem is not None for item in items)))


def _item(result: BulkResult, done: HTTPStatus) -> BulkItem:
    problem = None if result.error is None else problem_of(_as_alone(result.error))
    status = done.value if problem is None else problem.status
    return BulkItem(id=result.job_id, status=status, run_id=result.run_id, problem=problem)


def _as_alone(error: XwheelError) -> XwheelError:
    """Return the error as a call for this job alone would have told it."""
    try:
        with naming_schedule_fields():
            raise error
    except XwheelError as told:
        return told


class Children(Resource):
    """``/jobs/{job_id}/children``."""

    @Operation({200: FamilyView}, problems=("not-found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Return which jobs run after a job, and after which ones it runs itself."""
        del req
        self._reply(resp, job_id)

    @Operation(
        {200: FamilyView}, body=ChildrenChange, headers=(MATCH_HEADER,), problems=("not-found", "conflict")
    )
    def on_put(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Replace the jobs that run after a job."""
        body = take_body(req, ChildrenChange, self._limit)
        links = [
            ChildLink(parent_id=job_id, child_id=child.child_id, param=child.param) for child in body.children
        ]
        self._parts.dependencies.set_children(job_id, links, revision=wanted_revision(req, body.revision))
        self._reply(resp, job_id)

    def _reply(self, resp: falcon.Response, job_id: int) -> None:
        with self._db.read() as conn:
            job = jobs.get_job(conn, job_id)
            below = jobs.children_of(conn, [job_id])
            above = jobs.parents_of(conn, [job_id])
        resp.etag = str(job.revision)
        view = FamilyView(
            children=[view_of(ChildItem, link) for link in below],
            parents=[link.parent_id for link in above],
            revision=job.revision,
        )
        reply(resp, view)
