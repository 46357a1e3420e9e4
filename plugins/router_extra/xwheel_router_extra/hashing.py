"""CONSISTENT_HASH: the same job on the same executor, and few jobs move when executors come and go."""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from xwheel.plugin import RegisteredExecutor, RouteContext

NODES: Final = 100
"""Places of each address on the ring, as XXL-JOB has them."""

RINGS: Final = 64
LISTS: Final = 64
JOBS: Final = 100_000


def place_of(key: str) -> int:
    """Return where a key stands on the ring: the first four bytes of its MD5, the lowest first."""
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "little")


class Ring:
    """The places of a list of addresses.

    Args:
        addresses: As the executors spell them, which is what XXL-JOB hashes.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        # where two share a place the later one has it
        owners = {
            place_of(f"SHARD-{address}-NODE-{number}"): index
            for index, address in enumerate(addresses)
            for number in range(NODES)
        }
        self.places = sorted(owners)
        self.owners = [owners[place] for place in self.places]

    def find(self, place: int, suspects: frozenset[int]) -> int:
        """Return the index of the address that owns the first place from here on, past suspects."""
        start = bisect_left(self.places, place)
        count = len(self.places)
        for step in range(count if suspects else 1):
            owner = self.owners[(start + step) % count]
            if owner not in suspects:
                return owner
        return self.owners[start % count]


class _Listed:
    """A list of executors in the order of their spelling, with its ring."""

    def __init__(self, context: RouteContext, rings: Rings) -> None:
        self.source = context.executors
        self.executors = sorted(context.executors, key=lambda item: item.registered_as)
        self.ring = rings.get(tuple(item.registered_as for item in self.executors))
        trusted = {item.address for item in context.trusted}
        self.suspects = frozenset(index for index, item in enumerate(self.executors) if item.address not in trusted)


class Rings:
    """Rings by list of addresses; the one that was used longest ago is forgotten."""

    def __init__(self) -> None:
        self._rings: OrderedDict[tuple[str, ...], Ring] = OrderedDict()

    def get(self, addresses: tuple[str, ...]) -> Ring:
        """Return the ring of some addresses, made once."""
        ring = self._rings.pop(addresses, None) or Ring(addresses)
        self._rings[addresses] = ring
        if len(self._rings) > RINGS:
            self._rings.popitem(last=False)
        return ring


class ConsistentHash:
    """Chooses as XXL-JOB's strategy of this name does, to the bit, with a ring that is made once for each list.

    A suspect's jobs go to the next on the ring, as if it had left.

    Thread-safety: what is remembered is changed under a lock, and read without: a list is compared by identity.
    """

    name = "CONSISTENT_HASH"
    asks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings = Rings()
        self._lists: OrderedDict[int, _Listed] = OrderedDict()
        self._places: dict[int, int] = {}

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the owner of the job's place on the ring."""
        job_id = context.job.id
        place = self._places.get(job_id)
        if place is None:
            place = self._place(job_id)
        executors = context.executors
        # the list is kept, so no other one can have its id; which of its executors are suspects stays as it is
        listed = self._lists.get(id(executors))
        if listed is None or listed.source is not executors:
            listed = self._listed(context)
        return [listed.executors[listed.ring.find(place, listed.suspects)]]

    def _place(self, job_id: int) -> int:
        place = place_of(str(job_id))
        with self._lock:
            if len(self._places) >= JOBS:
                self._places.clear()
            self._places[job_id] = place
        return place

    def _listed(self, context: RouteContext) -> _Listed:
        with self._lock:
            listed = _Listed(context, self._rings)
            self._lists[id(context.executors)] = listed
            if len(self._lists) > LISTS:
                self._lists.popitem(last=False)
        return listed
