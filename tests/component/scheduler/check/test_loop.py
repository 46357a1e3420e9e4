"""Open runs of xwheel executors are asked about: by run, many at once, and nothing stays open for ever."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from tests.support.network import attach, check, states
from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.model import Job, Run, RunState
from xwheel.scheduler.records import Fate, Outcome
from xwheel.storage import runs

ADDRESS = "http://127.0.0.1:9001"


def start(node: HandNode, count: int = 1, **changes: Any) -> tuple[Job, list[int]]:
    """Create a job and bring this many runs of it to an executor; return their ids."""
    job = node.job(enabled=False, **changes)
    ids = [node.scheduler.management.run_now.run(job.id).id for _ in range(count)]
    node.run_for(300)
    node.answer()
    node.scheduler.core.registry.step(node.clock.now_ms())
    node.scheduler.core.registry.take_news()  # that they registered is none for the tests
    return job, ids


def load(node: HandNode, run_id: int) -> Run:
    with node.db.read() as conn:
        return runs.get_run(conn, run_id)


def beat(node: HandNode, **facts: Any) -> None:
    node.register(ADDRESS, **facts)


def pass_time(node: HandNode, duration_ms: int, step_ms: int = 1000) -> None:
    """Check once a second while the executor beats."""
    for _ in range(duration_ms // step_ms):
        beat(node)
        check(node, step_ms)


def test_a_run_that_waits_on_its_executor_is_shown_so_until_it_begins(node: HandNode) -> None:
    _, (run_id,) = start(node)
    waits = attach(node, states({run_id: "accepted"}))
    pass_time(node, 4000)
    assert waits.paths() == []
    pass_time(node, 4000)
    assert waits.paths() == ["/runState"]
    row = load(node, run_id)
    assert (row.state, row.reason.partition(":")[0], row.began_ms) == (RunState.RUNNING, "waits", None)
    begun = attach(node, states({run_id: {"state": "started", "running_ms": 1500}}))
    pass_time(node, 8000)
    assert begun.paths() == ["/runState"]
    row = load(node, run_id)
    assert (row.reason, row.began_ms) == ("", row.started_ms)
    assert row.started_ms is not None
    assert row.accepted_ms is not None
    assert row.accepted_ms + 2000 < row.started_ms < node.clock.now_ms()
    # its executor's clock, which tells another time with the end, changes nothing any more
    told_ms = node.clock.now_ms() - 10
    end = Outcome(run_id=run_id, state=RunState.SUCCEEDED, code=200, started_ms=told_ms, took_ms=10)
    node.scheduler.finishing.finisher.finish([end])
    ended = load(node, run_id)
    assert (ended.state, ended.started_ms) == (RunState.SUCCEEDED, row.started_ms)


def test_a_run_is_asked_about_soon_whether_it_has_begun_and_then_every_ten_minutes(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, states({run_id: "started"}))
    pass_time(node, 7000)
    assert network.paths() == ["/runState"]
    assert load(node, run_id).reason == ""
    pass_time(node, 590_000, 10_000)
    assert network.paths() == []
    pass_time(node, 20_000)
    assert network.paths() == ["/runState"]
    row = load(node, run_id)
    assert (row.state, row.reason) == (RunState.RUNNING, "")
    assert row.check_ms is not None
    assert row.check_ms >= node.clock.now_ms() + 580_000
    pass_time(node, 610_000, 10_000)
    assert network.paths() == ["/runState"]


def test_n42_an_executor_that_moved_is_asked_where_it_is_now(node: HandNode) -> None:
    """Its runs go on where it listens on another port; what listens at the old one may be another executor."""
    _, (run_id,) = start(node)
    instance = load(node, run_id).instance
    network = attach(node, states({run_id: "started"}, instance=instance))
    node.clock.advance(601_000)
    moved = "http://127.0.0.1:9002"
    node.register(moved, instance=instance)
    check(node)
    assert [(address, path) for address, path, _ in network.calls] == [(moved, "/runState")]
    assert load(node, run_id).state is RunState.RUNNING


def test_four_hundred_runs_of_one_executor_are_few_questions(node: HandNode) -> None:
    _, ids = start(node, 400)
    network = attach(node, states(dict.fromkeys(ids, "started")))
    node.clock.advance(601_000)
    beat(node)
    check(node)
    assert len(network.calls) == 4
    assert sorted(key[0] for call in network.calls for key in call[2]["keys"]) == sorted(ids)
    assert network.most <= 4
    check(node, 1000)
    assert len(network.calls) == 4


def test_the_journals_outcome_closes_a_run_as_its_callback_would(node: HandNode) -> None:
    _, (good, bad) = start(node, 2)
    outcome = {"handleCode": 200, "handleMsg": "fine"}
    told = {"handleCode": 500, "handleMsg": "no", "xwheel": {"state": "failed", "reason": "interrupted"}}
    job_id = load(node, good).job_id
    told["xwheel"] = {**told["xwheel"], "job_id": job_id}  # type: ignore[dict-item]
    outcome["xwheel"] = {"job_id": job_id, "state": "succeeded"}
    attach(node, states({good: {"state": "finished", "outcome": outcome}, bad: {"state": "finished", "outcome": told}}))
    node.clock.advance(601_000)
    beat(node)
    check(node)
    assert (load(node, good).state, load(node, good).message) == (RunState.SUCCEEDED, "fine")
    assert (load(node, bad).state, load(node, bad).reason) == (RunState.FAILED, "interrupted")
    assert load(node, good).check_ms is None


def test_an_outcome_of_another_run_closes_nothing(node: HandNode) -> None:
    _, (run_id,) = start(node)
    outcome = {"handleCode": 200, "logDateTime": 5, "xwheel": {"job_id": 1, "state": "succeeded"}}
    attach(node, states({run_id: {"state": "finished", "outcome": outcome}}))
    node.clock.advance(601_000)
    beat(node)
    check(node)
    assert load(node, run_id).state is RunState.RUNNING


def test_a_run_that_its_executor_never_saw_is_lost(node: HandNode) -> None:
    _, (run_id,) = start(node)
    attach(node, states({}))
    node.clock.advance(601_000)
    beat(node)
    check(node)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.LOST, "unknown_there")


def test_runs_of_an_executor_that_was_seen_to_die_are_lost_once_it_does_not_answer(node: HandNode) -> None:
    _, (run_id, other_id) = start(node, 2)
    network = attach(node, lambda *_: None)
    pass_time(node, 3000)
    assert network.paths() == []
    node.scheduler.core.registry.note_death(ADDRESS, node.clock.now_ms())
    for _ in range(3):
        check(node, 1000)
    assert network.paths() == ["/runState"]
    row = load(node, run_id)
    assert (row.state, row.reason) == (RunState.LOST, "instance_gone")
    assert load(node, other_id).state is RunState.LOST


@pytest.mark.parametrize("how", ["answers", "beats", "errs"])
def test_an_executor_that_was_taken_for_dead_and_lives_keeps_its_runs(node: HandNode, how: str) -> None:
    _, (run_id,) = start(node)
    answers = {"answers": states({run_id: "started"}), "beats": lambda *_: None, "errs": lambda *_: 500}
    attach(node, answers[how])
    node.scheduler.core.registry.note_death(ADDRESS, node.clock.now_ms())
    if how == "beats":
        beat(node)
    for _ in range(5):
        check(node, 1000)
    assert load(node, run_id).state is RunState.RUNNING


def test_nobody_is_known_dead_for_longer_than_half_a_minute(node: HandNode) -> None:
    registry = node.scheduler.core.registry
    registry.note_death(ADDRESS, node.clock.now_ms())
    assert registry.is_known_dead(ADDRESS, node.clock.advance(29_000))
    assert not registry.is_known_dead(ADDRESS, node.clock.advance(1000))


@pytest.mark.parametrize(
    "said",
    [
        None,
        404,
        500,
        b"<html>",
        b"[]",
        {"code": 500, "msg": "this is executor instance X"},
        {"code": 200},
        {"code": 200, "data": {"instance": "another", "boot": "b", "runs": []}},
        {"code": 200, "data": {"instance": "instance-1", "boot": "b", "runs": [{"id": 1, "state": "mad"}]}},
        {"code": 200, "data": {"instance": "instance-1", "boot": "b", "runs": [{"id": 9, "state": "unknown"}]}},
        {"code": 200, "data": {"instance": "instance-1", "boot": "b", "runs": [{"id": 1, "state": "finished"}]}},
    ],
)
def test_a_registered_executor_without_a_clear_answer_loses_nothing(node: HandNode, said: Any) -> None:
    _, (run_id,) = start(node)
    network = attach(node, lambda *_: said)
    node.clock.advance(600_000)
    pass_time(node, 300_000)
    row = load(node, run_id)
    assert row.state is RunState.RUNNING
    assert row.check_ms is not None
    assert row.check_ms > node.clock.now_ms() - 5000
    assert 5 <= len(network.calls) <= 12  # after 5, 10, 20, 40 and then 60 seconds


def test_an_executor_that_hangs_holds_up_nobody_else(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="instance-2")
    _, ids = start(node, 900, route_strategy="ROUND")
    by_address = {run.id: run.address for run in node.runs()}
    answer = states(dict.fromkeys(ids, "started"), instance="instance-2")
    network = attach(node, lambda address, *rest: None if address == ADDRESS else answer(address, *rest))
    node.clock.advance(601_000)
    beat(node)
    node.register("http://127.0.0.1:9002", instance="instance-2")
    check(node)
    assert sum(address == ADDRESS for address, _, _ in network.calls) <= 4  # and not one a question
    for run_id, address in by_address.items():
        check_ms = load(node, run_id).check_ms
        assert check_ms is not None
        assert (check_ms > node.clock.now_ms() + 500_000) == (address != ADDRESS)


def test_runs_of_an_instance_that_is_gone_are_lost_in_batches(node: HandNode) -> None:
    job, _ = start(node)
    rows = [
        make_run(
            10**6 + number,
            job_id=job.id,
            partition=job.partition,
            state=RunState.RUNNING,
            address=ADDRESS,
            instance="instance-1",
            dispatched_ms=NOW,
            accepted_ms=NOW,
            check_ms=NOW + 600_000,
        )
        for number in range(5000)
    ]
    node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    network = attach(node, lambda *_: None)
    check(node)
    node.scheduler.core.registry.remove("demo", ADDRESS)
    check(node, 1000)
    assert {run.state for run in node.runs()} == {RunState.RUNNING}
    check(node, 119_000)
    assert {run.state for run in node.runs()} == {RunState.RUNNING}
    check(node, 2000)
    assert {(run.state, run.reason) for run in node.runs()} == {(RunState.LOST, "instance_gone")}
    assert network.calls == []


def test_an_executor_that_died_is_noticed_without_waiting_for_the_next_check(node: HandNode) -> None:
    _, (run_id,) = start(node)
    attach(node, lambda *_: None)
    check(node)
    check(node, 91_000)
    assert load(node, run_id).state is RunState.RUNNING
    check(node, 31_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.LOST, "instance_gone")
    node.finish([load(node, run_id)])
    assert load(node, run_id).state is RunState.SUCCEEDED


def test_a_beat_that_comes_after_the_farewell_keeps_nothing_open(node: HandNode) -> None:
    _, (run_id,) = start(node)
    attach(node, lambda *_: None)
    check(node)
    node.scheduler.core.registry.remove("demo", ADDRESS)
    check(node, 1000)
    beat(node)
    check(node, 1000)
    for _ in range(220):
        check(node, 1000)
    assert load(node, run_id).state is RunState.LOST


def test_a_new_boot_makes_its_runs_due_at_once(node: HandNode) -> None:
    job, (run_id,) = start(node)
    interrupted = {"handleCode": 500, "xwheel": {"state": "failed", "reason": "interrupted", "job_id": job.id}}
    network = attach(node, states({run_id: {"state": "finished", "outcome": interrupted}}))
    check(node)
    check(node, 4000)
    assert network.calls == []
    beat(node, boot="boot-2")
    check(node, 1000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.FAILED, "interrupted")


def test_executors_without_runs_are_one_question_however_many_of_them_register(node: HandNode) -> None:
    """After a deployment of thousands, among which one has a run that it was interrupted in."""
    job, (run_id,) = start(node)
    interrupted = {"handleCode": 500, "xwheel": {"state": "failed", "reason": "interrupted", "job_id": job.id}}
    attach(node, states({run_id: {"state": "finished", "outcome": interrupted}}))
    check(node)
    node.register(*(f"http://127.0.0.1:{10_000 + number}" for number in range(200)))
    beat(node, boot="boot-2")
    asked: list[str] = []
    event.listen(node.db.engine, "before_cursor_execute", lambda _c, _k, statement, *_: asked.append(statement))
    for _ in range(5):
        check(node, 1000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.FAILED, "interrupted")
    assert len(asked) < 150


def test_another_instance_at_the_address_is_not_asked_for_the_runs_of_the_old_one(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, states({run_id: "started"}, instance="instance-2"))
    check(node)
    beat(node, instance="instance-2", boot="boot-9")
    check(node, 1000)
    assert network.calls == []
    for _ in range(125):
        beat(node, instance="instance-2", boot="boot-9")
        check(node, 1000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.LOST, "instance_gone")


def test_an_instance_that_comes_back_elsewhere_is_asked_there(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, states({run_id: "started"}))
    check(node)
    node.scheduler.core.registry.remove("demo", ADDRESS)
    check(node, 20_000)
    node.register("http://127.0.0.1:7777", instance="instance-1")
    check(node, 1000)
    assert [address for address, _, _ in network.calls] == ["http://127.0.0.1:7777"]
    assert load(node, run_id).state is RunState.RUNNING


def test_a_node_that_was_down_finds_the_runs_of_executors_that_died_meanwhile(node: HandNode) -> None:
    _, (run_id,) = start(node)
    node.scheduler.core.registry.remove("demo", ADDRESS)
    heir = node.successor()
    network = attach(heir, lambda *_: None)
    check(heir, 1000)
    check(heir, 121_000)
    assert (load(heir, run_id).state, load(heir, run_id).reason) == (RunState.LOST, "instance_gone")
    assert network.calls == []


def test_nothing_is_asked_while_the_lease_is_short(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, states({run_id: "started"}))
    now_ms = node.clock.advance(601_000)
    beat(node)
    assert node.scheduler.finishing.check.step(now_ms) > 0
    assert network.calls == []
    node.scheduler.core.lease.step(now_ms)
    check(node)
    assert network.paths() == ["/runState"]


def test_a_claimed_row_is_not_asked_about_by_another_node(node: HandNode) -> None:
    _, (run_id,) = start(node)
    node.clock.advance(601_000)
    beat(node)
    first = attach(node, states({run_id: "started"}))
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.scheduler.finishing.check.step(node.clock.now_ms())  # asked, not yet answered
    heir = node.successor()
    second = attach(heir, states({run_id: "started"}))
    check(heir)
    assert second.calls == []
    check(heir, 6000)
    assert second.paths() == ["/runState"]
    assert first.calls == []


def test_a_send_without_an_answer_is_asked_about_if_it_was_not_sent_again(node: HandNode) -> None:
    job = node.job(enabled=False)
    taken, lost = (node.scheduler.management.run_now.run(job.id).id for _ in range(2))
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    attach(node, states({taken: "accepted"}))
    pass_time(node, 20_000)
    assert load(node, taken).state is RunState.RUNNING
    assert load(node, taken).accepted_ms is not None
    assert load(node, lost).state is RunState.DISPATCHING  # the resender's


def test_an_instance_that_restarted_on_another_port_is_asked_there_at_once(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, states({run_id: "started"}))
    check(node)
    check(node, 4000)
    assert network.calls == []
    node.register("http://127.0.0.1:8000", instance="instance-1", boot="boot-2")
    check(node, 1000)
    assert [address for address, _, _ in network.calls] == ["http://127.0.0.1:8000"]
    found = node.scheduler.core.registry.by_name(node.clock.now_ms())
    assert found[1, "instance-1", ""].address == "http://127.0.0.1:8000"


@pytest.mark.parametrize("went", [True, False], ids=["went", "stayed"])
def test_n35_of_a_partition_that_went_elsewhere_no_check_is_hurried(
    node: HandNode, monkeypatch: pytest.MonkeyPatch, went: bool
) -> None:
    _, (run_id,) = start(node)
    check(node, 100)
    before = load(node, run_id)
    if went:  # after the node looked which runs to hurry, before it locked them
        monkeypatch.setattr(type(node.scheduler.core.lease), "lock", lambda _self, _conn: {})
    node.scheduler.core.registry.remove("demo", ADDRESS)
    check(node, 100)
    assert (load(node, run_id) == before) is went
