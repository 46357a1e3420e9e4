"""The schema of a database as tests of plugins need it: xwheel's own tables, and those of a plugin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Connection, delete, insert

from xwheel.plugin import Tables
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import migrate, plugin_tables
from xwheel.storage.schema.tables import glue_version, job, plugin_migration

__all__ = ["Database", "forget", "made_job", "opened", "upgrade"]


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """Give a database with xwheel's own tables."""
    with closing(Database(url)) as found:
        migrate.upgrade(found)
        yield found


def upgrade(db: Database, tables: Tables) -> None:
    """Apply the migrations of a plugin that the database lacks."""
    plugin_tables.upgrade(db, {tables.name: tables})
    plugin_tables.check(db, {tables.name: tables})


def forget(db: Database, plugin: str, migration: str) -> None:
    """Let a migration count as not applied, as after a failure on MariaDB."""
    mine = plugin_migration.c
    with db.write() as conn:
        conn.execute(delete(plugin_migration).where(mine.plugin == plugin, mine.name == migration))


def made_job(conn: Connection, number: int, group_id: int, source: str | None, *, is_gone: bool = False) -> None:
    """Make a job of the glue type PACKAGE, whose other columns do not matter."""
    kinds: dict[str, Any] = {"VARCHAR": "", "TEXT": "", "BOOLEAN": False}
    values = {
        column.name: kinds.get(str(column.type).partition("(")[0], 0)
        for column in job.columns
        if not column.nullable and column.server_default is None
    }
    values |= {"id": number, "group_id": group_id, "glue_type": "PACKAGE", "glue_version": 1}
    conn.execute(insert(job).values({**values, "deleted_ms": 1 if is_gone else None}))
    if source is not None:
        row = {"job_id": number, "number": 1, "glue_type": "PACKAGE", "source": source}
        conn.execute(insert(glue_version).values(**row, author="", remark="", created_ms=1))
