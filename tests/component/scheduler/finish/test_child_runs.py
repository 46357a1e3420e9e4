"""One run of each child for each fire that succeeded, no matter who finishes last and how often it is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.clock import ManualClock
from xwheel.model import ChildLink, JoinMode, Origin, Run, RunState
from xwheel.scheduler.finish import template as templates
from xwheel.scheduler.finish.finish import CHILDREN
from xwheel.scheduler.records import Outcome
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Database


def make(node: HandNode, **changes: Any) -> int:
    return node.job(**{"schedule_type": "NONE", "schedule_conf": "", "enabled": False, **changes}).id


def link(node: HandNode, parent: int, *found: int, param: str | None = None) -> None:
    rows = [ChildLink(parent_id=parent, child_id=child, param=param) for child in found]
    node.scheduler.management.dependencies.set_children(parent, rows)


def started(node: HandNode, job_id: int, **changes: Any) -> list[Run]:
    """Fire a job by hand and return what executors have of it."""
    node.scheduler.management.run_now.run(job_id, **changes)
    node.run_for(300)
    return node.answer()


def report(node: HandNode, items: Sequence[Run], message: str = "", state: RunState = RunState.SUCCEEDED) -> None:
    node.scheduler.finishing.finisher.finish(
        [Outcome(run_id=run.id, state=state, code=200, message=message) for run in items]
    )


def test_p11_the_setting_bounds_what_a_child_gets(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW), api={"max_param_bytes": 1024})
    node.group()
    node.register("http://127.0.0.1:9001")
    parent, child = make(node), make(node)
    link(node, parent, child, param="${result}")
    for length in (1024, 1025):
        (run,) = [item for item in started(node, parent) if item.job_id == parent]
        report(node, [run], "x" * length)
    fine, long = sorted(node.runs(child), key=lambda item: item.id)
    assert fine.param == "x" * 1024
    assert (long.state, long.reason) == (RunState.SKIPPED, "bad_param")
    assert "1025 bytes as UTF-8, 1024 are allowed (api.max_param_bytes)" in long.message


def test_a_child_runs_once_after_its_parent(node: HandNode) -> None:
    parent, child = make(node), make(node, param="own")
    link(node, parent, child)
    (run,) = started(node, parent)
    report(node, [run, run])
    report(node, [run])
    (row,) = node.runs(child)
    assert (row.origin, row.origin_key, row.root_id) == (Origin.CHILD, run.id, row.id)
    assert (row.chain_id, row.chain_depth, row.param) == (run.id, 1, None)
    assert (row.due_ms, row.state) == (node.clock.now_ms(), RunState.PLANNED)
    node.run_for(300)
    assert [shard.run.job_id for parcel in node.sent for shard in parcel.shards] == [child]


@pytest.mark.parametrize(
    "state", [RunState.FAILED, RunState.TIMED_OUT, RunState.KILLED, RunState.LOST, RunState.REFUSED]
)
def test_nothing_runs_after_what_did_not_succeed(node: HandNode, state: RunState) -> None:
    parent, child = make(node), make(node)
    link(node, parent, child)
    node.scheduler.management.run_now.run(parent)
    node.run_for(300)
    runs_sent = [shard.run for parcel in node.sent for shard in parcel.shards]
    report(node, runs_sent, state=state)
    assert [run.state for run in node.runs(parent)] == [state]
    assert node.runs(child) == []


def test_the_last_shard_brings_the_child_and_every_shard_must_have_succeeded(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    parent, child = make(node, route_strategy="SHARDING_BROADCAST", max_retries=1), make(node)
    link(node, parent, child, param="${result}")
    first, second = sorted(started(node, parent), key=lambda run: run.shard_index)
    report(node, [second], "two")
    assert node.runs(child) == []
    report(node, [first], state=RunState.FAILED)
    assert node.runs(child) == []
    node.run_for(300)
    report(node, node.answer(), "one")
    (row,) = node.runs(child)
    assert row.origin_key == first.root_id
    assert json.loads(row.param or "") == ["one", "two"]
    shards = node.runs(parent)
    assert sorted((run.shard_index, run.attempt, run.shard_total) for run in shards) == [
        (0, 1, 2),
        (0, 2, 2),
        (1, 1, 2),
    ]


def test_a_shard_that_failed_for_good_keeps_the_child_away(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    parent, child = make(node, route_strategy="SHARDING_BROADCAST"), make(node)
    link(node, parent, child)
    first, second = started(node, parent)
    report(node, [first], state=RunState.FAILED)
    report(node, [second])
    assert node.runs(child) == []


def test_a_late_success_of_a_lost_parent_brings_the_child_once(node: HandNode) -> None:
    parent, child = make(node, recover_lost=True), make(node)
    link(node, parent, child)
    (run,) = started(node, parent)
    report(node, [run], state=RunState.LOST)
    node.run_for(300)
    (recovery,) = node.answer()
    report(node, [run])
    assert node.runs(child) == [], "the recovery run is still on its way"
    report(node, [recovery], state=RunState.FAILED)
    assert len(node.runs(child)) == 1
    report(node, [run, recovery])
    assert len(node.runs(child)) == 1


def test_n11_a_root_that_ends_a_second_time_has_its_child_already(node: HandNode) -> None:
    """N11: the recovery run brought the child; then the run that was taken for lost succeeds as well."""
    parent, child = make(node, recover_lost=True), make(node)
    link(node, parent, child)
    (run,) = started(node, parent)
    report(node, [run], state=RunState.LOST)
    node.run_for(300)
    (recovery,) = node.answer()
    report(node, [recovery])
    (first,) = node.runs(child)
    report(node, [run])
    assert [item.state for item in node.runs(parent)] == [RunState.SUCCEEDED] * 2, "the late outcome counts"
    assert [item.id for item in node.runs(child)] == [first.id]


def test_a_stopped_child_runs_and_a_deleted_one_does_not(node: HandNode) -> None:
    parent, stopped, deleted = make(node), make(node), make(node)
    link(node, parent, stopped, deleted)
    runs_out = started(node, parent)
    node.scheduler.management.jobs.delete(deleted)
    report(node, runs_out)
    assert len(node.runs(stopped)) == 1
    assert node.runs(deleted) == []


def joined(node: HandNode) -> tuple[int, int, int, int]:
    """A job, two that follow it, and one that waits for both of those."""
    top, left, right, join = make(node), make(node), make(node), make(node, join_mode=JoinMode.ALL)
    link(node, top, left, right)
    link(node, left, join)
    link(node, right, join)
    return top, left, right, join


def both_parents(node: HandNode, top: int) -> list[Run]:
    """Fire the top and return its children as executors have them."""
    report(node, started(node, top))
    node.run_for(300)
    return sorted(node.answer(), key=lambda run: run.job_id)


def test_a_join_waits_for_all_parents_of_its_chain(node: HandNode) -> None:
    top, left, right, join = joined(node)
    text = f"${{result.{left}}} ${{result.{right}}}"
    link(node, left, join, param=text)
    link(node, right, join, param=text)
    first, second = both_parents(node, top), both_parents(node, top)
    report(node, [first[0]], "a")
    report(node, [second[1]], "d")
    assert node.runs(join) == [], "one parent of each of two chains"
    report(node, [second[0]], "c")
    report(node, [first[1]], "b")
    report(node, [*first, *second])
    found = node.runs(join)
    assert sorted((run.chain_id, run.param) for run in found) == sorted(
        [(first[0].chain_id, "a b"), (second[0].chain_id, "c d")]
    )
    assert {(run.origin_key == run.chain_id, run.chain_depth) for run in found} == {(True, 2)}


def test_both_parents_in_one_batch_join_once(node: HandNode) -> None:
    top, _, _, join = joined(node)
    report(node, both_parents(node, top))
    assert len(node.runs(join)) == 1


def test_a_join_without_one_parent_never_runs(node: HandNode) -> None:
    top, _, _, join = joined(node)
    first, second = both_parents(node, top)
    report(node, [first])
    report(node, [second], state=RunState.FAILED)
    assert node.runs(join) == []


def test_a_join_goes_on_without_a_parent_that_was_deleted(node: HandNode) -> None:
    top, left, _, join = joined(node)
    first, second = both_parents(node, top)
    report(node, [first])
    node.scheduler.management.jobs.delete(left)
    report(node, [second])
    assert len(node.runs(join)) == 1


@pytest.mark.parametrize(
    ("param", "result", "message"),
    [
        ("${result}", "x" * (templates.MAX_RESULT + 1), "4001 characters"),
        ("${result}" * 17, "x" * templates.MAX_RESULT, "68000 bytes as UTF-8, 65535 are allowed"),
        ("${wrong}", "", "no name of a template"),
        ("${result.77}", "", "job 77 has no result"),
    ],
)
def test_a_parameter_that_cannot_be_made_is_a_row_with_a_reason(
    node: HandNode, param: str, result: str, message: str
) -> None:
    parent, child, sane = make(node), make(node), make(node)
    link(node, parent, child, sane)
    # as after an edit that took a parent away: saving it so would be refused
    rows = [
        ChildLink(parent_id=parent, child_id=child, param=param),
        ChildLink(parent_id=parent, child_id=sane, param=None),
    ]
    node.db.transaction(lambda conn: jobs.replace_children(conn, parent, rows))
    (run,) = started(node, parent)
    report(node, [run], result)
    assert node.runs(parent)[0].state is RunState.SUCCEEDED
    (row,) = node.runs(child)
    assert (row.state, row.reason, row.origin_key) == (RunState.SKIPPED, "bad_param", run.id)
    assert message in row.message
    assert row.finished_ms == node.clock.now_ms()
    assert [other.state for other in node.runs(sane)] == [RunState.PLANNED]


@pytest.mark.parametrize(("depth", "state"), [(31, RunState.PLANNED), (32, RunState.SKIPPED)])
def test_a_chain_ends_at_its_limit_with_a_row(node: HandNode, depth: int, state: RunState) -> None:
    parent, child = make(node), make(node)
    link(node, parent, child)
    row = make_run(500, job_id=parent, partition=parent, chain_depth=depth, state=RunState.RUNNING)
    node.db.transaction(lambda conn: runs.insert_runs(conn, [row]))
    report(node, [row])
    (found,) = node.runs(child)
    assert (found.state, found.reason) == (state, "" if state is RunState.PLANNED else "chain_too_deep")
    assert found.chain_depth == depth + 1


def test_a_fixed_delay_with_children_goes_on(node: HandNode) -> None:
    parent = node.job(schedule_type="FIX_DELAY", schedule_conf="1s").id
    child = make(node)
    link(node, parent, child)
    node.run_for(1100)
    report(node, node.answer())
    assert len(node.runs(child)) == 1
    assert node.load(parent).next_fire_ms == node.clock.now_ms() + 1000


def test_a_batch_that_sets_much_in_motion_is_taken_in_pieces(node: HandNode) -> None:
    parent = make(node)
    many = [make(node) for _ in range(20)]
    link(node, parent, *many)
    count = CHILDREN // len(many) + 10
    rows = [
        make_run(number, job_id=parent, partition=parent, state=RunState.RUNNING)
        for number in range(1_000_001, 1_000_001 + count)
    ]
    node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    sizes: list[int] = []
    insert = runs.insert_runs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "insert_runs", lambda conn, items: (sizes.append(len(items)), insert(conn, items)))
        node.finish(rows)
    assert max(sizes) <= CHILDREN
    assert sum(sizes) == count * len(many)
    assert {len(node.runs(child)) for child in many} == {count}


def test_a_join_does_not_count_a_parent_whose_link_was_removed(node: HandNode) -> None:
    top, left, right, join = joined(node)
    third = make(node)
    link(node, top, left, right, third)
    link(node, third, join)
    first, second, last = both_parents(node, top)
    report(node, [first])
    link(node, left)
    report(node, [second])
    assert node.runs(join) == [], "two came, but one of the two that are left did not"
    report(node, [last])
    assert len(node.runs(join)) == 1
