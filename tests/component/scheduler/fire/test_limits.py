"""Limits of groups and block strategies of the whole cluster, on a node stepped by hand."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from tests.support.node import HandNode
from tests.support.rows import NOW, make_executor, make_job, make_run
from xwheel.clock import ManualClock
from xwheel.model import BlockScope, Job, MisfirePolicy, Origin, Run, RunState
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.fire.limits import decide
from xwheel.scheduler.records import Batch, Deferred, Fate, Line, Routed
from xwheel.storage import executors, open_runs
from xwheel.storage.database.engine import Database
from xwheel.storage.open_runs import SentRun

SERIAL = {"block_scope": BlockScope.CLUSTER, "block_strategy": "SERIAL_EXECUTION"}
DISCARD = {"block_scope": BlockScope.CLUSTER, "block_strategy": "DISCARD_LATER"}
COVER = {"block_scope": BlockScope.CLUSTER, "block_strategy": "COVER_EARLY"}


def limit(node: HandNode, most: int) -> None:
    node.db.transaction(lambda conn: executors.update_group(conn, 1, {"max_running": most}, node.clock.now_ms()))
    node.scheduler.core.registry.step(node.clock.now_ms())


def run_now(node: HandNode, job: Job, count: int = 1, **options: Any) -> list[Run]:
    made = [node.scheduler.management.run_now.run(job.id, **options) for _ in range(count)]
    node.run_for(200)
    return made


def states(node: HandNode, job: Job | None = None) -> list[str]:
    return [str(run.state) for run in node.runs(job.id if job else None)]


def test_no_more_runs_than_the_limit_are_open_and_the_oldest_go_first(node: HandNode) -> None:
    limit(node, 2)
    job = node.job(enabled=False)
    asked = run_now(node, job, 5)
    sent: list[int] = []
    while len(sent) < 5:
        started = node.answer()
        assert len(started) <= 2
        sent += [run.id for run in started]
        assert states(node).count("running") <= 2
        node.finish(started)
        node.tick(20)
    assert sent == [run.id for run in asked]
    assert states(node) == ["succeeded"] * 5


def test_an_end_on_this_node_lets_the_next_go_in_the_same_tick(node: HandNode) -> None:
    limit(node, 1)
    job = node.job(enabled=False)
    first, second = run_now(node, job, 2)
    node.finish(node.answer())
    node.tick(1)
    assert [run.id for run in node.answer()] == [second.id]
    assert first.id < second.id


def test_an_end_elsewhere_is_noticed_within_a_second(node: HandNode) -> None:
    limit(node, 1)
    job = node.job(enabled=False)
    _, second = run_now(node, job, 2)
    (first,) = node.answer()
    node.run_for(3000)
    with node.db.write() as conn:  # as another node's callback would
        conn.exec_driver_sql(
            "UPDATE open_run SET state = 'succeeded', check_ms = NULL, finished_ms = 1 WHERE id = " + str(first.id)
        )
    node.run_for(1100)
    assert [run.id for run in node.answer()] == [second.id]


def test_a_limit_counts_what_other_nodes_opened(node: HandNode) -> None:
    limit(node, 2)
    mine, other = node.job(enabled=False), node.job(enabled=False)
    run_now(node, other, 2)
    node.answer()
    heir = node.successor()
    run_now(heir, mine)
    heir.run_for(2000)
    assert heir.sent == []
    assert states(heir, mine) == ["planned"]


def test_a_limit_lowered_below_what_runs_lets_nothing_go_until_enough_ended(node: HandNode) -> None:
    limit(node, 3)
    job = node.job(enabled=False)
    run_now(node, job, 5)
    started = node.answer()
    assert len(started) == 3
    limit(node, 1)
    node.finish(started[:2])
    node.run_for(2000)
    assert node.sent == []
    node.finish(started[2:])
    node.tick(1)
    assert len(node.answer()) == 1
    limit(node, 0)
    node.run_for(1100)
    assert len(node.answer()) == 1


def test_a_broadcast_waits_for_room_for_all_its_shards_and_nobody_overtakes_it(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    limit(node, 2)
    single = node.job(enabled=False)
    broadcast = node.job(enabled=False, route_strategy="SHARDING_BROADCAST")
    run_now(node, single)
    first = node.answer()
    wide = run_now(node, broadcast)
    late = run_now(node, single)
    node.run_for(1500)
    assert node.sent == []
    node.finish(first)
    node.tick(1)
    shards = node.answer()
    assert {run.root_id for run in shards} == {wide[0].id}
    assert len(shards) == 2
    node.finish(shards[:1])
    node.tick(1)
    assert [run.id for run in node.answer()] == [late[0].id]


def test_a_covering_run_does_not_overtake_older_runs_of_its_group(node: HandNode) -> None:
    limit(node, 1)
    job, cover = node.job(enabled=False), node.job(enabled=False, **COVER)
    _, second = run_now(node, job, 2)
    node.answer()
    node.run_for(3000)
    limit(node, 2)  # room that no one has looked for yet
    late = node.scheduler.management.run_now.run(cover.id)
    node.adopt()
    node.tick(1)
    assert late.id not in {run.id for run in node.answer()}
    node.run_for(1100)
    assert {run.id for run in node.runs() if run.state in ("running", "dispatching")} >= {second.id}


def test_a_broadcast_wider_than_the_limit_is_refused_with_the_way_out(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    limit(node, 1)
    run_now(node, node.job(enabled=False, route_strategy="SHARDING_BROADCAST"))
    (run,) = node.runs()
    assert (run.state, run.reason) == (RunState.REFUSED, "over_limit")
    assert "2 shards never fit group 1, whose max_running is 1: raise it" in run.message


def test_serial_runs_of_the_cluster_follow_one_another_in_due_order(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(enabled=False, route_strategy="ROUND", **SERIAL)
    asked = run_now(node, job, 4)
    sent: list[int] = []
    for _ in range(4):
        (one,) = node.answer()
        sent.append(one.id)
        node.run_for(1200)
        assert node.sent == []
        node.finish([one])
        node.tick(1)
    assert sent == [run.id for run in asked]


def test_shards_and_retries_of_one_fire_do_not_block_each_other(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST", max_retries=1, **SERIAL)
    (first, second) = run_now(node, job, 2)
    shards = node.answer()
    assert {run.root_id for run in shards} == {first.id}
    node.finish(shards[:1], RunState.FAILED)
    node.run_for(400)
    (retry,) = node.answer()
    assert (retry.origin, retry.root_id) == (Origin.RETRY, first.id)
    node.finish([shards[1], retry])
    node.tick(1)
    assert {run.root_id for run in node.answer()} == {second.id}


def test_a_later_run_is_discarded_while_one_is_open_anywhere(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(enabled=False, route_strategy="ROUND", **DISCARD)
    first = run_now(node, job)[0]
    started = node.answer()
    run_now(node, job)
    later = node.runs()[-1]
    assert (later.state, later.reason) == (RunState.SKIPPED, "blocked")
    assert str(first.id) in later.message
    node.finish(started)
    run_now(node, job)
    assert len(node.answer()) == 1


def test_the_newest_run_covers_what_runs_and_what_waits(node: HandNode) -> None:
    job = node.job(enabled=False, **COVER)
    run_now(node, job)
    (running,) = node.answer()
    waiting = run_now(node, job)[0]
    newest = run_now(node, job)[0]
    node.run_for(1000)
    by_id = {run.id: run for run in node.runs()}
    assert by_id[running.id].kill_requested
    assert by_id[running.id].check_ms is not None
    assert by_id[running.id].check_ms <= node.clock.now_ms() - 1000
    assert (by_id[waiting.id].state, by_id[waiting.id].reason) == (RunState.CANCELLED, "covered")
    assert by_id[newest.id].state is RunState.PLANNED
    assert node.sent == []
    node.finish([running], RunState.FAILED)
    node.tick(1)
    assert [run.id for run in node.answer()] == [newest.id]
    assert {run.id: run for run in node.runs()}[running.id].state is RunState.KILLED


def test_of_covering_runs_due_together_only_the_newest_goes(node: HandNode) -> None:
    job = node.job(enabled=False, **COVER)
    asked = run_now(node, job, 3)
    assert [run.id for run in node.answer()] == [asked[-1].id]
    assert sorted(states(node)) == ["cancelled", "cancelled", "running"]


def test_a_retry_of_an_older_fire_waits_for_a_newer_one_and_kills_nothing(node: HandNode) -> None:
    job = node.job(enabled=False, max_retries=1, retry_delay_ms=2000, **COVER)
    run_now(node, job)
    node.finish(node.answer(), RunState.FAILED)
    newer = run_now(node, job)[0]
    (running,) = node.answer()
    assert running.id == newer.id
    node.run_for(4000)
    assert node.sent == []
    assert not any(run.kill_requested for run in node.runs())
    node.finish([running])
    node.tick(1)
    assert [run.origin for run in node.answer()] == [Origin.RETRY]


def test_a_stop_and_an_edit_reach_parked_runs(node: HandNode) -> None:
    job = node.job(schedule_conf="1", **SERIAL)
    node.run_for(3000)
    (open_run,) = node.answer()
    assert states(node, job).count("planned") >= 3
    node.scheduler.management.jobs.stop(job.id)
    node.finish([open_run])
    node.run_for(3000)
    assert node.sent == []
    assert set(states(node, job)) == {"succeeded", "cancelled"}
    assert node.scheduler.planning.tick.depth()[1] == 0

    asked = run_now(node, job, 2)
    node.answer()
    node.scheduler.management.jobs.edit(job.id, {"block_scope": BlockScope.EXECUTOR})
    node.run_for(1100)
    assert [run.id for run in node.answer()] == [asked[1].id]


def test_a_restart_forgets_no_parked_run_and_takes_none_for_a_misfire(node: HandNode) -> None:
    job = node.job(schedule_conf="1", misfire_policy=MisfirePolicy.SKIP, **SERIAL)
    node.run_for(3000)
    (open_run,) = node.answer()
    node.scheduler.management.jobs.edit(job.id, {"description": "still waiting"})
    parked = [run.id for run in node.runs(job.id) if run.state is RunState.PLANNED]
    node.clock.advance(60_000)
    heir = node.successor()
    heir.register("http://127.0.0.1:9001")
    heir.run_for(1000)
    assert heir.sent == []
    assert heir.scheduler.planning.tick.is_held(parked[0])
    sent: list[int] = []
    started = [open_run]
    while len(sent) < len(parked):
        heir.finish(started)
        heir.run_for(1100)
        started = heir.answer()
        assert len(started) == 1
        sent += [run.id for run in started]
    assert sent == parked


def test_a_run_that_finds_no_place_is_not_overtaken_by_another_of_its_job(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW), trigger={"fast_pool": 4, "slow_pool": 4})
    node.group()
    node.register("http://127.0.0.1:9003", kind="foreign", instance="", boot="")
    limit(node, 10)
    job = node.job(enabled=False)
    asked = run_now(node, job, 6)
    sent: list[int] = []
    while len(sent) < 6:
        sent += [run.id for run in node.answer(Fate.ACCEPTED)]
        node.tick(20)
    assert sent == [run.id for run in asked]


def test_groups_and_jobs_without_limits_cost_no_statement(node: HandNode) -> None:
    seen: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    job = node.job(enabled=False)
    limit(node, 5)
    limit(node, 0)
    node.scheduler.management.run_now.run(job.id)
    node.adopt()
    event.listen(node.db.engine, "before_cursor_execute", note)
    node.tick(20)
    event.remove(node.db.engine, "before_cursor_execute", note)
    assert len(node.sent) == 1
    assert not [item for item in seen if "executor_group" in item or "count(" in item]
    reads = [item for item in seen if item.startswith("SELECT") and "FROM open_run" in item]
    assert len(reads) == 2  # what is due, and what is still planned


def test_what_is_open_is_read_from_the_open_runs_only(sqlite_node: HandNode) -> None:
    seen: list[tuple[str, Any]] = []

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.startswith("SELECT"):
            seen.append((statement, parameters))

    with sqlite_node.db.read() as conn:
        event.listen(sqlite_node.db.engine, "before_cursor_execute", note)
        open_runs.count_open(conn, [1, 2])
        open_runs.list_open(conn, [1, 2])
        event.remove(sqlite_node.db.engine, "before_cursor_execute", note)
        assert len(seen) == 2
        for statement, parameters in seen:
            plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            assert "ix_open_run_check (check_ms>?)" in str(plan)


@pytest.mark.parametrize("is_open", [True, False])
def test_n8_an_older_run_takes_no_newer_ones_place(is_open: bool) -> None:
    """N8: of a job that covers early the newest fire goes, also while it is parked and an older one comes late."""
    job = make_job(**COVER)
    newer, older = make_run(7, due_ms=NOW + 1000), make_run(8, due_ms=NOW)
    parking = DeferredRuns(lambda: None, limit=100)
    parking.defer([Deferred(newer, Line("job", job.id))], NOW)
    opened = [SentRun(5, job.id, 5, False)] if is_open else []
    batch = Batch()
    item = Routed(run=older, job=job, executors=[make_executor()])
    assert decide([item], {}, {}, opened, parking, batch) == []
    assert [(end.run_id, end.state, end.reason) for end in batch.closed] == [(older.id, RunState.CANCELLED, "covered")]
    assert (batch.deferred, batch.kills) == ([], [])
    # the other way round the newer one takes the older one's place
    parking.forget([newer.id])
    parking.defer([Deferred(older, Line("job", job.id))], NOW)
    batch = Batch()
    item = Routed(run=newer, job=job, executors=[make_executor()])
    passed = decide([item], {}, {}, opened, parking, batch)
    assert [end.run_id for end in batch.closed] == [older.id]
    assert passed == ([] if is_open else [item])


def test_n36_of_runs_that_come_together_the_one_due_first_gets_the_room_whichever_row_came_first() -> None:
    job = make_job()
    later, sooner = make_run(7, due_ms=NOW + 1000), make_run(8, due_ms=NOW)
    items = [Routed(run=run, job=job, executors=[make_executor()]) for run in (later, sooner)]
    batch = Batch()
    passed = decide(items, {job.group_id: 1}, {}, [], DeferredRuns(lambda: None, limit=100), batch)
    assert [item.run.id for item in passed] == [sooner.id]
    assert [item.run.id for item in batch.deferred] == [later.id]
