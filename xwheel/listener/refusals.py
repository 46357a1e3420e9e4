"""Refused calls: how long who makes them has to wait, and one line of the log for many of them.

All of it is decided from the time and from what was refused before; nothing here knows a token that is right.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Final

from xwheel.listener.limits import peer_of

logger = logging.getLogger(__name__)

FREE: Final = 20
"""Refused calls of one address, or with one token, before it has to wait."""

FIRST_PAUSE_MS: Final = 1000
LAST_PAUSE_MS: Final = 60_000
FORGET_MS: Final = 600_000
"""After so long without a refused call, an address or token begins anew."""

WINDOW_MS: Final = 30_000
MOST_KNOWN: Final = 1000
"""Addresses, and as many tokens, that are remembered; the one that called longest ago is forgotten first."""

MOST_ROUTES: Final = 4
"""Routes of one address that a window tells apart."""

NAMED: Final = 3
OTHER_ADDRESSES: Final = "other addresses"
OTHER_ROUTES: Final = "other routes"


@dataclass(slots=True)
class _Record:
    """What is known of an address or a token.

    Attributes:
        count: Refused calls outside of pauses.
        until_ms: End of the present pause.
        last_ms: Time of the last refused call.
    """

    count: int = 0
    until_ms: int = 0
    last_ms: int = 0

    def note(self, now_ms: int) -> int:
        """Count a refused call; return how long its caller has to wait, in milliseconds."""
        if now_ms - self.last_ms > FORGET_MS:
            self.count = self.until_ms = 0
        self.last_ms = now_ms
        if now_ms >= self.until_ms:
            self.count += 1
            if self.count > FREE:
                doublings = min(self.count - FREE - 1, 16)
                self.until_ms = now_ms + min(FIRST_PAUSE_MS << doublings, LAST_PAUSE_MS)
        return max(0, self.until_ms - now_ms)


@dataclass(slots=True)
class _Window:
    """Refused calls since the last line of the log.

    Attributes:
        since_ms: When it began; None while nothing is refused.
        routes: Address to routes, each with its count.
    """

    since_ms: int | None = None
    total: int = 0
    routes: dict[str, Counter[str]] = field(default_factory=dict)

    def note(self, peer: str, route: str, now_ms: int) -> str:
        """Count a refused call; return what is to be logged of it now, or nothing."""
        if self.since_ms is None:
            self.since_ms = now_ms
            return f"refused {route} from {peer}: token missing or wrong; further refused calls are counted"
        self.total += 1
        counts = self.routes.get(peer)
        if counts is None:
            if len(self.routes) >= MOST_KNOWN:
                peer = OTHER_ADDRESSES
            counts = self.routes.setdefault(peer, Counter())
        counts[route if route in counts or len(counts) < MOST_ROUTES else OTHER_ROUTES] += 1
        return ""

    def end(self, now_ms: int) -> str:
        """Begin a new window if this one is over; return what is to be logged of it, or nothing."""
        if self.since_ms is None or now_ms - self.since_ms < WINDOW_MS:
            return ""
        said = self._sum_up(now_ms - self.since_ms)
        self.since_ms = now_ms if self.total else None
        self.total = 0
        self.routes = {}
        return said

    def _sum_up(self, lasted_ms: int) -> str:
        if not self.total:
            return ""
        every = [
            (count, peer, route) for peer, routes in self.routes.items() for route, count in routes.items()
        ]
        every.sort(key=lambda item: -item[0])
        named = ", ".join(f"{peer} {route} {count} times" for count, peer, route in every[:NAMED])
        rest = sum(count for count, _, _ in every[NAMED:])
        return (
            f"refused {self.total} calls with a token missing or wrong in {lasted_ms // 1000} s: {named}"
            + (f", others {rest} times" if rest else "")
        )


class Refusals:
    """Counts the calls that one listener refuses.

    Who knows a right token is never asked to wait: others share his address behind a proxy.

    Thread-safety: every method may be called by any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: tuple[OrderedDict[str, _Record], ...] = (OrderedDict(), OrderedDict())
        self._window = _Window()

    def note(self, host: str, token: str, route: str, now_ms: int) -> int:
        """Count a refused call.

        Args:
            host: Address of the caller.
            token: What it showed, or nothing.
            route: What it wanted, for the log.
            now_ms: Monotonic time, in milliseconds.

        Returns:
            How long the caller has to wait before it may ask again, in milliseconds; 0 for not at all.
        """
        peer = peer_of(host)
        shown = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest() if token else ""
        with self._lock:
            waits = [
                _recall(known, key).note(now_ms)
                for known, key in zip(self._records, (peer, shown), strict=True)
                if key
            ]
            lines = [self._window.end(now_ms), self._window.note(peer, route, now_ms)]
        _log(lines)
        return max(waits, default=0)

    def sum_up(self, now_ms: int) -> None:
        """Log what was refused in a window that is over."""
        since_ms = self._window.since_ms
        if since_ms is None or now_ms - since_ms < WINDOW_MS:
            return
        with self._lock:
            line = self._window.end(now_ms)
        _log([line])


def route_of(method: str, path: str) -> str:
    """Return what a call wants, short and on one line."""
    return f"{method} {path[:80]!r}"


def _recall(known: OrderedDict[str, _Record], key: str) -> _Record:
    found = known.pop(key, None) or _Record()
    known[key] = found
    if len(known) > MOST_KNOWN:
        known.popitem(last=False)
    return found


def _log(lines: list[str]) -> None:
    for line in lines:
        if line:
            logger.warning("%s", line)
