"""Plugins that own fields of jobs: what people may change then, when they are asked, and one that fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import BigInteger, Column, MetaData, String, Table, insert, select, update
from xwheel_devtools.testing import ManualClock

from tests.support import plugin_schema
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.errors import OwnedByCodeError, PluginError
from xwheel.plugin import DeclaredView, Migration, PluginSite, ResourceRoute
from xwheel.plugin.hookspecs import check_object
from xwheel.plugin.registries import Registry
from xwheel.plugin.resources import Resources
from xwheel.scheduler.jobs.jobs import BulkAction
from xwheel.scheduler.jobs.owners import JobOwners
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import plugin_tables

metadata = MetaData()
TOY = Table(
    "toys_job",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("fields", String(64), nullable=False),
)


def said(*owned: str, **changes: Any) -> DeclaredView:
    words = {"place": "toys", "release": "1", "problem": ""}
    flags = {"is_released": False, "is_retired": False, "is_in_conflict": False}
    return DeclaredView(**{**words, **flags, "owned": list(owned), "released": [], **changes})


class Toys:
    """Owns the fields of jobs that stand in its rows."""

    name = "toys"
    owner_table = "toys_job"
    of_jobs: Mapping[str, str] = {"toys_job": "job_id"}
    of_groups: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.asked: list[Collection[int]] = []
        self.answer: Any = None

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        return ()

    def owned(self, conn: Any, job_ids: Collection[int]) -> Mapping[int, DeclaredView]:
        self.asked.append(job_ids)
        if isinstance(self.answer, BaseException):
            raise self.answer
        rows = conn.execute(select(TOY).where(TOY.c.job_id.in_(list(job_ids))))
        return self.answer or {row.job_id: said(*row.fields.split()) for row in rows}

    def refusal(self, job_id: int, said: DeclaredView, field: str) -> str:
        return f"toys keep {field or 'all'} of {job_id}"

    def conflicts(self, conn: Any, groups: Collection[int] | None) -> int:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return 2 if groups is None else len(groups)

    def migrations(self) -> Sequence[Migration]:
        return [Migration("0001", metadata.create_all)]

    def tables(self) -> Sequence[str]:
        return ["toys_job"]


@pytest.fixture
def toys(db: Database) -> Iterator[Toys]:
    made = Toys()
    plugin_tables.upgrade(db, {"toys": made})
    yield made
    with db.write() as conn:
        metadata.drop_all(conn)
    plugin_schema.forget(db, "toys", "0001")


@pytest.fixture
def node(db: Database, toys: Toys, monkeypatch: pytest.MonkeyPatch) -> HandNode:
    """A node with these toys; ``plugins`` of jobs and of their owners are replaced."""
    made = HandNode(db, ManualClock(NOW))
    made.group()
    core, manager = made.scheduler.core, made.scheduler.management.jobs
    plugins = dataclasses.replace(
        core.plugins,
        resources=Registry("set of resources", {"toys": toys}, {}),
        tables=Registry("set of tables", {"toys": toys}, {}),
    )
    monkeypatch.setattr(manager, "plugins", plugins)
    monkeypatch.setattr(manager, "owners", JobOwners(db, plugins, core.questions))
    return made


def own(node: HandNode, job_id: int, *fields: str) -> None:
    with node.db.write() as conn:
        conn.execute(insert(TOY).values(job_id=job_id, fields=" ".join(fields)))


def owners_of(node: HandNode) -> JobOwners:
    found: JobOwners = node.scheduler.management.jobs.owners
    return found


def test_people_change_what_is_theirs_and_nothing_else(node: HandNode, toys: Toys) -> None:
    mine, theirs = node.job(name="mine"), node.job(name="theirs")
    own(node, theirs.id, "param", "name")
    manager = node.scheduler.management.jobs
    with pytest.raises(OwnedByCodeError, match=f"param: toys keep param of {theirs.id}"):
        manager.edit(theirs.id, {"timeout_s": 3, "param": "x"})
    assert node.load(theirs.id) == theirs
    assert manager.edit(theirs.id, {"timeout_s": 3, "param": theirs.param}).timeout_s == 3
    with pytest.raises(OwnedByCodeError, match=f"toys keep all of {theirs.id}"):
        manager.delete(theirs.id)
    mistaken, done = manager.change_many(BulkAction.DELETE, [theirs.id, mine.id])
    assert isinstance(mistaken.error, OwnedByCodeError)
    assert done.error is None


def test_a_job_without_a_row_is_not_asked_about(node: HandNode, toys: Toys) -> None:
    job = node.job()
    node.scheduler.management.jobs.edit(job.id, {"param": "x"})
    assert toys.asked == []


def test_what_it_owns_meanwhile_counts(node: HandNode, toys: Toys) -> None:
    """The answer is about the rows that the transaction finds, whatever they were when it was asked."""
    job = node.job()
    own(node, job.id, "timeout_s")
    usual = toys.owned

    def owned(conn: Any, job_ids: Collection[int]) -> Mapping[int, DeclaredView]:
        found = usual(conn, job_ids)
        if len(toys.asked) == 1:  # after it was asked, before the transaction
            node.db.transaction(
                lambda writing: writing.execute(
                    update(TOY).where(TOY.c.job_id == job.id).values(fields="timeout_s param")
                )
            )
        return found

    toys.owned = owned  # type: ignore[method-assign]
    with pytest.raises(OwnedByCodeError, match="param"):
        node.scheduler.management.jobs.edit(job.id, {"param": "x"})
    assert len(toys.asked) == 2


def test_rows_go_with_their_job(node: HandNode) -> None:
    job = node.job()
    own(node, job.id)
    node.scheduler.management.jobs.delete(job.id)
    with node.db.read() as conn:
        assert conn.execute(select(TOY)).all() == []


@pytest.mark.parametrize(
    "answer",
    [SystemExit("no"), [1], {1: "x"}, {99: said()}, {1: said("param", place=5)}, {1: said(owned=[1])}],
    ids=repr,
)
def test_what_cannot_be_asked_is_not_changed_and_shown_without_it(
    node: HandNode, toys: Toys, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    job = node.job()
    assert job.id == 1
    own(node, job.id, "param")
    toys.answer = answer
    manager = node.scheduler.management.jobs
    for change in (lambda: manager.edit(job.id, {"timeout_s": 3}), lambda: manager.delete(job.id)):
        with pytest.raises(PluginError, match="toys"):
            change()
    assert node.load(job.id) == job
    assert owners_of(node).shown([job.id]) == {}
    assert "toys" in caplog.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"owner_table": "a b"}, "owner_table must be the name of one of the plugin's tables"),
        ({"owner_table": None}, "owner_table must be"),
        ({"refusal": None}, "refusal"),
        ({"owned": lambda self: {}}, "owned"),
    ],
)
def test_what_is_of_another_form_is_refused_at_the_start(change: dict[str, Any], words: str) -> None:
    check_object(Resources, Toys())
    with pytest.raises(PluginError, match=words):
        check_object(Resources, type("Odd", (Toys,), change)())
