"""Calls log stores: on threads that can be left behind, and with answers that are checked before they are believed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from xwheel.clock import Clock
from xwheel.errors import ConfigError, LogStoreError, PluginError
from xwheel.plugin.validation import guarded
from xwheel.runtime.foreign import CountedCalls, PluginThreads

from xwheel_run_logs import storage
from xwheel_run_logs.contract import ChecksSetup, LogChunk, LogEnd, LogKey, LogStore
from xwheel_run_logs.settings import RunLogsSection

logger = logging.getLogger(__name__)

T = TypeVar("T")

PIECE_BYTES: Final = 1024 * 1024
"""Text in one piece that is read."""

LONGEST_PIECE: Final = 4 * 1024 * 1024
"""Characters that a store may return at most: one line may be longer than a piece."""

MAX_LINE: Final = 2**53


class CheckedStore(CountedCalls):
    """One log store; each failure is a :class:`LogStoreError`.

    Thread-safety: any thread.

    Args:
        name: What settings call it.
        store: The plugin's object.
        threads: What it is called on.
        clock: Measures for how long it fails.
    """

    def __init__(self, name: str, store: LogStore, threads: PluginThreads, clock: Clock) -> None:
        trouble = "logs wait with their executors, runs go on"
        super().__init__(f"log store {name}", trouble, threads, clock, logger)
        self.name = name
        self._store = store

    def append(self, chunks: Sequence[LogChunk]) -> list[int]:
        """Keep chunks; return for each the number of the first line that its log lacks then.

        Raises:
            LogStoreError: It is not known what was kept.
        """
        answers = self._call(lambda: self._store.append(chunks), lambda found: _next_lines(self.name, found, chunks))
        for chunk, line in zip(chunks, answers, strict=True):
            if chunk.is_last and line > chunk.next_line:
                self._believe(chunk, line)
        return answers

    def _believe(self, chunk: LogChunk, line: int) -> None:
        """Make sure that a store has more of a log than what ends it here, as it says: a machine may have lost lines.

        Raises:
            LogStoreError: It has not.
        """
        end = self.find(chunk.key)
        if end is None or end.next_line < line:
            has = 0 if end is None else end.next_line - 1
            error = PluginError(
                f"log store {self.name}: append answered {line} to the end of run {chunk.key.run_id}, but it has "
                f"{has} lines"
            )
            self._failed(error)
            raise LogStoreError(str(error))

    def read(self, key: LogKey, from_line: int) -> str:
        """Return lines from one on, at most about a megabyte; raises :class:`LogStoreError`."""
        return self._call(lambda: self._store.read(key, from_line, PIECE_BYTES), lambda found: _text(self.name, found))

    def find(self, key: LogKey) -> LogEnd | None:
        """Return how far the store has a log, None if it has nothing of it; raises :class:`LogStoreError`."""
        return self._call(lambda: self._store.find(key), lambda found: _end(self.name, found))

    def delete(self, keys: Sequence[LogKey]) -> None:
        """Delete logs; raises :class:`LogStoreError`."""
        self._call(lambda: self._store.delete(keys), lambda _: None)

    def _call(self, call: Callable[[], object], check: Callable[[object], T]) -> T:
        try:
            return self._counted(lambda: check(guarded(self.what, call)))
        except PluginError as error:
            raise LogStoreError(str(error)) from error


class LogStores:
    """All log stores, and the one that new logs go into.

    Args:
        stores: The stores by name.
        settings: Which one, and for how long.
        clock: Measures calls.

    Raises:
        ConfigError: The settings name a store that is not there, or whose options do not do.
    """

    def __init__(self, stores: Mapping[str, LogStore], settings: RunLogsSection, clock: Clock) -> None:
        threads = PluginThreads(settings.call_timeout_s)
        self._all: Mapping[str, CheckedStore] = {
            name: CheckedStore(name, store, threads, clock) for name, store in stores.items()
        }
        self.default_days = settings.retention_days
        self.chosen: CheckedStore | None = None
        if settings.store:
            try:
                store = stores[settings.store]
            except KeyError as error:
                raise ConfigError(f"run_logs.store: {error.args[0]}") from None
            if isinstance(store, ChecksSetup):
                _check_setup(settings.store, store)
            self.chosen = self._all[settings.store]

    def find(self, name: str) -> CheckedStore | None:
        """Return a store by name, or None if it is not there any more."""
        return self._all.get(name)

    def delete_ms(self, created_ms: int, own_days: int) -> int:
        """Return when a log may be deleted.

        Args:
            created_ms: When its run was made.
            own_days: How long its job keeps logs; 0 for the setting.
        """
        return storage.delete_ms(created_ms, own_days or self.default_days)


def _check_setup(name: str, store: ChecksSetup) -> None:
    try:
        guarded(f"log store {name}", store.check, allowed=ConfigError)
    except PluginError as error:
        raise ConfigError(f"run_logs.store: {error}") from error


def _next_lines(name: str, found: object, chunks: Sequence[LogChunk]) -> list[int]:
    if isinstance(found, str | bytes) or not isinstance(found, Sequence) or len(found) != len(chunks):
        raise PluginError(f"log store {name}: append returned no list of {len(chunks)} line numbers")
    for line, chunk in zip(found, chunks, strict=True):
        if type(line) is not int or not 1 <= line <= MAX_LINE:
            raise PluginError(
                f"log store {name}: append answered {line!r:.40} to lines {chunk.first_line} to "
                f"{chunk.next_line - 1} of run {chunk.key.run_id}: the number of the next line is due"
            )
    return list(found)


def _text(name: str, found: object) -> str:
    if type(found) is not str or len(found) > LONGEST_PIECE or (found and not found.endswith("\n")):
        size = f" of {len(found)} characters" if isinstance(found, str) else ""
        raise PluginError(f"log store {name}: read returned {type(found).__name__}{size}: a text of whole lines is due")
    return found.encode("utf-8", "replace").decode()  # half of a pair is no text that can be sent on


def _end(name: str, found: object) -> LogEnd | None:
    if found is None:
        return None
    if (
        type(found) is not LogEnd
        or type(found.next_line) is not int
        or type(found.is_complete) is not bool
        or not 1 <= found.next_line <= MAX_LINE
    ):
        raise PluginError(
            f"log store {name}: find returned {type(found).__name__}: a LogEnd with a line number, or None, is due"
        )
    return found
