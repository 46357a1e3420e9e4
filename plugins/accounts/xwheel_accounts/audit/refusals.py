"""Refused calls in the audit: few rows, however many calls.

Of a known caller, the first refused call of a route is a row at once, and those that follow within a window are one
more. Of unknown callers a window is one row for each listener, with the addresses and routes that called most.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from xwheel.errors import XwheelError
from xwheel.model.access import UNKNOWN_ACTOR, Actor, ActorKind
from xwheel.plugin import AuditOutcome, Deed, RefusedCall
from xwheel.runtime.http_limits import peer_of
from xwheel.storage.database.engine import Database

from xwheel_accounts.audit.signing import SigningKeys
from xwheel_accounts.audit.trail import audit_row, insert_rows

logger = logging.getLogger(__name__)

WINDOW_MS: Final = 30_000
MOST_KNOWN: Final = 200
"""Pairs of an actor and a route in a window; what is refused beyond them is counted together."""

MOST_OF_ACTOR: Final = 10
"""Pairs of one actor, however many sessions and tokens it has; those beyond them are one more."""

MOST_ADDRESSES: Final = 50
"""Addresses, and as many routes, that are counted apart for a pair."""

MOST_COUNTED: Final = 1000
"""Addresses, and as many routes, that a window counts apart."""

NAMED: Final = 5
MOST_WAITING: Final = 1000
OTHERS: Final = "others"
ACTION: Final = "call.refuse"
STEP_MS: Final = 1000
REST_MS: Final = 30_000
UNKNOWN: Final = frozenset({ActorKind.UNKNOWN, ActorKind.NODE})


@dataclass(slots=True)
class _Unknown:
    """Refused calls of unknown callers at one listener, since the window began."""

    since_ms: int
    last_ms: int
    total: int = 0
    addresses: Counter[str] = field(default_factory=Counter)
    routes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Known:
    """Refused calls of an actor for a route behind the first one, since that one; or for many routes."""

    actor: Actor
    since_ms: int
    last_ms: int
    total: int = 0
    addresses: Counter[str] = field(default_factory=Counter)
    routes: Counter[str] = field(default_factory=Counter)


class RefusalLog:
    """Counts refused calls and writes them down.

    Thread-safety: any thread may note calls; one at a time writes.

    Args:
        db: The database.
        keys: The first one signs the rows.
    """

    def __init__(self, db: Database, keys: SigningKeys) -> None:
        self._db = db
        self._keys = keys
        self.wake: Callable[[], None] = lambda: None  # ends the wait of what steps
        # in a process that steps nothing, the thread of a refused call writes
        self._is_stepped = False
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._unknown: dict[str, _Unknown] = {}
        self._known: dict[tuple[str, str, str], _Known] = {}
        self._pairs: Counter[str] = Counter()
        self._waiting: list[Deed] = []

    def note(self, call: RefusedCall) -> None:
        """Count a refused call."""
        peer, at_ms = peer_of(call.address), call.at_ms
        with self._lock:
            is_first = not (self._unknown or self._known)
            self._close(at_ms)
            if call.actor.kind in UNKNOWN:
                self._count_unknown(call.listener, peer, call.route, at_ms)
            else:
                said = {"path": call.path[:200], "told": call.told[:500]}
                self._count_known(call.listener, call.actor, peer, call.route, at_ms, said)
            is_waiting = bool(self._waiting) and not self._is_stepped
        if is_first:
            self.wake()
        if is_waiting:
            try:
                self._write()
            except XwheelError as error:
                logger.warning("refused calls are not in the audit yet: %s", error)

    def step(self, now_ms: int) -> int:
        """Write down what waits and the windows that are over; return how long to wait in milliseconds."""
        with self._lock:
            self._is_stepped = True
            self._close(now_ms)
            is_counting = bool(self._unknown or self._known)
            if not self._waiting:
                return STEP_MS if is_counting else REST_MS
        self._write()
        return STEP_MS

    def end(self) -> None:
        """Write down everything; what is refused from now on is written at once."""
        with self._lock:
            self._is_stepped = False
            self._close(None)
        self._write()

    def _write(self) -> None:
        if not self._writing.acquire(blocking=False):
            return
        try:
            with self._lock:
                part = list(self._waiting)
            if part:
                # a deed's time says when; rows of several actors in one transaction
                key = self._keys.first
                rows = [audit_row(deed, key, deed.at_ms or 0) for deed in part]
                self._db.transaction(lambda conn: insert_rows(conn, rows))
            with self._lock:
                done = {id(deed) for deed in part}
                self._waiting = [deed for deed in self._waiting if id(deed) not in done]
        finally:
            self._writing.release()

    def _count_unknown(self, listener: str, peer: str, route: str, at_ms: int) -> None:
        window = self._unknown.get(listener)
        if window is None:
            window = self._unknown[listener] = _Unknown(at_ms, at_ms)
        window.total += 1
        window.last_ms = at_ms
        _count(window.addresses, peer)
        _count(window.routes, route)

    def _count_known(
        self, listener: str, actor: Actor, peer: str, route: str, at_ms: int, said: Mapping[str, str]
    ) -> None:
        who = f"{actor.kind} {actor.name}"
        key = (who, actor.credential, f"{listener} {route}")
        is_new = key not in self._known
        if is_new and self._pairs[who] >= MOST_OF_ACTOR:
            # of its own still, so that who is refused everywhere hides no one else's refusals
            key = (who, "", f"{listener} {OTHERS}")
            self._known.setdefault(key, _Known(actor, at_ms, at_ms))
            _count(self._known[key].routes, route, MOST_ADDRESSES)
        elif is_new and len(self._known) >= MOST_KNOWN:
            self._count_unknown(f"{listener}, known callers", peer, route, at_ms)
            return
        elif is_new:
            self._known[key] = _Known(actor, at_ms, at_ms)
            self._pairs[who] += 1
            self._add(_deed(actor, "route", route, at_ms, said))
            return
        known = self._known[key]
        known.total += 1
        known.last_ms = at_ms
        _count(known.addresses, peer, MOST_ADDRESSES)

    def _close(self, now_ms: int | None) -> None:
        """Turn windows that are over into rows that wait; all of them for None."""
        for listener, window in list(self._unknown.items()):
            if _is_over(window.since_ms, now_ms):
                del self._unknown[listener]
                self._add(_deed(UNKNOWN_ACTOR, "listener", listener, window.last_ms, _shown(window)))
        for key, known in list(self._known.items()):
            if _is_over(known.since_ms, now_ms):
                del self._known[key]
                self._forget_pair(key)
                if known.total:
                    route = key[2].partition(" ")[2]
                    self._add(_deed(known.actor, "route", route, known.last_ms, _shown(known)))

    def _forget_pair(self, key: tuple[str, str, str]) -> None:
        if not key[2].endswith(f" {OTHERS}"):
            self._pairs[key[0]] -= 1
            if not self._pairs[key[0]]:
                del self._pairs[key[0]]

    def _add(self, deed: Deed) -> None:
        if len(self._waiting) >= MOST_WAITING:
            logger.warning("a row of refused calls is lost: %d wait for the database", len(self._waiting))
            return
        self._waiting.append(deed)


def _is_over(since_ms: int, now_ms: int | None) -> bool:
    # also after a clock that went back
    return now_ms is None or not 0 <= now_ms - since_ms < WINDOW_MS


def _count(counts: Counter[str], name: str, most: int = MOST_COUNTED) -> None:
    counts[name if name in counts or len(counts) < most else OTHERS] += 1


def _shown(window: _Unknown | _Known) -> dict[str, object]:
    said: dict[str, object] = {
        "calls": window.total,
        "from_ms": window.since_ms,
        "to_ms": window.last_ms,
        "addresses": _most(window.addresses),
    }
    return {**said, "routes": _most(window.routes)} if window.routes else said


def _most(counts: Counter[str]) -> dict[str, int]:
    found = dict(counts.most_common(NAMED))
    rest = counts.total() - sum(found.values())
    return {**found, OTHERS: found.get(OTHERS, 0) + rest} if rest else found


def _deed(actor: Actor, kind: str, object_id: str, at_ms: int, said: Mapping[str, object]) -> Deed:
    return Deed(
        actor=actor,
        action=ACTION,
        kind=kind,
        object_id=object_id,
        after=said,
        outcome=AuditOutcome.REFUSED,
        at_ms=at_ms,
    )
