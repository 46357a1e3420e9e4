"""Open a database for work, or raise an error that says in one line why that cannot be; a start waits for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import text

from xwheel.config import Config
from xwheel.errors import DatabaseReadOnlyError, DatabaseUnreachableError, SchemaError, StartEndedError
from xwheel.plugin.tables import Tables
from xwheel.private_files import warn_if_open
from xwheel.storage.database.address import place_of, with_password
from xwheel.storage.database.engine import Database, RaceLostError
from xwheel.storage.database.errors import explain, explained
from xwheel.storage.database.requirements import check_may_upgrade, check_rights, check_server
from xwheel.storage.schema import migrate, plugin_tables

__all__ = ["DatabaseStart", "explain", "open_database", "reach", "start_with", "upgrade"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_S: Final = 0.5
LAST_PAUSE_S: Final = 10.0
NO_TABLES: Final[Mapping[str, Tables]] = {}

PASSING: Final = (DatabaseUnreachableError, DatabaseReadOnlyError, RaceLostError)
"""What may pass by itself."""

Pause = Callable[[float], object]
"""Waits this many seconds; returns something true if the process is to end meanwhile."""


@dataclass(eq=False)
class DatabaseStart:
    """A database that a process opens at its start, and the parts of that start which wait for it.

    What a start does with its database is cut into parts, each of which may be done again from its beginning, however
    much of it was done. One that an outage interrupts is done again until it is done: the connection broke, before a
    statement or in place of its answer; the server refuses connections, is read-only as a standby is, or was slower
    than others at the locks. Before that the server is looked at again, as it may be another one.

    The time to wait begins with the failure and ends with the part: a start that is slow while its database is there
    is never given up.

    Raises DatabaseUnreachableError: there is no connection for that long; DatabaseRefusedError: a person must act:
    login, database, rights or settings of the server; SchemaError: the schema is older, newer or foreign, or tables of
    a plugin are; StartEndedError: the process is to end.
    """

    # the database, at this version's schema; it belongs to this object, and is closed if it cannot be used
    db: Database
    _: KW_ONLY
    tables: Mapping[str, Tables] = field(default_factory=dict)  # those of plugins that must be there
    create: bool = False  # create the tables of an empty SQLite database
    wait_s: float = 0  # for how long to wait; each try is one line of the log
    pause: Pause = time.sleep
    elapsed_s: Callable[[], float] = time.monotonic  # gives seconds that only rise
    is_checked: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        try:
            self.run(lambda: None)
            if self.db.backend == "sqlite":
                warn_if_open("the database", place_of(self.db.engine.url))
        except BaseException:
            self.db.close()
            raise

    def run(self, part: Callable[[], T]) -> T:
        """Do a part of the start, again and again while the database is away; return what it returns.

        Raises StartEndedError: the process is to end; XwheelError: what the part raises, if waiting does not help, or
        helped too long.
        """
        end_s: float | None = None
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                with explained(self.db.engine.url):
                    if not self.is_checked:
                        self._check()
                        self.is_checked = True
                    return part()
            except PASSING as error:
                self.is_checked = False
                # a new connection may reach another server, and shows what is set now
                self.db.engine.dispose()
                now_s = self.elapsed_s()
                end_s = now_s + self.wait_s if end_s is None else end_s
                left_s = end_s - now_s
                if left_s <= 0:
                    if not self.wait_s:
                        raise
                    waited = f"{error}; the start has waited {self.wait_s:g} s for it (database.wait_s)"
                    raise type(error)(waited) from error
                pause_s = min(pause_s, left_s)
                logger.warning("%s; another try in %.1f s, for %.0f s more", error, pause_s, left_s)
            if self.pause(pause_s):
                raise StartEndedError("the start was given up: the process is to end")
            pause_s = min(2 * pause_s, LAST_PAUSE_S)

    def _check(self) -> None:
        db = self.db
        if not self.create:
            check_is_there(db)
        reach(db)
        check_server(db)
        if self.create and db.backend == "sqlite" and migrate.current_revision(db) is None:
            migrate.upgrade(db)
        migrate.check_schema(db)
        if self.create and db.backend == "sqlite":
            plugin_tables.upgrade(db, plugin_tables.unknown_in(db, self.tables))
        plugin_tables.check(db, self.tables)
        check_rights(db)


def start_with(
    config: Config,
    *,
    create: bool = True,
    tables: Mapping[str, Tables] = NO_TABLES,
    wait_s: float | None = None,
    pause: Pause = time.sleep,
) -> DatabaseStart:
    """Open the database of the settings for a process that starts, and make sure that a node can work with it.

    Arguments and errors are those of :class:`DatabaseStart`; without ``wait_s`` it waits as long as the settings say.
    """
    section, schedule = config.database, config.schedule
    # a node that stops inside a transaction loses its locks before its lease ends, which was renewed before
    idle_s = max(1, int(schedule.lease_s - schedule.lease_renew_s))
    url, size = with_password(section), section.pool_size
    db = Database(url, pool_size=size, statement_s=section.statement_timeout_s, idle_s=idle_s)
    wait_s = section.wait_s if wait_s is None else wait_s
    return DatabaseStart(db, tables=tables, create=create, wait_s=wait_s, pause=pause)


def check_is_there(db: Database) -> None:
    """Refuse a file that is not there, which SQLite would make; raises SchemaError.

    Where its folder is missing, too, or a URI names it, SQLite itself makes none, and says why.
    """
    place = place_of(db.engine.url)
    is_plain = db.backend == "sqlite" and not (db.engine.url.database or "").startswith("file:")
    if is_plain and Path(place).parent.is_dir() and not Path(place).exists():
        raise SchemaError(
            f"there is no database {place}: name another one with --config or --database, or make it with 'xwheel db "
            "upgrade'"
        )


def open_database(config: Config, *, create: bool = True, tables: Mapping[str, Tables] = NO_TABLES) -> Database:
    """Open the database of the settings without waiting for it; takes and raises what :class:`DatabaseStart` does."""
    return start_with(config, create=create, tables=tables, wait_s=0).db


def upgrade(url: str, tables: Mapping[str, Tables] = NO_TABLES) -> tuple[str | None, str, Mapping[str, list[str]]]:
    """Bring the schema to the one this version needs, and the tables of plugins after it.

    Returns the schema's revision before (None for no tables) and now, and by plugin the migrations that it lacked.
    Errors are those of :class:`DatabaseStart`, ConfigError for a URL that cannot be used, and SchemaError where the
    schema is a newer version's, the tables are another program's, nodes are at work, or a plugin's migration failed.
    """
    db = Database(url)
    try:
        reach(db)
        with explained(db.engine.url):
            check_server(db)
            before, head = migrate.current_revision(db), migrate.head_revision()
            if before != head:
                check_may_upgrade(db)
                migrate.check_stopped(db)
            migrate.upgrade(db)
            applied = plugin_tables.upgrade(db, tables)
    finally:
        db.close()
    return before, head, applied


def reach(db: Database) -> None:
    """Make a first connection.

    Raises DatabaseUnreachableError: there is none; DatabaseRefusedError: trying again would not help.
    """
    with explained(db.engine.url, connecting=True), db.engine.connect() as conn:
        conn.execute(text("SELECT 1"))
