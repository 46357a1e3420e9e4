"""The executor's memory on disk: accepted runs, started runs, outcomes that the scheduler has not confirmed.

One writer thread commits whatever has gathered since its last commit, so that a hundred waiting runs cost one sync.
What a caller wants to do afterwards it hands over as a callback, which the writer calls once the commit is on disk.
While that thread has nothing to do, who hands over new runs commits them by itself.

Two things need no commit of their own. A run that may start at once is written as accepted and started together, and
acknowledgements wait for the next commit, a second at most: what a crash takes from them is delivered once more.
Outcomes stay in memory from their commit to their delivery, so that nothing is read back while all goes well.
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
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from xwheel.clock import Clock
from xwheel.errors import JournalError, LockError
from xwheel.model import RunState
from xwheel.model.reasons import RunReason
from xwheel.private_files import make_folder, open_file, prepare_sqlite
from xwheel.runtime.file_lock import FileLock
from xwheel.wire.contract import FAIL
from xwheel.wire.messages import CallbackItem, ExecutionState, RunKey, StateAnswer

logger = logging.getLogger(__name__)

MAX_GROUP: Final = 512
RETRY_S: Final = 1.0
ACKNOWLEDGE_S: Final = 1.0  # acknowledgements wait this long for a commit that others need
KEPT: Final = 5000  # outcomes that wait for their delivery in memory; with more, they are read from the disk
KEPT_CHARS: Final = 8 * 1024 * 1024  # characters of their messages
LOADED: Final = 1000  # outcomes that are read at once, to keep them from then on if there are no more
# held back on the disk and given up when it is full, so that what was accepted can still be finished
RESERVE_BYTES: Final = 2 * 1024 * 1024
PURGE_BATCH: Final = 2000  # rows forgotten in one commit, so that accepting runs never waits long
# what an executor and its glue types keep in its data folder
OUR_NAMES: Final = frozenset({
    "journal.db", "journal.db-shm", "journal.db-wal", "journal.lock", "journal.reserve", "logs", "gluesource",
    "glueenv",
})  # fmt: skip
KEEP_MS: Final = 24 * 3600 * 1000  # how long an acknowledged outcome is kept, to know a repeated id again

ACCEPTED: Final = 1
STARTED: Final = 2
FINISHED: Final = 3
VERSION: Final = 1
NOT_RUN: Final = "the executor restarted before it started this run; it was not run"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run (
  run_id INTEGER NOT NULL,
  job_id INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  state INTEGER NOT NULL,
  accepted_ms INTEGER NOT NULL,
  started_ms INTEGER NOT NULL DEFAULT 0,
  finished_ms INTEGER NOT NULL DEFAULT 0,
  code INTEGER NOT NULL DEFAULT 0,
  outcome TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '',
  message TEXT NOT NULL DEFAULT '',
  pending INTEGER NOT NULL DEFAULT 0,
  acked_ms INTEGER,
  PRIMARY KEY (run_id, job_id, created_ms)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS run_live ON run (accepted_ms) WHERE acked_ms IS NULL;
CREATE INDEX IF NOT EXISTS run_acked ON run (acked_ms) WHERE acked_ms IS NOT NULL;
DROP INDEX IF EXISTS run_pending;
DROP INDEX IF EXISTS run_open;
"""
# a run's entry in it stands still until its outcome is acknowledged
_HAS_INDEX: Final = "SELECT 1 FROM sqlite_master WHERE name = 'run_live'"
_KEY: Final = "run_id = ? AND job_id = ? AND created_ms = ?"
_KEY_FIELDS: Final = ("run_id", "job_id", "created_ms")
_key_of: Final = attrgetter(*_KEY_FIELDS)
_FIELDS: Final = (*_KEY_FIELDS, "code", "reason", "message", "started_ms", "finished_ms")
_OUTCOME: Final = f"state, outcome, {', '.join(_FIELDS)}"
# S608 below: the texts of these statements are constants
_ACCEPT: Final = """INSERT OR IGNORE INTO run (run_id, job_id, created_ms, state, accepted_ms, started_ms)
VALUES (?, ?, ?, ?, ?, ?)"""
_START: Final = f"UPDATE run SET state = 2, started_ms = ? WHERE {_KEY} AND state < 3"  # noqa: S608
# a run that already has an outcome keeps it
_FINISH: Final = f"""UPDATE run SET state = 3, code = ?, outcome = ?, reason = ?, message = ?, started_ms = ?,
finished_ms = ?, pending = 1 WHERE {_KEY} AND state < 3"""  # noqa: S608
# "_value_" is the plain attribute of an enum's member; "value" takes ten times as long
_finish_row: Final = attrgetter("code", "state._value_", "reason", "message", "started_ms", "finished_ms", *_KEY_FIELDS)
_ACKNOWLEDGE: Final = f"UPDATE run SET pending = 0, acked_ms = ? WHERE {_KEY}"  # noqa: S608
_REVIVE: Final = f"UPDATE run SET pending = 1, acked_ms = NULL WHERE {_KEY} AND state = 3"  # noqa: S608
_PURGE: Final = """DELETE FROM run WHERE (run_id, job_id, created_ms) IN
(SELECT run_id, job_id, created_ms FROM run WHERE acked_ms < ? LIMIT ?)"""
_LOOK_UP: Final = f"SELECT {_OUTCOME} FROM run WHERE {_KEY}"  # noqa: S608
_PENDING: Final = f"SELECT {_OUTCOME} FROM run WHERE acked_ms IS NULL AND pending = 1 ORDER BY accepted_ms LIMIT ?"  # noqa: S608
_ENDED: Final = "SELECT run_id, created_ms FROM run WHERE state = ? ORDER BY finished_ms DESC LIMIT ?"
_NEWEST: Final = "SELECT state FROM run WHERE run_id = ? ORDER BY created_ms DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How the journal took a run."""

    new: bool  # it was written just now and must be run
    never_started: bool = False  # it was accepted before a restart and will not be run


