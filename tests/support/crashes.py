"""Processes that die at a chosen point of their work with a database, and the same rows for each of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from sqlalchemy import MetaData, event, insert

from xwheel.storage import leases
from xwheel.storage.database.engine import Database


class Snapshot:
    """All rows of a database, to go back to as often as needed."""

    def __init__(self, db: Database) -> None:
        with db.read() as conn:
            found = MetaData()
            found.reflect(conn)
            self._rows: dict[Any, list[dict[str, Any]]] = {
                table: [dict(row) for row in conn.execute(table.select()).mappings()] for table in found.sorted_tables
            }

    def restore(self, db: Database) -> None:
        """Put the rows back, in one transaction."""
        with db.write() as conn:
            for table, rows in self._rows.items():
                conn.execute(table.delete())
                if rows:
                    conn.execute(insert(table), rows)


def die_at(url: str, number: int, scenario: Callable[[Database, Callable[[bool], None]], None]) -> bool:
    """Run a scenario in a child process that kills itself at its nth point; return whether it came that far.

    On SQLite every statement and every commit is a point. A server undoes what its client left half done, so there
    the points are the first statement of each transaction and its commit.

    Args:
        scenario: Gets the database and a switch: points count while it is on, as it is at first.
    """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed by itself"
        return os.WIFSIGNALED(status)
    try:
        db = Database(url)
        count, counts = 0, True

        def strike(*_: object) -> None:
            nonlocal count
            count += counts
            if counts and count == number:
                os.kill(os.getpid(), signal.SIGKILL)

        def switch(on: bool) -> None:
            nonlocal counts
            counts = on

        event.listen(db.engine, "before_cursor_execute" if db.backend == "sqlite" else "begin", strike)
        event.listen(db.engine, "commit", strike)
        scenario(db, switch)
    except BaseException:
        os._exit(1)
    os._exit(0)


def bury_nodes(db: Database) -> None:
    """Let the terms of all nodes be over, as if time had passed; the database's clock is not ours to move."""
    if db.backend != "sqlite":
        with db.write() as conn:
            for row in leases.list_nodes(conn):
                leases.renew_node(conn, row.id, 0, 0)
