"""Give runs room in requests before they are fenced, and put what was fenced into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xwheel.model import GlueVersion, RegisteredExecutor
from xwheel.scheduler.handover import Parcel, Routed, Shard, runs_a_parcel
from xwheel.scheduler.ports import Places

PARCEL_RUNS = 200


class Placing:
    """The parcels of one batch while it is being placed.

    Args:
        places: The trigger pool.
        sources: The sources of the batch's script jobs, by job id.
        parcel_runs: Runs that travel in one request, for executors that take several.
    """

    def __init__(
        self, places: Places, sources: Mapping[int, GlueVersion], parcel_runs: int = PARCEL_RUNS
    ) -> None:
        self._places = places
        self._parcel_runs = parcel_runs
        self._sources = sources
        self._limits = {job_id: runs_a_parcel(item, parcel_runs) for job_id, item in sources.items()}
        self._open: dict[tuple[int, str, int], list[Parcel]] = {}

    def admit(self, item: Routed, lane: int) -> bool:
        """Give every shard of a run room in a parcel, or none of them."""
        opened: list[Parcel] = []
        counted: list[Parcel] = []
        limit = self._limits.get(item.job.id, self._parcel_runs)
        for executor in item.executors:
            parcel = self._parcel(lane, executor, limit)
            if parcel is None:
                for used in counted:
                    used.expected -= 1
                for unused in opened:
                    self._give_back(unused, limit)
                return False
            if parcel.expected == 0:
                opened.append(parcel)
            parcel.expected += 1
            counted.append(parcel)
        return True

    def fill(self, shards: Sequence[Shard], lanes: Mapping[int, int]) -> list[Parcel]:
        """Put fenced shards into the parcels that were opened for them; give unused places back."""
        parcels = {key: list(group) for key, group in self._open.items()}
        for shard in shards:
            limit = self._limits.get(shard.job.id, self._parcel_runs)
            group = parcels[lanes[shard.job.id], shard.executor.address, limit]
            while len(group[0].shards) >= group[0].expected:
                group.pop(0)
            group[0].shards.append(shard)
        full = [parcel for group in self._open.values() for parcel in group]
        for parcel in full:
            if not parcel.shards:
                self._places.release(parcel.lane, parcel.executor.address)
            parcel.sources = self._sources
        return [parcel for parcel in full if parcel.shards]

    def give_back_all(self) -> None:
        """Give every place back: nothing will be sent."""
        for group in self._open.values():
            for parcel in group:
                self._places.release(parcel.lane, parcel.executor.address)

    def _parcel(self, lane: int, executor: RegisteredExecutor, limit: int) -> Parcel | None:
        group = self._open.setdefault((lane, executor.address, limit), [])
        is_batch = executor.kind == "xwheel"
        if group and is_batch and group[-1].expected < limit:
            return group[-1]
        if not self._places.acquire(lane, executor.address, batch=is_batch):
            return None
        group.append(Parcel(lane=lane, executor=executor))
        return group[-1]

    def _give_back(self, parcel: Parcel, limit: int) -> None:
        self._open[parcel.lane, parcel.executor.address, limit].remove(parcel)
        self._places.release(parcel.lane, parcel.executor.address)
