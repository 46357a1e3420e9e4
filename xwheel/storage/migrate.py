"""Bring a database's schema to this version, or say why a node must not start on it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from xwheel.errors import SchemaError
from xwheel.storage.engine import Database
from xwheel.storage.rights import PROBE

MIGRATIONS: Final = Path(__file__).parent / "migrations"


def head_revision() -> str:
    """Return the schema revision that this version needs."""
    head = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    assert head is not None, "the package ships at least one migration"  # noqa: S101
    return head


def current_revision(db: Database) -> str | None:
    """Return the database's schema revision; None for an empty database."""
    # it tells on every look which dialect it is for
    logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)
    with db.read() as conn:
        return MigrationContext.configure(conn).get_current_revision()


def upgrade(db: Database, revision: str = "head") -> None:
    """Bring the schema up to a revision, by default the newest; nothing happens if it is there.

    Raises:
        SchemaError: The schema is a newer version's, or the tables are somebody else's.
    """
    current = current_revision(db)
    if current is None:
        _refuse_foreign_tables(db)
    elif current not in _known_revisions():
        raise _newer(current)
    _run(db, lambda config: command.upgrade(config, revision))


def downgrade(db: Database, revision: str) -> None:
    """Bring the schema down to a revision; ``base`` removes all tables."""
    _run(db, lambda config: command.downgrade(config, revision))


def check_schema(db: Database) -> None:
    """Make sure that the schema is the one this version needs.

    Raises:
        SchemaError: It is older, newer or foreign; the message names what mends it.
    """
    current, head = current_revision(db), head_revision()
    if current == head:
        return
    if current is None:
        _refuse_foreign_tables(db)
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


def _refuse_foreign_tables(db: Database) -> None:
    with db.read() as conn:
        tables = set(inspect(conn).get_table_names()) - {"alembic_version"}
    # somebody else may be about to upgrade too, and look at what it may do
    tables = {name for name in tables if not name.startswith(PROBE)}
    if tables:
        names = ", ".join(sorted(tables)[:3])
        raise SchemaError(f"the database holds foreign tables ({names}, ...): name an empty one")


def _run(db: Database, action: object) -> None:
    config = AlembicConfig()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))

    def migrate(conn: Connection) -> None:
        config.attributes["connection"] = conn
        action(config)  # type: ignore[operator]

    with db.write() as conn:
        migrate(conn)