NEW: Final = Acceptance(new=True)
Done = Callable[[Sequence[Acceptance], JournalError | None], None]


@dataclass(slots=True)
class _Operation:
    """Something to write, and what to call then. An acceptance may fail; everything else is tried until it works.

    It is a statement with rows for it, or a function that writes by itself.
    """

    done: Callable[..., object] | None = None  # called without arguments, or with what the function returned
    statement: str = ""
    items: Iterable[Any] = ()
    row_of: Callable[[Any], tuple[Any, ...]] = _key_of
    write: Callable[[sqlite3.Connection], object] | None = None
    may_fail: bool = False


class Journal:
    """Opens, recovers and writes the journal of one executor process.

    Thread-safety: all methods may be called by any thread. One thread at a time writes; callbacks run on it and must be
    short. What is handed in is written in its order. Raises LockError: another process uses this directory;
    JournalError: the file cannot be opened.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._clock = clock
        self._directory = directory
        self._reserve_path = directory / "journal.reserve"
        self._lock = _locked(directory)
        try:
            self._writer = open_database(directory / "journal.db")
            self._reader = open_database(directory / "journal.db")
            self.instance, self.recovered = recover(self._writer, clock.now_ms(), secrets.token_hex(8))
        except sqlite3.Error as error:
            self._lock.release()
            raise JournalError(f"the journal in {directory} cannot be opened: {error}") from error
        self.boot = secrets.token_hex(8)
        self._read_lock = threading.Lock()
        self._turn = threading.Lock()  # held by the thread that writes
        self._waiting: deque[_Operation] = deque()
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_called = False  # the writer's thread is awake, or will be
        self._is_closing = False
        self._stuck: list[_Operation] = []
        self._pending_lock = threading.Lock()
        self._pending: dict[tuple[int, int, int], CallbackItem] = {}
        self._chars = 0
        self._is_stale = True  # there are others to deliver than those in memory
        self._revived = False  # the same, as soon as the present transaction is committed
        self._acknowledged: list[tuple[int, ...]] = []
        self._full = ""  # why nothing is accepted at the moment
        self._next_try_ms = 0
        self._keep_reserve()
        self._thread = threading.Thread(target=self._run, name="xwheel-journal", daemon=True)
        self._thread.start()

    def accept(self, keys: Sequence[RunKey], done: Done, starting: Collection[RunKey] = ()) -> None:
        """Write runs as accepted; ``done`` gets how each was taken, or the error that refused them all.

        Those in ``starting`` are written as started too, if they are new.
        """
        now_ms = self._clock.now_ms()

        def accept_all(db: sqlite3.Connection) -> list[Acceptance]:
            taken = accept(db, keys, now_ms, starting)
            self._revived |= not all(one.new for one in taken)
            return taken

        self._waiting.append(_Operation(done, write=accept_all, may_fail=True))
        # the caller waits for it anyway: if no thread writes, it writes by itself, which wakes one thread less
        if self._turn.acquire(blocking=False):
            try:
                if not self._is_closing:
                    self._write_group()
            finally:
                self._turn.release()
        if self._waiting:
            self._call()

    def start(self, choose: Callable[[], Sequence[RunKey]], done: Callable[[], None]) -> None:
        """Write runs as started, then call ``done``.

        ``choose`` returns them, on the thread that writes and as late as possible, so that one write starts what came
        meanwhile too. It is called again, and must return those of before too, if a write did not succeed.
        """

        def start_all(db: sqlite3.Connection) -> None:
            now_ms = self._clock.now_ms()
            db.executemany(_START, [(now_ms, *_key_of(key)) for key in choose()])

        self._put(_Operation(lambda *_: done(), write=start_all))

    def finish(self, items: Sequence[CallbackItem], done: Callable[[], None] | None = None) -> None:
        """Write outcomes, then call ``done``; from then on they are :meth:`pending`."""
        self._put(_Operation(done, _FINISH, items, _finish_row))

    def acknowledge(self, items: Sequence[CallbackItem]) -> None:
        """Note that the scheduler has these outcomes; they are pending no more, on disk within a second."""
        now_ms = self._clock.now_ms()
        rows = [(now_ms, *_key_of(item)) for item in items]
        with self._pending_lock:
            for item in items:
                if self._pending.pop(_key_of(item), None) is not None:
                    self._chars -= len(item.message)
            self._acknowledged += rows

    def revive(self, key: RunKey, done: Callable[[], None]) -> None:
        """Write that a finished run's outcome is to be delivered once more, then call ``done``."""
        self._put(_Operation(done, _REVIVE, (key,)))

    def settle(self, timeout_s: float = math.inf) -> None:
        """Wait until everything that was handed in before is on disk, but no longer than this."""
        self._wait(lambda _db: None, timeout_s)

    def pending(self, limit: int) -> list[CallbackItem]:
        """Return outcomes that no scheduler acknowledged, oldest first."""
        if self._is_stale and self._acknowledged:
            self.settle()  # what is acknowledged must not be read as pending
        with self._pending_lock:
            if not self._is_stale:
                return list(islice(self._pending.values(), limit))
            most = max(limit, LOADED)
            rows = self._read(_PENDING, (most + 1,))
            items = sorted([_item(row) for row in rows], key=attrgetter("finished_ms"))
            if len(items) > most:
                return items[:limit]
            self._is_stale = False
            self._pending, self._chars = {}, 0
            self._keep(items)
            return list(islice(self._pending.values(), limit))

    def ended(self, limit: int) -> list[tuple[int, int]]:
        """Return runs that ended and are not forgotten yet, latest first: run and creation time."""
        return self._read(_ENDED, (FINISHED, limit))

    def lookup(self, keys: Sequence[RunKey]) -> list[StateAnswer]:
        """Return where runs stand."""
        now_ms = self._clock.now_ms()
        with self._read_lock:
            return [_answer(key, self._reader.execute(_LOOK_UP, _key_of(key)).fetchone(), now_ms) for key in keys]

    def is_open(self, run_id: int) -> bool | None:
        """Return whether the newest run with this id has no outcome yet; None if there is none."""
        found = self._read(_NEWEST, (run_id,))
        return bool(found[0][0] < FINISHED) if found else None

    def purge(self, now_ms: int) -> bool:
        """Forget some outcomes that were acknowledged more than a day ago; return whether there are more."""
        counts: list[int] = []
        bounds = (now_ms - KEEP_MS, PURGE_BATCH)
        self._wait(lambda db: counts.append(db.execute(_PURGE, bounds).rowcount))
        return counts[-1:] == [PURGE_BATCH]

    def disown(self) -> None:
        """In a forked child: drop the copied descriptor, so that the lock ends with the parent."""
        self._lock.release()

    def close(self) -> None:
        """Write what is waiting, then let go of the files and the lock."""
        self._is_closing = True
        self._calls.put(None)
        self._thread.join()
        with self._read_lock:
            self._reader.close()
        with self._turn:
            self._writer.close()
        self._lock.release()

    def _read(self, statement: str, values: tuple[int, ...]) -> list[Any]:
        with self._read_lock:
            return self._reader.execute(statement, values).fetchall()

    def _wait(self, write: Callable[[sqlite3.Connection], object], timeout_s: float = math.inf) -> None:
        written = threading.Event()
        self._put(_Operation(lambda *_: written.set(), write=write))
        # a full disk may keep it waiting for as long as the writer lives
        while not written.wait(min(RETRY_S, timeout_s)) and self._thread.is_alive():
            timeout_s -= RETRY_S
            if timeout_s <= 0:
                return

    def _put(self, operation: _Operation) -> None:
        self._waiting.append(operation)
        self._call()

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._calls.put(None)

    def _run(self) -> None:
        is_closing = False
        while self._waiting or not is_closing:
            # an outcome that waits for its delivery will be acknowledged soon
            is_due = self._stuck or self._pending or self._acknowledged
            if not self._waiting:
                with contextlib.suppress(queue.Empty):
                    self._calls.get(timeout=min(RETRY_S, ACKNOWLEDGE_S) if is_due else None)
            self._is_called = False  # first: what comes from here on calls again
            is_closing = self._is_closing
            with self._turn:
                self._write_group()
        if self._stuck:
            logger.error("the journal closes with %d writes that never succeeded", len(self._stuck))

    def _write_group(self) -> None:
        """Write what waits; under the turn."""
        group = [self._waiting.popleft() for _ in range(min(MAX_GROUP, len(self._waiting)))]
        group, self._stuck = self._stuck + group, []
        if group or self._acknowledged:
            self._commit(group)

    def _commit(self, group: list[_Operation]) -> None:
        if self._full and not self._recovers():
            group = self._refuse(group)
        try:
            try:
                taken = self._write(group)
            except sqlite3.Error as error:
                self._note_trouble(error)
                group = self._refuse(group)
                taken = self._write(group)
        except sqlite3.Error:
            self._stuck += group
            return
        except BaseException as error:  # a mistake of ours, or no memory: the writer's thread must outlive it
            self._part(group, error)
            return
        self._remember(group)
        told: Callable[..., object] | None = None
        for operation, found in zip(group, taken, strict=True):
            # many outcomes come one by one, with the same callback
            if operation.write is not None or operation.done is not told:
                _call_back(operation, found, None)
            told = operation.done

    def _remember(self, group: list[_Operation]) -> None:
        """Keep the outcomes that were committed until they are delivered."""
        items = [item for one in group if one.statement is _FINISH for item in one.items]
        if not items and not self._revived:
            return
        items.sort(key=attrgetter("finished_ms"))
        with self._pending_lock:
            if self._revived:
                self._is_stale, self._revived = True, False
            self._keep(items)

    def _keep(self, items: list[CallbackItem]) -> None:
        """Keep outcomes in memory, or none if they are too many; under the lock."""
        for item in items:
            self._pending.setdefault(_key_of(item), item)
        self._chars += sum([len(item.message) for item in items])
        if self._is_stale or len(self._pending) > KEPT or self._chars > KEPT_CHARS:
            self._is_stale = True
            self._pending, self._chars = {}, 0

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

    def _write(self, group: list[_Operation]) -> list[object]:
        acknowledged = len(self._acknowledged)
        if not group and not acknowledged:
            return []
        self._revived = False
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            # first: an outcome that is to be delivered once more stays so
            if acknowledged:
                self._writer.executemany(_ACKNOWLEDGE, self._acknowledged[:acknowledged])
            taken: list[object] = []
            for statement, same in groupby(group, attrgetter("statement")):
                taken += self._write_same(statement, list(same))
            self._writer.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")
            raise
        del self._acknowledged[:acknowledged]
        return taken

    def _write_same(self, statement: str, group: list[_Operation]) -> list[object]:
        if not statement:
            return [one.write and one.write(self._writer) for one in group]
        rows = [one.row_of(item) for one in group for item in one.items]
        found = self._writer.executemany(statement, rows).rowcount
        # a run had its outcome already, or gets one to deliver once more: the disk knows which
        self._revived |= statement is _REVIVE or (statement is _FINISH and found < len(rows))
        return [None] * len(group)

    def _refuse(self, group: list[_Operation]) -> list[_Operation]:
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


