"""What holds of a plugin with one table that the core of xwheel 0.1.0 had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import MetaData, Table, insert, inspect, select, text

from tests.support import plugin_schema
from tests.support.databases import differences
from xwheel.plugin import Tables
from xwheel.plugin.tables import HANDED_OVER
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import plugin_tables, tables


class TakenOver:
    """Tests of such a plugin; a class of its tests says which table it is, and gives a row and an index of it."""

    plugin: Tables
    table: Table
    row: Mapping[str, Any]
    index: str

    @pytest.fixture(autouse=True)
    def _of_before(self, db: Database) -> None:
        """Let the database be one that the plugin has not seen."""
        plugin_schema.forget(db, self.plugin.name, "0001")

    def _upgrade(self, db: Database) -> None:
        known = {self.plugin.name: self.plugin}
        assert plugin_tables.upgrade(db, known) == {self.plugin.name: ["0001"]}
        plugin_tables.check(db, known)
        both = MetaData()
        for table in (*tables.metadata.sorted_tables, self.table):
            table.to_metadata(both)
        with db.read() as conn:
            assert differences(conn, both) == []

    def test_what_the_core_made_is_taken_over_with_its_rows(self, db: Database) -> None:
        assert set(self.plugin.tables()) <= HANDED_OVER
        with db.write() as conn:
            conn.execute(insert(self.table).values(self.row))
        self._upgrade(db)
        with db.read() as conn:
            assert [dict(row) for row in conn.execute(select(self.table)).mappings()] == [self.row]

    def test_it_is_made_where_there_is_none(self, db: Database) -> None:
        with db.write() as conn:
            conn.execute(text(f"DROP TABLE {self.table.name}"))
        self._upgrade(db)
        with db.read() as conn:
            assert self.table.name in inspect(conn).get_table_names()

    def test_an_index_that_a_failure_left_out_is_made(self, db: Database) -> None:
        (index,) = [item for item in self.table.indexes if item.name == self.index]
        with db.write() as conn:
            index.drop(conn)
        self._upgrade(db)
