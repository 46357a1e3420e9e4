"""Which release of an application owns the jobs that its code declares; pure functions of what is live.

The highest release with a live executor owns. Of two that call themselves the same release and declare other jobs, the
one that came first keeps them, and the other one is a conflict. A release that is gone keeps its jobs for a while, so
that a restart hands nothing to an older one and back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from packaging.version import InvalidVersion, Version
from xwheel.errors import FieldError

MAX_RELEASE: Final = 64


class DeclarationState(StrEnum):
    """Where a set of declarations stands in its group."""

    OWNS = "owns"
    WAITS = "waits"
    CONFLICTS = "conflicts"


class Declared(NamedTuple):
    """What one build of an application declares.

    Attributes:
        release: Of the application.
        digest: Of what it declares.
    """

    release: str
    digest: str


class Owner(NamedTuple):
    """Whose declarations a group follows.

    Attributes:
        declared: Release and digest; None before the first complete sync.
        seen_ms: When one of its executors last synced; None if none ever did.
    """

    declared: Declared | None = None
    seen_ms: int | None = None


class Build(NamedTuple):
    """What some live executors declare, and where that stands."""

    declared: Declared
    standing: DeclarationState
    executors: int


class OwnershipDecision(NamedTuple):
    """Whether somebody may write the jobs of a group.

    Attributes:
        other: Who keeps the caller from it, if anything does.
        is_live: Whether an executor of the other one is live; otherwise it is gone, and kept until ``until_ms``.
    """

    standing: DeclarationState
    other: Declared | None = None
    is_live: bool = False
    until_ms: int = 0


def check_release(text: str) -> str:
    """Return a release that can be compared with others.

    Raises:
        FieldError: It cannot.
    """
    if not 0 < len(text) <= MAX_RELEASE or _version(text) is None:
        raise FieldError(
            "release",
            f"must be a version that rises, as pip compares them, of at most {MAX_RELEASE} characters: 1.4.2, "
            "2026.11.23 or a build's number, no commit's hash",
        )
    return text


def decide(
    caller: Declared,
    owner: Owner,
    live: Collection[Declared],
    now_ms: int,
    *,
    is_executor: bool,
    gone_ms: int,
    listens_since_ms: int = 0,
) -> OwnershipDecision:
    """Return whether a caller's declarations own the jobs of its group.

    Args:
        caller: Who asks.
        owner: Whom the group follows until now.
        live: What live executors of the group declare.
        now_ms: The shared time.
        is_executor: Whether the caller is a live executor; a person's command is none.
        gone_ms: This long a release keeps its jobs once its executors are gone.
        listens_since_ms: Since when beats can be heard: no one is missing for longer.
    """
    others = {item: 0 for item in _known(live) if item != caller}
    if owner.declared is not None and owner.declared not in (caller, *others) and owner.seen_ms is not None:
        until_ms = max(owner.seen_ms, listens_since_ms) + gone_ms
        if now_ms < until_ms and _version(owner.declared.release) is not None:
            others[owner.declared] = until_ms
    higher = [item for item in others if _rank(item) > _rank(caller)]
    if higher:
        highest = max(higher, key=lambda item: (_rank(item), item == owner.declared, item.digest))
        return OwnershipDecision(DeclarationState.WAITS, highest, not others[highest], others[highest])
    same = [item for item in others if _rank(item) == _rank(caller)]
    if owner.declared in same:
        until_ms = others[owner.declared]
        return OwnershipDecision(DeclarationState.CONFLICTS, owner.declared, not until_ms, until_ms)
    if is_executor or caller in live or not others:
        return OwnershipDecision(DeclarationState.OWNS)
    # a command speaks for no executor: what is live goes on as it is
    other = max(others, key=lambda item: (_rank(item), item.digest))
    standing = DeclarationState.CONFLICTS if other in same else DeclarationState.WAITS
    return OwnershipDecision(standing, other, not others[other], others[other])


def states_of(owner: Owner, live: Iterable[Declared]) -> dict[Declared, DeclarationState]:
    """Return where each set of declarations of live executors stands."""
    found: dict[Declared, DeclarationState] = {}
    for item in _known(live):
        if item == owner.declared:
            found[item] = DeclarationState.OWNS
        elif owner.declared is not None and _rank(item) == _rank(owner.declared):
            found[item] = DeclarationState.CONFLICTS
        else:
            found[item] = DeclarationState.WAITS
    return found


def conflicts(owner: Owner, live: Iterable[Declared]) -> list[Declared]:
    """Return what live executors declare under the owner's release in another way than the owner."""
    return sorted(item for item, found in states_of(owner, live).items() if found is DeclarationState.CONFLICTS)


def _known(live: Iterable[Declared]) -> list[Declared]:
    """Return those whose release can be compared."""
    return [item for item in live if _version(item.release) is not None]


def _rank(item: Declared) -> Version:
    found = _version(item.release)
    if found is None:
        raise FieldError("release", f"{item.release[:MAX_RELEASE]!r} cannot be compared")
    return _order(found)


@lru_cache(maxsize=256)
def _order(version: Version) -> Version:
    """Return a version without what follows its plus sign, which names a build and ranks it nowhere."""
    return Version(version.public)


@lru_cache(maxsize=256)
def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
