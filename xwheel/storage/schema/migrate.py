"""Bring a database's schema to this version, or refuse one that no node can start on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, literal_column, select, text
from sqlalchemy.exc import OperationalError

from xwheel.errors import SchemaError
from xwheel.plugin.tables import HANDED_OVER
from xwheel.storage.database.engine import Database
from xwheel.storage.database.requirements import PROBE
from xwheel.storage.schema.tables import metadata

logger = logging.getLogger(__name__)

MIGRATIONS: Final = Path(__file__).parent / "migrations"
VERSION_TABLE: Final = "alembic_version"
WAIT_S: Final = 60
LONGEST_MS: Final = 86_400_000
"""For one statement of an upgrade: it may have to write a large table again."""
# of one database, as all advisory locks are; locks of MariaDB are those of the server
LOCK_KEY: Final = 0x7877_6865_656C
LOCK_NAME: Final = "CONCAT('xwheel ', MD5(DATABASE()))"
BUSY: Final = f"another process has been changing the schema for {WAIT_S} s: wait for it and try again"


@cache  # Alembic compiles every migration to find out
def head_revision() -> str:
    """Return the schema revision that this version needs."""
    head = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    assert head is not None, "the package ships at least one migration"  # noqa: S101
    return head


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
            raise _newer(current)
        try:
            command.upgrade(_config(conn), revision)
        except BaseException:
            if conn.dialect.name == "mysql":
                # there, what was done before stays
                logger.error(
                    "the upgrade stopped half-way: run 'xwheel db upgrade' again once its cause is removed"
                )
            raise


def downgrade(db: Database, revision: str) -> None:
    """Bring the schema down to a revision; ``base`` removes all tables but those of plugins.

    Raises SchemaError: another process changes the schema.
    """
    with alone(db) as conn:
        command.downgrade(_config(conn), revision)


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
    raise _newer(current)


def _known_revisions() -> set[str]:
    return {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}


def _newer(revision: str) -> SchemaError:
    return SchemaError(
        f"the schema is at {revision}, which this version does not know: install the newer xwheel"
    )


def _tables(conn: Connection) -> set[str]:
    # another process may be about to upgrade too, and test its rights
    return {name for name in inspect(conn).get_table_names() if not name.startswith(PROBE)}


def _refuse_foreign_tables(conn: Connection) -> None:
    tables = _tables(conn) - {VERSION_TABLE}
    if tables:
        names = ", ".join(sorted(tables)[:3])
        raise SchemaError(f"the database holds foreign tables ({names}, ...): name an empty one")


def _revision(conn: Connection) -> str | None:
    # it logs the dialect each time
    logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)
    return MigrationContext.configure(conn).get_current_revision()


def _find_remains(conn: Connection) -> list[str]:
    """Return the tables of a first upgrade that stopped half-way, which MariaDB cannot undo.

    None is returned if a row was added: no node starts on them, so all they may hold is what the upgrade wrote.
    """
    tables = _tables(conn)
    ours = tables - {VERSION_TABLE}
    if VERSION_TABLE not in tables or not ours or not ours <= {*metadata.tables, *HANDED_OVER}:
        return []
    for name in ours & {"executor_group", "job", "run"}:
        if conn.execute(select(literal_column("1")).select_from(metadata.tables[name]).limit(1)).first():
            return []
    return sorted(ours)


def _drop_remains(conn: Connection) -> None:
    remains = _find_remains(conn)
    quote = conn.dialect.identifier_preparer.quote
    for name in remains:
        conn.execute(text(f"DROP TABLE {quote(name)}"))
    if remains:
        logger.warning(
            "dropped %d tables of an upgrade that stopped half-way; they held no data", len(remains)
        )


def _config(conn: Connection) -> AlembicConfig:
    config = AlembicConfig()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = conn
    return config


@contextmanager
def alone(db: Database) -> Iterator[Connection]:
    """Give a connection inside a writing transaction of the one process that changes the schema; others wait.

    Raises SchemaError: another process has changed it for a minute.
    """
    with db.limited(statement_ms=LONGEST_MS), _locked_server(db), db.write() as conn:
        if db.backend == "postgresql":
            _lock_postgresql(conn)
        yield conn  # of SQLite, the lock of the file does it


@contextmanager
def _locked_server(db: Database) -> Iterator[None]:
    """Hold MariaDB's advisory lock, on a connection of its own: until what was changed is committed, not before."""
    if db.backend != "mysql":
        yield
        return
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
