"""Resources that plugins add to the management API and to the executor API, and what they are given to answer calls."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec

from xwheel.clock import Clock
from xwheel.errors import FieldError, XwheelError
from xwheel.model import RegisteredExecutor
from xwheel.model.access import Actor, Permission
from xwheel.model.deeds import Deed
from xwheel.plugin.contracts import PluginDatabase
from xwheel.plugin.job_writing import JobWriter
from xwheel.plugin.run_logs import LogQuestions, ReadsLogs
from xwheel.plugin.validation import is_number, require

T = TypeVar("T")

MOST_ROUTES: Final = 200
MOST_BODY_BYTES: Final = 4 * 1024**3
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
READS: Final = frozenset({"GET"})
PIECE: Final = 64 * 1024
MOST_JSON_BYTES: Final = 1024 * 1024
LOWEST_PROBLEM: Final = 400
HIGHEST_PROBLEM: Final = 599
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_PATH: Final = re.compile(r"(/([a-z0-9][a-z0-9._-]*|\{[a-z][a-z0-9_]*(:id)?\}))*")
_FIELD: Final = re.compile(r"\{([a-z][a-z0-9_]*)(:id)?\}")
_REASON: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_HEADERS: Final = frozenset({"Location", "ETag", "Cache-Control", "Retry-After"})


class RouteScope(StrEnum):
    """Where a caller must have the permission of a route."""

    SOME = "some group"  #: in one group at least; the plugin shows and changes nothing of others
    ALL = "all groups"
    GROUP = "the group"  #: in the group whose id is the field ``group_id`` of the path
    JOB = "the job's group"  #: the job's id is the field ``job_id`` of the path
    RUN = "the run's group"  #: the run's id is the field ``run_id`` of the path


_SCOPE_FIELDS: Final = {RouteScope.GROUP: "group_id", RouteScope.JOB: "job_id", RouteScope.RUN: "run_id"}


class RouteRefusedError(XwheelError):
    """A call that a plugin refuses; becomes a problem document."""

    def __init__(
        self, status: int, reason: str, detail: str, *, field: str = "", facts: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(detail)
        if not LOWEST_PROBLEM <= status <= HIGHEST_PROBLEM:
            raise ValueError(f"status must be from {LOWEST_PROBLEM} to {HIGHEST_PROBLEM}, not {status}")
        if not _REASON.fullmatch(reason):
            raise ValueError(f"reason must be 1 to 64 small letters, digits and underscores, not {reason!r}")
        self.status = status  #: HTTP status, from 400 to 599
        self.reason = reason  #: a stable word for programs, of small letters, digits and underscores
        self.field = field  #: the field, parameter or header at fault, or empty
        self.facts = dict(facts or {})  #: what else programs may want to know; JSON


class CallBody(Protocol):
    """The body of a call, read piece by piece."""

    length: int | None  #: bytes that the caller announced; None if it did not

    def read(self, size: int = PIECE) -> bytes:
        """Return up to this many bytes more; nothing at the end.

        Raises:
            XwheelError: The body is over the route's limit, or ended before its announced length.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCall:
    """One call of a route."""

    path: Mapping[str, Any]  #: the fields of the route's path; those with ``:id`` are numbers
    query: Mapping[str, str]  #: the parameters of the query; of a repeated one the last
    headers: Mapping[str, str]  #: by name in small letters
    body: CallBody  #: the body; empty for a ``GET``
    actor: Actor  #: who calls, with their grants; the node itself for an executor
    #: of an executor, the group whose secret it showed; None for the shared token, and for people
    group_id: int | None = None

    def json(self, most: int = MOST_JSON_BYTES) -> dict[str, Any]:
        """Return the body as a JSON object; an empty body as an empty one.

        Raises:
            RouteRefusedError: It is too large, or no JSON.
            FieldError: It is no object.
        """
        content = bytearray()
        while piece := self.body.read():
            content += piece
            if len(content) > most:
                raise RouteRefusedError(413, "body_too_large", f"the body may have at most {most} bytes")
        try:
            found = msgspec.json.decode(content) if content else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RouteRefusedError(400, "malformed_body", f"body: not JSON: {error}", field="body") from None
        if not isinstance(found, dict):
            raise FieldError("body", "must be a JSON object")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteReply:
    """What a route answers: JSON, bytes, or a file, which is sent without being held in memory."""

    status: int = 200  #: HTTP status, from 200 to 299
    #: what is sent as JSON, if there is neither ``data`` nor ``file``; None for no content
    value: object = None
    data: bytes | None = None  #: bytes that are sent as they are
    file: Path | None = None  #: path of a file; callers may ask for a range of it
    media_type: str = "application/octet-stream"  #: of ``data`` and ``file``
    file_name: str = ""  #: under which browsers keep the file; empty for none
    #: ``Location``, ``ETag``, ``Cache-Control`` or ``Retry-After``
    headers: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what cannot be sent; raises ValueError, which says what is wrong."""
        if type(self.status) is not int or not 200 <= self.status <= 299:  # noqa: PLR2004 - HTTP's good ones
            raise ValueError(f"status must be from 200 to 299, not {self.status!r}")
        texts = [self.media_type, self.file_name, *self.headers, *self.headers.values()]
        if any(not isinstance(text, str) or not text.isprintable() for text in texts):
            raise ValueError("media_type, file_name and headers must be text without control characters")
        if unknown := set(self.headers) - _HEADERS:
            raise ValueError(f"headers may be {', '.join(sorted(_HEADERS))}, not {min(unknown)[:40]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str  #: ``GET``, ``POST``, ``PUT``, ``PATCH`` or ``DELETE``
    #: below ``/api/v1/NAME``: empty, or such as ``/{package_id:id}/file``. A field takes one part of a path; with
    #: ``:id`` only a whole number from 1 on
    path: str
    answer: Callable[[RouteCall], RouteReply]  #: answers a call; on several threads at once
    summary: str  #: one sentence for the OpenAPI document
    #: what people and programs need. A route with neither this nor ``for_executors`` is refused
    permission: Permission | None = None
    scope: RouteScope = RouteScope.SOME  #: where they need it
    #: it is served by the executor API instead, to executors, which show their group's secret or the token that all
    #: share
    for_executors: bool = False
    #: larger bodies are refused; None for the setting ``api.max_body_bytes``. What is over that one is taken only from
    #: callers who have the permission
    max_body_bytes: int | None = None


class PluginJobs(Protocol):
    """Jobs and runs as the management API has them; what the caller may not do raises what it would answer.

    Jobs and runs are tables with the fields of ``GET /api/v1/jobs/{job_id}`` and ``GET /api/v1/runs/{run_id}``.
    """

    def get(self, job_id: int) -> dict[str, Any]:
        """Return a job."""

    def find(self, group_id: int, name: str) -> dict[str, Any] | None:
        """Return the job of a group that has exactly this name, or None."""

    def create(
        self, values: Mapping[str, object], *, unique: bool = True, author: str | None = None, remark: str | None = None
    ) -> dict[str, Any]:
        """Create a job from the fields of ``POST /api/v1/jobs``.

        Unless ``unique`` is false, a name that another job of the group has is refused. If it has a source, ``author``
        says who wrote that, None for the caller, and ``remark`` is a word on it.
        """

    def change(
        self, job_id: int, values: Mapping[str, object], *, revision: int | None = None, unique: bool = True
    ) -> dict[str, Any]:
        """Change a job by the fields of ``PATCH /api/v1/jobs/{job_id}``; only at this revision if one is given.

        Unless ``unique`` is false, a new name that another job of the group has is refused.
        """

    def restore(self, job_id: int, revision: int, *, seen: int | None = None) -> dict[str, Any]:
        """Change a job to be as it was at a revision, its source included; it stays started or stopped as it is.

        With ``seen`` it is changed only if it is at that revision.
        """

    def start(self, job_id: int, *, revision: int | None = None) -> dict[str, Any]:
        """Let a job fire by its schedule; nothing changes if it does."""

    def stop(self, job_id: int, *, revision: int | None = None) -> dict[str, Any]:
        """Let a job fire no more; runs that executors have go on."""

    def delete(self, job_id: int) -> None:
        """Delete a job; runs that executors have go on."""

    def run(self, job_id: int, *, param: str | None = None, addresses: Sequence[str] = ()) -> dict[str, Any]:
        """Plan a run that is due now, with the job's parameter or another one.

        It goes to an executor at one of these addresses, if there are any.
        """

    def open_runs(self, job_id: int) -> list[dict[str, Any]]:
        """Return the newest runs of a job that have not ended, 100 at most."""

    def kill(self, run_id: int) -> dict[str, Any]:
        """End a run, or begin to."""

    def group_id(self, app_name: str) -> int | None:
        """Return the id of an executor group, or None."""


@dataclass(frozen=True, slots=True)
class PluginGroup:
    """An executor group."""

    id: int  #: its id, which no later group has again
    app_name: str  #: its app name
    #: whether it has an executor secret of its own, be it expired: the token that all executors share stands for groups
    #: without one
    has_secret: bool


class PluginExecutors(Protocol):
    """Executors and their groups, as a plugin may ask about them and speak of them."""

    def groups(self) -> Sequence[PluginGroup]:
        """Return all executor groups by id; which of them a caller may know of is for the plugin to decide."""

    def is_live(self, group_id: int, address: str) -> bool:
        """Return whether a live executor of a group is at this address, spelled as executors' addresses are listed."""

    def live(self, group_id: int | None = None) -> Sequence[RegisteredExecutor]:
        """Return the live executors of a group, or of all, from memory."""

    def heard_since_ms(self) -> int:
        """Return since when this process hears beats, after a start or a gap: no executor is missing for longer."""

    def note_death(self, address: str) -> None:
        """Say that the executor at this address was seen to die, so that it is asked about its runs at once.

        If it does not answer, its runs of this node's partitions end as lost within seconds; one that answers, or whose
        beat comes, keeps them. Each node says so for itself.
        """

    @property
    def logs(self) -> ReadsLogs:
        """Logs of runs as executors have them."""

    def log_questions(self) -> LogQuestions:
        """Return a way to ask executors for logs; it is the caller's, who closes it."""


