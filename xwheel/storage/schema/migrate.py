"""Bring a database's schema to this version, or refuse one that no node can start on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, String, inspect, literal_column, select, table, text
from sqlalchemy.exc import OperationalError

from xwheel.errors import SchemaError
from xwheel.plugin.tables import HANDED_OVER
from xwheel.storage.database.engine import Database
from xwheel.storage.database.requirements import PROBE
from xwheel.storage.database.rows import database_now_ms
from xwheel.storage.schema.tables import metadata, table_names

logger = logging.getLogger(__name__)

MIGRATIONS: Final = Path(__file__).parent / "migrations"
DIGITS: Final = 4
VERSION_TABLE: Final = "alembic_version"
WAIT_S: Final = 60
LONGEST_MS: Final = 86_400_000
"""For one statement of an upgrade: it may have to write a large table again."""
# of one database, as all advisory locks are; locks of MariaDB are those of the server
LOCK_KEY: Final = 0x7877_6865_656C
LOCK_NAME: Final = "CONCAT('xwheel ', MD5(DATABASE()))"
STOPPED: Final = "the upgrade stopped half-way: run 'xwheel db upgrade' again once its cause is removed"
RENAMED: Final = "run"
"""What older schemas call ``run_history``."""

LAST_STEPS: Final = "commit ed13bbd2"
AT_WORK: Final = "stop all nodes first; one that was killed counts until its lease has ended; at work"
BUSY: Final = f"another process has been changing the schema for {WAIT_S} s: wait for it and try again"


@cache
def head_revision() -> str:
    """Return the schema revision that this version needs."""
    return max(_known_revisions())


def current_revision(db: Database) -> str | None:
    """Return the database's schema revision; None for an empty database."""
    with db.read() as conn:
        return _revision(conn)


def upgrade(db: Database, revision: str = "head") -> None:
    """Bring the schema up to a revision, by default the newest; nothing happens if it is there.

    Raises SchemaError: the schema is a newer version's, or the tables are another program's.
    """
    with alone(db) as conn:
        current = _revision(conn)
        if current is None:
            _drop_remains(conn)
            _refuse_foreign_tables(conn)
        elif current not in _known_revisions():
            raise _unknown(current)
        try:
            _migrate(conn, revision)
        except BaseException:
            if conn.dialect.name == "mysql":  # there, what was done before stays
                logger.error(STOPPED)
            raise


def check_schema(db: Database) -> None:
    """Make sure that the schema is the one this version needs.

    Raises SchemaError: it is older, newer or foreign; the message says what to do.
    """
    current, head = current_revision(db), head_revision()
    if current == head:
        return
    if current is None:
        with db.read() as conn:
            if _find_remains(conn):
                raise SchemaError("an upgrade of the schema stopped half-way: run 'xwheel db upgrade' again")
            _refuse_foreign_tables(conn)
        raise SchemaError("the database is empty: run 'xwheel db upgrade'")
    if current in _known_revisions():
        raise SchemaError(
            f"the schema is at {current}, this version needs {head}: stop all nodes, run 'xwheel db upgrade'"
        )
    raise _unknown(current)


def check_stopped(db: Database) -> None:
    """Make sure that no node is at work: its version would go on with tables that are no longer as it knows them.

    Raises SchemaError: some are; the message names them.
    """
    with db.read() as conn:
        if inspect(conn).has_table("node"):
            lives = literal_column("until_ms") > database_now_ms(conn)
            names = conn.scalars(select(literal_column("id", String)).select_from(table("node")).where(lives)).all()
            if names:
                raise SchemaError(f"{AT_WORK}: {', '.join(sorted(names))}")


def _known_revisions() -> set[str]:
    return {path.name[:DIGITS] for path in MIGRATIONS.glob(f"versions/{'[0-9]' * DIGITS}_*.py")}


def _unknown(revision: str) -> SchemaError:
    if revision < head_revision():  # a step towards 0017 that a release never had
        return SchemaError(
            f"the schema is at {revision}, which no release has and this version does not know: "
            f"run 'xwheel db upgrade' of its source at {LAST_STEPS} first"
        )
    return SchemaError(f"the schema is at {revision}, which this version does not know: install the newer xwheel")


def _tables(conn: Connection) -> set[str]:
    # another process may be about to upgrade too, and test its rights
    return {name for name in table_names(conn) if not name.startswith(PROBE)}


def _refuse_foreign_tables(conn: Connection) -> None:
    tables = _tables(conn) - {VERSION_TABLE}
    if tables:
        names = ", ".join(sorted(tables)[:3])
        raise SchemaError(f"the database holds foreign tables ({names}, ...): name an empty one")


def _revision(conn: Connection) -> str | None:
    if not inspect(conn).has_table(VERSION_TABLE):
        return None
    found: str | None = conn.scalar(select(literal_column("version_num")).select_from(table(VERSION_TABLE)))
    return found


def _find_remains(conn: Connection) -> list[str]:
    """Return the tables of a first upgrade that stopped half-way, which MariaDB cannot undo.

    None is returned if a row was added: no node starts on them, so all they may hold is what the upgrade wrote.
    """
    tables = _tables(conn)
    ours = tables - {VERSION_TABLE}
    if VERSION_TABLE not in tables or not ours or not ours <= {*metadata.tables, *HANDED_OVER, RENAMED}:
        return []
    for name in ours & {"executor_group", "job", "open_run", "run_history", RENAMED}:
        if conn.execute(select(literal_column("1")).select_from(table(name)).limit(1)).first():
            return []
    return sorted(ours)


def _drop_remains(conn: Connection) -> None:
    if remains := _find_remains(conn):
        for name in remains:
            conn.execute(text(f"DROP TABLE {conn.dialect.identifier_preparer.quote(name)}"))
        logger.warning("dropped %d tables of an upgrade that stopped half-way; they held no data", len(remains))


def _migrate(conn: Connection, revision: str) -> None:
    # with what it loads it takes a tenth of a node's memory, which needs it only where there is something to change
    from alembic import command
    from alembic.config import Config

    # it logs the dialect each time
    logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = conn
    command.upgrade(config, revision)


@contextmanager
def alone(db: Database) -> Iterator[Connection]:
    """Give a connection inside a writing transaction of the one process that changes the schema; others wait.

    Raises SchemaError: another process has changed it for a minute.
    """
    hold = _locked_mariadb(db) if db.backend == "mysql" else nullcontext()
    with db.limited(statement_ms=LONGEST_MS), hold, db.write() as conn:
        if db.backend == "postgresql":
            _lock_postgresql(conn)
        yield conn  # of SQLite, the lock of the file does it


@contextmanager
def _locked_mariadb(db: Database) -> Iterator[None]:
    """Hold its advisory lock on a connection of its own: until what was changed is committed, not before."""
    with db.read() as conn:
        if conn.execute(text(f"SELECT GET_LOCK({LOCK_NAME}, {WAIT_S})")).scalar_one() != 1:
            raise SchemaError(BUSY)
        try:
            yield
        finally:
            # it belongs to the connection, which goes back to the pool
            conn.execute(text(f"SELECT RELEASE_LOCK({LOCK_NAME})"))


def _lock_postgresql(conn: Connection) -> None:
    conn.execute(text(f"SET LOCAL lock_timeout = '{WAIT_S}s'"))
    try:
        conn.execute(text(f"SELECT pg_advisory_xact_lock({LOCK_KEY})"))
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == "55P03":
            raise SchemaError(BUSY) from error
        raise
    conn.execute(text("SET LOCAL lock_timeout = DEFAULT"))
