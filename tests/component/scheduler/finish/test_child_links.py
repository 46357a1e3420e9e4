"""Saving children: no circle, no endless chain, nothing that is not there, and no two changes at once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

import pytest
from sqlalchemy import event

from tests.support.databases import twin_of
from tests.support.node import HandNode
from xwheel.errors import ConflictError, FieldError, NotFoundError
from xwheel.model import ChildLink
from xwheel.scheduler.finish import template as templates
from xwheel.scheduler.jobs.dependencies import MAX_CHILDREN, MAX_PARENTS, DependencyManager
from xwheel.storage import jobs


def children_of(node: HandNode, job_id: int) -> list[ChildLink]:
    with node.db.read() as conn:
        return jobs.children_of(conn, [job_id])


def parents_of(node: HandNode, job_id: int) -> list[ChildLink]:
    with node.db.read() as conn:
        return jobs.parents_of(conn, [job_id])


def make_jobs(node: HandNode, count: int) -> list[int]:
    return [
        node.job(name=f"job {number}", schedule_type="NONE", schedule_conf="", enabled=False).id
        for number in range(count)
    ]


def link(parent: int, *found: int, param: str | None = None) -> list[ChildLink]:
    return [ChildLink(parent_id=parent, child_id=child, param=param) for child in found]


def save(node: HandNode, parent: int, *found: int, param: str | None = None) -> Sequence[ChildLink]:
    return node.scheduler.management.dependencies.set_children(parent, link(parent, *found, param=param))


def test_links_are_replaced_and_the_revision_rises(node: HandNode) -> None:
    first, second, third = make_jobs(node, 3)
    revision = node.load(first).revision
    assert save(node, first, third, second, param="${result}") == link(first, second, third, param="${result}")
    assert node.load(first).revision == revision + 1
    save(node, first, second)
    assert children_of(node, first) == link(first, second)
    assert parents_of(node, second) == link(first, second)
    assert parents_of(node, third) == []


def test_the_revision_guards_the_links(node: HandNode) -> None:
    first, second = make_jobs(node, 2)
    revision = node.load(first).revision
    node.scheduler.management.dependencies.set_children(first, link(first, second), revision)
    with pytest.raises(ConflictError, match=f"revision {revision + 1}, not {revision}"):
        node.scheduler.management.dependencies.set_children(first, [], revision)
    assert children_of(node, first) == link(first, second)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_circle_is_refused_and_shown(node: HandNode, length: int) -> None:
    ids = make_jobs(node, length + 1)
    for before, after in itertools.pairwise(ids):
        save(node, before, after)
    circle = " -> ".join(map(str, [ids[-1], *ids]))
    with pytest.raises(FieldError, match=circle):
        save(node, ids[-1], ids[0])
    assert children_of(node, ids[-1]) == []


def test_a_circle_is_found_among_many_paths(node: HandNode) -> None:
    top, left, right, below, aside = make_jobs(node, 5)
    save(node, top, left, right)
    save(node, left, below, aside)
    save(node, right, below)
    with pytest.raises(FieldError, match=f"{below} -> {top} -> {left} -> {below}"):
        save(node, below, aside, top)


def test_what_cannot_be_a_link_is_refused(node: HandNode) -> None:
    first, second = make_jobs(node, 2)
    with pytest.raises(FieldError, match="cannot run after itself"):
        save(node, first, first)
    with pytest.raises(FieldError, match="stands twice"):
        save(node, first, second, second)
    with pytest.raises(FieldError, match="job 99 does not exist"):
        save(node, first, 99)
    with pytest.raises(NotFoundError, match="job 99"):
        save(node, 99, first)
    with pytest.raises(FieldError, match="known"):
        save(node, first, second, param="${wrong}")
    with pytest.raises(FieldError, match="no parent"):
        save(node, first, second, param=f"${{result.{second}}}")
    assert children_of(node, first) == []


@pytest.mark.parametrize("side", ["below", "above"])
def test_a_chain_has_a_longest_length(node: HandNode, side: str) -> None:
    ids = make_jobs(node, templates.MAX_DEPTH + 2)
    pairs = list(itertools.pairwise(ids))
    for before, after in pairs[:-1] if side == "below" else pairs[1:]:
        save(node, before, after)
    before, after = pairs[-1] if side == "below" else pairs[0]
    with pytest.raises(FieldError, match="more than 32 generations"):
        save(node, before, after)


def test_families_have_a_largest_size(node: HandNode) -> None:
    ids = make_jobs(node, MAX_CHILDREN + 2)
    with pytest.raises(FieldError, match="at most 100 children, not 101"):
        save(node, ids[0], *ids[1:])
    save(node, ids[0], *ids[1:-1])
    node.db.transaction(
        lambda conn: [jobs.replace_children(conn, parent, link(parent, ids[-1])) for parent in ids[:MAX_PARENTS]]
    )
    with pytest.raises(FieldError, match="would have 101 parents, 100 are allowed"):
        save(node, ids[MAX_PARENTS], ids[-1])


def test_the_search_reads_a_generation_at_a_time(node: HandNode) -> None:
    top, *middle = make_jobs(node, 41)
    (last,) = make_jobs(node, 1)
    save(node, top, *middle)
    node.db.transaction(lambda conn: [jobs.replace_children(conn, parent, link(parent, last)) for parent in middle])
    asked: list[str] = []
    event.listen(node.db.engine, "before_cursor_execute", lambda _c, _x, statement, *_: asked.append(statement))
    save(node, top, *middle)
    assert len(asked) < 20


def test_a_deleted_job_leaves_its_family(node: HandNode) -> None:
    first, second, third = make_jobs(node, 3)
    save(node, first, second)
    save(node, second, third)
    node.scheduler.management.jobs.delete(second)
    assert children_of(node, first) == []
    assert parents_of(node, third) == []
    with pytest.raises(FieldError, match=f"job {second} does not exist"):
        save(node, first, second)


def test_two_changes_at_once_close_no_circle(node: HandNode) -> None:
    """Each of the two is allowed alone; both of them together never are."""
    twin = twin_of(node.db)
    other = DependencyManager(twin, node.clock, node.scheduler.core.history)
    for _ in range(10):
        first, second = make_jobs(node, 2)
        start = threading.Barrier(2)
        refused: list[str] = []

        def change(
            manager: DependencyManager,
            parent: int,
            child: int,
            start: threading.Barrier = start,
            refused: list[str] = refused,
        ) -> None:
            start.wait(10)
            try:
                manager.set_children(parent, link(parent, child))
            except FieldError as error:
                refused.append(error.reason)

        threads = [
            threading.Thread(target=change, args=(node.scheduler.management.dependencies, first, second)),
            threading.Thread(target=change, args=(other, second, first)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(refused) == 1
        assert "circle" in refused[0]
        with node.db.read() as conn:
            assert len(jobs.children_of(conn, [first, second])) == 1
            assert len(jobs.get_jobs(conn, [first, second])) == 2
    twin.close()
