"""The executor's memory on disk: accepted runs, started runs, outcomes that the scheduler has not confirmed.

One writer thread commits whatever has gathered since its last commit, so that a hundred waiting runs cost one sync.
What a caller wants to do afterwards it hands over as a callback, which the writer calls once the commit is on disk.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import secrets
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import JournalError, LockError
from xwheel.executor.journal import statements
from xwheel.executor.journal.statements import ACCEPTED, FINISHED, Row, open_database
from xwheel.model.reasons import RunReason
from xwheel.private_files import make_folder, open_file
from xwheel.runtime.file_lock import FileLock
from xwheel.wire.messages import CallbackItem, ExecutionState, RunKey, StateAnswer

logger = logging.getLogger(__name__)

MAX_GROUP: Final = 512
RETRY_S: Final = 1.0
RESERVE_BYTES: Final = 2 * 1024 * 1024
"""Held back on the disk and given up when it is full, so that what was accepted can still be finished."""

PURGE_BATCH: Final = 2000  # rows forgotten in one commit, so that accepting runs never waits long
OUR_NAMES: Final = frozenset({
    "journal.db", "journal.db-shm", "journal.db-wal", "journal.lock", "journal.reserve", "logs", "gluesource",
    "glueenv",
})  # fmt: skip
"""What an executor and its glue types keep in its data folder."""

KEEP_MS: Final = 24 * 3600 * 1000  # how long an acknowledged outcome is kept, to know a repeated id again


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How the journal took a run."""

    new: bool  # it was written just now and must be run
    never_started: bool = False  # it was accepted before a restart and will not be run


NEW: Final = Acceptance(new=True)
Done = Callable[[Sequence[Acceptance], JournalError | None], None]


@dataclass(slots=True)
class _Operation:
    """Something to write, and what to call then. An acceptance may fail; everything else is tried until it works."""

    write: Callable[[sqlite3.Connection], Sequence[Acceptance] | None]
    done: Done | None
    may_fail: bool = False