class PluginPartitions(Protocol):
    """The partitions of jobs that this process holds: what must be done once in a cluster, their holder does.

    Jobs, runs and what plugins keep about them carry their partition, from 0 to 63.
    """

    def held(self) -> Collection[int]:
        """Return the partitions that this process may act on now; none in one that is no node, or whose lease ended."""

    def lock(self, conn: Any) -> Collection[int]:
        """Return the partitions that this node holds, locked: no other node takes one before the transaction ends."""


class RecordsDeeds(Protocol):
    """Where deeds are recorded."""

    def record(
        self,
        conn: Any,
        action: str,
        kind: str,
        object_id: object,
        *,
        group_id: int | None = None,
        before: object = None,
        after: object = None,
    ) -> None:
        """Record in the audit what the caller does to an object, in the transaction that does it.

        ``before`` and ``after`` are mappings or records; what differs between them is shown. A call that changes
        something and records nothing is recorded with its method and path alone.
        """
        deed = Deed(action=action, kind=kind, object_id=object_id, group_id=group_id, before=before, after=after)
        self.record_many(conn, [deed])

    def record_many(self, conn: Any, deeds: Sequence[Deed]) -> None:
        """Record what is done to many objects, each by its actor."""


class PluginSite(RecordsDeeds, Protocol):
    """What a plugin's routes work with; what they change is recorded here, too (see :class:`RecordsDeeds`)."""

    @property
    def database(self) -> PluginDatabase:
        """The database."""

    @property
    def jobs(self) -> PluginJobs:
        """Jobs and runs, changed as the caller that is being answered."""

    @property
    def job_writer(self) -> JobWriter:
        """Writes many jobs in a transaction of the plugin's."""

    @property
    def executors(self) -> PluginExecutors:
        """Executors."""

    @property
    def partitions(self) -> PluginPartitions:
        """The partitions that this process holds."""

    @property
    def clock(self) -> Clock:
        """Where time comes from, for what measures or waits."""

    def now_ms(self) -> int:
        """Return what time it is, as all nodes count it."""

    def resources(self) -> Sequence[Any]:
        """Return what the management API of this process serves as resource routes with whole paths, plugins' too.

        Ask when a call is answered: at the start they are not all there.
        """

    def registered(self, hook: str) -> Mapping[str, Any]:
        """Return by name what plugins registered for a hook; raises KeyError if the name is that of no hook."""

    def offering(self, contract: type[T]) -> Sequence[T]:
        """Return the routes and resources of plugins, this one's too, that can do what a contract says, by name.

        The contract is a protocol that can be checked at run time. What there is is known once all plugins are loaded,
        so ask when a call is answered or in a step.
        """

    def forget_tokens(self) -> None:
        """Let tokens that the plugin changed count in this process at once; in others they do within a second."""

    def need(self, permission: Permission, group_id: int | None = None, kind: str = "object", key: object = "") -> None:
        """Make sure that the caller has a permission in a group; None for all groups.

        Raises:
            XwheelError: The caller has not, or may not even know of the object.
        """


