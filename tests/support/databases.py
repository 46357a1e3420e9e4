"""Empty databases for tests, at this version's schema, on each kind of server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, insert, inspect, text

from tests.support import servers
from xwheel.model import PARTITIONS
from xwheel.storage import migrate, settings, tables
from xwheel.storage.engine import Database

BACKENDS = {"mariadb": servers.mariadb, "postgresql": servers.postgresql}
ADMIN = {"mariadb": "mysql", "postgresql": "postgres"}


@contextmanager
def server_database(backend: str, name: str = "xwheel_test") -> Iterator[str]:
    """Run a server; give the URL of a database on it whose schema is this version's."""
    with BACKENDS[backend]() as base:
        admin = Database(base + ADMIN[backend])
        with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text(f"CREATE DATABASE {name}"))
        admin.close()
        db = Database(base + name)
        migrate.upgrade(db)
        db.close()
        yield base + name


def twin_of(db: Database) -> Database:
    """Open the same database once more, as another process would."""
    return Database(db.engine.url.render_as_string(hide_password=False))


def empty(db: Database) -> None:
    """Take all rows out and write the ones that a new database has."""
    with db.write() as conn:
        names = [table.name for table in tables.metadata.sorted_tables]
        if db.backend == "postgresql":
            conn.execute(text(f"TRUNCATE {', '.join(names)} RESTART IDENTITY"))
        else:
            for name in names:
                if conn.execute(text(f"SELECT 1 FROM {name} LIMIT 1")).first() is not None:
                    conn.execute(text(f"TRUNCATE {name}"))
        _seed(conn)


def _seed(conn: Connection) -> None:
    conn.execute(
        insert(tables.partition_lease),
        [{"partition": number, "epoch": 0} for number in range(PARTITIONS)],
    )
    conn.execute(insert(tables.run_id_block).values(name="run", next_id=1))
    settings.insert_setting(conn, settings.CHAINS, "")


def mend(db: Database) -> None:
    """Bring the schema back to this version's; a test may have taken it down or made it another's."""
    with db.read() as conn:
        is_whole = set(tables.metadata.tables) <= set(inspect(conn).get_table_names())
    if is_whole and migrate.current_revision(db) == migrate.head_revision():
        return
    with db.write() as conn:
        tables.metadata.drop_all(conn)
        conn.execute(text("DROP TABLE IF EXISTS alembic_version"))
    migrate.upgrade(db)
