"""Give runs room in requests before they are fenced, and put what was fenced into them.

A request carries at most this many runs and this many bytes. Bytes are counted as an upper bound, so that no short text
is encoded twice; a run that is larger than the limit by itself travels alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.model import BlockStrategy, GlueVersion, Job, RegisteredExecutor, Run
from xwheel.scheduler.records import Parcel, Routed, Shard
from xwheel.scheduler.send.pool import TriggerPool
from xwheel.wire.codec import EARLY_GENERATION, text_bytes, trigger_bytes

SMALLEST: Final = 1024
KNOWN_LIMITS: Final = 10_000
# how long an executor that refused a large request gets smaller ones, before it is tried with a large one again
KEEP_MS: Final = 600_000
ALONE: Final = 1  # size of a run for an executor that takes one run a request, of which no other fits in


class BodyLimits:
    """How many bytes a request may have: as configured, or fewer for an address that refused this many.

    Thread-safety: any thread; a dict of tuples that are replaced whole.
    """

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._learned: dict[str, tuple[int, int]] = {}

    def of(self, address: str) -> int:
        """Return the limit for an address."""
        learned = self._learned.get(address)
        if learned is None or learned[1] <= self._clock.monotonic_ms():
            return self._most
        return learned[0]

    def refused(self, address: str, size: int) -> None:
        """Note that a request of this size was too large."""
        if len(self._learned) >= KNOWN_LIMITS:
            self._learned.clear()
        limit = max(SMALLEST, min(self._most, size) // 2)
        self._learned[address] = (limit, self._clock.monotonic_ms() + KEEP_MS)


class Sizes:
    """Says how many bytes runs take in a request, at most; sources are measured once."""

    def __init__(self, sources: Mapping[int, GlueVersion]) -> None:
        self._sources = {job_id: text_bytes(item.source) for job_id, item in sources.items()}

    def of(self, run: Run, job: Job) -> int:
        """Return the size of a run."""
        param = job.param if run.param is None else run.param
        size = trigger_bytes(job.handler, param, job.glue_type)
        if job.id not in self._sources:
            return size
        return size + self._sources[job.id] + (0 if run.param is None else text_bytes(job.param))


def pack_again(lane: int, limit: int, shards: Sequence[Shard], sources: Mapping[int, GlueVersion]) -> Parcel:
    """Return shards that are asked again in a parcel, followed by as many more in the same place as they need."""
    sizes = Sizes(sources)
    parcels: list[Parcel] = []
    for shard in shards:
        size = sizes.of(shard.run, shard.job)
        if not parcels or not parcels[-1].has_room(size):
            parcels.append(Parcel(lane=lane, executor=shard.executor, limit=limit, again=True))
        parcels[-1].shards.append(shard)
        parcels[-1].add(size)
    for parcel in parcels if sources else ():
        parcel.sources = _sources_of(parcel, sources)
    parcels[0].rest = parcels[1:]
    return parcels[0]


def _sources_of(parcel: Parcel, sources: Mapping[int, GlueVersion]) -> Mapping[int, GlueVersion]:
    """Return the sources of what travels in a parcel: those of the others need not stay until it is answered."""
    ids = {shard.job.id for shard in parcel.shards}
    return {job_id: sources[job_id] for job_id in ids & sources.keys()}


@dataclass(eq=False, repr=False)
class Placing:
    """The parcels of one batch while it is being placed."""

    pool: TriggerPool
    limits: BodyLimits
    sources: Mapping[int, GlueVersion]  # the sources of the batch's script jobs, by job id
    now_ms: int

    def __post_init__(self) -> None:
        self._sizes = Sizes(self.sources)
        self._measured: dict[int, int] = {}
        self._open: dict[tuple[int, str], list[Parcel]] = {}
        self._full: set[tuple[int, str]] = set()

    def admit(self, item: Routed, lane: int) -> bool:
        """Give every shard of a run room in a parcel, or none of them.

        A run for several executors needs room for the first one only: it could wait for ever for this many places.
        """
        opened: list[Parcel] = []
        counted: list[tuple[Parcel, int]] = []
        early = item.run.due_ms > self.now_ms
        if early and not takes_early(item):
            return False
        # one that is not sent in time after all is tried elsewhere, where it may go elsewhere
        ahead = not early and item.run.address is None and len(item.executors) == 1
        for number, executor in enumerate(item.executors):
            # nothing overtakes what found no room, however small it is
            is_full = not number and bool(self._full) and (lane, executor.address) in self._full
            size = 0 if is_full else self._size(item.run, item.job, executor)
            parcel = None
            if not is_full:
                parcel = self._parcel(lane, executor, size, beyond=number > 0, ahead=ahead)
            if parcel is None:
                for used, its_size in counted:
                    used.take_out(its_size)
                for unused in opened:
                    self._open[lane, unused.executor.address].remove(unused)
                    self.pool.release(lane, unused.executor.address)
                return False
            if not parcel.count:
                opened.append(parcel)
            parcel.add(size)
            counted.append((parcel, size))
        return True

    def fill(self, shards: Sequence[Shard], lanes: Mapping[int, int]) -> list[Parcel]:
        """Put fenced shards into the parcels that were opened for them; give unused places back.

        They come in the order in which they were admitted, so those that are left need no more parcels than all did.
        """
        full = [parcel for group in self._open.values() for parcel in group]
        for parcel in full:
            parcel.count, parcel.size = 0, 0
        parcels = {key: list(group) for key, group in self._open.items()}
        for shard in shards:
            group = parcels[lanes[shard.job.id], shard.executor.address]
            size = self._size(shard.run, shard.job, shard.executor)
            while not group[0].has_room(size):
                group.pop(0)
            group[0].shards.append(shard)
            group[0].add(size)
        for parcel in full:
            if not parcel.shards:
                self.pool.release(parcel.lane, parcel.executor.address)
            elif self.sources:
                parcel.sources = _sources_of(parcel, self.sources)
        return [parcel for parcel in full if parcel.shards]

    def give_back_all(self) -> None:
        """Give every place back: nothing will be sent."""
        for (lane, address), group in self._open.items():
            for _ in group:
                self.pool.release(lane, address)

    def _size(self, run: Run, job: Job, executor: RegisteredExecutor) -> int:
        if executor.kind != "xwheel":
            return ALONE
        size = self._measured.get(run.id)
        if size is None:
            size = self._measured[run.id] = self._sizes.of(run, job)
        return size

    def _parcel(
        self, lane: int, executor: RegisteredExecutor, size: int, *, beyond: bool, ahead: bool
    ) -> Parcel | None:
        """Return a parcel with room for a run, a new one if it gets a place: see :meth:`TriggerPool.acquire`."""
        address = executor.address
        group = self._open.setdefault((lane, address), [])
        if group and group[-1].has_room(size):
            return group[-1]
        is_batch = executor.kind == "xwheel"
        if not self.pool.acquire(lane, address, batch=is_batch, beyond=beyond, ahead=ahead):
            self._full.add((lane, address))
            return None
        limit = self.limits.of(address) if is_batch else 0
        group.append(Parcel(lane=lane, executor=executor, limit=limit))
        return group[-1]


def takes_early(item: Routed) -> bool:
    """Return whether a run may leave before it is due.

    Whether another run stands in the way of those that are discarded, or cover others, is seen when they are due. And
    of a broadcast some executors might give their shards back, and others not.
    """
    is_able = all(executor.generation >= EARLY_GENERATION for executor in item.executors)
    return is_able and len(item.executors) == 1 and item.job.block_strategy == BlockStrategy.SERIAL_EXECUTION