class Journal:
    """Opens, recovers and writes the journal of one executor process.

    Thread-safety: all methods may be called by any thread. Callbacks run on the writer thread and must be short.

    Raises:
        LockError: Another process uses this directory.
        JournalError: The file cannot be opened.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._clock = clock
        self._directory = directory
        self._lock = _locked(directory)
        try:
            self._writer = open_database(directory / "journal.db")
            self._reader = open_database(directory / "journal.db")
            self.instance, self.recovered = statements.recover(
                self._writer, clock.now_ms(), secrets.token_hex(8)
            )
        except sqlite3.Error as error:
            self._lock.release()
            raise JournalError(f"the journal in {directory} cannot be opened: {error}") from error
        self.boot = secrets.token_hex(8)
        self._read_lock = threading.Lock()
        self._queue: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        self._stuck: list[_Operation] = []
        self._full = ""  # why nothing is accepted at the moment
        self._next_try_ms = 0
        self._keep_reserve()
        self._thread = threading.Thread(target=self._run, name="xwheel-journal", daemon=True)
        self._thread.start()

    def accept(self, keys: Sequence[RunKey], done: Done) -> None:
        """Write runs as accepted; ``done`` gets how each was taken, or the error that refused them all."""
        now_ms = self._clock.now_ms()
        self._queue.put(_Operation(lambda db: _accept_all(db, keys, now_ms), done, may_fail=True))

    def start(self, keys: Sequence[RunKey], done: Callable[[], None]) -> None:
        """Write runs as started, then call ``done``."""
        now_ms = self._clock.now_ms()
        self._put(lambda db: statements.start(db, keys, now_ms), lambda *_: done())

    def finish(self, items: Sequence[CallbackItem], done: Callable[[], None] | None = None) -> None:
        """Write outcomes, then call ``done``; from then on they are :meth:`pending`."""
        self._put(lambda db: statements.finish(db, items), None if done is None else lambda *_: done())

    def acknowledge(self, items: Sequence[CallbackItem]) -> None:
        """Write that the scheduler has these outcomes; waits until it is on disk."""
        now_ms = self._clock.now_ms()
        self._wait(lambda db: statements.acknowledge(db, items, now_ms))

    def revive(self, key: RunKey, done: Callable[[], None]) -> None:
        """Write that a finished run's outcome is to be delivered once more, then call ``done``."""
        self._put(lambda db: statements.revive(db, key), lambda *_: done())

    def settle(self, timeout_s: float) -> None:
        """Wait until everything that was handed in before is on disk, but no longer than this."""
        self._wait(lambda _db: None, timeout_s)

    def pending(self, limit: int) -> list[CallbackItem]:
        """Return outcomes that no scheduler acknowledged, oldest first."""
        with self._read_lock:
            return statements.pending(self._reader, limit)

    def ended(self, limit: int) -> list[tuple[int, int]]:
        """Return runs that ended and are not forgotten yet, latest first: run and creation time."""
        with self._read_lock:
            return statements.list_ended(self._reader, limit)

    def lookup(self, keys: Sequence[RunKey]) -> list[StateAnswer]:
        """Return where runs stand."""
        now_ms = self._clock.now_ms()
        with self._read_lock:
            return [_answer(key, statements.select_row(self._reader, key), now_ms) for key in keys]

    def is_open(self, run_id: int) -> bool | None:
        """Return whether a run has no outcome yet; None if the run is unknown."""
        with self._read_lock:
            return statements.is_open(self._reader, run_id)

    def purge(self, now_ms: int) -> bool:
        """Forget some outcomes that were acknowledged more than a day ago; return whether there are more."""
        counts: list[int] = []
        self._wait(lambda db: counts.append(statements.purge(db, now_ms - KEEP_MS, PURGE_BATCH)))
        return counts[-1:] == [PURGE_BATCH]

    def disown(self) -> None:
        """In a forked child: drop the copied descriptor, so that the lock ends with the parent."""
        self._lock.release()

    def close(self) -> None:
        """Write what is waiting, then let go of the files and the lock."""
        self._queue.put(None)
        self._thread.join()
        with self._read_lock:
            self._reader.close()
        self._writer.close()
        self._lock.release()

    def _put(self, write: Callable[[sqlite3.Connection], None], done: Done | None) -> None:
        self._queue.put(_Operation(write, done))

    def _wait(self, write: Callable[[sqlite3.Connection], None], timeout_s: float = math.inf) -> None:
        written = threading.Event()
        self._put(write, lambda *_: written.set())
        # a full disk may keep it waiting for as long as the writer lives
        while not written.wait(min(RETRY_S, timeout_s)) and self._thread.is_alive():
            timeout_s -= RETRY_S
            if timeout_s <= 0:
                return

    def _run(self) -> None:
        closing = False
        while not closing:
            group, closing = self._gather()
            group, self._stuck = self._stuck + group, []
            if group:
                self._commit(group)
        if self._stuck:
            logger.error("the journal closes with %d writes that never succeeded", len(self._stuck))

    def _gather(self) -> tuple[list[_Operation], bool]:
        """Wait for something to write and take all that is there; the flag says that closing was asked for."""
        group: list[_Operation] = []
        try:
            first = self._queue.get(timeout=RETRY_S if self._stuck else None)
            while first is not None:
                group.append(first)
                if len(group) >= MAX_GROUP:
                    return group, False
                first = self._queue.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _commit(self, group: list[_Operation]) -> None:
        if self._full and not self._recovers():
            group = self._refuse(group)
        try:
            taken = self._write(group)
        except sqlite3.Error as error:
            self._note_trouble(error)
            group = self._refuse(group)
            try:
                taken = self._write(group)
            except sqlite3.Error:
                self._stuck += group
                return
            except BaseException as second:
                self._part(group, second)
                return
        except BaseException as error:  # a mistake of ours, or no memory: the writer's thread must outlive it
            self._part(group, error)
            return
        for operation, found in zip(group, taken, strict=True):
            _call_back(operation, found, None)

    def _part(self, group: list[_Operation], error: BaseException) -> None:
        """Write one by one what broke together; what breaks alone is dropped, and its callback gets the error."""
        if len(group) > 1:
            for operation in group:
                self._commit([operation])
            return
        logger.error("a write of the journal broke and is dropped", exc_info=error)
        problem = JournalError(f"the executor's journal cannot write this: {type(error).__name__}: {error}")
        for operation in group:
            _call_back(operation, (), problem)

    def _write(self, group: list[_Operation]) -> list[Sequence[Acceptance]]:
        if not group:
            return []
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            taken = [operation.write(self._writer) or () for operation in group]
            self._writer.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")
            raise
        return taken

    def _refuse(self, group: list[_Operation]) -> list[_Operation]:
        """Fail the acceptances; return what must still be written."""
        error = JournalError(f"the executor's journal cannot take more runs: {self._full}")
        for operation in group:
            if operation.may_fail:
                _call_back(operation, (), error)
        return [operation for operation in group if not operation.may_fail]

    def _note_trouble(self, error: sqlite3.Error) -> None:
        if not self._full:
            logger.error("the journal in %s refuses new runs: %s", self._directory, error)
        self._full = str(error)
        with contextlib.suppress(OSError):
            self._reserve_path.unlink()

    def _recovers(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_try_ms:
            return False
        self._next_try_ms = now_ms + int(RETRY_S * 1000)
        # twice the reserve, or the room that giving it up made would be taken for a recovery
        if not self._keep_reserve(2 * RESERVE_BYTES):
            return False
        logger.warning("the journal in %s accepts runs again", self._directory)
        self._full = ""
        return True

    @property
    def _reserve_path(self) -> Path:
        return self._directory / "journal.reserve"

    def _keep_reserve(self, room: int = RESERVE_BYTES) -> bool:
        """Occupy the reserve; return whether there is this much room."""
        try:
            with open(self._reserve_path, "ab", opener=open_file) as file:
                os.posix_fallocate(file.fileno(), 0, room)
                file.truncate(RESERVE_BYTES)
        except OSError as error:
            self._full = self._full or f"no room on the disk ({error.strerror})"
            with contextlib.suppress(OSError):
                self._reserve_path.unlink()
            return False
        return True


def _call_back(operation: _Operation, taken: Sequence[Acceptance], error: JournalError | None) -> None:
    if operation.done is None:
        return
    try:
        operation.done(taken, error)
    except BaseException:
        # the writer must outlive its callers' mistakes
        logger.exception("a journal callback failed")


def _accept_all(db: sqlite3.Connection, keys: Sequence[RunKey], now_ms: int) -> list[Acceptance]:
    return [NEW if statements.accept(db, key, now_ms) else _known(db, key) for key in keys]


def _known(db: sqlite3.Connection, key: RunKey) -> Acceptance:
    row = statements.select_row(db, key)
    if row is not None and row.state == FINISHED:
        statements.revive(db, key)  # the scheduler asks again, so it may have lost the outcome
    return Acceptance(new=False, never_started=row is not None and row.item.reason == RunReason.NOT_STARTED)


def _answer(key: RunKey, row: Row | None, now_ms: int) -> StateAnswer:
    if row is None:
        return StateAnswer(run_id=key.run_id, state=ExecutionState.UNKNOWN)
    if row.state == FINISHED:
        return StateAnswer(run_id=key.run_id, state=ExecutionState.FINISHED, outcome=row.item)
    if row.state == ACCEPTED:
        return StateAnswer(run_id=key.run_id, state=ExecutionState.ACCEPTED)
    # an age and not a time: the scheduler's clock is another one
    running_ms = max(0, now_ms - row.item.started_ms)
    return StateAnswer(run_id=key.run_id, state=ExecutionState.STARTED, running_ms=running_ms)


def _locked(directory: Path) -> FileLock:
    lock = FileLock(directory / "journal.lock", "one executor process per journal")
    try:
        make_folder(directory, ours=OUR_NAMES)
        lock.acquire()
    except LockError:
        raise LockError(
            f"another executor process uses the journal in {directory}: give each its own executor.data_dir"
        ) from None
    except OSError as error:
        raise JournalError(f"cannot use {directory}: {error.strerror}") from error
    return lock
