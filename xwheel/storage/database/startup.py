"""Open a database for work, or raise an error that says in one line why that cannot be."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import text

from xwheel.config import Config
from xwheel.errors import DatabaseUnreachableError
from xwheel.plugin.tables import Tables
from xwheel.runtime.private_files import warn_if_open
from xwheel.storage.database.address import place_of, with_password
from xwheel.storage.database.engine import STATEMENT_S, Database
from xwheel.storage.database.errors import explain, explained
from xwheel.storage.database.outage import IDLE_S
from xwheel.storage.database.requirements import check_may_upgrade, check_rights, check_server
from xwheel.storage.schema import migrate, plugin_tables

__all__ = ["explain", "open_database", "open_ready", "reach", "upgrade"]

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.5
LAST_PAUSE_S: Final = 10.0
NO_TABLES: Final[Mapping[str, Tables]] = {}


def open_ready(
    url: str,
    *,
    pool_size: int = 8,
    statement_s: float = STATEMENT_S,
    idle_s: int = IDLE_S,
    create: bool = False,
    wait_s: float = 0,
    tables: Mapping[str, Tables] = NO_TABLES,
) -> Database:
    """Open a database that a node can work with: reachable, fit, with this version's schema, writable.

    Args:
        url: SQLAlchemy URL.
        pool_size: Connections kept open.
        statement_s: How long a server's answer may take.
        idle_s: After how long a server ends a transaction whose client is silent.
        create: Create the tables of an empty SQLite database.
        wait_s: How long to wait for a database that takes no connection yet.
        tables: Those of plugins that must be there.

    Raises:
        ConfigError: The URL cannot be used.
        DatabaseUnreachableError: No connection in that time.
        DatabaseRefusedError: A person must act: login, database, rights or settings of the server.
        SchemaError: The schema is older, newer or foreign, or tables of a plugin are.
    """
    db = Database(url, pool_size=pool_size, statement_s=statement_s, idle_s=idle_s)
    end_s = time.monotonic() + wait_s
    try:
        reach(db, wait_s)
        while True:
            try:
                _check(db, tables, create=create)
                break
            except DatabaseUnreachableError as error:  # it went away again
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    raise
                logger.warning("%s; another try in %.1f s, for %.0f s more", error, FIRST_PAUSE_S, left_s)
                time.sleep(FIRST_PAUSE_S)
                reach(db, max(0.0, end_s - time.monotonic()))
        if db.backend == "sqlite":
            warn_if_open("the database", place_of(db.engine.url))
    except BaseException:
        db.close()
        raise
    return db


def _check(db: Database, tables: Mapping[str, Tables], *, create: bool) -> None:
    """Make sure that a node can work with a database that takes connections."""
    with explained(db.engine.url):
        check_server(db)
        if create and db.backend == "sqlite" and migrate.current_revision(db) is None:
            migrate.upgrade(db)
        migrate.check_schema(db)
        if create and db.backend == "sqlite":
            plugin_tables.upgrade(db, plugin_tables.unknown_in(db, tables))
        plugin_tables.check(db, tables)
        check_rights(db)


def open_database(
    config: Config, *, create: bool = True, wait_s: float = 0, tables: Mapping[str, Tables] = NO_TABLES
) -> Database:
    """Open the database of the settings and make sure that a node can work with it.

    Args:
        config: The settings.
        create: Create the tables of an empty SQLite database.
        wait_s: How long to wait for a database that takes no connection yet.
        tables: Those of plugins that must be there.

    Raises:
        DatabaseUnreachableError: No connection in that time.
        DatabaseRefusedError: A person must act: login, database, rights or settings of the server.
        SchemaError: The schema is older, newer or foreign.
    """
    schedule = config.schedule
    return open_ready(
        with_password(config.database),
        pool_size=config.database.pool_size,
        statement_s=config.database.statement_timeout_s,
        # a node that stops inside a transaction loses its locks before its lease ends, which was renewed before
        idle_s=max(1, int(schedule.lease_s - schedule.lease_renew_s)),
        create=create,
        wait_s=wait_s,
        tables=tables,
    )


def upgrade(
    url: str, tables: Mapping[str, Tables] = NO_TABLES
) -> tuple[str | None, str, Mapping[str, list[str]]]:
    """Bring the schema to the one this version needs, and the tables of plugins after it.

    Returns:
        The schema's revision before (None for no tables) and now, and by plugin the migrations that it lacked.

    Raises:
        ConfigError: The URL cannot be used.
        DatabaseUnreachableError: No connection.
        DatabaseRefusedError: A person must act: login, database, rights or settings of the server.
        SchemaError: The schema is a newer version's, the tables are another program's, or a plugin's migration failed.
    """
    db = Database(url)
    try:
        reach(db)
        with explained(db.engine.url):
            check_server(db)
            before, head = migrate.current_revision(db), migrate.head_revision()
            if before != head:
                check_may_upgrade(db)
            migrate.upgrade(db)
            applied = plugin_tables.upgrade(db, tables)
    finally:
        db.close()
    return before, head, applied


def reach(
    db: Database,
    wait_s: float = 0,
    *,
    pause: Callable[[float], object] = time.sleep,
    elapsed_s: Callable[[], float] = time.monotonic,
) -> None:
    """Make a first connection, waiting for a server that starts up.

    Args:
        db: The database.
        wait_s: For how long; each try is one line of the log.
        pause: Sleeps for so many seconds.
        elapsed_s: Gives seconds that only rise.

    Raises:
        DatabaseUnreachableError: No connection in that time.
        DatabaseRefusedError: Waiting would not help.
    """
    end_s = elapsed_s() + wait_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            with explained(db.engine.url, connecting=True), db.engine.connect() as conn:
                conn.execute(text("SELECT 1"))
                return
        except DatabaseUnreachableError as error:
            left_s = end_s - elapsed_s()
            if left_s <= 0:
                raise
            pause_s = min(pause_s, left_s)
            logger.warning("%s; another try in %.1f s, for %.0f s more", error, pause_s, left_s)
            pause(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
