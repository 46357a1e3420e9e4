"""Jobs that code declares: their sync, whose declarations groups follow, and what people release from code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import falcon
import msgspec
from msgspec import UNSET
from xwheel import cron
from xwheel.api.http.body import InputError, fields_in, read_fields, take_body, take_query, take_table
from xwheel.api.http.headers import MATCH_HEADER, wanted_revision
from xwheel.api.http.resource import readable_groups, reply, view_of
from xwheel.api.schema.messages import JobCreate, PageQuery
from xwheel.api.schema.views import JobView
from xwheel.errors import AuthError, FieldError, NotFoundError
from xwheel.model.access import ActorKind, Permission, current_actor
from xwheel.plugin import Operation, PluginSite
from xwheel.storage import executors

from xwheel_jobs_as_code.declarations import owners, records
from xwheel_jobs_as_code.declarations.manager import DeclarationManager
from xwheel_jobs_as_code.declarations.messages import (
    MAX_JOBS,
    SAID,
    BuildView,
    DeclarationKey,
    DeclarationPage,
    DeclarationSync,
    DeclarationView,
    DeclaredInput,
    DeclaredItem,
    FieldChangeView,
    JobRelease,
    SyncProblem,
    SyncReport,
    SyncStepView,
)
from xwheel_jobs_as_code.declarations.owners import DeclarationOwner
from xwheel_jobs_as_code.declarations.ownership import Declared
from xwheel_jobs_as_code.declarations.plan import BadDeclaration, SyncResult, WantedJob


class Declarations:
    """``/declarations``.

    Args:
        site: What it works with.
        manager: Carries out what is asked.
    """

    def __init__(self, site: PluginSite, manager: DeclarationManager) -> None:
        self._db = site.database
        self._manager = manager

    @Operation({200: DeclarationPage}, query=PageQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List whose declarations the jobs of which group follow, and what else live executors declare, by group."""
        query = take_query(req, PageQuery)
        with self._db.read() as conn:
            followed = owners.list_owners(conn, after_id=query.after, limit=query.limit + 1, groups=readable_groups())
            groups = executors.get_groups(conn, [owner.group_id for owner in followed])
        others = self._manager.conflicting(followed)
        items = []
        for owner in followed[: query.limit]:
            if owner.group_id in groups:  # a node of an older version may have deleted it
                app_name, is_odd = groups[owner.group_id].app_name, owner.group_id in others
                items.append(self._view(owner, app_name, is_in_conflict=is_odd))
        following = followed[query.limit - 1].group_id if len(followed) > query.limit else None
        reply(resp, DeclarationPage(items=items, next=following))

    def _view(self, owner: DeclarationOwner, app_name: str, *, is_in_conflict: bool) -> DeclarationView:
        builds = self._manager.builds(owner.group_id, owner)
        return view_of(
            DeclarationView,
            owner,
            app_name=app_name,
            is_in_conflict=is_in_conflict,
            builds=[
                BuildView(**build.declared._asdict(), standing=build.standing, executors=build.executors)
                for build in builds
            ],
        )


