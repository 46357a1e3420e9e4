"""Jobs: definitions, start and stop, and a run by hand."""

from __future__ import annotations

from typing import Final

import falcon
from msgspec import UNSET

from xwheel import cron
from xwheel.api.body import take_body, take_query
from xwheel.api.errors import InputError
from xwheel.api.messages import JobChange, JobCreate, JobQuery, Nothing, RunRequest
from xwheel.api.resource import Resource, changes_of, naming, reply, view_of
from xwheel.api.schedule import blaming_the_schedule, check_calendars
from xwheel.api.views import JobView, Page, RunView
from xwheel.errors import ConflictError, FieldError
from xwheel.storage import jobs

KEY_HEADER: Final = "Idempotency-Key"
MAX_KEY: Final = 255


class Jobs(Resource):
    """``/jobs``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List jobs by id."""
        query = take_query(req, JobQuery)
        with self._db.read() as conn:
            found = jobs.list_jobs(
                conn, group_id=query.group_id, name=query.name, after_id=query.after, limit=query.limit + 1
            )
        items = [view_of(JobView, job) for job in found[: query.limit]]
        reply(resp, Page(items=items, next=items[-1].id if len(found) > query.limit else None))

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a job."""
        body = take_body(req, JobCreate, self._limit)
        values = changes_of(body)
        enabled = values.pop("enabled")
        check_calendars(self._parts.calendars, body)
        with naming("group_id", "group"), blaming_the_schedule():
            cron.zone(body.timezone)
            job = self._parts.manager.create(values, enabled=enabled)
        resp.location = f"/api/v1/jobs/{job.id}"
        reply(resp, view_of(JobView, job), 201)


class Job(Resource):
    """``/jobs/{job_id}`` and what can be done with a job."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Return a job."""
        del req
        with self._db.read() as conn:
            job = jobs.get_job(conn, job_id)
        reply(resp, view_of(JobView, job))

    def on_patch(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Change fields of a job."""
        body = take_body(req, JobChange, self._limit)
        changes = changes_of(body)
        revision: int | None = changes.pop("revision", None)
        if not changes:
            raise FieldError("body", "must change at least one field")
        check_calendars(self._parts.calendars, body)
        with blaming_the_schedule():
            if body.timezone is not UNSET:
                cron.zone(body.timezone)
            job = self._parts.manager.edit(job_id, changes, revision=revision)
        reply(resp, view_of(JobView, job))

    def on_delete(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Delete a job; its runs stay readable."""
        del req
        self._parts.manager.delete(job_id)
        resp.status = 204

    def on_post_start(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Let a job fire."""
        take_body(req, Nothing, self._limit, optional=True)
        with blaming_the_schedule():
            job = self._parts.manager.start(job_id)
        reply(resp, view_of(JobView, job))

    def on_post_stop(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Stop a job."""
        take_body(req, Nothing, self._limit, optional=True)
        reply(resp, view_of(JobView, self._parts.manager.stop(job_id)))

    def on_post_run(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Plan a run that is due at once."""
        body = take_body(req, RunRequest, self._limit, optional=True)
        key = _idempotency_key(req)
        run = self._parts.manager.run_now(job_id, param=body.param, idempotency_key=key)
        if run.param != body.param:
            raise ConflictError(f"{KEY_HEADER} {key} was used for run {run.id} with another param")
        resp.location = f"/api/v1/runs/{run.id}"
        reply(resp, view_of(RunView, run), 201)


def _idempotency_key(req: falcon.Request) -> str | None:
    key = req.get_header(KEY_HEADER)
    if key is None:
        return None
    if not 0 < len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise InputError(
            KEY_HEADER,
            f"must be 1 to {MAX_KEY} printable ASCII characters",
            {"min_length": 1, "max_length": MAX_KEY},
        )
    return key
