"""How many calls of a kind may be under way at once, so that slow ones cannot hold all threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from xwheel.errors import BusyError


class Places:
    """Places for calls that go on to executors or plugins, and at most half of them for those of one group.

    Any thread may ask. Messages say ``what`` is done in them.
    """

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._lock = threading.Lock()
        self._held: Counter[int | None] = Counter()

    @contextmanager
    def hold(self, group_id: int | None) -> Iterator[None]:
        """Hold a place for a group as long as the block lasts, or raise BusyError at once.

        Callers that show what all groups share count as no group.
        """
        with self._lock:
            if self._held.total() >= self._total:
                raise BusyError(f"too many {self._what}: ask again in a moment")
            if group_id is not None and self._held[group_id] >= (self._total + 1) // 2:
                raise BusyError(f"too many {self._what} for this group: ask again in a moment")
            self._held[group_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[group_id] -= 1
                if not self._held[group_id]:
                    del self._held[group_id]
