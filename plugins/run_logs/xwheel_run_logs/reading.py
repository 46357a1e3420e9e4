"""Reads logs for people: what the store has, and behind that what the executor has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from xwheel.errors import ExecutorUnreachableError, LogStoreError, WireError
from xwheel.model import FINAL_STATES, Run
from xwheel.plugin import LogText, PluginDatabase, ReadsLogs
from xwheel.wire.contract import TEXTS_NO_LOG

from xwheel_run_logs import storage
from xwheel_run_logs.contract import LogKey
from xwheel_run_logs.storage import RunLogRow
from xwheel_run_logs.stores import CheckedStore, LogStores

SEARCHED_BYTES: Final = 8 * 1024 * 1024
"""Text that one search goes through at most."""

SEARCHED_PIECES: Final = 64


class Match(NamedTuple):
    """A line in which a text was found."""

    line: int
    text: str


class Matches(NamedTuple):
    """What a search found.

    Attributes:
        next_line: Where the next search goes on.
        is_end: Whether the whole log was searched and nothing will follow.
    """

    found: list[Match]
    next_line: int
    is_end: bool


class LogReader:
    """Reads logs; the store counts before the executor, whose lines have the same numbers.

    Thread-safety: any thread.

    Args:
        db: The database.
        stores: Log stores.
        executors: Logs as executors have them.
    """

    def __init__(self, db: PluginDatabase, stores: LogStores, executors: ReadsLogs) -> None:
        self._db = db
        self._stores = stores
        self._executors = executors

    def read(self, run: Run, from_line: int) -> LogText:
        """Return a piece of a log from a line on; empty while the run was not sent.

        Raises:
            WireError: What the store lacks, the executor does not give.
            LogStoreError: The store fails, and the executor does not have it either.
        """
        # as of before the log is read: what comes later may be missing in it
        is_final = run.state in FINAL_STATES
        row = self._find(run)
        problem: LogStoreError | None = None
        store = self._stores.find(row.store) if row else None
        if row is not None and store is not None:
            try:
                stored = store.read(_key(row), from_line)
                if stored or row.ended:
                    next_line = from_line + stored.count("\n")
                    return LogText(from_line, next_line, stored, row.ended and not stored, "store")
            except LogStoreError as error:
                problem = error
        try:
            text = self._executors.read_log(run, from_line)
        except ExecutorUnreachableError:
            if problem is not None:
                raise problem from None
            if row is None or store is None or store.find(_key(row)) is None:
                raise
            return LogText(from_line, from_line, "", is_final, "store", _note(run))
        if row is not None and text.content in TEXTS_NO_LOG:
            return LogText(from_line, from_line, "", is_final, "store")
        return text

    def tail(self, run: Run, lines: int) -> LogText:
        """Return this many last lines, or more if an executor cannot tell which they are; raises like :meth:`read`."""
        row = self._find(run)
        store = self._stores.find(row.store) if row else None
        if row is not None and store is not None and row.ended:
            with suppress(LogStoreError):  # its executor may have it still
                return self._last_stored(run, store, row, lines)
        try:
            text = self._executors.tail_log(run, lines)
        except WireError:
            if row is None or store is None:
                raise
            return self._last_stored(run, store, row, lines)._replace(note=_note(run))
        if row is not None and store is not None and not text.content:  # deleted there, or no line written so far
            return self._last_stored(run, store, row, lines)
        return text

    def _last_stored(self, run: Run, store: CheckedStore, row: RunLogRow, lines: int) -> LogText:
        end = store.find(_key(row))
        first = max(1, (end.next_line if end else 1) - lines)
        text = store.read(_key(row), first)
        next_line = first + text.count("\n")
        is_end = run.state in FINAL_STATES and end is not None and next_line >= end.next_line
        return LogText(first, next_line, text, is_end, "store")

    def search(self, run: Run, wanted: str, from_line: int, limit: int) -> Matches:
        """Return the lines that hold a text, in any case; at most 8 MiB are gone through; raises like :meth:`read`."""
        wanted = wanted.casefold()
        found: list[Match] = []
        for piece in self._pieces(run, from_line):
            for number, line in enumerate(piece.content.split("\n"), piece.from_line):
                if number >= piece.next_line:
                    break
                if wanted in line.casefold():
                    if len(found) == limit:
                        return Matches(found, number, False)
                    found.append(Match(number, line))
            from_line = piece.next_line
            if piece.is_end:
                return Matches(found, from_line, True)
        return Matches(found, from_line, False)

    def _pieces(self, run: Run, from_line: int) -> Iterator[LogText]:
        size = 0
        for _ in range(SEARCHED_PIECES):
            piece = self.read(run, from_line)
            yield piece
            size += len(piece.content)
            if piece.is_end or piece.next_line <= from_line or size >= SEARCHED_BYTES:
                return
            from_line = piece.next_line

    def _find(self, run: Run) -> RunLogRow | None:
        with self._db.read() as conn:
            row = storage.find_log(conn, run.id)
        return row if row is not None and row.created_ms == run.created_ms else None


def _key(row: RunLogRow) -> LogKey:
    return LogKey(row.id, row.created_ms)


def _note(run: Run) -> str:
    return f"the store has no more, and the executor at {run.address} cannot be asked"