@runtime_checkable
class Routes(Protocol):
    """Resources below ``/api/v1/NAME`` of the management API, and of the executor API.

    xwheel signs callers in, checks what each route needs before the plugin is called, limits bodies and calls under
    way, and writes what was refused into the audit. What a route raises is a problem document: errors of xwheel's with
    their own statuses, anything else with status 500 and a number under which the log has the details.
    """

    name: str  #: the first part of the paths: small letters, digits and dashes; none that xwheel has itself

    def routes(self, site: PluginSite) -> Sequence[Route]:
        """Return the routes; called once when a node starts, with what they work with. It does no I/O."""


@runtime_checkable
class WorksAlong(Protocol):
    """Routes that also work between calls, such as to follow a store outside, on a thread of their own in each node.

    There they act as the node, which may do everything, with the site that ``routes`` was given.
    """

    def step(self, now_ms: int) -> int:
        """Do what is due, and return how long to wait in milliseconds; more than a minute counts as a minute.

        Called again and again from the node's start on, and again after what it raises, ever later up to five seconds.
        It may wait itself, at most five seconds: a node that stops waits no longer for it.
        """

    def end(self) -> None:
        """Let go of what it keeps; called once, when no step is called any more, and given five seconds."""


@runtime_checkable
class WokenUp(Protocol):
    """A plugin that works along and is not to wait for the end of what its last step returned."""

    #: set by the plugin, from any thread, to begin the next step at once; xwheel clears it before each step
    wakeup: threading.Event


