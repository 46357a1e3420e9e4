"""Runs whose router asks executors, on their way through a node."""

from __future__ import annotations

from typing import Any

from tests.support.asking import ADDRESSES, FirstAlive, Wire, wait_for
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import Job, RunState
from xwheel.scheduler.records import Fate, Queued
from xwheel.storage.database.engine import Database


def asking_node(db: Database, *routers: Any, says: dict[str, bool | None]) -> HandNode:
    node = HandNode(db, ManualClock(NOW))
    node.install_routers(*routers)
    node.group()
    node.register(*ADDRESSES)
    node.plugs["beats"].behind = Wire(says)
    return node


def come_back(node: HandNode, count: int = 1) -> None:
    """Let executors answer until this many runs are back, and fire them."""
    inbox, probes, back = node.scheduler.planning.tick.inbox, node.scheduler.routing.probes, list[Queued]()

    def are_back() -> bool:
        probes.step(node.clock.now_ms())
        back.extend(inbox.take())
        return len(back) >= count

    wait_for(are_back)
    inbox.put(back)
    node.tick(20)


def ask_for(node: HandNode, name: str, **changes: Any) -> Job:
    job = node.job(enabled=False, **changes)
    with node.db.write() as conn:
        conn.exec_driver_sql(f"UPDATE job SET route_strategy = '{name}' WHERE id = {job.id}")
    return node.load(job.id)


def test_a_run_goes_to_the_one_that_lives_and_others_do_not_wait(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says={ADDRESSES[1]: True, ADDRESSES[2]: True})
    job, plain = ask_for(node, "ALIVE"), node.job(enabled=False)
    for item in (job, plain):
        node.scheduler.management.run_now.run(item.id)
    node.run_for(300)
    assert {shard.run.job_id for parcel in node.sent for shard in parcel.shards} == {plain.id}
    (asked,) = node.runs(job.id)
    assert asked.state is RunState.PLANNED
    assert node.scheduler.routing.async_chooser.is_held(asked.id)
    come_back(node)
    node.answer()
    (run,) = node.runs(job.id)
    assert (run.state, run.address) == (RunState.RUNNING, ADDRESSES[1])


def test_what_is_cancelled_or_edited_meanwhile_follows_its_row(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says=dict.fromkeys(ADDRESSES, True))
    gone, edited = ask_for(node, "ALIVE"), ask_for(node, "ALIVE")
    planned = [node.scheduler.management.run_now.run(item.id) for item in (gone, edited)]
    node.run_for(300)
    node.scheduler.management.jobs.delete(gone.id)
    node.scheduler.management.jobs.edit(edited.id, {"route_strategy": "LAST", "param": "new"})
    come_back(node, 2)
    node.run_for(300)
    (sent,) = [shard for parcel in node.sent for shard in parcel.shards]
    assert (sent.run.id, sent.executor.address, sent.job.param) == (planned[1].id, ADDRESSES[2], "new")
    assert node.runs(gone.id)[0].state is RunState.CANCELLED


def test_an_old_lease_fences_nothing_that_comes_back(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says=dict.fromkeys(ADDRESSES, True))
    job = ask_for(node, "ALIVE")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    heir = node.successor()
    come_back(node)
    assert node.sent == []
    assert node.runs(job.id)[0].state is RunState.PLANNED
    assert heir.scheduler.core.lease.may_act()


def test_when_nobody_answers_the_run_is_refused_with_the_reason(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says={})
    job = ask_for(node, "ALIVE", max_retries=1)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    come_back(node)
    first, second = node.runs(job.id)
    assert (first.state, first.reason) == (RunState.REFUSED, "no_route")
    assert "router ALIVE chose none of 3" in first.message
    assert second.attempt == 2
    live = node.scheduler.core.registry.live(1, node.clock.now_ms())
    assert all(item.suspect_until_ms for item in live)


def test_when_the_chosen_one_is_gone_at_the_send_the_next_gets_it(sqlite_db: Database) -> None:
    says: dict[str, bool | None] = dict.fromkeys(ADDRESSES, True)
    node = asking_node(sqlite_db, FirstAlive(), says=says)
    job, plain = ask_for(node, "ALIVE"), node.job(enabled=False)
    for item in (job, plain):
        node.scheduler.management.run_now.run(item.id)
    node.run_for(300)
    come_back(node)
    says[ADDRESSES[0]] = None
    assert {run.address for run in node.answer(Fate.REFUSED, reached=False)} == {ADDRESSES[0]}
    node.run_for(300)
    come_back(node)
    node.answer()
    first, second = node.runs(job.id)
    assert (first.state, first.reason) == (RunState.REFUSED, "failed_over")
    assert (second.state, second.address, second.attempt) == (RunState.RUNNING, ADDRESSES[1], 2)
    assert second.retries_left == first.retries_left == 0
    # a router that asks no one leaves it to the job's retries
    assert [(run.state, run.reason) for run in node.runs(plain.id)] == [(RunState.REFUSED, "unreachable")]


def test_what_an_executor_itself_refuses_goes_nowhere_else(sqlite_db: Database) -> None:
    node = asking_node(sqlite_db, FirstAlive(), says=dict.fromkeys(ADDRESSES, True))
    job = ask_for(node, "ALIVE")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    come_back(node)
    node.answer(Fate.REFUSED, "no such handler")
    node.run_for(300)
    assert [(run.state, run.reason) for run in node.runs(job.id)] == [(RunState.REFUSED, "executor_refused")]
