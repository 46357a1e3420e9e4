"""What a listener grants its callers: time and connections, and how long they wait after calls that were refused.

All of it is decided from the time and from what happened before; nothing here touches a socket or knows a right token.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Final, NamedTuple

from xwheel.config.sections import ConnectionsSection

logger = logging.getLogger(__name__)

FRESH_S: Final = 1.0  # a connection with progress within this time is just under way when room is needed
DRAIN_S: Final = 10.0  # how long a peer may go on sending a body that was refused, until it has read why
WINDOW_S: Final = 30.0
MOST_PEERS: Final = 1000
OTHERS: Final = "others"
UNDER_WAY: Final = 5  # rank of a connection that makes progress: it gives way last

FREE: Final = 20  # refused calls of one address, or with one token, before it has to wait
FIRST_PAUSE_MS: Final = 1000
LAST_PAUSE_MS: Final = 60_000
FORGET_MS: Final = 600_000  # after this long without a refused call, an address or token begins again
WINDOW_MS: Final = 30_000
MOST_SHOWN: Final = 500  # characters of a line that a library logs
# addresses, and as many tokens, that are remembered; the one that called longest ago is forgotten first
MOST_KNOWN: Final = 1000
MOST_ROUTES: Final = 4  # routes of one address that a window counts apart
NAMED: Final = 3
OTHER_ADDRESSES: Final = "other addresses"
OTHER_ROUTES: Final = "other routes"


class ConnectionStage(Enum):
    """What a connection is at."""

    NEW = auto()  # connected, nothing sent yet
    HEAD = auto()  # a request's head has begun
    BODY = auto()  # the head is there, the body is not
    SERVED = auto()  # the request waits for a thread or has one, and there is nothing to send yet
    WRITING = auto()  # part of an answer waits for the peer to take it
    IDLE = auto()  # kept open after an answer
    DRAINING = auto()  # refused with an answer; what still comes is thrown away


# in which order connections give way
_RANKS: Final = {
    ConnectionStage.DRAINING: 0,
    ConnectionStage.NEW: 1,
    ConnectionStage.HEAD: 1,
    ConnectionStage.WRITING: 2,
    ConnectionStage.IDLE: 3,
    ConnectionStage.BODY: 4,
}


class ConnectionState(NamedTuple):
    """A connection as the decisions see it."""

    peer: str  # see peer_of
    stage: ConnectionStage
    since_s: float  # since when, or when its answer last moved; monotonic


def peer_of(host: str) -> str:
    """Return what limits by address count together: an IPv4 address, or the /64 network of an IPv6 one."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False))


def is_late(state: ConnectionState, limits: ConnectionsSection, now_s: float) -> bool:
    """Return whether a connection has had all the time that it gets."""
    if state.stage is ConnectionStage.SERVED:
        return False  # ours to end: the peer waits for us
    grants = {
        ConnectionStage.NEW: limits.head_s,
        ConnectionStage.HEAD: limits.head_s,
        ConnectionStage.BODY: limits.body_s,
        ConnectionStage.WRITING: limits.write_s,
        ConnectionStage.IDLE: limits.idle_s,
        ConnectionStage.DRAINING: DRAIN_S,
    }
    return now_s - state.since_s >= grants[state.stage]


def gives_way(states: Sequence[ConnectionState], now_s: float) -> int | None:
    """Return the place of the connection that is closed to make room, or None if all are being served.

    Those go first that are refused already, then trickling requests, readers that do not read, idle connections, slow
    bodies, and at last what is only just under way. Among equals the peer with the most connections gives one, and of
    its connections the oldest.
    """
    counts = Counter(state.peer for state in states)
    keys = [
        (_rank(state, now_s), -counts[state.peer], state.since_s, place)
        for place, state in enumerate(states)
        if state.stage is not ConnectionStage.SERVED
    ]
    return min(keys)[-1] if keys else None


def _rank(state: ConnectionState, now_s: float) -> int:
    rank = _RANKS[state.stage]
    keeps = state.stage in {ConnectionStage.DRAINING, ConnectionStage.IDLE}
    return rank if keeps or now_s - state.since_s >= FRESH_S else UNDER_WAY


class Cut(Enum):
    """Why a connection was closed; the value follows its number in the log."""

    REFUSED = "refused at a limit"
    MADE_ROOM = "closed to make room"
    HEAD = "without a whole head in time"
    BODY = "without a whole body in time"
    WRITING = "did not read their answers"
    NO_SOCKET = "refused for want of file descriptors"


# the reason when a connection is late; an idle one that ends needs none
LATE: Final = {ConnectionStage.HEAD: Cut.HEAD, ConnectionStage.BODY: Cut.BODY, ConnectionStage.WRITING: Cut.WRITING}


class CutLog:
    """Counts closed connections, and makes one line of those in a window of time, however many they are."""

    def __init__(self) -> None:
        self.refused = 0  # since the start
        self.cut = 0  # those that were accepted and closed before their time
        self._since_s: float | None = None
        self._reasons: Counter[Cut] = Counter()
        self._peers: Counter[str] = Counter()

    def note(self, reason: Cut, peer: str, now_s: float) -> None:
        """Count one."""
        if reason in {Cut.REFUSED, Cut.NO_SOCKET}:
            self.refused += 1
        else:
            self.cut += 1
        if self._since_s is None:
            self._since_s = now_s
        self._reasons[reason] += 1
        # calls from very many addresses must not fill the memory
        self._peers[peer if peer in self._peers or len(self._peers) < MOST_PEERS else OTHERS] += 1

    def line(self, now_s: float, *, ends: bool = False) -> str | None:
        """Return what to log, once the window is over or everything ends; None while there is nothing to say."""
        if self._since_s is None or not (ends or now_s - self._since_s >= WINDOW_S):
            return None
        reasons = ", ".join(f"{number} {reason.value}" for reason, number in self._reasons.most_common())
        ((peer, most),) = self._peers.most_common(1)
        text = (
            f"{self._reasons.total()} connections in {max(1, round(now_s - self._since_s))} s: {reasons}; "
            f"{most} of them from {peer}"
        )
        self._since_s = None
        self._reasons.clear()
        self._peers.clear()
        return text


