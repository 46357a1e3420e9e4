"""Foreign executors know no run ids: they are asked about the job, and believed only after a grace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.network import Network, attach, check
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import Job, Run, RunState
from xwheel.storage import open_runs, runs
from xwheel.storage.database.engine import Database

ADDRESS = "http://127.0.0.1:9001"
BUSY = {"code": 500, "msg": "job thread is running or has trigger queue."}
IDLE = {"code": 200, "msg": None}


@pytest.fixture
def node(db: Database) -> HandNode:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    beat(node)
    return node


def beat(node: HandNode) -> None:
    node.register(ADDRESS, kind="foreign", instance="", boot="")


def start(node: HandNode, count: int = 1, **changes: Any) -> tuple[Job, list[int]]:
    job = node.job(enabled=False, **changes)
    ids = [fire(node, job) for _ in range(count)]
    node.scheduler.core.registry.step(node.clock.now_ms())
    node.scheduler.core.registry.take_news()
    return job, ids


def fire(node: HandNode, job: Job) -> int:
    run_id = node.scheduler.management.run_now.run(job.id).id
    node.run_for(300)
    node.answer()
    return run_id


def load(node: HandNode, run_id: int) -> Run:
    with node.db.read() as conn:
        return runs.get_run(conn, run_id)


def pass_time(node: HandNode, duration_ms: int, step_ms: int = 1000) -> None:
    for _ in range(duration_ms // step_ms):
        beat(node)
        check(node, step_ms)


def told(network: Network, path: str) -> int:
    return sum(found == path for _, found, _ in network.calls)


def test_a_busy_job_moves_on_and_is_one_question_for_all_its_runs(node: HandNode) -> None:
    job, ids = start(node, 3)
    network = attach(node, lambda *_: BUSY)
    node.clock.advance(600_000)
    pass_time(node, 3000)
    assert network.calls == [(ADDRESS, "/idleBeat", {"jobId": job.id})]
    for run_id in ids:
        assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.RUNNING, "")
        assert (load(node, run_id).check_ms or 0) > node.clock.now_ms() + 590_000


def test_an_idle_job_without_a_report_is_lost_after_two_minutes(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, lambda *_: IDLE)
    node.clock.advance(600_000)
    pass_time(node, 2000)
    row = load(node, run_id)
    assert row.state is RunState.RUNNING
    assert row.reason.startswith("idle:")
    pass_time(node, 117_000)
    assert load(node, run_id).state is RunState.RUNNING
    pass_time(node, 3000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.LOST, "no_report")
    assert told(network, "/idleBeat") == 2


def test_being_looked_at_early_shortens_no_grace(node: HandNode) -> None:
    _, (run_id,) = start(node)
    attach(node, lambda *_: IDLE)
    node.clock.advance(600_000)
    pass_time(node, 2000)
    node.scheduler.management.killer.kill(run_id)
    pass_time(node, 60_000)
    assert load(node, run_id).state is RunState.RUNNING
    pass_time(node, 63_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.KILLED, "no_report")


def test_work_that_shows_up_again_takes_the_mark_away(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, lambda *_: IDLE)
    node.clock.advance(600_000)
    pass_time(node, 2000)
    network.script = lambda *_: BUSY
    pass_time(node, 130_000, 10_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.RUNNING, "")


@pytest.mark.parametrize("said", [None, 404, 500, b"what", b"[]"])
def test_an_idle_beat_that_fails_loses_nothing(node: HandNode, said: Any) -> None:
    _, (run_id,) = start(node)
    attach(node, lambda *_: said)
    node.clock.advance(600_000)
    pass_time(node, 900_000, 10_000)
    row = load(node, run_id)
    assert (row.state, row.reason) == (RunState.RUNNING, "")
    assert (row.check_ms or 0) >= node.clock.now_ms() - 10_000


def test_an_executor_that_is_gone_loses_its_runs(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, lambda *_: None)
    check(node)
    check(node, 91_000)
    assert load(node, run_id).state is RunState.RUNNING
    check(node, 31_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.LOST, "executor_gone")
    assert network.calls == []


def test_a_slow_executor_with_many_jobs_is_asked_about_each_once(node: HandNode) -> None:
    ids = [start(node)[1][0] for _ in range(60)]
    network = attach(node, lambda *_: BUSY)
    network.slots = 2
    node.clock.advance(600_000 + 60 * 300)
    for _ in range(30):
        beat(node)
        now_ms = node.clock.advance(1000)
        node.scheduler.core.lease.step(now_ms)
        node.scheduler.finishing.check.step(now_ms)
    assert len(network.calls) == 58  # two a second
    assert len({body["jobId"] for _, _, body in network.calls}) == 58
    assert sum((load(node, run_id).check_ms or 0) > node.clock.now_ms() + 500_000 for run_id in ids) == 58


def test_who_waits_too_long_for_a_turn_is_asked_again_later(node: HandNode) -> None:
    ids = [start(node)[1][0] for _ in range(60)]
    network = attach(node, lambda *_: BUSY)
    network.slots = 1
    node.clock.advance(600_000 + 60 * 300)
    for _ in range(240):
        beat(node)
        now_ms = node.clock.advance(1000)
        node.keep_lease()
        node.scheduler.finishing.check.step(now_ms)
        assert min(run.check_ms or 0 for run in node.runs()) >= now_ms - 60_000
    assert all((load(node, run_id).check_ms or 0) > node.clock.now_ms() for run_id in ids)
    assert len(network.calls) <= 70


# -- deadlines -------------------------------------------------------------------------------------------------


def test_a_run_past_its_limit_is_closed_without_a_kill(node: HandNode) -> None:
    _, (run_id,) = start(node, timeout_s=60)
    network = attach(node, lambda *_: BUSY)
    pass_time(node, 89_000)
    assert load(node, run_id).state is RunState.RUNNING
    pass_time(node, 3000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.TIMED_OUT, "deadline")
    assert told(network, "/kill") == 0


def test_a_run_behind_another_one_gets_its_whole_time(node: HandNode) -> None:
    job, (first,) = start(node, timeout_s=60)
    node.clock.advance(30_000)
    second = fire(node, job)
    attach(node, lambda *_: BUSY)
    pass_time(node, 55_000)
    node.finish([load(node, first)])  # after 85 s, so the second one begins now
    pass_time(node, 85_000)
    assert load(node, second).state is RunState.RUNNING
    pass_time(node, 95_000)
    assert (load(node, second).state, load(node, second).reason) == (RunState.TIMED_OUT, "deadline")


def test_an_unreachable_executor_keeps_no_run_past_limit_and_two_graces(node: HandNode) -> None:
    _, (run_id,) = start(node, timeout_s=60)
    attach(node, lambda *_: None)
    pass_time(node, 119_000)
    assert load(node, run_id).state is RunState.RUNNING
    pass_time(node, 3000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.TIMED_OUT, "deadline")


# -- kills -----------------------------------------------------------------------------------------------------


def test_a_kill_is_for_the_job_and_ends_the_runs_beside(node: HandNode) -> None:
    job, (one, two) = start(node, 2)
    network = attach(node, lambda _address, path, _body: BUSY if path == "/idleBeat" else IDLE)
    node.scheduler.management.killer.kill(two)
    pass_time(node, 2000)
    assert network.calls == [(ADDRESS, "/idleBeat", {"jobId": job.id}), (ADDRESS, "/kill", {"jobId": job.id})]
    node.finish([load(node, one)], RunState.FAILED)  # it reports, the queued one was dropped without a word
    newer = fire(node, job)
    pass_time(node, 125_000)
    assert told(network, "/kill") == 1  # a second one would end the newer run
    assert (load(node, two).state, load(node, two).reason) == (RunState.KILLED, "no_report")
    assert load(node, newer).state is RunState.RUNNING


def test_runs_that_died_with_another_ones_kill_are_lost(node: HandNode) -> None:
    _, (one, two) = start(node, 2)
    attach(node, lambda _address, path, _body: BUSY if path == "/idleBeat" else IDLE)
    node.scheduler.management.killer.kill(one)
    pass_time(node, 125_000)
    assert load(node, one).state is RunState.KILLED
    assert (load(node, two).state, load(node, two).reason) == (RunState.LOST, "no_report")


@pytest.mark.parametrize("said", [{"code": 500, "msg": "Task kill err"}, None, 404])
def test_a_kill_that_is_not_confirmed_is_repeated_with_a_growing_wait(node: HandNode, said: Any) -> None:
    _, (run_id,) = start(node)
    network = attach(node, lambda _address, path, _body: BUSY if path == "/idleBeat" else said)
    node.scheduler.management.killer.kill(run_id)
    pass_time(node, 240_000)
    assert 6 <= told(network, "/kill") <= 9
    assert load(node, run_id).state is RunState.RUNNING
    node.finish([load(node, run_id)], RunState.FAILED)
    assert load(node, run_id).state is RunState.KILLED
    network.calls.clear()
    pass_time(node, 120_000, 10_000)
    assert network.calls == []


def test_r28_a_kill_is_sent_though_the_executor_says_that_it_is_idle(node: HandNode) -> None:
    job, (one, two) = start(node, 2)
    network = attach(node, lambda *_: IDLE)
    node.scheduler.management.killer.kill(two)
    pass_time(node, 2000)
    assert network.calls == [(ADDRESS, "/idleBeat", {"jobId": job.id}), (ADDRESS, "/kill", {"jobId": job.id})]
    # it did end them, whatever it said before: the outcome of one arrives, and the other is checked as well
    node.finish([load(node, two)], RunState.FAILED)
    assert load(node, two).state is RunState.KILLED
    pass_time(node, 125_000)
    assert (load(node, one).state, load(node, one).reason) == (RunState.LOST, "no_report")
    assert told(network, "/kill") == 1


def test_r28_a_kill_is_sent_to_one_that_was_found_idle_before(node: HandNode) -> None:
    _, (run_id,) = start(node)
    network = attach(node, lambda *_: IDLE)
    node.clock.advance(600_000)
    pass_time(node, 118_000)
    assert load(node, run_id).reason.startswith("idle:")
    node.scheduler.management.killer.kill(run_id)
    pass_time(node, 2000)
    assert told(network, "/kill") == 1
    pass_time(node, 60_000)
    assert load(node, run_id).state is RunState.RUNNING  # the report of its end has the whole grace from here
    pass_time(node, 65_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.KILLED, "no_report")
    assert told(network, "/kill") == 1


@pytest.mark.parametrize("said", [{"code": 500, "msg": "Task kill err"}, None])
def test_r28_a_kill_that_an_idle_executor_does_not_confirm_ends_with_the_grace(node: HandNode, said: Any) -> None:
    _, (run_id,) = start(node)
    network = attach(node, lambda _address, path, _body: IDLE if path == "/idleBeat" else said)
    node.scheduler.management.killer.kill(run_id)
    pass_time(node, 100_000)
    assert load(node, run_id).state is RunState.RUNNING
    pass_time(node, 30_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.KILLED, "no_report")
    assert 3 <= told(network, "/kill") <= 7
    network.calls.clear()
    pass_time(node, 60_000, 10_000)
    assert network.calls == []


def test_r28_silence_in_between_does_not_begin_the_grace_again(node: HandNode) -> None:
    _, (run_id,) = start(node)
    answers = iter([IDLE, *[None, IDLE] * 100])
    attach(node, lambda _address, path, _body: next(answers) if path == "/idleBeat" else {"code": 500})
    node.scheduler.management.killer.kill(run_id)
    pass_time(node, 190_000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.KILLED, "no_report")


def test_r28_a_kill_that_meets_the_time_limit_is_sent_once(node: HandNode) -> None:
    _, (run_id,) = start(node, timeout_s=60)
    network = attach(node, lambda *_: IDLE)
    pass_time(node, 89_000)
    node.clock.advance(5000)
    node.scheduler.management.killer.kill(run_id)
    pass_time(node, 3000)
    assert (load(node, run_id).state, load(node, run_id).reason) == (RunState.KILLED, "deadline")
    assert told(network, "/kill") == 1


def test_n28_a_run_that_is_sent_while_a_kill_is_on_its_way_does_not_count_as_killed(node: HandNode) -> None:
    job, (one,) = start(node)
    newer: list[int] = []

    def answer(_address: str, path: str, _body: object) -> dict[str, Any]:
        if path == "/kill":
            newer.append(fire(node, job))
        return BUSY if path == "/idleBeat" else IDLE

    network = attach(node, answer)
    node.scheduler.management.killer.kill(one)
    pass_time(node, 2000)
    assert load(node, one).reason.startswith("killed:")
    assert load(node, newer[0]).reason == ""
    pass_time(node, 125_000)
    assert (load(node, newer[0]).state, told(network, "/kill")) == (RunState.RUNNING, 1)


def test_n28_a_kill_that_comes_while_a_check_is_claimed_is_not_forgotten(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (run_id,) = start(node)
    network = attach(node, lambda _address, path, _body: BUSY if path == "/idleBeat" else IDLE)
    really, asked = open_runs.list_due, []

    def kill_in_between(*given: Any) -> Any:
        found = really(*given)
        if found and not asked:
            asked.append(node.scheduler.management.killer.kill(run_id))
        return found

    monkeypatch.setattr(open_runs, "list_due", kill_in_between)
    node.clock.advance(600_000)
    pass_time(node, 3000)
    assert asked
    assert told(network, "/kill") == 1


def test_n28_a_kill_that_comes_before_the_answer_to_a_check_is_not_forgotten(node: HandNode) -> None:
    _, (run_id,) = start(node)
    asked: list[Run] = []

    def answer(_address: str, path: str, _body: object) -> dict[str, Any]:
        if path == "/kill":
            return IDLE
        if not asked:
            asked.append(node.scheduler.management.killer.kill(run_id))
        return BUSY

    network = attach(node, answer)
    node.clock.advance(600_000)
    pass_time(node, 3000)
    assert told(network, "/kill") == 1
