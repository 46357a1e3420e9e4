"""What plugins write in the transactions that end runs, skip fires and stop jobs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from xwheel.errors import OutageError, PluginError
from xwheel.plugin.observers import Changes, Observer, Rows, SaysWhatChanged, SeesDispatches, check_rows
from xwheel.plugin.validation import guarded
from xwheel.scheduler.records import Shard
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.news import Question
from xwheel.storage.plugin_rows import insert_rows

logger = logging.getLogger(__name__)

REFRESH_MS: Final = 1000

Noted = Sequence[tuple[Observer, Rows]]  # whose rows a transaction wrote


class Observers:
    """Asks the observers of plugins, and writes what they answer. Any thread may call it."""

    def __init__(self, observers: Sequence[Observer], db: Database) -> None:
        self._observers = tuple(observers)
        self._of_dispatches = [item for item in self._observers if isinstance(item, SeesDispatches)]
        self._db = db

    def versions(self) -> Sequence[Question]:
        """Return what changes with what they refresh; nothing if one of them does not say."""
        found = [item.version for item in self._observers if isinstance(item, SaysWhatChanged)]
        return found if len(found) == len(self._observers) else ()

    def __bool__(self) -> bool:
        return bool(self._observers)

    def step(self, now_ms: int) -> int:
        """Let each read what it must know; return how long to wait in milliseconds.

        Raises OutageError if the database is away; an observer that fails otherwise is asked with what it knew before.
        """
        for item in self._observers:
            try:
                guarded(
                    f"observer {item.name}",
                    lambda: item.refresh(self._db, now_ms),  # noqa: B023 - called at once
                    allowed=OutageError,
                )
            except PluginError as error:
                logger.warning("%s", error)
        return REFRESH_MS

    def record(self, conn: Connection, changes: Changes) -> Noted:
        """Write the rows that observers have for what the caller's transaction changes; return what was written.

        An observer that fails costs its own rows and nothing else: what the database refuses of them is undone up to
        the point before.
        """
        return _write(conn, self._observers, changes)

    def record_dispatched(self, conn: Connection, now_ms: int, shards: Sequence[Shard]) -> Noted:
        """Write the rows that observers have for what is sent after the caller's transaction; as :meth:`record`."""
        if not self._of_dispatches or not shards:
            return ()
        dispatched = [(shard.run, shard.job) for shard in shards]
        return _write(conn, self._of_dispatches, Changes(now_ms=now_ms, dispatched=dispatched))

    def committed(self, noted: Noted) -> None:
        """Tell observers that their rows are in the database."""
        for item, rows in noted:
            try:
                guarded(f"observer {item.name}", lambda: item.committed(rows))  # noqa: B023 - called at once
            except PluginError as error:
                logger.error("%s", error)


def _write(conn: Connection, observers: Sequence[Observer], changes: Changes) -> Noted:
    noted = []
    for item in observers:
        try:
            rows = guarded(
                f"observer {item.name}",
                lambda: check_rows(item.name, item.rows(changes)),  # noqa: B023 - called at once
                allowed=PluginError,
            )
            if any(rows.values()):
                insert_rows(conn, item.name, rows)
                noted.append((item, rows))
        except PluginError as error:
            logger.error("what it was asked about is written without its rows: %s", error)
    return noted
