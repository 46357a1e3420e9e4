"""The tables: made where a database lacks them, and taken over with their rows where an earlier version made them."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect, text
from xwheel_accounts.storage import accounts
from xwheel_accounts.tables import AccountsTables, audit, metadata

from tests.product.accounts.trails import trail_of
from tests.support import plugin_schema
from tests.support.databases import differences
from tests.support.rows import NOW
from xwheel.errors import PluginError, SchemaError
from xwheel.model.access import ALL
from xwheel.plugin.tables import KnownTables
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import plugin_tables
from xwheel.storage.schema.tables import metadata as of_the_core

MINE = {"accounts": AccountsTables()}


MIGRATIONS = ["0001_adopt", "0002_confirmed"]


def forget(db: Database) -> None:
    """Leave the tables as xwheel itself made them, before it gave them up."""
    for migration in MIGRATIONS:
        plugin_schema.forget(db, "accounts", migration)
    with db.write() as conn:
        conn.execute(text("ALTER TABLE account_session DROP COLUMN confirmed_ms"))


def test_the_core_has_none_of_them() -> None:
    assert set(metadata.tables).isdisjoint(of_the_core.tables)


def test_tables_of_an_earlier_version_are_taken_over_with_their_rows(db: Database) -> None:
    forget(db)
    db.transaction(lambda conn: accounts.insert_account(conn, "ann", ALL, NOW))
    trail = trail_of(db)
    for number in range(3):
        db.transaction(lambda conn, n=number: trail.record(conn, "job.edit", "job", n))
    with pytest.raises(SchemaError, match="plugin accounts: the database lacks 2 migrations of its tables"):
        plugin_tables.check(db, MINE)
    assert plugin_tables.upgrade(db, MINE) == {"accounts": MIGRATIONS}
    plugin_tables.check(db, MINE)
    with db.read() as conn:
        assert [found.name for found in accounts.list_accounts(conn)] == ["ann"]
        assert len(conn.execute(audit.select()).all()) == 3
        assert differences(conn, metadata) == []


def test_tables_that_are_not_there_are_made_as_they_were(db: Database) -> None:
    forget(db)
    with db.write() as conn:
        metadata.drop_all(conn)
    plugin_tables.upgrade(db, MINE)
    with db.read() as conn:
        assert set(metadata.tables) <= set(inspect(conn).get_table_names())
        assert differences(conn, metadata) == []


def test_a_plugin_has_only_those_that_xwheel_gave_up(db: Database) -> None:
    class Others(AccountsTables):
        def tables(self) -> list[str]:
            return ["job"]

    with pytest.raises(PluginError, match="a table's name begins with accounts_"):
        KnownTables(Others())
