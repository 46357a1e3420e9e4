"""The journal's table and its statements; :mod:`xwheel.executor.journal.journal` decides when they run."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xwheel.model import RunState
from xwheel.model.reasons import RunReason
from xwheel.private_files import prepare_sqlite
from xwheel.wire.contract import FAIL
from xwheel.wire.messages import CallbackItem, RunKey

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
CREATE INDEX IF NOT EXISTS run_pending ON run (finished_ms) WHERE pending = 1;
CREATE INDEX IF NOT EXISTS run_acked ON run (acked_ms) WHERE acked_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS run_open ON run (state) WHERE state < 3;
"""

_KEY: Final = "run_id = ? AND job_id = ? AND created_ms = ?"
_OUTCOME: Final = "run_id, job_id, created_ms, code, outcome, reason, message, started_ms, finished_ms"


@dataclass(frozen=True, slots=True)
class Row:
    """What the journal knows about a run."""

    state: int
    item: CallbackItem


def open_database(path: Path) -> sqlite3.Connection:
    """Open the journal's database and make its tables."""
    prepare_sqlite(str(path))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > VERSION:
        raise sqlite3.DatabaseError(f"it was written by a newer version (format {found}, known {VERSION})")
    if found < VERSION:
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
            " pending = 1 WHERE state = ?",
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


def accept(db: sqlite3.Connection, key: RunKey, now_ms: int) -> bool:
    """Write a run as accepted; return whether it was unknown."""
    cursor = db.execute(
        "INSERT OR IGNORE INTO run (run_id, job_id, created_ms, state, accepted_ms) VALUES (?, ?, ?, 1, ?)",
        (key.run_id, key.job_id, key.created_ms, now_ms),
    )
    return cursor.rowcount == 1


def start(db: sqlite3.Connection, keys: Sequence[RunKey], now_ms: int) -> None:
    """Write runs as started."""
    db.executemany(
        f"UPDATE run SET state = 2, started_ms = ? WHERE {_KEY}",  # noqa: S608 -- constants only
        [(now_ms, key.run_id, key.job_id, key.created_ms) for key in keys],
    )


def finish(db: sqlite3.Connection, items: Sequence[CallbackItem]) -> None:
    """Write outcomes; a run that already has one keeps it."""
    db.executemany(
        f"""UPDATE run SET state = 3, code = ?, outcome = ?, reason = ?, message = ?, started_ms = ?,
        finished_ms = ?, pending = 1 WHERE {_KEY} AND state < 3""",  # noqa: S608 -- constants only
        [
            (
                item.code,
                item.state.value,
                item.reason,
                item.message,
                item.started_ms,
                item.finished_ms,
                item.run_id,
                item.job_id,
                item.created_ms,
            )
            for item in items
        ],
    )


def acknowledge(db: sqlite3.Connection, items: Sequence[CallbackItem], now_ms: int) -> None:
    """Write that the scheduler has these outcomes."""
    db.executemany(
        f"UPDATE run SET pending = 0, acked_ms = ? WHERE {_KEY}",  # noqa: S608 -- constants only
        [(now_ms, item.run_id, item.job_id, item.created_ms) for item in items],
    )


def revive(db: sqlite3.Connection, key: RunKey) -> None:
    """Mark a finished run's outcome for one more delivery."""
    db.execute(
        f"UPDATE run SET pending = 1, acked_ms = NULL WHERE {_KEY} AND state = 3",  # noqa: S608 -- constants only
        (key.run_id, key.job_id, key.created_ms),
    )


def pending(db: sqlite3.Connection, limit: int) -> list[CallbackItem]:
    """Return outcomes that no scheduler acknowledged, oldest first."""
    rows = db.execute(
        f"SELECT {_OUTCOME} FROM run WHERE pending = 1 ORDER BY finished_ms LIMIT ?",  # noqa: S608
        (limit,),
    )
    return [_item(row) for row in rows.fetchall()]


def list_ended(db: sqlite3.Connection, limit: int) -> list[tuple[int, int]]:
    """Return runs that have an outcome, latest first: run and creation time."""
    ended = "SELECT run_id, created_ms FROM run WHERE state = ? ORDER BY finished_ms DESC LIMIT ?"
    return db.execute(ended, (FINISHED, limit)).fetchall()


def list_acknowledged(db: sqlite3.Connection) -> list[int]:
    """Return the ids of runs whose outcomes a scheduler acknowledged, and which are not forgotten yet."""
    return [run_id for (run_id,) in db.execute("SELECT run_id FROM run WHERE acked_ms IS NOT NULL")]


def select_row(db: sqlite3.Connection, key: RunKey) -> Row | None:
    """Return what is known about a run."""
    row = db.execute(
        f"SELECT {_OUTCOME}, state FROM run WHERE {_KEY}",  # noqa: S608 -- constants only
        (key.run_id, key.job_id, key.created_ms),
    ).fetchone()
    return None if row is None else Row(state=row[-1], item=_item(row))


def is_open(db: sqlite3.Connection, run_id: int) -> bool | None:
    """Return whether the newest run with this id has no outcome yet; None if there is none."""
    row = db.execute(
        "SELECT state FROM run WHERE run_id = ? ORDER BY created_ms DESC LIMIT 1", (run_id,)
    ).fetchone()
    return None if row is None else bool(row[0] < FINISHED)


def purge(db: sqlite3.Connection, before_ms: int, limit: int) -> int:
    """Forget acknowledged runs, a bounded number at a time; return how many."""
    return db.execute(
        "DELETE FROM run WHERE (run_id, job_id, created_ms) IN"
        " (SELECT run_id, job_id, created_ms FROM run WHERE acked_ms < ? LIMIT ?)",
        (before_ms, limit),
    ).rowcount


def _item(row: tuple[int, int, int, int, str, str, str, int, int]) -> CallbackItem:
    return CallbackItem(
        run_id=row[0],
        job_id=row[1],
        created_ms=row[2],
        code=row[3],
        state=RunState(row[4]) if row[4] else RunState.FAILED,
        reason=row[5],
        message=row[6],
        started_ms=row[7],
        finished_ms=row[8],
    )
