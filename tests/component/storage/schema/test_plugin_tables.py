"""Tables of plugins: migrations in order, once, by the plugin's name, and none of them harms what is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import IntegrityError
from xwheel_devtools.testing import check_tables

from xwheel.errors import PluginError, SchemaError
from xwheel.plugin import Migration
from xwheel.plugin.tables import HANDED_OVER, KnownTables
from xwheel.storage import plugin_rows
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import migrate, plugin_tables
from xwheel.storage.schema.tables import plugin_migration

metadata = MetaData()
THINGS = Table(
    "toys_thing",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("name", String(64), nullable=False),
    UniqueConstraint("name", name="uq_toys_thing_name"),
)


class Toys:
    """Sample tables of a plugin called ``toys``."""

    name = "toys"

    def __init__(
        self,
        *migrations: Migration,
        tables: Sequence[str] = ("toys_thing",),
        of_jobs: Mapping[str, str] = MappingProxyType({}),
        of_groups: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._migrations = migrations or (FIRST,)
        self._tables = tables
        self.of_jobs, self.of_groups = of_jobs, of_groups

    def migrations(self) -> Sequence[Migration]:
        return self._migrations

    def tables(self) -> Sequence[str]:
        return self._tables


def _make_things(conn: Any) -> None:
    metadata.create_all(conn)


def _add_box(conn: Any) -> None:
    if "box" not in {column["name"] for column in inspect(conn).get_columns("toys_thing")}:
        conn.execute(text("ALTER TABLE toys_thing ADD COLUMN box INTEGER"))


FIRST = Migration("0001_things", _make_things)
SECOND = Migration("0002_boxes", _add_box)


def _tables(db: Database) -> set[str]:
    with db.read() as conn:
        return set(inspect(conn).get_table_names())


@pytest.fixture(autouse=True)
def without_toys(db: Database) -> Any:
    """Leave no tables of the samples in a database that the next test gets."""
    yield
    with db.write() as conn:
        for name in sorted(name for name in inspect(conn).get_table_names() if name.startswith(("toys_", "other_"))):
            conn.execute(text(f"DROP TABLE {name}"))
        conn.execute(text("DELETE FROM plugin_migration"))


def test_migrations_are_applied_once_and_in_their_order(db: Database) -> None:
    assert plugin_tables.upgrade(db, {"toys": Toys(FIRST)}) == {"toys": ["0001_things"]}
    assert plugin_tables.upgrade(db, {"toys": Toys(FIRST)}) == {}
    with db.write() as conn:
        conn.execute(insert(THINGS), [{"name": "a"}, {"name": "A"}])  # texts compare by bytes on every server
    newer = {"toys": Toys(FIRST, SECOND)}
    with pytest.raises(SchemaError, match=r"plugin toys: .*lacks 1 migrations.*0002_boxes.*db upgrade"):
        plugin_tables.check(db, newer)
    assert plugin_tables.upgrade(db, newer) == {"toys": ["0002_boxes"]}
    plugin_tables.check(db, newer)
    with db.read() as conn:
        assert sorted(conn.scalars(select(THINGS.c.name))) == ["A", "a"]
    with pytest.raises(IntegrityError), db.write() as conn:
        conn.execute(insert(THINGS), [{"name": "a"}])


def test_a_database_of_a_newer_plugin_is_refused(db: Database) -> None:
    plugin_tables.upgrade(db, {"toys": Toys(FIRST, SECOND)})
    for step in (plugin_tables.check, plugin_tables.upgrade):
        with pytest.raises(SchemaError, match=r"plugin toys: .*0002_boxes.*install the newer one"):
            step(db, {"toys": Toys(FIRST)})


def test_a_table_that_is_gone_is_named(db: Database) -> None:
    plugin_tables.upgrade(db, {"toys": Toys()})
    with db.write() as conn:
        conn.execute(text("DROP TABLE toys_thing"))
    with pytest.raises(SchemaError, match="plugin toys: its table toys_thing is gone"):
        plugin_tables.check(db, {"toys": Toys()})


def _fail(conn: Any) -> None:
    raise SystemExit("no disk")


def _fail_in_sql(conn: Any) -> None:
    conn.execute(text("SELECT * FROM toys_nowhere"))


@pytest.mark.parametrize("step", [_fail, _fail_in_sql])
def test_a_migration_that_fails_names_the_plugin_and_leaves_the_others(
    db: Database, step: Callable[[Any], None]
) -> None:
    broken = Toys(FIRST, Migration("0002_bad", step))

    class Other(Toys):
        name = "zoo"

        def __init__(self) -> None:
            super().__init__(Migration("0001", lambda conn: None), tables=("zoo_none",))

    before = _tables(db)
    with pytest.raises(SchemaError, match=r"plugin toys: migration 0002_bad failed: .*plugins.disabled"):
        plugin_tables.upgrade(db, {"toys": broken, "zoo": Other()})
    assert _tables(db) - before == {"toys_thing"}
    assert set(plugin_tables.unknown_in(db, {"toys": broken, "zoo": Other()})) == set()
    migrate.check_schema(db)
    assert plugin_tables.upgrade(db, {"toys": Toys(FIRST, SECOND)}) == {"toys": ["0002_boxes"]}


def test_a_table_of_another_name_is_not_made(db: Database) -> None:
    def make(conn: Any) -> None:
        Table("job_extra", MetaData(), Column("id", Integer, primary_key=True)).create(conn)

    before = _tables(db)
    with pytest.raises(SchemaError, match="plugin toys: migration 0001 failed: it makes the table job_extra"):
        plugin_tables.upgrade(db, {"toys": Toys(Migration("0001", make))})
    assert _tables(db) == before


class Boxes(Toys):
    """Tables of a plugin called ``toys_box``."""

    name = "toys_box"


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "in the database"])
def test_n43_a_table_belongs_to_the_plugin_with_the_longest_name(db: Database, installed: bool) -> None:
    """``toys`` could write and drop what is ``toys_box``'s."""
    theirs = Table("toys_box_lid", MetaData(), Column("id", Integer, primary_key=True))
    boxes = {"toys_box": Boxes(Migration("0001", theirs.create), tables=("toys_box_lid",))}
    plugin_tables.upgrade(db, boxes)
    both = boxes if installed else {}

    def make(conn: Any) -> None:
        Table("toys_box_hinge", MetaData(), Column("id", Integer, primary_key=True)).create(conn)

    before = _tables(db)
    for step, words in (
        (theirs.drop, "it drops the table toys_box_lid, which is another plugin's"),
        (make, "it makes the table toys_box_hinge, which is another plugin's"),
    ):
        with pytest.raises(SchemaError, match=f"plugin toys: migration 0001 failed: {words}"):
            plugin_tables.upgrade(db, {**both, "toys": Toys(Migration("0001", step))})
        assert _tables(db) == before
    named = {**both, "toys": Toys(tables=("toys_thing", "toys_box_lid"))}
    for use in (plugin_tables.upgrade, plugin_tables.check):
        with pytest.raises(SchemaError, match="plugin toys: its table toys_box_lid has a name that belongs to another"):
            use(db, named)
    assert plugin_tables.upgrade(db, {**both, "toys": Toys()}) == {"toys": [FIRST.name]}
    plugin_tables.check(db, {**both, "toys": Toys()})


