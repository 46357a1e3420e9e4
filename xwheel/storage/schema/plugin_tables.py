"""Tables that plugins bring: applying the migrations that a database lacks, and refusing one that lacks some."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, event, insert, select

from xwheel.clock import SystemClock
from xwheel.errors import SchemaError
from xwheel.plugin.tables import KnownTables, Migration, Tables
from xwheel.plugin.validation import error_words
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.migrate import VERSION_TABLE, alone
from xwheel.storage.schema.tables import metadata, plugin_migration, set_collation, table_names

logger = logging.getLogger(__name__)

OURS: Final = frozenset({*metadata.tables, VERSION_TABLE})


def upgrade(db: Database, tables: Mapping[str, Tables]) -> dict[str, list[str]]:
    """Apply what the database lacks, each migration in a transaction of its own; return their names by plugin.

    What fails stops nothing of other plugins, whose migrations are applied first. Raises SchemaError: a migration
    failed, or the database has one that the plugin does not know; names the plugin.
    """
    applied: dict[str, list[str]] = {}
    failed: list[SchemaError] = []
    with db.read() as conn:
        plugins = _plugins_of(conn, tables)
    for name, item in sorted(tables.items()):
        try:
            if done := _upgrade_one(db, KnownTables(item), plugins):
                applied[name] = done
        except SchemaError as error:
            failed.append(error)
    if failed:
        more = f" (and {len(failed) - 1} more plugins)" if len(failed) > 1 else ""
        raise SchemaError(f"{failed[0]}{more}") from failed[0].__cause__
    return applied


def check(db: Database, tables: Mapping[str, Tables]) -> None:
    """Make sure that the database has all tables of plugins, as these versions of the plugins need them.

    Raises SchemaError: it lacks a migration or a table, or has a migration that the plugin does not know.
    """
    if not tables:
        return
    with db.read() as conn:
        there, plugins = table_names(conn), _plugins_of(conn, tables)
        for name, item in sorted(tables.items()):
            known = KnownTables(item)
            _refuse_tables_of_others(known, plugins)
            lacking = _lacking(conn, known)
            if lacking:
                raise SchemaError(
                    f"plugin {name}: the database lacks {len(lacking)} migrations of its tables, {lacking[0].name} "
                    "first: stop all nodes, run 'xwheel db upgrade'"
                )
            if gone := sorted(set(known.tables) - there):
                raise SchemaError(
                    f"plugin {name}: its table {gone[0]} is gone: restore it from a backup, or disable the plugin"
                )


def unknown_in(db: Database, tables: Mapping[str, Tables]) -> dict[str, Tables]:
    """Return those of plugins of which the database has nothing yet."""
    if not tables:
        return {}
    with db.read() as conn:
        known = _plugins_of(conn)
    return {name: item for name, item in tables.items() if name not in known}


def warn_of_absent(db: Database, known: Collection[str]) -> None:
    """Log which plugins have tables in the database and are none of these, which are installed or knowingly missing."""
    with db.read() as conn:
        found = _plugins_of(conn)
    for name in sorted(found.difference(known)):
        logger.warning(
            "plugin %s has tables in the database and is not installed here, so this node does nothing of what it is "
            "for: install it, or name it in plugins.tolerate if it is meant to be missing",
            name,
        )


def _plugins_of(conn: Connection, further: Collection[str] = ()) -> set[str]:
    """Return the plugins that have tables in the database, and further ones."""
    return {*conn.scalars(select(plugin_migration.c.plugin).distinct()), *further}


def _refuse_tables_of_others(known: KnownTables, plugins: Collection[str]) -> None:
    for table in known.tables:
        if not known.owns(table, plugins):
            raise SchemaError(
                f"plugin {known.name}: its table {table} has a name that belongs to another plugin, which is in this "
                "database or installed here: give it another name"
            )


def _upgrade_one(db: Database, known: KnownTables, plugins: Collection[str]) -> list[str]:
    for table in sorted(OURS):
        if known.owns(table):
            raise SchemaError(
                f"plugin {known.name}: xwheel's own table {table} has its name, or begins with {known.prefix}: give it "
                "another name"
            )
    _refuse_tables_of_others(known, plugins)
    done: list[str] = []
    while True:
        with _blaming(known, done), alone(db) as conn:
            if not (lacking := _lacking(conn, known)):
                return done
            done.append(lacking[0].name)
            _apply(conn, known, lacking[0], plugins)


def _apply(conn: Connection, known: KnownTables, migration: Migration, plugins: Collection[str]) -> None:
    before = table_names(conn)
    with _guarding_names(known, plugins):
        try:
            migration.apply(conn)
        except (SchemaError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise SchemaError(" ".join(error_words(error).split())) from error
    after = table_names(conn)
    strange = sorted(name for name in before ^ after if not known.owns(name, plugins))
    if strange:
        raise SchemaError(f"it made or dropped {strange[0]}, {_why(strange[0], known)}")
    values = {"plugin": known.name, "name": migration.name, "position": known.migrations.index(migration)}
    conn.execute(insert(plugin_migration).values({**values, "applied_ms": SystemClock().now_ms()}))


@contextmanager
def _blaming(known: KnownTables, done: list[str]) -> Iterator[None]:
    """Name the plugin, and the migration that was under way, in an error; a broken connection is none of its own."""
    count = len(done)
    try:
        yield
    except SchemaError as error:
        if len(done) == count:
            raise
        raise SchemaError(
            f"plugin {known.name}: migration {done[-1]} failed: {error}; the tables of xwheel and of other plugins "
            "are as they should be: run 'xwheel db upgrade' again once its cause is removed, or name the plugin in "
            "plugins.disabled"
        ) from error


def _why(table: str, known: KnownTables) -> str:
    """Return why a table is not the plugin's."""
    return "which is another plugin's" if known.owns(table) else f"which does not begin with {known.prefix}"


