"""Places in the fast and the slow lane: how many requests may be in flight, in all and to one address."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from xwheel.ring import FAST, SLOW, PoolSelector

# a batch carries many runs, so a few requests in flight keep one executor busy and let the next batch grow
BATCHES_PER_ADDRESS = 4


class TriggerPool:
    """Counts requests in flight; full means wait, never drop.

    A broadcast goes as a whole or not at all, and there may be more executors than places. So it goes once there is a
    place for the first of them; the lane sends as many at once as it has places, and nothing else until they are fewer.

    Thread-safety: one lock guards the counters and the selector; nothing is asked or waited for under it.
    """

    def __init__(self, fast: int, slow: int, selector: PoolSelector) -> None:
        self._limits = {FAST: fast, SLOW: slow}
        self._selector = selector
        self._lock = threading.Lock()
        self._used: Counter[int] = Counter()
        self._by_address: Counter[tuple[int, str]] = Counter()

    def choose(self, job_ids: Iterable[int]) -> dict[int, int]:
        """Return the lane of each job."""
        with self._lock:
            return {job_id: self._selector.choose(job_id) for job_id in job_ids}

    def acquire(self, lane: int, address: str, *, batch: bool, beyond: bool = False) -> bool:
        """Take a place for one request; return whether there was one.

        One address holds at most a quarter of a lane; a batch may carry many runs. ``beyond`` takes a place though all
        are taken: for the other shards of a run that got a place for its first one.
        """
        quarter = max(1, self._limits[lane] // 4)
        limit = min(quarter, BATCHES_PER_ADDRESS) if batch else quarter
        with self._lock:
            is_full = self._used[lane] >= self._limits[lane] or self._by_address[lane, address] >= limit
            if is_full and not beyond:
                return False
            self._used[lane] += 1
            self._by_address[lane, address] += 1
            return True

    def release(self, lane: int, address: str) -> None:
        """Give a place back."""
        with self._lock:
            self._used[lane] -= 1
            self._by_address[lane, address] -= 1
            if self._by_address[lane, address] <= 0:
                del self._by_address[lane, address]

    def record(self, job_ids: Sequence[int], cost_ms: int, now_ms: int) -> None:
        """Note how long a send took, against every job that travelled in it."""
        with self._lock:
            for job_id in set(job_ids):
                self._selector.record(job_id, cost_ms, now_ms)

    def in_flight(self) -> dict[int, int]:
        """Return the places taken in each lane."""
        with self._lock:
            return {lane: self._used[lane] for lane in self._limits}