def test_a_table_that_was_xwheels_once_is_taken_over_with_what_is_in_it(db: Database) -> None:
    name = sorted(HANDED_OVER)[0]
    former = Table(name, MetaData(), Column("id", Integer, primary_key=True))

    def make(conn: Any) -> None:
        former.create(conn, checkfirst=True)

    with db.write() as conn:
        conn.execute(text(f"ALTER TABLE {name} RENAME TO toys_kept"))
        former.create(conn)
        conn.execute(insert(former).values(id=7))
    toys = {"toys": Toys(Migration("0001", make), tables=(name,))}
    plugin_tables.upgrade(db, toys)
    plugin_tables.check(db, toys)
    with db.write() as conn:
        assert list(conn.scalars(select(former.c.id))) == [7]
        former.drop(conn)
        conn.execute(text(f"ALTER TABLE toys_kept RENAME TO {name}"))


def test_rows_go_with_a_job_or_a_group(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_rows, "IN_LIMIT", 2)
    names = ("toys_wish", "toys_gift")
    wishes, gifts = (Table(name, MetaData(), Column("job_id", Integer), Column("group_id", Integer)) for name in names)

    def make(conn: Any) -> None:
        wishes.create(conn)
        gifts.create(conn)

    of_jobs, of_groups = dict.fromkeys(names, "job_id"), {"toys_wish": "group_id"}
    toys = {"toys": Toys(Migration("0001", make), tables=names, of_jobs=of_jobs, of_groups=of_groups)}
    plugin_tables.upgrade(db, toys)

    def left(conn: Any) -> list[list[tuple[int, int]]]:
        return [sorted(tuple(row) for row in conn.execute(select(item))) for item in (wishes, gifts)]

    with db.write() as conn:
        for item in (wishes, gifts):
            conn.execute(insert(item), [{"job_id": n, "group_id": 9 - n} for n in range(1, 6)])
        plugin_rows.delete_of_jobs(conn, toys, [1, 2, 5])
        assert left(conn) == [[(3, 6), (4, 5)], [(3, 6), (4, 5)]]
        plugin_rows.delete_of_group(conn, toys, 5)
        assert left(conn) == [[(3, 6)], [(3, 6), (4, 5)]]


