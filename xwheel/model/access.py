"""Who acts, and what they may do: roles, permissions, grants, and the actor of the call that is being served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from xwheel.errors import ForbiddenError, HiddenError


class Role(StrEnum):
    """What an account or token may do; each role may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """Place among the roles: 0 for the one that may do least."""
        return _RANKS[self]


_RANKS: Final = {role: rank for rank, role in enumerate(Role)}


class Permission(StrEnum):
    """What a call needs."""

    READ = "read"
    RUN = "run"  #: run, start, stop, kill and pause
    EDIT = "edit"  #: change jobs, rules and calendars
    SCRIPT = "script"  #: change what scripts run, besides ``edit``
    ADMIN = "admin"  #: change groups, secrets, accounts and tokens


_LEAST: Final = {
    Permission.READ: Role.VIEWER,
    Permission.RUN: Role.OPERATOR,
    Permission.EDIT: Role.EDITOR,
    Permission.SCRIPT: Role.EDITOR,
    Permission.ADMIN: Role.ADMIN,
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A role, and whether it may change scripts besides; an admin may anyway."""

    role: Role
    script: bool = False

    def allows(self, permission: Permission) -> bool:
        """Return whether it opens what needs a permission."""
        if self.role.rank < _LEAST[permission].rank:
            return False
        return permission is not Permission.SCRIPT or self.script or self.role is Role.ADMIN

    @property
    def allows_scripts(self) -> bool:
        """Whether it opens the change of what scripts run."""
        return self.allows(Permission.SCRIPT)

    def within(self, other: Grant) -> Grant:
        """Return what both allow."""
        role = min(self.role, other.role, key=lambda item: item.rank)
        script = self.allows(Permission.SCRIPT) and other.allows(Permission.SCRIPT)
        return Grant(role, script)


@dataclass(frozen=True, slots=True)
class Grants:
    """What somebody may do in all groups, and in named ones; the higher of both counts."""

    everywhere: Grant | None = None  # in all groups, and in what belongs to none; None for nothing
    groups: Mapping[int, Grant] = field(default_factory=dict)  # id of a group to what may be done there

    def allows(self, permission: Permission, group_id: int | None = None) -> bool:
        """Return whether they open what needs a permission in a group, or in what belongs to none."""
        if self.everywhere is not None and self.everywhere.allows(permission):
            return True
        grant = None if group_id is None else self.groups.get(group_id)
        return grant is not None and grant.allows(permission)

    def groups_with(self, permission: Permission) -> frozenset[int] | None:
        """Return the groups in which they open what needs a permission; None for all groups."""
        if self.allows(permission):
            return None
        return frozenset(group_id for group_id, grant in self.groups.items() if grant.allows(permission))

    def covers(self, other: Grants) -> bool:
        """Return whether they allow whatever others allow, so that their holder may give these away."""
        if other.everywhere is not None and not _covers(self.everywhere, other.everywhere):
            return False
        return all(
            _covers(self.everywhere, grant) or _covers(self.groups.get(group_id), grant)
            for group_id, grant in other.groups.items()
        )

    def within(self, other: Grants) -> Grants:
        """Return what both allow; for a token that may do no more than its account."""
        everywhere = _both(self.everywhere, other.everywhere)
        found = {}
        for group_id in {*self.groups, *other.groups}:
            mine = either(self.everywhere, self.groups.get(group_id))
            grant = _both(mine, either(other.everywhere, other.groups.get(group_id)))
            if grant is not None and grant != everywhere:
                found[group_id] = grant
        return Grants(everywhere, found)


def _covers(mine: Grant | None, other: Grant) -> bool:
    if mine is None or mine.role.rank < other.role.rank:
        return False
    return mine.allows(Permission.SCRIPT) or not other.allows(Permission.SCRIPT)


def _both(one: Grant | None, other: Grant | None) -> Grant | None:
    return None if one is None or other is None else one.within(other)


def either(one: Grant | None, other: Grant | None) -> Grant | None:
    """Return what either allows; what one role opens, the script right of the other adds to."""
    if one is None or other is None:
        return one or other
    role = max(one.role, other.role, key=lambda item: item.rank)
    return Grant(role, one.allows(Permission.SCRIPT) or other.allows(Permission.SCRIPT))


NOTHING: Final = Grants()
ALL: Final = Grants(Grant(Role.ADMIN, script=True))


class ActorKind(StrEnum):
    """How somebody came to act."""

    ACCOUNT = "account"  #: a person's session or personal token
    #: a service token
    TOKEN = "token"  # noqa: S105 -- a kind's name
    GROUP = "group"  #: a token of a group, for XXL-JOB's job calls and for what code declares
    COMMAND = "command"  #: a command that works on the database itself
    NODE = "node"  #: xwheel itself: no one asked
    UNKNOWN = "unknown"  #: not known who


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who does something, and what they may do; audit rows and versions of jobs name them."""

    kind: ActorKind  # how they came to act
    name: str = ""  # of the account or token, of the user of the system for a command, or empty
    grants: Grants = NOTHING  # what they may do
    account_id: int | None = None  # the account; None for others
    credential: str = ""  # what they showed, such as ``session 12`` or ``token ops``; nothing secret
    address: str = ""  # where the call came from, or empty
    reason: str = ""  # why they do it, in their words, or empty
    confirmed: bool = False  # a person showed within the last minutes that they are there, as by their password

    def need(self, permission: Permission, group_id: int | None, kind: str, key: object) -> None:
        """Check that the actor may do what needs a permission, to an object in a group; None is for one of all groups.

        Raises ForbiddenError for who may read it, and HiddenError for who may not, and so learns nothing of it.
        """
        if self.grants.allows(permission, group_id):
            return
        if not self.grants.allows(Permission.READ, group_id):
            raise HiddenError(kind, key)
        where = "all groups" if group_id is None else "its group"
        raise ForbiddenError(permission, f"{kind} {key}: this takes the permission {permission} in {where}")


NODE: Final = Actor(kind=ActorKind.NODE, grants=ALL)
UNKNOWN_ACTOR: Final = Actor(kind=ActorKind.UNKNOWN)

_current: Final = ContextVar("xwheel_actor", default=NODE)


def current_actor() -> Actor:
    """Return who acts on this thread: the caller that is being served, or the node itself."""
    return _current.get()


def set_actor(actor: Actor) -> None:
    """Say who acts on this thread from now on; for middleware, which must set :data:`NODE` again at the end."""
    _current.set(actor)


@contextmanager
def acting(actor: Actor) -> Iterator[Actor]:
    """Say who acts within a block, and give them to it."""
    token = _current.set(actor)
    try:
        yield actor
    finally:
        _current.reset(token)
