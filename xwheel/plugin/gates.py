"""The gate in front of routes: plugins that say who calls, and what they may do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, runtime_checkable

from xwheel.errors import PluginError
from xwheel.model.access import NOTHING, Actor, ActorKind, Grant, Grants, Role
from xwheel.plugin.routes import PluginSite, RecordsDeeds
from xwheel.plugin.validation import is_text, require

MOST_WATCHED: Final = 20
MAX_WORDS: Final = 255
_KINDS: Final = frozenset({ActorKind.ACCOUNT, ActorKind.TOKEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallHead:
    """What a call shows before its body is read."""

    method: str  #: such as ``GET``
    path: str  #: below the root, without the query
    headers: Mapping[str, str]  #: by name in small letters
    #: of those that the gate looks at, name to all values that came with it
    cookies: Mapping[str, Sequence[str]]
    address: str  #: where the call came from, as far as trusted proxies (``api.trusted_proxies``) say so
    peer: str  #: the other end of the connection: the proxy itself, if there is one
    host: str  #: the host and port that the caller asked for, likewise
    is_https: bool  #: whether the caller's connection is encrypted, likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOwner:
    """Whose a token is."""

    name: str  #: the account's name
    grants: Grants = NOTHING  #: what it may do now; its tokens open no more
    is_shut_out: bool = False  #: its tokens open nothing


@runtime_checkable
class IdentifiesCallers(Protocol):
    """Who calls, in one process."""

    def identify(self, call: CallHead) -> Actor | None:
        """Return who calls, with their grants; None if the call shows nothing of this gate's.

        It is asked before every call that shows a header or cookie of the gate's, on several threads at once; a large
        body is announced before, so it may be asked twice for one call. A call that it refuses is counted and recorded;
        an error with an attribute ``caller``, an ``Actor``, says who that was or should have been. If it raises
        anything that is none of xwheel's errors, or returns anything else, no one is let in by it.

        A token, and whatever else lets somebody in, is made by a person only while the actor is ``confirmed``. Set that
        for a person who typed the password within the last minutes, or showed in another way who they are.

        Raises:
            AuthError: It shows something of this gate's, which is wrong or has ended.
            ForbiddenError: It is known who calls, and this may not be done like this.
        """


@runtime_checkable
class Gate(Protocol):
    """Says who calls the management API, and what they may do; asked before xwheel looks at tokens of its own.

    Without one there are tokens only: those for everything, those with roles, those of groups.
    """

    name: str  #: unique among gates
    #: names of headers, in small letters: a call with one of them is shown to this gate
    headers: Sequence[str]
    cookies: Sequence[str]  #: names of cookies, likewise

    def open(self, site: PluginSite) -> IdentifiesCallers:
        """Return what identifies callers in this process; called once when it starts. It does no I/O."""


@runtime_checkable
class KnowsOwners(Protocol):
    """A gate that knows accounts, to which tokens of xwheel may belong; without one such tokens open nothing."""

    def owners(self, conn: Any, ids: Collection[int]) -> Mapping[int, TokenOwner]:
        """Return accounts by id as they stand in the database; those that are gone are left out.

        The connection may be inside a transaction that gives something away; ids are as actors and tokens carry them.
        """


class FirstCredential(Protocol):
    """What lets the first person in, made at the first start."""

    words: str  #: what it is called where it is shown
    value: str  #: the secret, which is shown this once

    def prepare(self) -> None:
        """Compute what storing it needs and what takes long."""

    def is_there(self, conn: Any) -> bool:
        """Return whether somebody may sign in already: then none is made."""

    def is_ours(self, conn: Any) -> bool:
        """Return whether this one is stored."""

    def store(self, conn: Any, record: RecordsDeeds) -> None:
        """Store this one; raises ConflictError if another one is stored."""


@runtime_checkable
class MakesFirst(Protocol):
    """A gate that makes, when a node first starts on a database, what lets the first person in."""

    def first_credential(self, now_ms: int) -> FirstCredential:
        """Return one, before anything is stored."""


@runtime_checkable
class LinksIn(Protocol):
    """A gate that says at a node's start how people sign in, and can make a link that does it once."""

    #: how people sign in, such as ``with the name and password of an account``
    way_in: str

    def link_for_admin(self, db: Any, record: RecordsDeeds) -> str | None:
        """Return a path with a secret, of a page that signs somebody in once who may do everything; None for none.

        Called at a first start, when secrets are shown.
        """