def test_a_table_may_have_the_name_of_its_plugin(db: Database) -> None:
    mine = Table("toys", MetaData(), Column("id", Integer, primary_key=True))
    toys = {"toys": Toys(Migration("0001", mine.create), tables=("toys",))}
    plugin_tables.upgrade(db, toys)
    plugin_tables.check(db, toys)
    assert KnownTables(toys["toys"]).owns("toys")
    assert not KnownTables(toys["toys"]).owns("toysbox")
    with db.write() as conn:
        mine.drop(conn)


def test_a_prefix_of_our_own_tables_is_refused(db: Database) -> None:
    class Runs(Toys):
        name = "run"

    with pytest.raises(SchemaError, match=r"plugin run: xwheel's own table run\w* has its name, or begins with run_"):
        plugin_tables.upgrade(db, {"run": Runs(tables=("run_thing",))})


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (Toys(tables=("thing",)), "begins with toys_"),
        (Toys(tables=()), "1 to 100 different names"),
        (Toys(FIRST, FIRST), "two migrations are called 0001_things"),
        (Toys(Migration("a b", _make_things)), "a migration's name"),
        (Toys(of_jobs={"toys_other": "job_id"}), "of_jobs: 'toys_other' is none of its tables"),
        (Toys(of_groups={"toys_thing": "id; --"}), "of_groups: toys_thing needs the name of a column"),
        (Toys(of_groups=["toys_thing"]), "of_groups must be a mapping of table to column"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_used_is_refused_at_the_start(item: Toys, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        KnownTables(item)


def test_the_same_tables_can_be_made_in_databases_of_other_kinds(db: Database) -> None:
    """As suites of plugins do: what one database wants of a text is not asked of the next."""
    plugin_tables.upgrade(db, {"toys": Toys()})
    check_tables(Toys())


def test_the_suite_finds_what_is_wrong() -> None:
    check_tables(Toys(FIRST, SECOND))
    twice = Migration("0002", lambda conn: conn.execute(text("ALTER TABLE toys_thing ADD COLUMN box INTEGER")))
    with pytest.raises(AssertionError, match="plugin toys: migration 0002 failed: .*duplicate column"):
        check_tables(Toys(FIRST, twice))
    with pytest.raises(AssertionError, match="plugin toys: its table toys_none is gone"):
        check_tables(Toys(FIRST, tables=("toys_thing", "toys_none")))


def test_a_plugin_with_tables_that_is_not_installed_is_named_with_the_way_out(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with db.read() as conn:
        others = set(conn.scalars(select(plugin_migration.c.plugin)))
    plugin_tables.upgrade(db, {"toys": Toys(FIRST, SECOND)})
    plugin_tables.warn_of_absent(db, {"toys", "boxes", *others})
    assert not caplog.records
    plugin_tables.warn_of_absent(db, {"boxes", *others})
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "plugin toys has tables in the database and is not installed here, so this node does nothing of what it is "
        "for: install it, or name it in plugins.tolerate if it is meant to be missing"
    )
