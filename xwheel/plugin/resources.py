"""Falcon resources that plugins add to the management API: checked and described as those of the core."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec

from xwheel.model.access import Permission
from xwheel.plugin.routes import PluginSite, WorksAlong
from xwheel.plugin.validation import require

F = TypeVar("F", bound=Callable[..., None])

MOST_RESOURCES: Final = 200
OPERATION: Final = "operation"  # under which attribute of a responder its :class:`Operation` is
_PATH: Final = re.compile(r"(/([a-z0-9][a-z0-9._-]*|\{[a-z][a-z0-9_]*(:id)?\}))+")

Methods = Mapping[str, "Need"]  # HTTP method to what it needs


class Of(StrEnum):
    """Where a caller must have the permission."""

    ANYONE = "anyone"  #: the route is public
    CALLER = "caller"  #: anyone who is known may call, about themselves
    SOME = "some group"  #: in one group at least; the route shows and changes nothing of others
    ALL = "all groups"  #: in all groups: what belongs to no group, or to all
    GROUP = "the group"  #: in the group that the path names
    JOB = "the job's group"
    RUN = "the run's group"


@dataclass(frozen=True, slots=True)
class OfObject:
    """In the group of an object of the plugin's that the path names."""

    words: str  #: what the OpenAPI document says: ``the rule's group``
    #: called with a connection for reading and the fields of the path; returns the kind of object, its key, both for
    #: messages, and its group's id (None for all groups), or raises ``NotFoundError``
    find: Callable[[Any, Mapping[str, Any]], tuple[str, object, int | None]] = field(compare=False)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Need:
    """What a method of a route needs."""

    permission: Permission | None  #: what it takes; None for nothing
    of: Of | OfObject  #: where
    #: a token of a group opens it too; the route checks that it is about that group
    group_token: bool = False
    #: it makes, or widens, what lets somebody in later: a token, a secret, an account, a password, a link. A person
    #: must have shown within the last minutes that they are there, and does not do it by a token; a service's token may
    makes_credential: bool = False

    def __str__(self) -> str:
        if self.of is Of.ANYONE:
            return "public"
        shown = f"{self.permission or 'a session or token'}, {self.of}"
        return f"{shown}, confirmed" if self.makes_credential else shown


PUBLIC: Final = Need(None, Of.ANYONE)
CALLER: Final = Need(None, Of.CALLER)


@dataclass(frozen=True, slots=True)
class Operation:
    """What the OpenAPI document says of a method of a route; stands as a decorator on its responder.

    A message may say more of itself in class variables: ``EXAMPLE``, a JSON value; ``EITHER``, sets of fields of which
    one is needed, and no field of another; ``IS_CHANGE``, that one field besides ``revision`` is needed. A view says in
    ``LINK`` which field of it is which field of paths.
    """

    #: the message of each good answer by its status; None for an empty one
    answers: Mapping[int, type[msgspec.Struct] | None]
    _: KW_ONLY
    #: the message that is sent; ``dict`` for a table whose keys are checked elsewhere, None for no body
    body: type[Any] | None = None
    is_body_optional: bool = False  #: an empty body counts as a message without fields
    query: type[msgspec.Struct] | None = None  #: the message of the query; None if there is none
    #: names of the request's headers that matter: ``If-Match``, ``Idempotency-Key``
    headers: Sequence[str] = ()
    problems: Sequence[str] = ()  #: kinds of failure besides those that every route shares
    media: str = "application/json"  #: content type of good answers
    is_open: bool = False  #: it may answer with any good status, and with failures of its own

    def __call__(self, responder: F) -> F:
        """Note this on a responder."""
        setattr(responder, OPERATION, self)
        return responder


@dataclass(frozen=True, slots=True)
class ResourceRoute:
    """A resource at a path."""

    #: below ``/api/v1``: ``/toys/{toy_id:id}``. A field takes one part of a path; with ``:id`` only a whole number from
    #: 1 on
    path: str
    #: a resource of Falcon. Each responder has an :class:`Operation` and a docstring, of which the OpenAPI document is
    #: made
    resource: object
    #: what each of its methods needs; a method that is missing here, or that the resource lacks, is refused
    needs: Methods
    suffix: str | None = None  #: Falcon's, for responders such as ``on_get_csv``
    #: the path is the whole one, such as that of a page for people; it does not begin with ``/api``
    at_root: bool = False


@runtime_checkable
class Resources(Protocol):
    """Resources of the management API.

    They can do what :class:`Routes` cannot: describe bodies and views in the OpenAPI document, have paths of several
    first parts, answer piece by piece. xwheel signs callers in and checks what each method needs before a responder is
    entered. What a responder raises is answered as from a resource of the core. Large answers are compressed for who
    takes them so, unless the responder sets ``resp.context.as_is``.
    """

    name: str  #: unique among plugins' resources; by it loops are named
    #: first part of a path to the sentence that the OpenAPI document says of it; for those that the core does not
    #: describe
    chapters: Mapping[str, str] = MappingProxyType({})

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return the resources; called once when a process starts, with what they work with. It does no I/O.

        What only works along returns none.

        Raises:
            ConfigError: Settings do not fit what there is.
        """


def read_resources(item: Resources, site: PluginSite) -> Sequence[ResourceRoute]:
    """Return the resources of a plugin, once they are known to be such."""
    what, found = f"resources {item.name}", tuple(item.resources(site))
    is_fit = (0 if isinstance(item, WorksAlong) else 1) <= len(found) <= MOST_RESOURCES
    require(is_fit, f"{what}: {len(found)} paths; from 1 to {MOST_RESOURCES} are allowed")
    for route in found:
        is_route = isinstance(route, ResourceRoute)
        require(is_route, f"{what}: resources() must return objects of ResourceRoute")
        is_path = isinstance(route.path, str) and _PATH.fullmatch(route.path) is not None
        shown = str(route.path)[:80]
        require(is_path, f"{what}: {shown!r} is no path: write such as /things/{{thing_id:id}}")
        has_needs = all(isinstance(need, Need) for need in route.needs.values())
        require(has_needs, f"{what}: {route.path} must say by method what it needs, as a Need")
        is_under_api = route.at_root and route.path.split("/")[1] == "api"
        require(not is_under_api, f"{what}: {route.path} is no path at the root, which has no /api")
    return found
