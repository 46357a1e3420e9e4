"""Runs that meet an executor which takes no connection: those of jobs that wait for executors wait for it, too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.scheduler.send.conftest import AWAY, HOME, ends, send
from tests.support.lines import bodies_of
from tests.support.node import HandNode
from xwheel.model import Job, Run, RunState
from xwheel.scheduler.executors.registry import SPARED_MS
from xwheel.scheduler.finish.retry import MOST_OVER


def meet(node: HandNode, **job: Any) -> tuple[Job, Run]:
    """Send a run to an executor that takes no connection."""
    made, asked = send(node, **job)
    assert [run.id for run in node.answer(reached=False)] == [asked.id]
    return made, asked


def test_a_run_waits_for_the_executor_and_goes_when_it_is_back(node: HandNode) -> None:
    job, asked = meet(node)
    node.run_for(5000)
    assert node.sent == []
    assert ends(node, job) == [("refused", "failed_over"), ("planned", "")]
    assert {run.due_ms for run in node.runs(job.id)} == {asked.due_ms}
    node.register(HOME, boot="another")
    node.run_for(300)
    assert len(node.answer()) == 1
    assert ends(node, job)[-1] == ("running", "")
    assert node.runs(job.id)[-1].retries_left == asked.retries_left


def test_it_is_tried_again_from_time_to_time(node: HandNode) -> None:
    job, _ = meet(node)
    node.run_for(SPARED_MS - 500)
    assert node.sent == []
    node.run_for(1500)
    assert len(node.answer(reached=False)) == 1
    node.run_for(5000)
    assert node.sent == []
    assert ends(node, job) == [("refused", "failed_over")] * 2 + [("planned", "")]


def test_the_wait_counts_from_when_the_first_was_due(node: HandNode) -> None:
    job, _ = meet(node, wait_for_executor_s=15)
    node.run_for(14_000, each=lambda: node.sent and node.answer(reached=False))
    assert ends(node, job)[-1] == ("planned", "")
    node.run_for(2000, each=lambda: node.sent and node.answer(reached=False))
    assert ends(node, job) == [("refused", "failed_over")] * 2 + [("refused", "unreachable")]
    assert f"{HOME} could not be reached a moment ago, and none came in the 15." in node.runs(job.id)[-1].message


def test_then_its_retries_follow(node: HandNode) -> None:
    job, _ = meet(node, wait_for_executor_s=5, max_retries=1)
    node.run_for(6000)
    assert ends(node, job) == [("refused", "failed_over"), ("refused", "unreachable"), ("planned", "")]
    assert node.runs(job.id)[-1].retries_left == 0


def test_a_schedule_makes_no_flood_of_waiting_runs(node: HandNode) -> None:
    job = node.job(schedule_conf="1", wait_for_executor_s=600)
    node.run_for(40_000, each=lambda: node.sent and node.answer(reached=False))
    now_ms = node.clock.now_ms()
    due = [(run.state, run.reason) for run in node.runs(job.id) if run.due_ms <= now_ms - 100]
    assert due.count((RunState.PLANNED, "")) <= 2
    assert due.count((RunState.REFUSED, "failed_over")) <= 8
    assert due.count((RunState.SKIPPED, "waiting_for_executor")) > 30


def test_another_executor_gets_it_at_once(node: HandNode) -> None:
    node.register(AWAY)
    job, _ = meet(node, route_strategy="FIRST")
    node.run_for(300)
    (run,) = node.answer()
    assert ends(node, job) == [("refused", "failed_over"), ("running", "")]
    assert run.address == AWAY


def test_a_run_for_one_executor_goes_nowhere_else(node: HandNode) -> None:
    node.register(AWAY)
    job = node.job(enabled=False, wait_for_executor_s=60)
    for _ in range(2):
        node.scheduler.management.run_now.run(job.id, addresses=[HOME])
        node.run_for(300)
        node.answer(reached=False)
    node.run_for(3000)
    assert node.sent == []
    # the second was asked for while it was known: it waits for that executor
    assert ends(node, job) == [("refused", "unreachable"), ("planned", "")]
    node.register(HOME, boot="another")
    node.run_for(300)
    (run,) = node.answer()
    assert run.address == HOME


def test_a_shard_of_a_broadcast_goes_on_with_another_and_the_others_stay(node: HandNode) -> None:
    node.register(AWAY)
    job = node.job(enabled=False, wait_for_executor_s=60, route_strategy="SHARDING_BROADCAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    for parcel in list(node.sent):
        if parcel.executor.address == HOME:
            node.reply(error="no connection", sent=False)
        else:
            node.reply(error="timed out")
    node.write_answers()
    node.run_for(3000)
    (parcel,) = node.sent
    assert parcel.executor.address == AWAY
    found = sorted((str(run.state), run.reason, run.shard_index) for run in node.runs(job.id))
    assert [item[:2] for item in found] == [("dispatching", ""), ("dispatching", ""), ("refused", "failed_over")]
    assert found[2][2] == parcel.shards[0].run.shard_index


def test_r49_a_shard_that_is_tried_again_goes_to_one_that_answers(node: HandNode) -> None:
    dead, well = [HOME, "http://10.0.0.2:9002"], ["http://10.0.0.3:9003", "http://10.0.0.4:9004"]
    node.register(*dead[1:], *well)
    job = node.job(enabled=False, max_retries=3, retry_delay_ms=0, route_strategy="SHARDING_BROADCAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    for _ in range(3):
        while node.sent:
            if node.sent[0].executor.address in dead:
                node.reply(error="no connection", sent=False)
            else:
                node.reply(body=bodies_of(node.sent[0], True, ""))
        node.write_answers()
        node.run_for(300)
    ran = {(run.shard_index, run.address) for run in node.runs(job.id) if run.state is RunState.RUNNING}
    assert sorted(index for index, _ in ran) == [0, 1, 2, 3]
    assert {run.address for run in node.runs(job.id) if run.attempt > 1} <= set(well)


def test_r49_a_shard_that_fails_is_tried_by_each_executor_in_turn(node: HandNode) -> None:
    node.register("http://10.0.0.2:9002", "http://10.0.0.3:9003")
    job = node.job(enabled=False, max_retries=2, retry_delay_ms=0, route_strategy="SHARDING_BROADCAST")
    node.scheduler.management.run_now.run(job.id)
    for _ in range(3):
        node.run_for(300)
        node.finish(node.answer(), RunState.FAILED)
    tried = {(run.shard_index, run.address) for run in node.runs(job.id)}
    assert len(tried) == 9


def test_r49_a_shard_that_fails_does_not_come_back_because_another_executor_is_away(node: HandNode) -> None:
    node.register("http://10.0.0.2:9002", "http://10.0.0.3:9003")
    job = node.job(enabled=False, max_retries=1, retry_delay_ms=0, route_strategy="SHARDING_BROADCAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    away, failed, other = sorted(node.answer(), key=lambda run: run.shard_index)
    node.scheduler.core.registry.suspect(str(away.address), node.clock.now_ms())
    node.finish([failed], RunState.FAILED)
    node.run_for(300)
    assert [run.address for run in node.answer()] == [other.address]


UNCLEAR: dict[str, dict[str, Any]] = {
    "a connection that breaks": {"error": "connection reset", "sent": True},
    "no answer in time": {"error": "timed out", "sent": True},
    "a gateway without its server": {"status": 502, "body": b"bad gateway"},
    "another's answer": {"status": 200, "body": b"<html>"},
}


@pytest.mark.parametrize("said", UNCLEAR)
@pytest.mark.parametrize("kind", ["xwheel", "foreign"])
def test_r46_an_executor_that_gives_no_clear_answer_comes_after_the_others(
    node: HandNode, kind: str, said: str
) -> None:
    """R46: behind what takes connections for it, an executor that is gone got its full share of the runs."""
    node.register(AWAY, kind=kind, **({} if kind == "xwheel" else {"instance": "", "boot": ""}))
    job = node.job(enabled=False, route_strategy="LAST")
    for address in (AWAY, HOME, HOME):
        node.scheduler.management.run_now.run(job.id)
        node.run_for(300)
        assert [str(shard.run.address) for shard in node.sent[0].shards] == [address]
        node.reply(**UNCLEAR[said] if address == AWAY else {"body": bodies_of(node.sent[0], ok=True)})
        node.write_answers()
    node.register(AWAY, kind=kind, boot="another", **({} if kind == "xwheel" else {"instance": ""}))
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    assert [run.address for run in node.answer()] == [AWAY]


@pytest.mark.parametrize("said", UNCLEAR)
@pytest.mark.parametrize("wait_s", [0, 60])
def test_r46_the_only_executor_goes_on_after_no_clear_answer(node: HandNode, said: str, wait_s: int) -> None:
    job, _ = send(node, wait_for_executor_s=wait_s)
    for _ in range(3):
        node.reply(**UNCLEAR[said])
        node.write_answers()
        node.scheduler.management.run_now.run(job.id)
        node.run_for(300)
        assert len(node.sent) == 1
    assert len(node.answer()) == 1


def test_without_a_wait_it_is_refused_and_later_runs_still_try(node: HandNode) -> None:
    job, _ = meet(node, wait_for_executor_s=0)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    assert len(node.answer()) == 1
    assert ends(node, job) == [("refused", "unreachable"), ("running", "")]


def test_n36_a_run_that_meets_no_connection_again_and_again_comes_to_an_end(node: HandNode) -> None:
    """However long its job waits: the last attempt says ``unreachable``, and no further one is planned."""
    job, _ = meet(node, wait_for_executor_s=86_400)
    for number in range(2, MOST_OVER + 1):
        node.run_for(SPARED_MS + 1500, step_ms=500)
        assert len(node.answer(reached=False)) == 1, number
    assert ends(node, job) == [("refused", "failed_over")] * (MOST_OVER - 1) + [("refused", "unreachable")]
    node.run_for(3 * SPARED_MS, step_ms=1000)
    assert node.sent == []
