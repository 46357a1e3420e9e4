"""What routers remember of jobs, bounded in size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sized
from typing import Final, Generic, TypeVar

S = TypeVar("S", bound=Sized)

MAX_ENTRIES: Final = 1_000_000


class JobMemory(Generic[S]):
    """One collection for each job; jobs that were routed longest ago are forgotten once all together hold too much.

    Thread-safety: none; its owner holds a lock.

    Args:
        make: Makes the empty collection of a job.
        limit: Entries of all collections together, each counted as one more than it holds.
    """

    def __init__(self, make: Callable[[], S], limit: int = MAX_ENTRIES) -> None:
        self._make = make
        self._limit = limit
        self._jobs: OrderedDict[int, S] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._entries = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def take(self, job_id: int) -> S:
        """Return the collection of a job, to be changed and handed to :meth:`note`."""
        found = self._jobs.pop(job_id, None)
        return self._make() if found is None else found

    def note(self, job_id: int, found: S) -> None:
        """Keep a collection that was taken."""
        size = 1 + len(found)
        self._jobs[job_id] = found
        self._entries += size - self._sizes.get(job_id, 0)
        self._sizes[job_id] = size
        while self._entries > self._limit and len(self._jobs) > 1:
            oldest, _ = self._jobs.popitem(last=False)
            self._entries -= self._sizes.pop(oldest)
