"""Places in which passwords are hashed: few, first for who asked least lately, and one to an address at most."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from xwheel.clock import Clock, SystemClock
from xwheel.errors import BusyError
from xwheel.runtime.http_limits import peer_of

WAIT_S: Final = 2.0
"""How long a place is waited for; a password takes about 25 ms, so that many callers have had their turn by then."""

FORGOTTEN_MS: Final = 5000
"""An address has asked once less for each such time that went by."""

MOST_ASKED: Final = 1000
"""No address is remembered to have asked more often."""

MOST_ADDRESSES: Final = 10_000
TOO_MANY: Final = "too many passwords are being judged: ask again in a moment"


class PasswordsBusyError(BusyError):
    """Too many passwords are being judged, or one of the same address; the same call may succeed a moment later."""


class _Asked:
    """How often each address asked lately; refused calls count, too. The address that asked last stands last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def note(self, peer: str) -> float:
        """Count that an address asks once more. Return how often it had asked lately before."""
        now_ms = self._clock.monotonic_ms()
        times, at_ms = self._known.pop(peer, (0.0, now_ms))
        times = max(0.0, times - (now_ms - at_ms) / FORGOTTEN_MS)
        self._known[peer] = min(times + 1, MOST_ASKED), now_ms
        if len(self._known) > MOST_ADDRESSES:
            self._known.popitem(last=False)
        return times


@dataclass(slots=True, eq=False)
class _Waiting:
    """A caller that waits for a place."""

    peer: str
    asked: float
    """How often its address had asked lately."""
    over: threading.Event = field(default_factory=threading.Event)
    """It has the place, or another caller took its turn."""
    is_refused: bool = False


class PasswordPlaces:
    """Places for judging and hashing passwords, which takes a core and memory for longer than anything else does.

    The address that asked least lately comes first. Where no more callers may wait, it takes the turn of the address
    that asked most. So a few addresses that ask all the time keep no one else out.

    Thread-safety: every method may be called by any thread.

    Args:
        total: How many there are.
        waiting: How many callers may wait for one; each holds a thread of the listener meanwhile.
        wait_s: How long each may wait.
        clock: Measures how long ago an address asked.
        partner: Other places; an address has one of both at most.
    """

    def __init__(
        self,
        total: int = 1,
        waiting: int = 1,
        wait_s: float = WAIT_S,
        *,
        clock: Clock | None = None,
        partner: PasswordPlaces | None = None,
    ) -> None:
        self._total = self._free = total
        self._most_waiting = waiting
        self._wait_s = wait_s
        self._waiting: list[_Waiting] = []
        self._lock: threading.Lock = threading.Lock() if partner is None else partner._lock
        self._peers: set[str] = set() if partner is None else partner._peers
        self._asked: _Asked = _Asked(clock or SystemClock()) if partner is None else partner._asked

    @classmethod
    def of_listener(cls, threads: int, clock: Clock) -> PasswordPlaces:
        """Return the places of a listener: an eighth of its threads, and with those that wait at most half of them."""
        total = max(1, threads // 8)
        return cls(total, max(1, threads // 2 - total), clock=clock)

    def elsewhere(self) -> PasswordPlaces:
        """Return as many places again for passwords that are judged elsewhere.

        What does not answer there for ten seconds keeps only those waiting who sign in by it.
        """
        return PasswordPlaces(self._total, self._total, self._wait_s, partner=self)

    @contextmanager
    def hold(self, address: str) -> Iterator[None]:
        """Hold a place as long as the block lasts. Wait for it while addresses that asked less often lately come first.

        Args:
            address: Who asks; a /64 network of IPv6 counts as one.

        Raises:
            PasswordsBusyError: The address holds or waits for one, too many wait, or none became free in time.
        """
        peer = peer_of(address)
        self._take(peer)
        try:
            yield
        finally:
            self._give_back(peer)

    def _take(self, peer: str) -> None:
        with self._lock:
            mine = _Waiting(peer, self._asked.note(peer))
            if peer in self._peers:
                raise PasswordsBusyError("another password from this address is being judged: ask again in a moment")
            if self._free:
                self._free -= 1
                self._peers.add(peer)
                return
            if len(self._waiting) >= self._most_waiting:
                self._make_room(mine)
            self._waiting.append(mine)
            self._peers.add(peer)
        mine.over.wait(self._wait_s)
        with self._lock:
            if mine.is_refused:
                raise PasswordsBusyError(TOO_MANY)
            if mine.over.is_set():
                return
            self._leave(mine)
        raise PasswordsBusyError(f"no password could be judged within {self._wait_s:g} s: ask again in a moment")

    def _make_room(self, mine: _Waiting) -> None:
        """Refuse a caller of the address that asked most often. It can be the caller that asks now.

        If several addresses asked as often, the caller that came last is refused.
        """
        most = max(reversed(self._waiting), key=lambda other: other.asked)
        if most.asked <= mine.asked:
            raise PasswordsBusyError(TOO_MANY)
        self._leave(most)
        most.is_refused = True
        most.over.set()

    def _leave(self, caller: _Waiting) -> None:
        self._waiting.remove(caller)
        self._peers.remove(caller.peer)

    def _give_back(self, peer: str) -> None:
        with self._lock:
            self._peers.remove(peer)
            if not self._waiting:
                self._free += 1
                return
            # handed on, so that no later caller takes it first
            following = min(self._waiting, key=lambda caller: caller.asked)
            self._waiting.remove(following)
            following.over.set()
