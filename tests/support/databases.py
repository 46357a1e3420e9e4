"""Empty databases for tests, at this version's schema, on each kind of server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Index, MetaData, UniqueConstraint, delete, insert, text
from sqlalchemy.exc import OperationalError

from tests.support import servers
from xwheel.clock import wall_ms
from xwheel.config import build_config
from xwheel.model import PARTITIONS
from xwheel.plugin import Tables
from xwheel.plugin.discovery import load_plugins
from xwheel.storage import history_days, settings
from xwheel.storage.database.engine import Database
from xwheel.storage.retention import DAY_MS
from xwheel.storage.schema import migrate, plugin_tables, tables

LARGE = 10_000
KEPT = tables.plugin_migration
BACKENDS = {"mariadb": servers.mariadb, "postgresql": servers.postgresql}
ADMIN = {"mariadb": "mysql", "postgresql": "postgres"}


@contextmanager
def server_database(backend: str, name: str = "xwheel_test", *, durable: bool = False) -> Iterator[str]:
    """Run a server; give the URL of a database on it whose schema is this version's."""
    with BACKENDS[backend](durable=durable) as base:
        create_database(base, backend, name)
        db = Database(base + name)
        upgrade(db)
        db.close()
        yield base + name


@cache
def installed_tables() -> Mapping[str, Tables]:
    """Return the tables of the plugins of this environment, by plugin."""
    return dict(load_plugins(build_config({})).tables)


def upgrade(db: Database) -> None:
    """Bring a database to this version's schema, with the tables of installed plugins, as nodes want it."""
    migrate.upgrade(db)
    plugin_tables.upgrade(db, installed_tables())


def known_tables() -> set[str]:
    """Return the tables that are there then."""
    of_plugins = {name for item in installed_tables().values() for name in item.tables()}
    return {*tables.metadata.tables, *of_plugins}


def create_database(base: str, backend: str, name: str) -> None:
    """Make a database without tables on a server."""
    admin = Database(base + ADMIN[backend])
    with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.execute(text(f"CREATE DATABASE {name}"))
    admin.close()


class CleanDatabases:
    """Databases on one server that tests use one after the other, each as if it were new."""

    def __init__(self, base: str, backend: str) -> None:
        self._base, self._backend = base, backend
        self._known: list[Database] = []

    def url(self, number: int) -> str:
        """Return the URL of the nth database, empty and at this version's schema, whatever was done to it."""
        while len(self._known) <= number:
            name = f"xwheel_test_{len(self._known)}"
            create_database(self._base, self._backend, name)
            self._known.append(Database(self._base + name, pool_size=1))
        db = self._known[number]
        break_connections(db)
        restore_schema(db)
        empty(db)
        plugin_tables.upgrade(db, plugin_tables.unknown_in(db, installed_tables()))
        return db.engine.url.render_as_string(hide_password=False)

    def close(self) -> None:
        """Close the connections that were kept."""
        for db in self._known:
            db.close()


def differences(conn: Connection, of: MetaData = tables.metadata) -> list[Any]:
    """Return in what the tables of a database differ from what they should be; those of others aside."""
    options = {"include_name": lambda name, kind, parents: kind != "table" or name in of.tables}
    of = as_made(of, conn.dialect.name)
    return list(compare_metadata(MigrationContext.configure(conn, opts=options), of))


def as_made(of: MetaData, backend: str) -> MetaData:
    """Return tables as migrations make them on a kind of database, where the history may have partitions."""
    if backend == "sqlite" or "run_history" not in of.tables:
        return of
    made = MetaData()
    for table in of.tables.values():
        table.to_metadata(made)
    history = made.tables["run_history"]
    (identity,) = (item for item in history.constraints if isinstance(item, UniqueConstraint))
    history.constraints.remove(identity)
    if backend == "mysql":
        for index in list(history.indexes):
            history.indexes.remove(index)
            Index(index.name, *index.columns, history.c.id)
    Index(identity.name, *identity.columns)
    return made


