"""A node's database as a company has it after weeks: jobs, runs that ended, reports and executors, none of them due."""

from __future__ import annotations

import time

from sqlalchemy import delete, insert, select, text, update

from tests.support import million
from tests.support.rows import NOW
from xwheel.model import RunState
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.schema.tables import open_run, run_history, run_id_block

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
APART_MS = 2000
"""Between two runs: a million of them are 23 days, which is less than runs are kept."""

FILL_MS = 1_800_000


def fill(db: Database, jobs: int, runs: int) -> None:
    """Write it; nothing is due for half an hour, and no run is open."""
    now_ms = int(time.time() * 1000)
    history = million.History(
        jobs=jobs,
        runs=runs,
        now_ms=now_ms - 1000 * APART_MS,
        apart_ms=APART_MS,
        first_fire_ms=now_ms + HOUR_MS // 2,
        fires_apart_ms=max(1, HOUR_MS // 3 // jobs),
        busy_job=jobs // 2 + 1,
    )
    with db.limited(statement_ms=FILL_MS):
        million.fill(db, history)
        db.transaction(lambda conn: _settle(conn, runs, now_ms))
        million.analyze(db)


def _settle(conn: Connection, runs: int, now_ms: int) -> None:
    """End what the history leaves open, and move what it dates by a fixed day to now."""
    conn.execute(update(run_id_block).values(next_id=runs + 1))
    later = {"later": now_ms + DAY_MS}
    moved_ms = (now_ms - NOW) // HOUR_MS * HOUR_MS
    statements = {
        "UPDATE executor SET seen_ms = :later": later,
        "UPDATE run_log SET ended = (1 = 1), fetch_ms = NULL, delete_ms = :later": later,
        "UPDATE hourly_report SET hour_ms = hour_ms + :moved": {"moved": moved_ms},
        "UPDATE job SET schedule_conf = '0 0 * * * ?'": {},
    }
    for statement, values in statements.items():
        conn.execute(text(statement), values)
    names = ("state", "epoch", "accepted_ms", "finished_ms")
    ended = (RunState.SUCCEEDED, 1, open_run.c.due_ms + 5, open_run.c.due_ms + 900)
    conn.execute(update(open_run).values(dict(zip(names, ended, strict=True))))
    columns = run_history.c.keys()
    conn.execute(insert(run_history).from_select(columns, select(*(open_run.c[name] for name in columns))))
    conn.execute(delete(open_run))
