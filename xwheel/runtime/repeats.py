"""Log what happens again and again in few lines."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable
from typing import Final

MOST_KEYS: Final = 1000
EVERY: Final = 1000


class Repeats:
    """Counts by key, from any thread, and says which counts are worth a line: 1, 10, 100, 1,000, 2,000 and so on."""

    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()
        self._lock = threading.Lock()

    def note(self, key: Hashable, count: int = 1) -> int:
        """Add to a key's count; return the count if it is worth a line, else 0."""
        with self._lock:
            if key not in self._counts and len(self._counts) >= MOST_KEYS:
                self._counts.clear()  # names of others fill no memory
            before = self._counts[key]
            now = before + count
            self._counts[key] = now
        return now if _mark(now) > _mark(before) else 0


def _mark(count: int) -> int:
    if count >= EVERY:
        return count - count % EVERY
    return 10 ** (len(str(count)) - 1) if count else 0
