"""Log stores for tests: one in memory, which may be made to fail, to hang or to lie."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from xwheel_run_logs import LogChunk, LogEnd, LogKey
from xwheel_run_logs.settings import RunLogsSection
from xwheel_run_logs.stores import LogStores

from xwheel.clock import ManualClock
from xwheel.config import build_config
from xwheel.plugin.registries import Registry


class MemoryStore:
    """Keeps logs in lists.

    Attributes:
        trouble: Called at the begin of each call; what it raises the call raises.
        appended: The chunks of each call of ``append``.
    """

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.logs: dict[LogKey, list[str]] = {}
        self.complete: set[LogKey] = set()
        self.appended: list[list[LogChunk]] = []
        self.deleted: list[LogKey] = []
        self.trouble: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def append(self, chunks: Sequence[LogChunk]) -> Sequence[int]:
        self.trouble()
        with self._lock:
            self.appended.append(list(chunks))
            return [self._append(chunk) for chunk in chunks]

    def _append(self, chunk: LogChunk) -> int:
        lines = self.logs.get(chunk.key, [])
        skipped = len(lines) + 1 - chunk.first_line
        if skipped < 0:
            return len(lines) + 1
        lines += chunk.text.split("\n")[:-1][skipped:]
        self.logs[chunk.key] = lines
        if chunk.is_last:
            self.complete.add(chunk.key)
        return len(lines) + 1

    def read(self, key: LogKey, from_line: int, max_bytes: int) -> str:
        self.trouble()
        found = ""
        for line in self.logs.get(key, [])[from_line - 1 :]:
            if found and len((found + line).encode()) >= max_bytes:
                break
            found += f"{line}\n"
        return found

    def find(self, key: LogKey) -> LogEnd | None:
        self.trouble()
        lines = self.logs.get(key)
        return None if lines is None else LogEnd(len(lines) + 1, key in self.complete)

    def delete(self, keys: Sequence[LogKey]) -> None:
        self.trouble()
        self.deleted += keys
        for key in keys:
            self.logs.pop(key, None)
            self.complete.discard(key)


def fails() -> None:
    """Be the trouble of a store that raises."""
    raise OSError("no space left on device")


def stores_of(*stores: object, clock: ManualClock | None = None, **settings: object) -> LogStores:
    """Return the log stores of a node; the first is the one that is used."""
    names = [getattr(store, "name", "") for store in stores]
    config = build_config({"run_logs": {"store": names[0] if names else "", **settings}})
    registry: Registry[object] = Registry("log store", dict(zip(names, stores, strict=True)), {})
    return LogStores(registry, config.section("run_logs", RunLogsSection), clock or ManualClock())  # type: ignore[arg-type]
