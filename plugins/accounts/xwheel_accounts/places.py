"""Places in which passwords are hashed: few, given in the order of asking, and never more than one to an address."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from xwheel.errors import BusyError
from xwheel.runtime.http_limits import peer_of

WAIT_S: Final = 2.0
"""How long a place is waited for; a password takes about 25 ms, so that many callers have had their turn by then."""


class PasswordsBusyError(BusyError):
    """Too many passwords are being judged, or one of the same address; the same call may succeed a moment later."""


class PasswordPlaces:
    """Places for judging and hashing passwords, which takes a core and memory for longer than anything else does.

    Thread-safety: every method may be called by any thread.

    Args:
        total: How many there are.
        waiting: How many callers may wait for one; each holds a thread of the listener meanwhile.
        wait_s: How long each may wait.
        partner: Other places; an address has one of both at most.
    """

    def __init__(
        self, total: int = 1, waiting: int = 1, wait_s: float = WAIT_S, *, partner: PasswordPlaces | None = None
    ) -> None:
        self._total = self._free = total
        self._most_waiting = waiting
        self._wait_s = wait_s
        self._lock: threading.Lock = threading.Lock() if partner is None else partner._lock
        self._waiting: deque[threading.Event] = deque()
        self._peers: set[str] = set() if partner is None else partner._peers

    @classmethod
    def of_listener(cls, threads: int) -> PasswordPlaces:
        """Return the places of a listener: an eighth of its threads, and with those that wait at most half of them."""
        total = max(1, threads // 8)
        return cls(total, max(1, threads // 2 - total))

    def elsewhere(self) -> PasswordPlaces:
        """Return as many places again for passwords that are judged elsewhere.

        What does not answer there for ten seconds keeps only those waiting who sign in by it.
        """
        return PasswordPlaces(self._total, self._total, self._wait_s, partner=self)

    @contextmanager
    def hold(self, address: str) -> Iterator[None]:
        """Hold a place as long as the block lasts; wait for one, after those who asked before.

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
            if peer in self._peers:
                raise PasswordsBusyError("another password from this address is being judged: ask again in a moment")
            if self._free:
                self._free -= 1
                self._peers.add(peer)
                return
            if len(self._waiting) >= self._most_waiting:
                raise PasswordsBusyError("too many passwords are being judged: ask again in a moment")
            turn = threading.Event()
            self._waiting.append(turn)
            self._peers.add(peer)
        if turn.wait(self._wait_s):
            return
        with self._lock:
            if turn.is_set():
                return  # it was given the place after it had stopped to wait
            self._waiting.remove(turn)
            self._peers.remove(peer)
        raise PasswordsBusyError(f"no password could be judged within {self._wait_s:g} s: ask again in a moment")

    def _give_back(self, peer: str) -> None:
        with self._lock:
            self._peers.remove(peer)
            if self._waiting:
                self._waiting.popleft().set()  # handed on, so that no later caller takes it first
            else:
                self._free += 1
