"""What the resources of the management API share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import falcon
import msgspec

from xwheel.api.http.body import read_fields
from xwheel.api.http.headers import KEY_HEADER
from xwheel.api.parts import ApiParts
from xwheel.api.schema.messages import NamePath
from xwheel.api.schema.views import RunView
from xwheel.clock import Clock
from xwheel.config import Config
from xwheel.errors import ConflictError, FieldError, NotFoundError
from xwheel.model import Run
from xwheel.model.access import Permission, current_actor
from xwheel.scheduler.runs.run_now import AT_ONCE, RunNow, When
from xwheel.storage import jobs
from xwheel.storage.database.engine import Connection, Database

S = TypeVar("S", bound=msgspec.Struct)

T = TypeVar("T")


class Resource:
    """A resource; what its methods need stands in :data:`xwheel.api.app.ROUTES`.

    What it takes of the parts of the application it names, as annotated attributes of its class; it has no others.
    """

    db: Database
    clock: Clock
    config: Config

    def __init__(self, parts: ApiParts) -> None:
        for kind in type(self).__mro__:
            for name in inspect.get_annotations(kind):
                setattr(self, name, getattr(parts, name))
        self._limit = parts.config.api.max_body_bytes


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
    return msgspec.convert({**known, **more}, kind, from_attributes=True)


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


class PlansRuns(Resource):
    """A resource that plans runs."""

    run_now: RunNow

    def plan_run(
        self,
        resp: falcon.Response,
        job_id: int,
        key: str | None,
        param: str | None,
        addresses: Sequence[str] = (),
        when: When = AT_ONCE,
        again: int | None = None,
    ) -> None:
        """Plan a run, and make it the response; a key that was used for another parameter or time is a conflict."""
        run = self.run_now.run(job_id, param=param, idempotency_key=key, addresses=addresses, when=when, again=again)
        if run.param != param:
            raise ConflictError(f"{KEY_HEADER} {key} was used for run {run.id} with another param")
        if not when.was_asked_for(run):
            raise ConflictError(f"{KEY_HEADER} {key} was used for run {run.id} with another delay_ms or at")
        resp.location = f"/api/v1/runs/{run.id}"
        self.reply_run(resp, run, 201)

    def reply_run(self, resp: falcon.Response, run: Run, status: int = 200) -> None:
        """Make a run the response."""
        with self.db.read() as conn:
            (view,) = run_views(conn, [run])
        reply(resp, view, status)


def run_views(conn: Connection, runs: Sequence[Run]) -> list[RunView]:
    """Return what clients see of runs, with the names of their jobs and groups."""
    # a job may have moved since, to a group that the caller may not read
    names = jobs.find_names(conn, {run.job_id for run in runs}, readable_groups())
    found = []
    for run in runs:
        job_name, app_name = names.get(run.job_id, ("", ""))
        found.append(view_of(RunView, run, job_name=job_name, app_name=app_name, began_ms=run.began_ms))
    return found


@contextmanager
def naming(field: str, kind: str) -> Iterator[None]:
    """Raise FieldError, which blames a field of the body, instead of NotFoundError of the object that it refers to."""
    try:
        yield
    except NotFoundError as error:
        if error.kind != kind:
            raise
        raise FieldError(field, str(error)) from error
