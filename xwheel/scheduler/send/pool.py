"""Places in the fast and the slow lane: how many requests may be in flight, in all and to one address."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from xwheel.ring import FAST, SLOW, PoolSelector
from xwheel.scheduler.records import Delivery

# a batch carries many runs, so a few requests in flight keep one executor busy and let the next batch grow
BATCHES_PER_ADDRESS = 4
# what is fenced ahead waits about this long in the lane, if its executor goes on answering as it did lately
AHEAD_MS = 100
MOST_AHEAD = 4  # times the requests that an address may have in flight
KNOWN_COSTS = 10_000


class TriggerPool:
    """Counts requests in flight; full means wait, never drop.

    A broadcast goes as a whole or not at all, and there may be more executors than places. So it goes once there is a
    place for the first of them; the lane sends as many at once as it has places, and nothing else until they are fewer.

    An executor that takes one run a request and answers quickly gets places ahead, too: what has one is fenced, many
    runs in a transaction, and leaves when a request to that address has ended. Once all of them are taken there are
    none until half are free again.

    Thread-safety: one lock guards the counters and the selector; nothing is asked or waited for under it.
    """

    def __init__(self, fast: int, slow: int, selector: PoolSelector) -> None:
        self._limits = {FAST: fast, SLOW: slow}
        self._selector = selector
        self._lock = threading.RLock()
        self._used: Counter[int] = Counter()
        self._by_address: Counter[tuple[int, str]] = Counter()
        # those whose places ahead were all taken, and of which not half are free again
        self._resting: set[tuple[int, str]] = set()
        # how long an address takes for a run lately, in milliseconds; none while it is unreachable
        self._costs: dict[str, float] = {}

    def share(self, lane: int) -> int:
        """Return how many requests one address may have in flight: a quarter of a lane."""
        return max(1, self._limits[lane] // 4)

    def choose(self, job_ids: Iterable[int]) -> dict[int, int]:
        """Return the lane of each job."""
        with self._lock:
            return {job_id: self._selector.choose(job_id) for job_id in job_ids}

    def acquire(self, lane: int, address: str, *, batch: bool, beyond: bool = False, ahead: bool = False) -> bool:
        """Take a place for one request; return whether there was one.

        One address holds at most a quarter of a lane; a batch may carry many runs. ``beyond`` takes a place though all
        are taken: for the other shards of a run that got a place for its first one. ``ahead`` may take one ahead.
        """
        share, key = self.share(lane), (lane, address)
        limit = min(share, BATCHES_PER_ADDRESS) if batch else share
        with self._lock:
            held = self._by_address[key]
            if ahead and held >= share and not batch:
                is_full = key in self._resting or held >= share + self._most_ahead(key)
                if is_full and held > share:
                    self._resting.add(key)
            else:
                is_full = self._used[lane] >= self._limits[lane] or held >= limit
            if is_full and not beyond:
                return False
            self._used[lane] += held < share  # what is ahead takes no place from others
            self._by_address[key] += 1
            return True

    def release(self, lane: int, address: str) -> bool:
        """Give a place back; return whether the address has one now that may be taken."""
        share, key = self.share(lane), (lane, address)
        with self._lock:
            self._by_address[key] -= 1
            held = self._by_address[key]
            self._used[lane] -= held < share
            if held <= 0:
                del self._by_address[key]
            if 2 * (held - share) <= self._most_ahead(key):
                self._resting.discard(key)
            return key not in self._resting

    def came_back(self, deliveries: Iterable[Delivery], now_ms: int) -> bool:
        """Give back the places of what was sent, and note how long it took; return whether some may be taken now."""
        is_open = False
        with self._lock:
            for delivery in deliveries:
                parcel, address = delivery.parcel, delivery.parcel.executor.address
                # the mean of the last dozen or so: a single slow answer is no rule
                known_ms = self._costs.pop(address, delivery.cost_ms)
                if len(self._costs) >= KNOWN_COSTS:
                    self._costs.clear()
                if delivery.reached:
                    self._costs[address] = known_ms + (delivery.cost_ms - known_ms) / 8
                if not parcel.rest:  # the last of its place
                    is_open |= self.release(parcel.lane, address)
                for job_id in {shard.run.job_id for shard in parcel.shards}:
                    self._selector.record(job_id, delivery.cost_ms, now_ms)
        return is_open

    def in_flight(self) -> dict[int, int]:
        """Return the places taken in each lane."""
        with self._lock:
            return {lane: self._used[lane] for lane in self._limits}

    def _most_ahead(self, key: tuple[int, str]) -> int:
        share, cost_ms = self.share(key[0]), self._costs.get(key[1])
        return 0 if cost_ms is None else min(MOST_AHEAD * share, int(share * AHEAD_MS / max(1.0, cost_ms)))
