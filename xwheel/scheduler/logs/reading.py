"""Reads logs for people: what the store has, and behind that what the executor has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from xwheel.errors import (
    ExecutorRefusedError,
    ExecutorUnreachableError,
    LogStoreError,
    NotFoundError,
    WireError,
)
from xwheel.model import FINAL_STATES, Run
from xwheel.plugin.contracts import LogKey
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.logs.stores import CheckedStore, LogStores
from xwheel.storage import run_logs
from xwheel.storage.database.engine import Database
from xwheel.storage.run_logs import RunLogRow
from xwheel.wire import codec, contract
from xwheel.wire.http import post
from xwheel.wire.http.networks import ExecutorNetworks
from xwheel.wire.http.tls import NO_FILES, TlsFiles
from xwheel.wire.messages import LogData, LogRequest

SEARCHED_BYTES: Final = 8 * 1024 * 1024
"""Text that one search goes through at most."""

SEARCHED_PIECES: Final = 64


class LogText(NamedTuple):
    """A piece of a log.

    Attributes:
        from_line: Number of its first line.
        next_line: Where the next piece begins.
        is_end: Whether nothing will follow.
        place: ``store`` or ``executor``; empty if there was nothing to read.
        note: Why lines may be missing, or empty.
    """

    from_line: int
    next_line: int
    content: str
    is_end: bool
    place: str = ""
    note: str = ""


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


class ExecutorLogs:
    """Reads run logs at the executors that have them; addresses come from the run's row, never from a request.

    Args:
        registry: Live executors, which alone are called, and what with.
        now_ms: The shared time.
        timeout_s: Time limit of a call in seconds.
        networks: Which addresses may be called.
        tls: The authority that https calls trust, and the certificate that they show.
    """

    def __init__(
        self,
        registry: ExecutorRegistry,
        now_ms: Callable[[], int],
        *,
        timeout_s: float,
        networks: ExecutorNetworks,
        tls: TlsFiles = NO_FILES,
    ) -> None:
        self._registry = registry
        self._now_ms = now_ms
        self._timeout_s = timeout_s
        self._networks = networks
        self._tls = tls

    def is_live(self, run: Run) -> bool:
        """Return whether the executor that has a run is registered now: what listens there gets a token."""
        return self._registry.is_live(run.group_id, run.address or "", self._now_ms())

    def fetch(self, run: Run, from_line: int, tail: int = 0) -> LogData:
        """Return a piece of a run's log from a line on, or this many last lines where the executor can tell.

        Raises:
            NotFoundError: The run was never sent, so there is no log.
            WireError: The executor is gone, cannot be reached or refuses.
        """
        if run.address is None:
            raise NotFoundError("log of run", run.id)
        if not self.is_live(run):
            raise ExecutorUnreachableError(
                run.address, f"no live executor, so run {run.id} has no log", sent=False
            )
        request = LogRequest(
            run_id=run.id,
            created_ms=run.created_ms,
            from_line=from_line,
            tail=tail if run.instance else 0,
        )
        return self._ask(run, run.address, request)

    def _ask(self, run: Run, address: str, request: LogRequest) -> LogData:
        response = post(
            contract.join_url(address, contract.LOG),
            codec.encode_log_request(request),
            token=self._registry.token_at(run.group_id, address),
            app_name=self._registry.app_name(run.group_id),
            timeout_s=self._timeout_s,
            tls=self._tls,
            guard=self._networks.refusal,
        )
        if not response.ok:
            raise ExecutorRefusedError(f"{address} has no log of run {run.id}: {response.message}")
        return codec.read_log_data(response.data)


class LogReader:
    """Reads logs; the store counts before the executor, whose lines have the same numbers.

    Thread-safety: any thread.

    Args:
        db: The database.
        stores: Log stores.
        executors: Executors.
    """

    def __init__(self, db: Database, stores: LogStores, executors: ExecutorLogs) -> None:
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
        if run.address is None:
            return LogText(from_line, from_line, "", is_final)
        row = self._find(run)
        problem: LogStoreError | None = None
        store = self._stores.find(row.store) if row else None
        if row is not None and store is not None:
            try:
                text = store.read(_key(row), from_line)
                if text or row.ended:
                    next_line = from_line + text.count("\n")
                    return LogText(from_line, next_line, text, row.ended and not text, "store")
            except LogStoreError as error:
                problem = error
        try:
            data = self._executors.fetch(run, from_line)
        except ExecutorUnreachableError:
            if problem is not None:
                raise problem from None
            if row is None or store is None or store.find(_key(row)) is None:
                raise
            return LogText(from_line, from_line, "", is_final, "store", _note(run))
        if row is not None and data.content in contract.TEXTS_NO_LOG:
            return LogText(from_line, from_line, "", is_final, "store")
        return _piece(data, from_line, is_final)

    def tail(self, run: Run, lines: int) -> LogText:
        """Return this many last lines, or more if an executor cannot tell which they are; raises like :meth:`read`."""
        is_final = run.state in FINAL_STATES
        if run.address is None:
            return LogText(1, 1, "", is_final)
        row = self._find(run)
        store = self._stores.find(row.store) if row else None
        if row is not None and store is not None and row.ended:
            with suppress(LogStoreError):  # its executor may have it still
                return self._last_stored(run, store, row, lines)
        try:
            data = self._executors.fetch(run, 1, lines)
        except WireError:
            if row is None or store is None:
                raise
            return self._last_stored(run, store, row, lines)._replace(note=_note(run))
        if row is not None and store is not None and data.content in contract.TEXTS_NO_LOG:
            return self._last_stored(run, store, row, lines)
        if data.content in contract.TEXTS_NO_LOG:
            return LogText(1, 1, "", is_final, "executor")
        first = max(1, data.from_line)
        every = data.content.split("\n")
        count = len(every) - (every[-1] == "")
        skipped = max(0, count - lines)
        content = "\n".join(every[skipped:])
        is_end = is_final and data.is_end
        return LogText(first + skipped, first + count, content, is_end, "executor")

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
            row = run_logs.find_log(conn, run.id)
        return row if row is not None and row.created_ms == run.created_ms else None


def _key(row: RunLogRow) -> LogKey:
    return LogKey(row.id, row.created_ms)


def _note(run: Run) -> str:
    return f"the store has no more, and the executor at {run.address} cannot be asked"


def _piece(data: LogData, from_line: int, is_final: bool) -> LogText:
    # foreign peers may count on without content, or call the end of the file the end of the run
    next_line = max(from_line, data.to_line + 1) if data.content else from_line
    is_end = is_final and (data.is_end or not data.content)
    return LogText(from_line, next_line, data.content, is_end, "executor")