def twin_of(db: Database) -> Database:
    """Open the same database once more, as another process would."""
    return Database(db.engine.url.render_as_string(hide_password=False))


def break_connections(db: Database) -> None:
    """End all other connections to a database: what a test left open may hold locks."""
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        if db.backend == "postgresql":
            others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            conn.execute(text(f"SELECT pg_terminate_backend(pid, 10000) {others}"))
            return
        others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        deadline = time.monotonic() + 30
        while ids := conn.execute(text(others)).scalars().all():
            assert time.monotonic() < deadline, f"connections {ids} do not end"
            for number in ids:
                with contextlib.suppress(OperationalError):  # it ended by itself
                    conn.execute(text(f"KILL {number}"))
            time.sleep(0.01)


def empty(db: Database) -> None:
    """Take all rows out, let ids begin at 1 again, and write the rows that a new database has."""
    names = sorted(known_tables() - {KEPT.name})
    with db.write() as conn:
        conn.execute(delete(KEPT).where(KEPT.c.plugin.not_in(installed_tables())))
        used = conn.execute(
            text("SELECT " + ", ".join(f"EXISTS (SELECT 1 FROM {name}) AS {name}" for name in names))
        ).one()
        filled, counted = {name for name in names if getattr(used, name)}, _counted(conn, db.backend)
        if db.backend == "postgresql":
            conn.execute(text(f"TRUNCATE {', '.join(sorted(filled | counted))} RESTART IDENTITY"))
        else:
            # TRUNCATE makes new files, which takes many times longer, but for a table of a million rows
            for name in sorted(filled):
                is_large = conn.execute(text(f"SELECT 1 FROM {name} LIMIT 1 OFFSET {LARGE}")).first()
                conn.execute(text(f"{'TRUNCATE' if is_large else 'DELETE FROM'} {name}"))
            for name in sorted(counted):
                conn.execute(text(f"ALTER TABLE {name} AUTO_INCREMENT = 1"))
        _seed(conn)


def _counted(conn: Connection, backend: str) -> set[str]:
    """Return the tables that would not give the id 1, though they may hold no row."""
    if backend == "postgresql":
        query = (
            "SELECT replace(sequencename, '_id_seq', '') FROM pg_sequences"
            " WHERE schemaname = current_schema() AND last_value IS NOT NULL"
        )
    else:
        query = (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND auto_increment > 1"
        )
    return set(conn.execute(text(query)).scalars())


def _seed(conn: Connection) -> None:
    conn.execute(insert(tables.partition_lease), [{"partition": number, "epoch": 0} for number in range(PARTITIONS)])
    conn.execute(insert(tables.run_id_block).values(name="run", next_id=1))
    settings.insert_setting(conn, settings.CHAINS, "")


def restore_schema(db: Database) -> None:
    """Bring the schema back to this version's; a test may have taken it down or made it another's."""
    with db.read() as conn:
        found = tables.table_names(conn)
        known = {*known_tables(), "alembic_version"}
        revisions = conn.execute(text("SELECT version_num FROM alembic_version")) if known <= found else []
        if found == known and [row[0] for row in revisions] == [migrate.head_revision()]:
            days = [item.first for item in history_days.list_days(conn)]
            if db.backend == "sqlite" or days == new_days():
                return
    drop_tables(db)
    upgrade(db)


def new_days() -> list[int]:
    """Return the first days of the partitions that a history has if it is made now, on a server."""
    today = wall_ms() // DAY_MS
    return [0, *range(today, today + history_days.AHEAD + 1)]


def drop_tables(db: Database) -> None:
    """Drop all tables, as in a database that no node has ever used."""
    with db.write() as conn:
        quote = conn.dialect.identifier_preparer.quote
        for name in tables.table_names(conn):
            conn.execute(text(f"DROP TABLE {quote(name)}"))


def begin_at(db: Database, revision: str) -> None:
    """Let a database have the tables of the core alone, as an earlier revision made them."""
    drop_tables(db)
    migrate.upgrade(db, revision)
