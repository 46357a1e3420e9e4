"""A kill cancels what waits, marks what was sent, and is repeated until the outcome comes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.network import Network, attach, check, states
from tests.support.node import HandNode
from xwheel.errors import ConflictError, NotFoundError
from xwheel.model import Run, RunState
from xwheel.scheduler.records import Fate
from xwheel.storage import runs

ADDRESS = "http://127.0.0.1:9001"


def fire(node: HandNode, **changes: Any) -> int:
    job = node.job(enabled=False, **changes)
    return node.scheduler.management.run_now.run(job.id).id


def running(node: HandNode, **changes: Any) -> int:
    run_id = fire(node, **changes)
    node.run_for(300)
    node.answer()
    node.scheduler.core.registry.step(node.clock.now_ms())
    node.scheduler.core.registry.take_news()  # that the executor registered is none for the tests
    return run_id


def load(node: HandNode, run_id: int) -> Run:
    with node.db.read() as conn:
        return runs.get_run(conn, run_id)


def pass_time(node: HandNode, duration_ms: int) -> None:
    for _ in range(duration_ms // 1000):
        node.register(ADDRESS)
        check(node, 1000)


def kills(network: Network) -> list[dict[str, Any]]:
    return [body for _, path, body in network.calls if path == "/kill"]


def test_a_planned_run_is_cancelled_and_never_sent(node: HandNode) -> None:
    run_id = fire(node, max_retries=3)
    node.plan()
    run = node.scheduler.management.killer.kill(run_id)
    assert (run.state, run.reason) == (RunState.CANCELLED, "killed_by_user")
    node.run_for(3000)
    assert node.sent == []
    assert len(node.runs()) == 1


def test_a_fixed_delay_goes_on_after_its_planned_run_was_killed(node: HandNode) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="10s")
    node.clock.advance(6000)
    node.plan()
    (run,) = node.runs()
    node.scheduler.management.killer.kill(run.id)
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 10_000
    assert node.load(job.id).awaits_root is None


def test_what_does_not_exist_or_ended_cannot_be_killed(node: HandNode) -> None:
    with pytest.raises(NotFoundError, match="999"):
        node.scheduler.management.killer.kill(999)
    run_id = running(node)
    node.finish([load(node, run_id)])
    with pytest.raises(ConflictError, match=f"run {run_id} ended already: it is succeeded"):
        node.scheduler.management.killer.kill(run_id)


def test_a_run_that_is_sent_while_it_is_cancelled_is_marked(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = fire(node)
    finish = node.scheduler.finishing.finisher.finish

    def late(outcomes: Any, **options: Any) -> Any:
        node.run_for(300)
        return finish(outcomes, **options)

    monkeypatch.setattr(node.scheduler.finishing.finisher, "finish", late)
    run = node.scheduler.management.killer.kill(run_id)
    assert (run.state, run.kill_requested) == (RunState.DISPATCHING, True)


def test_a_running_run_is_told_to_end_until_its_outcome_comes(node: HandNode) -> None:
    run_id = running(node, max_retries=3)
    job_id = load(node, run_id).job_id
    network = attach(node, states({run_id: "started"}))
    run = node.scheduler.management.killer.kill(run_id)
    assert (run.state, run.kill_requested) == (RunState.RUNNING, True)
    assert node.scheduler.management.killer.kill(run_id) == load(node, run_id)  # asking again changes nothing
    pass_time(node, 1000)
    (message,) = kills(network)
    assert message["jobId"] == job_id
    assert message["xwheel"] == {"run_id": run_id}
    pass_time(node, 239_000)
    assert 6 <= len(kills(network)) <= 9  # after 2, 4, 8, 16, 32 and then 60 seconds
    node.finish([load(node, run_id)], RunState.FAILED)
    assert [run.state for run in node.runs()] == [RunState.KILLED]


def test_a_kill_while_the_answer_is_on_its_way_is_sent_once_accepted(node: HandNode) -> None:
    run_id = fire(node)
    node.run_for(300)
    assert node.scheduler.management.killer.kill(run_id).state is RunState.DISPATCHING
    node.answer()
    assert load(node, run_id).check_ms == node.clock.now_ms()
    network = attach(node, states({run_id: "accepted"}))
    pass_time(node, 1000)
    assert len(kills(network)) == 1


def test_a_run_to_kill_is_not_sent_again(node: HandNode) -> None:
    run_id = fire(node)
    node.run_for(300)
    node.answer(Fate.UNKNOWN)
    node.scheduler.management.killer.kill(run_id)
    network = attach(node, states({}))
    for _ in range(60):
        node.register(ADDRESS)
        node.run_for(1000, step_ms=1000)
        check(node)
    assert node.sent == []
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.KILLED, "no_report")
    assert kills(network) == []


def test_a_kill_that_comes_while_a_question_is_open_is_not_put_off(node: HandNode) -> None:
    run_id = running(node)
    found: dict[int, Any] = {run_id: "started"}
    answer = states(found)
    network = attach(node, answer)

    def kill_meanwhile(*call: Any) -> Any:
        if not load(node, run_id).kill_requested:
            node.scheduler.management.killer.kill(run_id)
        return answer(*call)

    network.script = kill_meanwhile
    node.clock.advance(600_000)
    pass_time(node, 2000)
    assert len(kills(network)) == 1


def test_a_run_to_kill_whose_instance_is_gone_is_lost(node: HandNode) -> None:
    run_id = running(node)
    attach(node, lambda *_: None)
    check(node)
    node.scheduler.management.killer.kill(run_id)
    node.scheduler.core.registry.remove("demo", ADDRESS)
    check(node, 1000)
    check(node, 125_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.LOST, "instance_gone")


# -- deadlines -------------------------------------------------------------------------------------------------


def test_a_handler_past_its_limit_is_closed_and_told_to_end(node: HandNode) -> None:
    run_id = running(node, timeout_s=60)
    found: dict[int, Any] = {run_id: {"state": "started", "running_ms": 5000}}
    network = attach(node, states(found))
    pass_time(node, 89_000)
    assert network.paths() == ["/runState"]  # whether it has begun
    found[run_id] = {"state": "started", "running_ms": 80_000}
    pass_time(node, 2000)
    assert load(node, run_id).state is RunState.RUNNING  # it began late: ten seconds more
    found[run_id] = {"state": "started", "running_ms": 91_000}
    pass_time(node, 10_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.TIMED_OUT, "deadline")
    assert len(kills(network)) == 1


def test_a_run_that_waits_in_its_executors_queue_has_all_its_time_before_it(node: HandNode) -> None:
    run_id = running(node, timeout_s=60)
    network = attach(node, states({run_id: "accepted"}))
    pass_time(node, 600_000)
    assert load(node, run_id).state is RunState.RUNNING
    assert load(node, run_id).began_ms is None
    assert 14 <= len(network.calls) <= 16  # after 5 s, and then ever more seldom, once a minute at least


def test_an_executor_that_says_nothing_keeps_no_run_past_limit_and_two_graces(node: HandNode) -> None:
    run_id = running(node, timeout_s=60)
    attach(node, lambda *_: None)
    pass_time(node, 119_000)
    assert load(node, run_id).state is RunState.RUNNING
    pass_time(node, 2000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.TIMED_OUT, "deadline")


def test_a_limit_longer_than_ten_minutes_is_looked_at_meanwhile(node: HandNode) -> None:
    run_id = running(node, timeout_s=3600)
    assert load(node, run_id).check_ms == node.clock.now_ms() + 5000
    attach(node, states({run_id: "started"}))
    pass_time(node, 6000)
    check_ms = load(node, run_id).check_ms
    assert check_ms is not None
    assert 595_000 < check_ms - node.clock.now_ms() <= 600_000


def test_a_run_to_kill_that_is_past_its_limit_gets_no_retry(node: HandNode) -> None:
    run_id = running(node, timeout_s=60, max_retries=3)
    attach(node, lambda *_: None)
    node.scheduler.management.killer.kill(run_id)
    pass_time(node, 130_000)
    assert [(run.state, run.reason) for run in node.runs()] == [(RunState.KILLED, "deadline")]


def test_a_kill_of_a_sent_run_wakes_the_checks(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = running(node)
    woken: list[int] = []
    monkeypatch.setattr(node.scheduler.management.killer, "wake", lambda: woken.append(1))
    node.scheduler.management.killer.kill(run_id)
    assert woken == [1]
