"""Rows of plugins: what a database is given of each type comes back, one row or many, and what it refuses is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, MetaData, String, Table, select

from xwheel.errors import PluginError
from xwheel.plugin.observers import check_rows
from xwheel.storage.database.engine import Database
from xwheel.storage.plugin_rows import insert_rows, write_rows

things = Table(
    "things",
    MetaData(),
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("name", String(20), nullable=False),
    Column("size", BigInteger),
    Column("small", Integer),
    Column("weight", Double),
    Column("is_new", Boolean),
    Column("raw", LargeBinary),
    Column("note", String(200)),
)
FULL = {
    "name": "ü\\\"'%s{},\n",
    "size": 2**60,
    "small": -7,
    "weight": 1.5,
    "is_new": True,
    "raw": b"\x00\xff\\\"'%s",
    "note": None,
}
EMPTY = {"name": "", "size": None, "small": None, "weight": None, "is_new": None, "raw": None, "note": None}


@pytest.fixture
def things_db(db: Database) -> Iterator[Database]:
    with db.write() as conn:
        things.create(conn)
    yield db
    with db.write() as conn:
        things.drop(conn)


def stored(db: Database) -> list[Mapping[str, Any]]:
    with db.read() as conn:
        query = select(*(things.c[name] for name in FULL)).order_by(things.c.id)
        return [dict(row._mapping) for row in conn.execute(query)]


@pytest.mark.parametrize(
    "rows",
    [
        [FULL],
        [EMPTY],
        [FULL, EMPTY],
        [EMPTY, EMPTY],
        [EMPTY, FULL, {**FULL, "name": "third", "is_new": False, "note": "n"}],
        [{**FULL, "name": str(number)} for number in range(1500)],
    ],
    ids=["one", "one empty", "two", "two empty", "three", "many"],
)
def test_what_is_given_comes_back(things_db: Database, rows: Sequence[Mapping[str, object]]) -> None:
    checked = check_rows("things", {"things": rows})
    things_db.transaction(lambda conn: write_rows(conn, "things", checked))
    assert stored(things_db) == list(rows)


def test_rows_may_name_their_columns_in_any_order(things_db: Database) -> None:
    turned = dict(reversed(FULL.items()))
    things_db.transaction(lambda conn: write_rows(conn, "things", {"things": [FULL, turned]}))
    assert stored(things_db) == [FULL, FULL]


def test_a_single_column_does_too(things_db: Database) -> None:
    rows = {"things": [{"name": "a"}, {"name": "b"}]}
    things_db.transaction(lambda conn: write_rows(conn, "things", rows))
    assert [row["name"] for row in stored(things_db)] == ["a", "b"]


REFUSED = {
    "a null": {"things": [{"name": None}]},
    "a null among many": {"things": [{"name": "a"}, {"name": None}]},
    "no such column": {"things": [{"name": "a", "colour": "red"}]},
    "no such table": {"things_old": [{"name": "a"}]},
    "half of a pair": {"things": [{"name": "a\ud800"}]},
    "half of a pair among many": {"things": [{"name": "a"}, {"name": "a\ud800"}]},
    "a number of 80 bits": {"things": [{"name": "a", "size": 2**80}]},
    "a number of 80 bits among many": {"things": [{"name": "a", "size": 1}, {"name": "b", "size": 2**80}]},
}


@pytest.mark.parametrize("rows", REFUSED.values(), ids=REFUSED)
def test_what_the_database_refuses_is_told_and_the_transaction_can_go_on(
    things_db: Database, rows: Mapping[str, Sequence[Mapping[str, object]]]
) -> None:
    def work(conn: Any) -> None:
        write_rows(conn, "things", {"things": [{"name": "before"}]})
        with pytest.raises(PluginError, match="rows of things: "):
            insert_rows(conn, "things", rows)
        write_rows(conn, "things", {"things": [{"name": "after"}]})

    things_db.transaction(work)
    assert [row["name"] for row in stored(things_db)] == ["before", "after"]


@pytest.mark.parametrize("rows", REFUSED.values(), ids=REFUSED)
def test_without_a_point_to_go_back_to_all_is_undone(
    things_db: Database, rows: Mapping[str, Sequence[Mapping[str, object]]]
) -> None:
    def work(conn: Any) -> None:
        write_rows(conn, "things", {"things": [{"name": "before"}]})
        write_rows(conn, "things", rows)

    with pytest.raises(PluginError, match="rows of things: "):
        things_db.transaction(work)
    assert stored(things_db) == []


class Word(str):
    """A text of a class of its own."""


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"things": [{"name": "a"}, {"size": 1}]}, "rows of things have different columns"),
        ({"things": [{"name": ["a"]}]}, r"things\.name must be a text, a number, bytes or None, not list"),
        ({"things": [{"name": "a"}, {"name": object()}]}, "not object"),
        ({"things": [{"Name": "a"}]}, r"things\.Name must be"),
        ({"things": [{5: "a"}]}, r"things\.5 must be"),
        ({"others": [{"name": "a"}]}, "'others' is none of its own tables"),
        ({"things": [{"name": "a"}] * 10_001}, "more than 10000 rows"),
        ([{"name": "a"}], "rows must be a mapping of table to rows, not list"),
        ({"things": 5}, "rows of things must be a sequence of mappings"),
        ({"things": "ab"}, "rows of things must be a sequence of mappings"),
        ({"things": {"name": "a"}}, "rows of things must be a sequence of mappings"),
        ({"things": [{"name": "a"}, None]}, "rows of things must be a sequence of mappings"),
    ],
)
def test_what_are_no_rows_is_refused_before(rows: Any, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        check_rows("things", rows)


def test_tables_of_other_names_may_be_the_plugins(things_db: Database) -> None:
    rows = check_rows("plugin", {"things": [{"name": Word("a")}, {"name": "b"}]}, {"things"})
    things_db.transaction(lambda conn: write_rows(conn, "plugin", rows))
    assert [row["name"] for row in stored(things_db)] == ["a", "b"]
