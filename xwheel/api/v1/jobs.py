"""Jobs: definitions, start and stop, copies, and a run by hand."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import falcon

from xwheel import cron
from xwheel.api.http.body import InputError, fields_in, take_body, take_changes, take_query
from xwheel.api.http.csv_file import MEDIA, reply_csv
from xwheel.api.http.errors import problem_of
from xwheel.api.http.headers import KEY_HEADER, MATCH_HEADER, idempotency_key, wanted_revision
from xwheel.api.http.resource import PlansRuns, Resource, naming, readable_groups, reply, view_of
from xwheel.api.schema import messages, views
from xwheel.api.v1.schedule import check_calendars, naming_schedule_fields
from xwheel.errors import FieldError, ForbiddenError, HiddenError, WireError, XwheelError
from xwheel.model import ChildLink, NewSource
from xwheel.model import Job as JobRecord
from xwheel.model.access import current_actor
from xwheel.model.jobs import state_of
from xwheel.plugin.resources import Operation
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.jobs.dependencies import DependencyManager
from xwheel.scheduler.jobs.jobs import BulkAction, BulkResult, JobManager
from xwheel.scheduler.jobs.owners import JobOwners
from xwheel.scheduler.runs.run_now import AT_ONCE, When, read_when
from xwheel.scheduler.timetable import CalendarCache
from xwheel.storage import jobs, scripts
from xwheel.storage.jobs import JobFilter, page_jobs
from xwheel.storage.next_fires import list_next_jobs
from xwheel.wire import contract

COPY_SUFFIX: Final = " (copy)"
MAX_NAME: Final = 128

_SWITCHES: Final = Operation(
    {200: views.JobView},
    body=messages.JobRevision,
    is_body_optional=True,
    headers=(MATCH_HEADER,),
    problems=("not-found", "conflict"),
)


class ShowsJobs(Resource):
    """A resource that answers with jobs, which it also changes."""

    owners: JobOwners
    jobs: JobManager

    def shown(self, found: Sequence[JobRecord]) -> list[views.JobView]:
        """Return what clients see of jobs; not for transactions."""
        return job_views(self.owners, found, self.clock.now_ms())

    def reply_job(self, resp: falcon.Response, job: JobRecord, status: int = 200) -> None:
        """Make a job the response, its revision as the entity tag."""
        resp.etag = str(job.revision)
        (view,) = self.shown([job])
        reply(resp, view, status)


class Jobs(ShowsJobs):
    """``/jobs``, also as a file."""

    calendars: CalendarCache

    @Operation({200: views.JobPage}, query=messages.JobQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List jobs by id, or those that fire again, soonest first."""
        query = take_query(req, messages.JobQuery)
        if query.sort is messages.JobSort.NEXT_FIRE:
            self._reply_next(resp, query)
            return
        items, following = self._page(query, query.after, query.limit)
        reply(resp, views.JobPage(items=items, next=following))

    @Operation({200: None}, query=messages.JobSearch, media=MEDIA)
    def on_get_csv(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return jobs as a CSV file, by id, 10,000 at most."""
        query = take_query(req, messages.JobSearch)
        reply_csv(resp, "jobs", views.JobView, lambda after, limit: self._page(query, after or 0, limit))

    def _reply_next(self, resp: falcon.Response, query: messages.JobQuery) -> None:
        if query.after:
            raise InputError("after", "there is one page of jobs by their next fire: ask for more with limit")
        with self.db.read() as conn:
            found = list_next_jobs(conn, _filter_of(query), query.limit)
        reply(resp, views.JobPage(items=self.shown(found), next=None))

    def _page(self, query: messages.JobSearch, after_id: int, limit: int) -> tuple[list[views.JobView], int | None]:
        with self.db.read() as conn:
            page = page_jobs(conn, _filter_of(query), after_id=after_id, limit=limit)
        return self.shown(page.jobs), page.next

    @Operation({201: views.JobView}, body=messages.JobCreate, problems=("name-taken",))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a job."""
        body = take_body(req, messages.JobCreate, self._limit)
        job = create_job(self.jobs, self.calendars, body)
        resp.location = f"/api/v1/jobs/{job.id}"
        self.reply_job(resp, job, 201)


def _filter_of(query: messages.JobSearch) -> JobFilter:
    given = {name: getattr(query, name) for name in JobFilter._fields if name != "groups"}
    return JobFilter(**given, groups=readable_groups())


class JobResource(ShowsJobs, PlansRuns):
    """``/jobs/{job_id}`` and what can be done with a job."""

    calendars: CalendarCache
    registry: ExecutorRegistry

    @Operation({200: views.JobView}, problems=("not-found",))
    def on_get(self, _req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Return a job."""
        with self.db.read() as conn:
            job = jobs.get_job(conn, job_id)
        self.reply_job(resp, job)

    @Operation(
        {200: views.JobView},
        body=messages.JobChange,
        headers=(MATCH_HEADER,),
        problems=("not-found", "conflict", "name-taken", "owned-by-code"),
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Change fields of a job."""
        changes = take_changes(req, messages.JobChange, self._limit)
        revision = wanted_revision(req, changes.pop("revision", None))
        self.reply_job(resp, change_job(self.jobs, self.calendars, job_id, changes, revision))

    @Operation({204: None}, headers=(MATCH_HEADER,), problems=("not-found", "conflict", "owned-by-code"))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Delete a job; its runs stay readable."""
        self.jobs.delete(job_id, revision=wanted_revision(req, None))
        resp.status = 204

    @_SWITCHES
    def on_post_start(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Let a job fire; nothing changes if it does already."""
        body = take_body(req, messages.JobRevision, self._limit, optional=True)
        with naming_schedule_fields():
            job = self.jobs.start(job_id, revision=wanted_revision(req, body.revision))
        self.reply_job(resp, job)

    @_SWITCHES
    def on_post_stop(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Stop a job and cancel its planned fires and retries; what was sent goes on."""
        body = take_body(req, messages.JobRevision, self._limit, optional=True)
        self.reply_job(resp, self.jobs.stop(job_id, revision=wanted_revision(req, body.revision)))

    @Operation({201: views.JobView}, body=messages.JobCopy, is_body_optional=True, problems=("not-found", "name-taken"))
    def on_post_copy(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Make a stopped job with the same definition and source; its children and parents are not copied."""
        body = take_body(req, messages.JobCopy, self._limit, optional=True)
        source = None
        with self.db.read() as conn:
            known = jobs.get_job(conn, job_id)
            if known.glue_version:
                text = scripts.get_version(conn, job_id, known.glue_version).source
                source = new_source(text, current_actor().name, f"copied from job {job_id}")
        values = {
            name: getattr(known, name)
            for name in messages.JobCreate.__struct_fields__
            if name not in {"enabled", "anchor_ms", "glue_source"}
        }
        values["name"] = body.name or known.name[: MAX_NAME - len(COPY_SUFFIX)] + COPY_SUFFIX
        values["group_id"] = body.group_id or known.group_id
        with naming("group_id", "group"), naming_schedule_fields():
            job = self.jobs.create(values, source=source, unique=True)
        resp.location = f"/api/v1/jobs/{job.id}"
        self.reply_job(resp, job, 201)

    @Operation(
        {201: views.RunView},
        body=messages.RunRequest,
        is_body_optional=True,
        headers=(KEY_HEADER,),
        problems=("not-found", "conflict"),
    )
    def on_post_run(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Plan a run that is due at once or later, whether the job is started or not."""
        body = take_body(req, messages.RunRequest, self._limit, optional=True)
        key = idempotency_key(req)
        if body.address is not None and body.addresses:
            raise FieldError("addresses", "says what address says: give one of them")
        field = "addresses" if body.addresses else "address"
        spelled = body.addresses if body.address is None else (body.address,)
        addresses = self._registered(job_id, field, spelled) if spelled else ()
        self.plan_run(resp, job_id, key, body.param, addresses, read_when(body.delay_ms, body.at))

    def _registered(self, job_id: int, field: str, spelled: Sequence[str]) -> list[str]:
        """Return addresses as the registry has them; raises FieldError for one of no live executor of the job's group.

        A job's runs go nowhere else. Raises NotFoundError if there is no such job.
        """
        with self.db.read() as conn:
            job = jobs.get_job(conn, job_id)
        try:
            addresses = [contract.normalise_address(text, field) for text in spelled]
        except WireError as error:
            raise FieldError(field, str(error).removeprefix(f"{field}: ")) from error
        now_ms = self.clock.now_ms()
        for address in addresses:
            if not self.registry.is_live(job.group_id, address, now_ms):
                raise FieldError(field, f"{address} is no live executor of group {job.group_id}")
        return addresses


def create_job(
    manager: JobManager,
    calendars: CalendarCache,
    body: messages.JobCreate,
    *,
    unique: bool = True,
    author: str | None = None,
    remark: str | None = None,
) -> JobRecord:
    """Create a job as it was sent; what cannot be raises a FieldError that names a field of the body."""
    values = fields_in(body)
    enabled = values.pop("enabled")
    source = new_source(values.pop("glue_source"), author or current_actor().name, remark or "")
    check_calendars(calendars, values)
    with naming("group_id", "group"), naming_schedule_fields():
        cron.zone(body.timezone)
        return manager.create(values, enabled=enabled, source=source, unique=unique)


def change_job(
    manager: JobManager,
    calendars: CalendarCache,
    job_id: int,
    changes: dict[str, Any],
    revision: int | None,
    *,
    unique: bool = True,
) -> JobRecord:
    """Change a job by fields of a :class:`JobChange`, only at this revision if one is given."""
    source = new_source(changes.pop("glue_source", None), current_actor().name)
    check_calendars(calendars, changes)
    with naming_schedule_fields():
        if "timezone" in changes:
            cron.zone(changes["timezone"])
        return manager.edit(job_id, changes, revision=revision, source=source, unique=unique)


def new_source(text: str | None, author: str, remark: str = "") -> NewSource | None:
    """Return a source that comes with a job, or None."""
    return None if text is None else NewSource(source=text, author=author, remark=remark)


def job_views(owners: JobOwners, found: Sequence[JobRecord], now_ms: int) -> list[views.JobView]:
    """Return what clients see of jobs, with what code says of them; not for transactions."""
    said = owners.shown([job.id for job in found])
    return [view_of(views.JobView, job, state=state_of(job, now_ms), declared=said.get(job.id)) for job in found]


DONE = {
    BulkAction.START: HTTPStatus.OK,
    BulkAction.STOP: HTTPStatus.OK,
    BulkAction.RUN: HTTPStatus.CREATED,
    BulkAction.DELETE: HTTPStatus.NO_CONTENT,
}


class BulkJobs(Resource):
    """``/jobs/bulk/{start,stop,run,delete}``."""

    audit: AuditTrail
    jobs: JobManager

    @Operation({200: views.BulkView}, body=messages.Bulk)
    def on_post_start(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Let many jobs fire."""
        self._apply(resp, BulkAction.START, take_body(req, messages.Bulk, self._limit).ids)

    @Operation({200: views.BulkView}, body=messages.Bulk)
    def on_post_stop(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Stop many jobs."""
        self._apply(resp, BulkAction.STOP, take_body(req, messages.Bulk, self._limit).ids)

    @Operation({200: views.BulkView}, body=messages.Bulk)
    def on_post_delete(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Delete many jobs."""
        self._apply(resp, BulkAction.DELETE, take_body(req, messages.Bulk, self._limit).ids)

    @Operation({200: views.BulkView}, body=messages.BulkRun)
    def on_post_run(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Plan one run of each of many jobs."""
        body = take_body(req, messages.BulkRun, self._limit)
        self._apply(resp, BulkAction.RUN, body.ids, body.param, read_when(body.delay_ms, body.at))

    def _apply(
        self,
        resp: falcon.Response,
        action: BulkAction,
        ids: Sequence[int],
        param: str | None = None,
        when: When = AT_ONCE,
    ) -> None:
        results = self.jobs.change_many(action, ids, param=param, when=when)
        refused = [item.error for item in results if isinstance(item.error, ForbiddenError | HiddenError)]
        if refused:
            actor, path = current_actor(), f"/api/v1/jobs/bulk/{action}"
            self.audit.note_refused("api", actor, actor.address, f"POST {path}", path, str(refused[0]))
        items = [_item(result, DONE[action]) for result in results]
        reply(resp, views.BulkView(items=items, failed=sum(item.problem is not None for item in items)))


def _item(result: BulkResult, done: HTTPStatus) -> views.BulkItem:
    problem = None if result.error is None else problem_of(_as_alone(result.error))
    status = done.value if problem is None else problem.status
    return views.BulkItem(id=result.job_id, status=status, run_id=result.run_id, problem=problem)


def _as_alone(error: XwheelError) -> XwheelError:
    """Return the error as a call for this job alone would have told it."""
    try:
        with naming_schedule_fields():
            raise error
    except XwheelError as told:
        return told


class Children(Resource):
    """``/jobs/{job_id}/children``."""

    dependencies: DependencyManager

    @Operation({200: views.FamilyView}, problems=("not-found",))
    def on_get(self, _req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Return which jobs run after a job, and after which ones it runs itself."""
        self._reply(resp, job_id)

    @Operation(
        {200: views.FamilyView},
        body=messages.ChildrenChange,
        headers=(MATCH_HEADER,),
        problems=("not-found", "conflict"),
    )
    def on_put(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Replace the jobs that run after a job."""
        body = take_body(req, messages.ChildrenChange, self._limit)
        links = [ChildLink(parent_id=job_id, child_id=child.child_id, param=child.param) for child in body.children]
        self.dependencies.set_children(job_id, links, revision=wanted_revision(req, body.revision))
        self._reply(resp, job_id)

    def _reply(self, resp: falcon.Response, job_id: int) -> None:
        with self.db.read() as conn:
            job = jobs.get_job(conn, job_id)
            below = jobs.children_of(conn, [job_id])
            above = jobs.parents_of(conn, [job_id])
            groups = readable_groups()
            if groups is not None:  # those of others are no business of the caller
                ids = {*(link.child_id for link in below), *(link.parent_id for link in above)}
                seen = {known.id for known in jobs.get_jobs(conn, ids).values() if known.group_id in groups}
                below = [link for link in below if link.child_id in seen]
                above = [link for link in above if link.parent_id in seen]
        resp.etag = str(job.revision)
        view = views.FamilyView(
            children=[view_of(views.ChildItem, link) for link in below],
            parents=[link.parent_id for link in above],
            revision=job.revision,
        )
        reply(resp, view)