class DeclarationsSync:
    """``/declarations/sync``, also with a token of the group.

    Args:
        site: What it works with.
        manager: Carries out what is asked.
        limit: Bytes of a body.
    """

    def __init__(self, site: PluginSite, manager: DeclarationManager, limit: int) -> None:
        self._db = site.database
        self._manager = manager
        self._limit = limit

    @Operation({200: SyncReport}, body=DeclarationSync, problems=("not-found", "conflict"))
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make the jobs of a group what its application's code declares, if its release owns them.

        The highest release with a live executor owns. A job that is not declared any more is stopped, and stays.
        Executors call with a token of their group.
        """
        table = take_table(req, self._limit)
        found = table.get("jobs")
        if found is not None and (not isinstance(found, list) or len(found) > MAX_JOBS):
            raise InputError("jobs", f"must be a list of at most {MAX_JOBS}, or null", {"max_items": MAX_JOBS})
        message = read_fields(DeclarationSync, {**table, "jobs": None})
        with self._db.read() as conn:
            group = executors.find_group(conn, message.app_name)
        actor = current_actor()
        only = next(iter(actor.grants.groups)) if actor.kind is ActorKind.GROUP else None
        if only is not None and (group is None or only != group.id):
            raise AuthError(f"Authorization: this token is not of group {message.app_name}")
        if only is None and message.instance:
            raise AuthError(
                "Authorization: an executor syncs with a token of its group, not with one for everything: "
                f"xwheel token create NAME --group {message.app_name}"
            )
        if group is None:
            raise NotFoundError("group", message.app_name)
        actor.need(Permission.EDIT, group.id, "group", message.app_name)
        caller = Declared(message.release, message.digest)
        manager = self._manager
        if found is None:
            result = manager.note(group.id, caller)
        else:
            wanted, bad = read_jobs(found)
            bad += [BadDeclaration(one.name, one.place, one.field, one.reason) for one in message.broken]
            result = manager.sync(
                group.id, caller, wanted, bad, is_executor=bool(message.instance), dry_run=message.dry_run
            )
        reply(resp, _report(message.app_name, result))


class DeclaredJobResource:
    """``/jobs/{job_id}/release``.

    Args:
        site: What it works with.
        manager: Carries out what is asked.
        limit: Bytes of a body.
    """

    def __init__(self, site: PluginSite, manager: DeclarationManager, limit: int) -> None:
        self._site = site
        self._manager = manager
        self._limit = limit

    @Operation(
        {200: JobView},
        body=JobRelease,
        is_body_optional=True,
        headers=(MATCH_HEADER,),
        problems=("not-found", "conflict"),
    )
    def on_post(self, req: falcon.Request, resp: falcon.Response, job_id: int) -> None:
        """Release fields of a job from the code that declares them, or the job as a whole, or undo that."""
        body = take_body(req, JobRelease, self._limit, optional=True)
        revision = wanted_revision(req, body.revision)
        self._manager.release(job_id, body.fields, undo=body.undo, revision=revision)
        job = self._site.jobs.get(job_id)
        resp.etag = str(job["revision"])
        resp.data = msgspec.json.encode(job)


def read_jobs(found: Sequence[object]) -> tuple[list[WantedJob], list[BadDeclaration]]:
    """Return the declared jobs that can be read, and the others; one that is wrong harms no other.

    Raises:
        InputError: An item is no object, has no name, or the name of another one.
    """
    wanted: list[WantedJob] = []
    bad: list[BadDeclaration] = []
    names: set[str] = set()
    for number, item in enumerate(found):
        if not isinstance(item, dict):
            raise InputError(f"jobs[{number}]", "must be an object")
        try:
            name = read_fields(DeclaredItem, {"name": item.get("name")}).name
        except FieldError as error:
            raise InputError(f"jobs[{number}].name", error.reason) from None
        if name in names:
            raise InputError(f"jobs[{number}].name", f"is that of another one: {name}")
        names.add(name)
        place = item.get("place")
        place = place[: records.MAX_PLACE] if isinstance(place, str) else ""
        try:
            wanted.append(_read_job(item))
        except FieldError as error:
            bad.append(BadDeclaration(name, place, error.field, error.reason))
    return wanted, bad


def _read_job(item: Mapping[str, Any]) -> WantedJob:
    message = read_fields(DeclaredInput, dict(item))
    said = {name: value for name in SAID if (value := getattr(message, name)) is not UNSET}
    if "timezone" in said:
        cron.zone(said["timezone"])
    draft = fields_in(JobCreate(group_id=1, name=message.name, **said))
    for name in ("enabled", "glue_source"):
        del draft[name]
    # what code declares runs a handler, whatever people made of a job of its name before
    said["glue_type"] = draft["glue_type"]
    return WantedJob(name=message.name, place=message.place, fields=said, draft=draft)


def _report(app_name: str, result: SyncResult) -> SyncReport:
    verdict = result.verdict
    return SyncReport(
        app_name=app_name,
        standing=verdict.standing,
        other=None if verdict.other is None else DeclarationKey(**verdict.other._asdict()),
        until_ms=verdict.until_ms or None,
        needs_jobs=result.needs_jobs,
        steps=[
            SyncStepView(
                action=step.action,
                name=step.name,
                job_id=step.job_id,
                changes=[FieldChangeView(**change._asdict()) for change in step.changes],
            )
            for step in result.steps
            if step.action is not None
        ],
        problems=[SyncProblem(**problem._asdict()) for problem in result.problems],
        conflicts=[DeclarationKey(**item._asdict()) for item in result.conflicts],
    )