@runtime_checkable
class SaysWhenDue(Protocol):
    """A plugin that works along and may wait long: it is woken when its rows say that something is due."""

    #: a select of SQLAlchemy for the epoch milliseconds from which a step has something to do, NULL or no row for
    #: nothing. It is asked once a second, so an index must answer it in microseconds, and a step begins each time that
    #: they have come. While it cannot be asked, no wait is longer than a second
    due: Any


def check_routes_name(item: Routes) -> None:
    """Refuse a name that cannot be part of a path."""
    is_fit = _NAME.fullmatch(item.name) is not None
    require(is_fit, f"routes {item.name[:40]}: a name of routes has small letters, digits and dashes only")


def read_routes(item: Routes, site: PluginSite) -> Sequence[Route]:
    """Return the routes of a plugin, once they are known to be such, each once and saying who may call it."""
    what, found = f"routes {item.name}", tuple(item.routes(site))
    is_fit = 0 < len(found) <= MOST_ROUTES
    require(is_fit, f"{what}: {len(found)} routes; from 1 to {MOST_ROUTES} are allowed")
    seen: set[tuple[bool, str, str]] = set()
    for route in found:
        require(isinstance(route, Route), f"{what}: routes() must return objects of Route")
        words, reason = f"{what}: {str(route.method)[:8]} {str(route.path)[:80]}", _fault(route)
        require(not reason, f"{words} {reason}")
        key = (route.for_executors, route.method, _FIELD.sub("{}", route.path))
        require(key not in seen, f"{words} is there twice")
        seen.add(key)
    return found


def _fault(route: Route) -> str:
    path, most, wanted = route.path, route.max_body_bytes, _SCOPE_FIELDS.get(route.scope)
    names = [found[0] for found in _FIELD.findall(str(path))]
    is_path = isinstance(path, str) and _PATH.fullmatch(path) is not None and len(set(names)) == len(names)
    is_for_some = route.for_executors is True or isinstance(route.permission, Permission)
    has_field = wanted is None or route.for_executors or f"{{{wanted}:id}}" in str(path)
    checks = {
        f"has a method that is none of {', '.join(METHODS)}": route.method in METHODS,
        "has a path that cannot be used: write '' or such as /{package_id:id}/file": is_path,
        "has no answer that can be called": callable(route.answer),
        "has no summary": isinstance(route.summary, str) and bool(route.summary.strip()),
        "does not say who may call it: give it a permission, or for_executors": is_for_some,
        "is for executors and for people: make two": not (route.for_executors and route.permission),
        f"may have a body of 0 to {MOST_BODY_BYTES} bytes": most is None or is_number(most, 0, MOST_BODY_BYTES),
        f"needs {{{wanted}:id}} in its path, for its scope": has_field,
    }
    return next((words for words, holds in checks.items() if not holds), "")