@contextmanager
def _guarding_names(known: KnownTables, plugins: Collection[str]) -> Iterator[None]:
    """Refuse a table of another name before it is made or dropped: MariaDB takes neither back.

    Texts of the tables that are made compare by bytes.
    """
    # those of the plugin's own objects, with which the process goes on asking, maybe another database
    types: list[tuple[Column[Any], Any]] = []

    def before_create(table: Table, conn: Connection, **more: Any) -> None:
        if not known.owns(table.name, plugins):
            raise SchemaError(f"it makes the table {table.name}, {_why(table.name, known)}")
        types.extend((column, column.type) for column in table.columns)
        set_collation(table, conn, **more)

    def before_drop(table: Table, _conn: Connection, **_more: Any) -> None:
        if not known.owns(table.name, plugins):
            raise SchemaError(f"it drops the table {table.name}, {_why(table.name, known)}")

    event.listen(Table, "before_create", before_create)
    event.listen(Table, "before_drop", before_drop)
    try:
        yield
    finally:
        event.remove(Table, "before_create", before_create)
        event.remove(Table, "before_drop", before_drop)
        for column, kind in reversed(types):
            column.type = kind


def _lacking(conn: Connection, known: KnownTables) -> list[Migration]:
    """Return which migrations a database lacks, in their order.

    Raises SchemaError: it has one that the plugin does not know, or one behind another that it lacks.
    """
    mine = plugin_migration.c
    rows = conn.execute(select(mine.name).where(mine.plugin == known.name).order_by(mine.position, mine.name))
    names = [row.name for row in rows]
    for place, name in enumerate(names):
        if place >= len(known.migrations) or known.migrations[place].name != name:
            raise SchemaError(
                f"plugin {known.name}: the database has the migration {name[:64]} of its tables, which this version of "
                "the plugin does not know: install the newer one"
            )
    return list(known.migrations[len(names) :])