class Refusals:
    """Counts the calls that one listener refuses, and logs one line for each window of time, with what is wrong.

    A caller with a right token is never asked to wait, as others may share its address behind a proxy. For any thread.
    """

    def __init__(self, why: str = "token missing or wrong") -> None:
        self._lock = threading.Lock()
        self._records: tuple[OrderedDict[str, _CallerRecord], ...] = (OrderedDict(), OrderedDict())
        self._window = _Window(why)

    def count(self, host: str, route: str, now_ms: int) -> None:
        """Count a refused call of which nothing follows for its caller."""
        with self._lock:
            lines = self._window.note(peer_of(host), route, now_ms)
        _log(lines)

    def note(self, host: str, token: str, route: str, now_ms: int) -> int:
        """Count a refused call; return how many milliseconds its caller has to wait before it may ask again, or 0.

        The time is monotonic; the route is for the log.
        """
        peer = peer_of(host)
        shown = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest() if token else ""
        with self._lock:
            keys = zip(self._records, (peer, shown), strict=True)
            waits = [_recall(known, key).note(now_ms) for known, key in keys if key]
            lines = self._window.note(peer, route, now_ms)
        _log(lines)
        return max(waits, default=0)

    def sum_up(self, now_ms: int) -> None:
        """Log what was refused in a window that is over."""
        with self._lock:
            lines = self._window.end(now_ms)
        _log(lines)


class FewLines(logging.Filter):
    """Lets each place in a library's code log one line in a window of time, and say how often it wanted to.

    What it logs is of strangers' making: a connection that is cut in the right moment, a path with a line feed. For any
    thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._places: dict[tuple[str, int], tuple[float, int]] = {}  # when its window began, and what was left out

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged; it is one line then."""
        place = (record.pathname, record.lineno)
        with self._lock:
            since_s, left_out = self._places.get(place, (-WINDOW_S, 0))
            is_due = not since_s <= record.created < since_s + WINDOW_S  # the clock may have gone back
            self._places[place] = (record.created, 0) if is_due else (since_s, left_out + 1)
        if not is_due:
            return False
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        more = f" ({left_out} more before)" if left_out else ""
        record.msg, record.args = "%s%s", ("".join(map(_shown, text))[:MOST_SHOWN], more)
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def _shown(char: str) -> str:
    return char if char.isprintable() else repr(char)[1:-1]


def route_of(method: str, path: str) -> str:
    """Return what a call wants, short and on one line."""
    return f"{method} {path[:80]!r}"


@dataclass(slots=True)
class _CallerRecord:
    count: int = 0  # refused calls outside of pauses
    until_ms: int = 0  # end of the present pause
    last_ms: int = 0  # time of the last refused call

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
    """Refused calls since the last line of the log."""

    why: str  # what is wrong with them
    since_ms: int | None = None  # when it began; None while nothing is refused
    total: int = 0
    routes: dict[str, Counter[str]] = field(default_factory=dict)  # by address, each with its count

    def note(self, peer: str, route: str, now_ms: int) -> list[str]:
        """Count a refused call; return what is to be logged now."""
        lines = self.end(now_ms)
        if self.since_ms is None:
            self.since_ms = now_ms
            return [*lines, f"refused {route} from {peer}: {self.why}; further refused calls are counted"]
        self.total += 1
        counts = self.routes.get(peer)
        if counts is None:
            if len(self.routes) >= MOST_KNOWN:
                peer = OTHER_ADDRESSES
            counts = self.routes.setdefault(peer, Counter())
        counts[route if route in counts or len(counts) < MOST_ROUTES else OTHER_ROUTES] += 1
        return lines

    def end(self, now_ms: int) -> list[str]:
        """Begin a new window if this one is over; return what is to be logged of it."""
        if self.since_ms is None or (lasted_ms := now_ms - self.since_ms) < WINDOW_MS:
            return []
        total, routes = self.total, self.routes
        self.since_ms, self.total, self.routes = now_ms if total else None, 0, {}
        every = [(count, peer, route) for peer, counts in routes.items() for route, count in counts.items()]
        every.sort(key=lambda item: -item[0])
        named = ", ".join(f"{peer} {route} {count} times" for count, peer, route in every[:NAMED])
        rest = sum(count for count, _, _ in every[NAMED:])
        others = f", others {rest} times" if rest else ""
        said = f"refused {total} calls with a {self.why} in {lasted_ms // 1000} s: {named}{others}"
        return [said] if total else []


def _recall(known: OrderedDict[str, _CallerRecord], key: str) -> _CallerRecord:
    found = known.pop(key, None) or _CallerRecord()
    known[key] = found
    if len(known) > MOST_KNOWN:
        known.popitem(last=False)
    return found


def _log(lines: list[str]) -> None:
    for line in lines:
        logger.warning("%s", line)
