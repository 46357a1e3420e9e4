"""The store's calls below ``/api/v1/packages``.

A package belongs to groups (:mod:`xwheel_job_package.owners`), and to those who have none of them it is not there.
``package:upload``, ``package:delete`` and ``package:force_delete`` are the permission ``admin`` in all of its groups,
since anyone who may upload may run code on their nodes, ``package:download`` in one of them; ``package:list`` and
``job:view`` are ``read``, ``job:operate`` and ``job:kill`` are ``run``, and ``job:edit`` is ``edit`` with ``script``,
which xwheel checks where a job changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from xwheel.plugin import (
    FieldError,
    ForbiddenError,
    NotFoundError,
    Permission,
    PluginSite,
    Route,
    RouteCall,
    RouteRefusedError,
    RouteReply,
    RouteScope,
    XwheelError,
)

from xwheel_job_package import sources
from xwheel_job_package.catalogue import Catalogue, switch
from xwheel_job_package.distribution import present_distribution
from xwheel_job_package.operations import CHANGES, JobOperations, Operation, Wish
from xwheel_job_package.owners import ALL, MOST_GROUPS, Owners
from xwheel_job_package.service import CUT_OFF_MS, MIB, PackageService
from xwheel_job_package.signatures import MOST_SIGNATURE
from xwheel_job_package.store_options import StoreOptions

MOST_ITEMS: Final = 1000
MOST_SWITCHED: Final = 100
MOST_USERS: Final = 200
OPERATIONS: Final = ("Start", "Pause", "Restart")


class PackageRoutes:
    """The calls of people, of programs, and of executors that fetch packages.

    Args:
        options: Limits and places.
    """

    name = "packages"

    def __init__(self, options: StoreOptions) -> None:
        self._options = options

    def routes(self, site: PluginSite) -> Sequence[Route]:
        """Return the routes."""
        self._service, self._operations = PackageService(self._options, site), JobOperations(site)
        return _Calls(self._service, self._operations, site).routes()

    def step(self, now_ms: int) -> int:
        """Do the rest of what a crash cut off."""
        del now_ms
        self._service.sweep_once()
        self._service.make_missing_jobs()
        self._operations.resume()
        return CUT_OFF_MS

    def end(self) -> None:
        """Keep nothing."""


class _Calls:
    def __init__(self, service: PackageService, operations: JobOperations, site: PluginSite) -> None:
        self._service = service
        self._operations = operations
        self._catalogue = Catalogue(site)
        self._owners = Owners(site)
        self._site = site

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [*self._packages(), *self._lists(), *self._jobs()]

    def _packages(self) -> list[Route]:
        most = self._service.options.max_upload_mb * MIB
        admin: dict[str, Any] = {"permission": Permission.ADMIN}  # in which groups the package says
        one = "/{package_id:id}"
        return [
            Route(
                method="POST",
                path="",
                answer=self.upload,
                summary="Take a package in; the body is its file.",
                max_body_bytes=most,
                **admin,
            ),
            Route(method="GET", path="", answer=self.page, summary="List packages by id.", permission=Permission.READ),
            Route(method="GET", path=one, answer=self.show, summary="Return a package.", permission=Permission.READ),
            Route(method="GET", path=f"{one}/file", answer=self.give, summary="Return a package's file.", **admin),
            Route(
                method="GET",
                path=f"{one}/file",
                answer=self.give_to_executor,
                summary="Return a package's file to an executor of one of its groups.",
                for_executors=True,
            ),
            Route(
                method="DELETE",
                path=one,
                answer=self.delete,
                summary="Delete a package and its jobs; force=true stops them first.",
                **admin,
            ),
            Route(
                method="GET", path=f"{one}/sources", answer=self.files, summary="List the files in a package.", **admin
            ),
            Route(
                method="GET",
                path=f"{one}/sources/text",
                answer=self.text,
                summary="Return the beginning of a file in a package, by its path.",
                **admin,
            ),
        ]

    def _lists(self) -> list[Route]:
        read = Permission.READ
        return [
            Route(
                method="GET",
                path="/limits",
                answer=self.limits,
                summary="Return how large a package may be, and whose the caller may make it.",
                permission=read,
            ),
            Route(
                method="GET",
                path="/projects",
                answer=self.projects,
                summary="List projects by name, each with its newest versions and how many jobs use them.",
                permission=read,
            ),
            Route(
                method="GET",
                path="/projects/{project}",
                answer=self.versions,
                summary="List versions of a project, those that came last first.",
                permission=read,
            ),
            Route(
                method="PUT",
                path="/projects/{project}/groups",
                answer=self.set_groups,
                summary="Say to which executor groups a project belongs, or that all have it.",
                permission=Permission.ADMIN,
            ),
            Route(
                method="GET",
                path="/{package_id:id}/jobs",
                answer=self.users,
                summary="List jobs of a package's project, and whether each uses this version.",
                permission=read,
            ),
            Route(
                method="POST",
                path="/{package_id:id}/switch",
                answer=self.switch,
                summary="Let jobs use this version; each is answered for.",
                permission=Permission.EDIT,
            ),
        ]

    def _jobs(self) -> list[Route]:
        job: dict[str, Any] = {"scope": RouteScope.JOB}
        of_job = "/jobs/{job_id:id}"
        return [
            Route(
                method="GET",
                path="/jobs",
                answer=self.jobs,
                summary="List jobs of packages by id.",
                permission=Permission.READ,
            ),
            Route(
                method="GET",
                path=of_job,
                answer=self.job,
                summary="Return a job of a package.",
                permission=Permission.READ,
                **job,
            ),
            Route(
                method="POST",
                path=f"{of_job}/operations",
                answer=self.operate,
                summary="Start, pause or restart a job of a package.",
                permission=Permission.RUN,
                **job,
            ),
            Route(
                method="GET",
                path=f"{of_job}/operations",
                answer=self.log,
                summary="List operations of a job of a package, newest first.",
                permission=Permission.READ,
                **job,
            ),
            Route(
                method="GET",
                path=f"{of_job}/versions",
                answer=self.choices,
                summary="List versions that have a job's function, those that came last first.",
                permission=Permission.READ,
                **job,
            ),
            Route(
                method="POST",
                path=f"{of_job}/run",
                answer=self.run,
                summary="Run a job of a package once; its schedule stays.",
                permission=Permission.RUN,
                **job,
            ),
        ]

    def upload(self, call: RouteCall) -> RouteReply:
        scanned = call.query.get("packages_to_scan", "")
        found = self._service.upload(
            call.body.read,
            call.query.get("file", ""),
            call.actor,
            project=call.query.get("name", ""),
            version=call.query.get("version", ""),
            packages=[item.strip() for item in scanned.split(",") if item.strip()],
            allow_empty=_flag(call.query, "allow_empty"),
            signature=_signature(call.query),
            groups=_group_names(call.query),
        )
        return RouteReply(status=201, value=found, headers={"Location": f"/api/v1/packages/{found['id']}"})

    def page(self, call: RouteCall) -> RouteReply:
        return RouteReply(value=self._service.page(_number(call.query, "after", 0), _limit(call.query), call.actor))

    def show(self, call: RouteCall) -> RouteReply:
        self._owners.need(call.path["package_id"], call.actor)
        return RouteReply(value=self._service.get(call.path["package_id"], call.actor))

    def give(self, call: RouteCall) -> RouteReply:
        self._owners.need(call.path["package_id"], call.actor, Permission.ADMIN)
        return self._give(call)

    def give_to_executor(self, call: RouteCall) -> RouteReply:
        self._owners.need_of_executor(call.path["package_id"], call.group_id)
        return self._give(call)

    def _give(self, call: RouteCall) -> RouteReply:
        path, name, sha256 = self._service.file_of(call.path["package_id"])
        return RouteReply(file=path, file_name=name, headers={"ETag": f'"{sha256}"'})

    def delete(self, call: RouteCall) -> RouteReply:
        self._owners.need(call.path["package_id"], call.actor, Permission.ADMIN, in_all=True)
        found = self._service.delete(call.path["package_id"], force=_flag(call.query, "force"))
        return RouteReply(status=202 if found["runs"] else 200, value=found)

    def files(self, call: RouteCall) -> RouteReply:
        self._owners.need(call.path["package_id"], call.actor, Permission.ADMIN)
        path, _, _ = self._service.file_of(call.path["package_id"])
        return RouteReply(value=sources.list_files(path))

    def text(self, call: RouteCall) -> RouteReply:
        self._owners.need(call.path["package_id"], call.actor, Permission.ADMIN)
        path, _, _ = self._service.file_of(call.path["package_id"])
        return RouteReply(value=sources.read_text(path, call.query.get("path", "")))

    def limits(self, call: RouteCall) -> RouteReply:
        options = self._service.options
        group_id = self._site.jobs.group_id(options.group)
        may_know = call.actor.grants.allows(Permission.READ, group_id)
        found = {
            "max_upload_bytes": options.max_upload_mb * MIB,
            "group": options.group if may_know else "",
            "group_id": group_id if may_know else None,
            **self._owners.usable(call.actor),
        }
        return RouteReply(value=found)

    def projects(self, call: RouteCall) -> RouteReply:
        self._service.sweep_once()
        search, after = call.query.get("search", "")[:200], call.query.get("after", "")[:200]
        return RouteReply(value=self._catalogue.projects(search, after, _limit(call.query), call.actor))

    def versions(self, call: RouteCall) -> RouteReply:
        before = _number(call.query, "after", 0) or None
        return RouteReply(value=self._catalogue.versions(call.path["project"], before, _limit(call.query), call.actor))

    def set_groups(self, call: RouteCall) -> RouteReply:
        project = call.path["project"]
        self._owners.need_project(project, call.actor, Permission.ADMIN, in_all=True)
        return RouteReply(value=self._service.set_groups(project, _groups(call.json()), call.actor))

    def users(self, call: RouteCall) -> RouteReply:
        self._owners.need(call.path["package_id"], call.actor)
        limit = min(_limit(call.query), MOST_USERS)
        return RouteReply(value=self._catalogue.users(call.path["package_id"], _number(call.query, "after", 0), limit))

    def switch(self, call: RouteCall) -> RouteReply:
        package_id = call.path["package_id"]
        ids = _job_ids(call.json())
        self._owners.need(package_id, call.actor)
        change = lambda job_id: self._operations.switch(job_id, package_id, call.actor)  # noqa: E731
        return RouteReply(value={"items": switch(ids, change, _failed)})

    def choices(self, call: RouteCall) -> RouteReply:
        before = _number(call.query, "after", 0) or None
        return RouteReply(value=self._catalogue.choices(call.path["job_id"], before, _limit(call.query), call.actor))

    def jobs(self, call: RouteCall) -> RouteReply:
        after, limit = _number(call.query, "after", 0), _limit(call.query)
        return RouteReply(value=self._operations.page(after, limit, call.actor))

    def job(self, call: RouteCall) -> RouteReply:
        found = self._operations.get(call.path["job_id"])
        distribution = present_distribution()
        cluster = distribution.describe(found["job_id"]) if distribution is not None else None
        return RouteReply(value=found if cluster is None else {**found, "cluster": cluster})

    def operate(self, call: RouteCall) -> RouteReply:
        found = self._operations.apply(call.path["job_id"], _wish(call.json()), call.actor)
        return RouteReply(status=202 if found["result"] == "Waiting" else 200, value=found)

    def log(self, call: RouteCall) -> RouteReply:
        before = _number(call.query, "before", 0) or _number(call.query, "after", 0) or None
        return RouteReply(value=self._operations.log(call.path["job_id"], before, _limit(call.query)))

    def run(self, call: RouteCall) -> RouteReply:
        self._operations.get(call.path["job_id"])
        param = call.json().get("param")
        if param is not None and not isinstance(param, str):
            raise FieldError("param", "must be text, or null for the job's own")
        return RouteReply(status=201, value=self._site.jobs.run(call.path["job_id"], param=param))


def _job_ids(body: Mapping[str, Any]) -> list[int]:
    found = body.get("job_ids")
    if not isinstance(found, list) or not 0 < len(found) <= MOST_SWITCHED or set(body) != {"job_ids"}:
        raise FieldError("job_ids", f"must be a list of 1 to {MOST_SWITCHED} ids of jobs, and nothing else")
    if any(type(item) is not int or item < 1 for item in found):
        raise FieldError("job_ids", "must be whole numbers from 1 on")
    return found


def _failed(error: XwheelError) -> dict[str, Any]:
    """Return why a job was not switched."""
    if isinstance(error, RouteRefusedError):
        return {"reason": error.reason, "error": str(error)}
    if isinstance(error, ForbiddenError):
        return {"reason": "forbidden", "error": str(error)}
    if isinstance(error, NotFoundError):
        return {"reason": "not_found", "error": str(error)}
    return {"reason": "refused", "error": str(error)}


def _wish(body: Mapping[str, Any]) -> Wish:
    for name in body:
        if name not in {"operation", "version", *CHANGES}:
            raise FieldError(name[:64], f"is not a field here; known: operation, version, {', '.join(CHANGES)}")
    operation, version = body.get("operation"), body.get("version")
    if operation not in OPERATIONS:
        raise FieldError("operation", f"must be one of {', '.join(OPERATIONS)}")
    if version is not None and type(version) is not int:
        raise FieldError("version", "must be a whole number, or null")
    changes = {name: body[name] for name in CHANGES if name in body}
    for name, value in changes.items():
        wanted = int if name == "package_id" else str
        if type(value) is not wanted or (isinstance(value, str) and len(value) > 200):  # noqa: PLR2004 - the column's
            raise FieldError(
                name, "must be a whole number" if wanted is int else "must be text of at most 200 characters"
            )
    return Wish(operation=cast(Operation, operation), version=version, changes=changes)


def _signature(query: Mapping[str, str]) -> str:
    found = query.get("signature", "")
    if len(found) > MOST_SIGNATURE or not found.isascii() or not (found.isprintable()):
        raise FieldError("signature", f"must be at most {MOST_SIGNATURE} printable characters")
    return found


def _group_names(query: Mapping[str, str]) -> list[str]:
    """Return the groups that an upload names; none for those that go without saying."""
    found = [name for item in query.get("groups", "").split(",") if (name := item.strip())]
    if len(found) > MOST_GROUPS:
        raise FieldError("groups", f"must name at most {MOST_GROUPS} executor groups, or {ALL} for all")
    return found


def _groups(body: Mapping[str, Any]) -> list[str]:
    found = body.get("groups")
    if set(body) != {"groups"} or not isinstance(found, list) or not 0 < len(found) <= MOST_GROUPS:
        raise FieldError("groups", f"must be a list of 1 to {MOST_GROUPS} app names, or of {ALL}, and nothing else")
    if not all(isinstance(name, str) for name in found):
        raise FieldError("groups", "must be app names of executor groups")
    return found


def _flag(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name, "false")
    if value not in {"true", "false"}:
        raise FieldError(name, "must be true or false")
    return value == "true"


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    value = query.get(name, str(default))
    if not (value.isascii() and value.isdigit() and len(value) <= 15):  # noqa: PLR2004 - fits 53 bits
        raise FieldError(name, "must be a whole number from 0 on")
    return int(value)


def _limit(query: Mapping[str, str]) -> int:
    found = _number(query, "limit", 100)
    if not 0 < found <= MOST_ITEMS:
        raise FieldError("limit", f"must be a whole number from 1 to {MOST_ITEMS}")
    return found