def _call_back(operation: _Operation, taken: object, error: JournalError | None) -> None:
    if operation.done is None:
        return
    try:
        if operation.write is None:
            operation.done()
        else:
            operation.done(taken, error)
    except BaseException:
        # the writer must outlive its callers' mistakes
        logger.exception("a journal callback failed")


def open_database(path: Path) -> sqlite3.Connection:
    """Open the journal's database and make its tables."""
    prepare_sqlite(str(path))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > VERSION:
        raise sqlite3.DatabaseError(f"it was written by a newer version (format {found}, known {VERSION})")
    if not db.execute(_HAS_INDEX).fetchone():  # without it older versions are slower, and work
        db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION:d}; COMMIT;")
    return db


def recover(db: sqlite3.Connection, now_ms: int, new_instance: str) -> tuple[str, dict[str, int]]:
    """Turn what a crash left open into outcomes, in one transaction.

    Returns the journal's identity, made at its first opening, and how many runs were closed for which reason.
    """
    db.execute("BEGIN IMMEDIATE")
    closed = {
        reason: db.execute(
            "UPDATE run SET state = ?, code = ?, outcome = ?, reason = ?, message = ?, finished_ms = ?,"
            " pending = 1 WHERE acked_ms IS NULL AND state = ?",
            (FINISHED, FAIL, RunState.FAILED.value, reason, message, now_ms, state),
        ).rowcount
        for state, reason, message in (
            (ACCEPTED, RunReason.NOT_STARTED.value, NOT_RUN),
            (STARTED, RunReason.INTERRUPTED.value, "the executor ended while this run was running"),
        )
    }
    db.execute("INSERT OR IGNORE INTO about VALUES ('instance', ?)", (new_instance,))
    instance = str(db.execute("SELECT value FROM about WHERE name = 'instance'").fetchone()[0])
    db.execute("COMMIT")
    return instance, closed


