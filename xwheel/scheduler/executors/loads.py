"""How many runs each executor has: counted over the whole cluster now and then, and what this node sent since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from xwheel.clock import Clock
from xwheel.model import RegisteredExecutor
from xwheel.runtime.loops import Rest
from xwheel.storage import executors
from xwheel.storage.database.engine import Database

REFRESH_MS: Final = 1000
WANTED_MS: Final = 10_000  # how long after a router asked the rows are counted again and again
REST: Final = 20  # a count that takes long rests this many times as long


class Loads:
    """Open runs by address, for routers that ask; while none does, nothing is counted.

    Thread-safety: :meth:`load`, :meth:`sent` and :meth:`chosen` may be called from any thread; they lose at most a
    few counts, which the next refresh brings back. :meth:`step` belongs to its own thread.
    """

    def __init__(self, db: Database, clock: Clock) -> None:
        self.is_asked = False  # whether somebody asked since the last choice was noted
        self._db = db
        self._clock = clock
        self._rest = Rest(clock, REST, REFRESH_MS)
        self._asked_ms: int | None = None
        self._open: Mapping[str, int] = {}
        self._sent: Counter[str] = Counter()
        self._chosen: Counter[str] = Counter()
        self._chosen_ms = 0

    def load(self, address: str) -> int:
        """Return how many runs an address has, as far as this node knows."""
        self.is_asked = True
        return self._open.get(address, 0) + self._sent[address] + self._chosen[address]

    def sent(self, address: str, count: int) -> None:
        """Note runs that were just sent."""
        self._sent[address] += count

    def chosen(self, executors: Sequence[RegisteredExecutor], now_ms: int) -> None:
        """Note a choice that asked for loads: until it is sent, it counts for the rest of the same batch."""
        self.is_asked = False
        self._asked_ms = self._clock.monotonic_ms()
        if now_ms != self._chosen_ms:
            self._chosen, self._chosen_ms = Counter(), now_ms
        self._chosen.update(item.address for item in executors)

    def step(self, now_ms: int) -> int:
        """Count, if somebody asked lately; return how long to wait in milliseconds."""
        del now_ms
        if self.is_asked:  # by a router that works elsewhere than on the tick thread
            self._asked_ms, self.is_asked = self._clock.monotonic_ms(), False
        asked_ms = self._asked_ms
        if asked_ms is None or self._clock.monotonic_ms() - asked_ms > WANTED_MS:
            self._open = {}
            self._sent = Counter()
            return REFRESH_MS
        return self._rest.left_ms() or self._rest.after(self._refresh, REFRESH_MS)

    def _refresh(self) -> None:
        # what is sent from here on may be counted twice until the next refresh, but never missed
        self._sent = Counter()
        with self._db.read() as conn:
            self._open = executors.count_runs(conn)