@runtime_checkable
class NamesCaller(Protocol):
    """An error that says who was refused."""

    caller: Actor | None  #: who it was, or should have been; None if that is not known


def check_gate(item: Gate) -> None:
    """Refuse a gate that would never be asked, or for what no call can show."""
    what, watched = f"gate {item.name}", [*item.headers, *item.cookies]
    are_names = all(is_text(name, MAX_WORDS, 1) and name.isascii() for name in watched)
    require(are_names, f"{what}: headers and cookies must be lists of names")
    is_fit = 0 < len(watched) <= MOST_WATCHED
    require(is_fit, f"{what}: must look at 1 to {MOST_WATCHED} headers and cookies")
    is_small = all(name == name.lower() for name in item.headers)
    require(is_small, f"{what}: names of headers must be in small letters")


def checked_actor(gate: str, found: object, address: str) -> Actor | None:
    """Return who calls, as a gate of this name says, once that is known to be an actor with grants and nothing more."""
    if found is None:
        return None
    what = f"gate {gate}"
    if type(found) is not Actor:
        raise PluginError(f"{what}: identify() must return an Actor or None, not {type(found).__name__}")
    is_caller = found.kind in _KINDS and isinstance(found.kind, ActorKind)
    require(is_caller, f"{what}: a caller is of the kind account or token, not {str(found.kind)[:40]}")
    are_texts = is_text(found.name, MAX_WORDS, 1) and is_text(found.credential, MAX_WORDS)
    are_texts = are_texts and is_text(found.reason, MAX_WORDS)
    require(are_texts, f"{what}: name and credential of a caller must be texts of at most {MAX_WORDS}")
    is_id = found.account_id is None or type(found.account_id) is int
    require(is_id, f"{what}: account_id of a caller must be a number or None")
    require(type(found.confirmed) is bool, f"{what}: confirmed of a caller must be true or false")
    return replace(found, grants=checked_grants(gate, found.grants), address=address)


def checked_grants(gate: str, found: object) -> Grants:
    """Return grants as they are, made again of their parts: none decides by code of its own what it allows."""
    if type(found) is not Grants:
        raise PluginError(f"gate {gate}: grants must be an object of Grants, not {type(found).__name__}")
    groups = dict(found.groups)
    are_ids = all(type(group_id) is int for group_id in groups)
    require(are_ids, f"gate {gate}: grants name groups by their ids")
    everywhere = None if found.everywhere is None else _grant(gate, found.everywhere)
    return Grants(everywhere, {group_id: _grant(gate, grant) for group_id, grant in groups.items()})


def _grant(gate: str, found: object) -> Grant:
    if type(found) is not Grant or type(found.role) is not Role or type(found.script) is not bool:
        raise PluginError(f"gate {gate}: a grant is an object of Grant, with a Role")
    return Grant(found.role, found.script)


def checked_owners(gate: str, found: object, ids: Collection[int]) -> dict[int, TokenOwner]:
    """Return whose tokens are, as a gate of this name says, of the accounts that were asked about."""
    if not isinstance(found, Mapping):
        raise PluginError(f"gate {gate}: owners() must return a mapping, not {type(found).__name__}")
    owners = {}
    for account_id in ids:
        if (owner := found.get(account_id)) is None:
            continue
        is_fit = type(owner) is TokenOwner and type(owner.name) is str and type(owner.is_shut_out) is bool
        require(is_fit, f"gate {gate}: owners() must return objects of TokenOwner")
        owners[account_id] = replace(owner, grants=checked_grants(gate, owner.grants))
    return owners