def accept(
    db: sqlite3.Connection, keys: Sequence[RunKey], now_ms: int, starting: Collection[RunKey]
) -> list[Acceptance]:
    """Write runs that are unknown as accepted, or as started too; return how each was taken."""
    rows = [
        (*_key_of(key), STARTED, now_ms, now_ms) if key in starting else (*_key_of(key), ACCEPTED, now_ms, 0)
        for key in keys
    ]
    if len(rows) > 1:
        db.execute("SAVEPOINT accepting")
        are_new = db.executemany(_ACCEPT, rows).rowcount == len(rows)
        if not are_new:
            db.execute("ROLLBACK TO accepting")
        db.execute("RELEASE accepting")
        if are_new:
            return [NEW] * len(rows)
    return [_accept_one(db, key, row) for key, row in zip(keys, rows, strict=True)]


def _accept_one(db: sqlite3.Connection, key: RunKey, row: tuple[int, ...]) -> Acceptance:
    if db.execute(_ACCEPT, row).rowcount == 1:
        return NEW
    row = db.execute(_LOOK_UP, _key_of(key)).fetchone()
    if row[0] == FINISHED:
        db.execute(_REVIVE, _key_of(key))  # the scheduler asks again, so it may have lost the outcome
    return Acceptance(new=False, never_started=_item(row).reason == RunReason.NOT_STARTED)


def _item(row: tuple[Any, ...]) -> CallbackItem:
    return CallbackItem(state=RunState(row[1] or RunState.FAILED), **dict(zip(_FIELDS, row[2:], strict=True)))


def _answer(key: RunKey, row: tuple[Any, ...] | None, now_ms: int) -> StateAnswer:
    if row is None:
        return StateAnswer(run_id=key.run_id, state=ExecutionState.UNKNOWN)
    state, item = row[0], _item(row)
    if state == FINISHED:
        return StateAnswer(run_id=key.run_id, state=ExecutionState.FINISHED, outcome=item)
    if state == ACCEPTED:
        return StateAnswer(run_id=key.run_id, state=ExecutionState.ACCEPTED)
    # an age and not a time: the scheduler's clock is another one
    running_ms = max(0, now_ms - item.started_ms)
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
