"""The last events, and how much there is of what: in memory, for each caller what they may read."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import islice
from typing import Final, NamedTuple

from xwheel.model.access import Grants, Permission

KEPT: Final = 5000
MOST: Final = 500
"""Events in one answer; of a kind with more of them it says only that much changed."""


class EventKind(StrEnum):
    """What changed."""

    RUN = "run"
    JOB = "job"
    GROUP = "group"
    EXECUTOR = "executor"
    NODE = "node"
    PAUSE = "pause"
    ALARM = "alarm"
    CALENDAR = "calendar"
    RULE = "rule"
    ACCOUNT = "account"


class Receivers(Enum):
    """Who may see an event."""

    GROUP = 1
    """Who may read its group."""

    READERS = 2
    """Who may read any group."""

    ALL = 3
    """Who may read all groups."""

    ADMINS = 4
    """Admins of all groups."""


class LiveScope(NamedTuple):
    """Which news a caller may see; callers with the same scope get the same answer.

    Attributes:
        groups: Those whose events and counts they see; None for all.
        is_admin: They see what only admins of all groups may know.
    """

    groups: frozenset[int] | None
    is_admin: bool

    @classmethod
    def of(cls, grants: Grants) -> LiveScope:
        """Return the scope of a caller with these grants."""
        return cls(grants.groups_with(Permission.READ), grants.allows(Permission.ADMIN))


class LiveEvent(NamedTuple):
    """Something changed; without an id it is of a kind that has none, or so much that lists are to be read again.

    ``chain_id`` is that of a run, where it is known.
    """

    kind: EventKind
    id: int | None = None
    job_id: int | None = None
    group_id: int | None = None
    state: str | None = None
    receivers: Receivers = Receivers.GROUP
    chain_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCounts:
    """How much there is, by group where it belongs to one.

    Attributes:
        running: Runs that are dispatching or running.
        waiting: Runs that are planned.
        failed: Runs of the last 24 hours that failed, timed out, were lost or refused.
        late: Planned runs that should have been sent a while ago.
        executors: Live ones.
        nodes: Nodes that live.
        nodes_away: Nodes that did not leave and do not renew.
        paused_since_ms: Since when no schedule fires, or None.
    """

    running: Mapping[int, int] = field(default_factory=dict)
    waiting: Mapping[int, int] = field(default_factory=dict)
    failed: Mapping[int, int] = field(default_factory=dict)
    late: Mapping[int, int] = field(default_factory=dict)
    executors: Mapping[int, int] = field(default_factory=dict)
    nodes: int = 0
    nodes_away: int = 0
    paused_since_ms: int | None = None


class News(NamedTuple):
    """What a caller gets: events after a cursor, or None if it is unknown here; and where to go on."""

    events: Sequence[LiveEvent] | None
    cursor: str


class EventFeed:
    """Events in their order, numbered; old ones are forgotten.

    A cursor names this feed and the number of the last event that its holder knows. After a gap the feed begins again,
    and no cursor of before is known.

    Thread-safety: every method may be called by any thread.

    Args:
        size: How many events are kept.
    """

    def __init__(self, size: int = KEPT) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._events: deque[LiveEvent] = deque(maxlen=size)
        self._last = 0
        self._name = ""
        self.begin()

    def begin(self) -> None:
        """Forget everything: what happened until now is not known."""
        with self._lock:
            self._name = secrets.token_hex(8)
            self._events.clear()
            self._last = 0

    def put(self, events: Collection[LiveEvent]) -> None:
        """Add events."""
        with self._lock:
            self._events.extend(events)
            self._last += len(events)

    def after(self, cursor: str | None, scope: LiveScope) -> News:
        """Return what somebody may know of what came after a cursor."""
        name, _, number = (cursor or "").partition("-")
        with self._lock:
            following = f"{self._name}-{self._last}"
            seen = int(number) if name == self._name and number.isdecimal() else -1
            missed = self._last - seen
            if seen < 0 or not 0 <= missed <= len(self._events):
                return News(None, following)
            events = list(islice(self._events, len(self._events) - missed, None)) if missed else []
        return News(_shortened(event for event in events if may_see(event, scope)), following)


def may_see(event: LiveEvent, scope: LiveScope) -> bool:
    """Return whether an event is in a scope."""
    match event.receivers:
        case Receivers.READERS:
            return True
        case Receivers.ADMINS:
            return scope.is_admin
        case Receivers.ALL:
            return scope.groups is None
        case _:
            return scope.groups is None or event.group_id in scope.groups


def _shortened(events: Iterable[LiveEvent]) -> list[LiveEvent]:
    """Return the last event of each object, and for kinds with very many of them one that says so."""
    last: dict[object, LiveEvent] = {}
    for event in events:
        key = (event.kind, event.id) if event.id is not None else (event.kind, event.group_id, event.state)
        last.pop(key, None)
        last[key] = event
    found = list(last.values())
    if len(found) <= MOST:
        return found
    counts: dict[EventKind, int] = {}
    for event in found:
        counts[event.kind] = counts.get(event.kind, 0) + 1
    many = {kind for kind, count in counts.items() if count > MOST // len(EventKind)}
    return [LiveEvent(kind, receivers=Receivers.READERS) for kind in sorted(many)] + [
        event for event in found if event.kind not in many
    ]
