"""What the resources of the management API share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import falcon
import msgspec

from xwheel.access.parts import AccessParts
from xwheel.api.http.body import read_fields
from xwheel.api.http.headers import KEY_HEADER
from xwheel.api.schema.health import HealthReport
from xwheel.api.schema.messages import NamePath
from xwheel.api.schema.views import RunView
from xwheel.clock import Clock
from xwheel.config.sections import ApiSection
from xwheel.errors import ConflictError, FieldError, NotFoundError
from xwheel.model import Run
from xwheel.model.access import Permission, current_actor
from xwheel.plugin.discovery import Plugins
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.executors.calls import ExecutorClient
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.jobs.dependencies import DependencyManager
from xwheel.scheduler.jobs.jobs import JobManager
from xwheel.scheduler.jobs.owners import JobOwners
from xwheel.scheduler.jobs.pause import ScheduleManager
from xwheel.scheduler.jobs.writing import ManyJobsWriter
from xwheel.scheduler.listeners import ListenerHealth
from xwheel.scheduler.runs.logs import ExecutorLogs
from xwheel.scheduler.runs.run_now import AT_ONCE, RunNow, When
from xwheel.scheduler.scripts.scripts import Scripts
from xwheel.scheduler.timetable import CalendarCache, Timetable
from xwheel.storage import jobs
from xwheel.storage.database.engine import Connection, Database

S = TypeVar("S", bound=msgspec.Struct)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What both applications work with.

    Attributes:
        config: Limits and threads.
        access: Tokens.
        job_owners: What plugins own of jobs.
        job_writer: What plugins write jobs with.
        secrets: What executors may show.
        health: The state of the node; must not wait for anything.
        listener_health: The state of each run listener.
        logs: Reads logs of runs at executors.
        calls: Gives a way to ask executors, with connections of its own, for a purpose.
        kill: Ends a run, or begins to.
        audit: Where it is recorded who did what.
        node_id: The node that this is; None for a process that is none.
        lease: Its partitions, likewise.
        lease_ms: How long a node's lease lasts.
    """

    db: Database
    clock: Clock
    config: ApiSection
    access: AccessParts
    jobs: JobManager
    job_owners: JobOwners
    job_writer: ManyJobsWriter
    run_now: RunNow
    scripts: Scripts
    dependencies: DependencyManager
    registry: ExecutorRegistry
    finisher: Finisher
    timetable: Timetable
    schedules: ScheduleManager
    calendars: CalendarCache
    secrets: ExecutorSecrets
    health: Callable[[], HealthReport]
    plugins: Plugins
    listener_health: Callable[[], Sequence[ListenerHealth]]
    logs: ExecutorLogs
    calls: Callable[[str], ExecutorClient]
    kill: Callable[[int], Run]
    audit: AuditTrail
    node_id: str | None
    lease: Lease | None
    lease_ms: int

    def is_live(self, group_id: int, address: str) -> bool:
        """Return whether an address is that of a live executor of a group."""
        return self.registry.is_live(group_id, address, self.clock.now_ms())


class Resource:
    """A resource; what its methods need stands in :mod:`xwheel.api.http.permissions`.

    Args:
        parts: What it works with.
    """

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self._db = parts.db
        self._limit = parts.config.max_body_bytes


def readable_groups() -> frozenset[int] | None:
    """Return the groups that the caller may read; None for all. Lists show what is in these, and nothing else."""
    return current_actor().grants.groups_with(Permission.READ)


def reply(resp: falcon.Response, view: msgspec.Struct, status: int = 200) -> None:
    """Make a message the response."""
    resp.status = status
    resp.data = msgspec.json.encode(view)


def view_of(kind: type[S], record: object, **more: object) -> S:
    """Return what clients see of a record: the fields that the view names, and what comes from elsewhere."""
    if not more:
        return msgspec.convert(record, kind, from_attributes=True)
    known = {name: getattr(record, name) for name in kind.__struct_fields__ if name not in more}
    return msgspec.convert({**known, **more}, kind)


def reply_page(
    resp: falcon.Response,
    page: type[msgspec.Struct],
    view: Callable[[Any], msgspec.Struct] | type[msgspec.Struct],
    found: Sequence[object],
    limit: int,
    *,
    key: str = "id",
) -> None:
    """Make a page of at most ``limit`` items the response.

    What was found begins with the page; it is more than that if the list goes on, after the ``key`` of the last item.
    """
    make = partial(view_of, view) if isinstance(view, type) else view
    items = [make(item) for item in found[:limit]]
    reply(resp, page(items=items, next=getattr(found[limit - 1], key) if len(found) > limit else None))


def by_name(found: Iterable[T], after: str | None) -> list[T]:
    """Return those whose name comes after another one, sorted; databases sort letters in orders of their own."""
    name = attrgetter("name")
    return sorted((item for item in found if name(item) > (after or "")), key=name)


def named(name: str) -> str:
    """Return the name in a path; raises InputError if no object can be called so."""
    return read_fields(NamePath, {"name": name}).name


def plan_run(
    parts: ApiParts,
    resp: falcon.Response,
    job_id: int,
    key: str | None,
    param: str | None,
    addresses: Sequence[str] = (),
    when: When = AT_ONCE,
    again: int | None = None,
) -> None:
    """Plan a run, and make it the response.

    Raises:
        ConflictError: The idempotency key was used with another parameter, or for another time.
    """
    run = parts.run_now.run(
        job_id, param=param, idempotency_key=key, addresses=addresses, when=when, again=again
    )
    if run.param != param:
        raise ConflictError(f"{KEY_HEADER} {key} was used for run {run.id} with another param")
    if not when.was_asked_for(run):
        raise ConflictError(f"{KEY_HEADER} {key} was used for run {run.id} with another delay_ms or at")
    resp.location = f"/api/v1/runs/{run.id}"
    with parts.db.read() as conn:
        (view,) = run_views(conn, [run])
    reply(resp, view, 201)


def run_views(conn: Connection, runs: Sequence[Run]) -> list[RunView]:
    """Return what clients see of runs, with the names of their jobs and groups."""
    # a job may have moved since, to a group that the caller may not read
    names = jobs.find_names(conn, {run.job_id for run in runs}, readable_groups())
    found = []
    for run in runs:
        job_name, app_name = names.get(run.job_id, ("", ""))
        found.append(view_of(RunView, run, job_name=job_name, app_name=app_name))
    return found


@contextmanager
def naming(field: str, kind: str) -> Iterator[None]:
    """Blame a field of the body if the object that it refers to is not there.

    Raises:
        FieldError: Instead of the NotFoundError of an object of this kind.
    """
    try:
        yield
    except NotFoundError as error:
        if error.kind != kind:
            raise
        raise FieldError(field, str(error)) from error
