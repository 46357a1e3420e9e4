"""What a check comes to, without a database or a network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.rows import NOW
from xwheel.model import RunState
from xwheel.scheduler.check.decide import (
    CheckRules,
    Decision,
    begun_at,
    decide_gone,
    decide_idle,
    decide_marked,
    decide_silent,
    decide_state,
    first_check_ms,
    read_mark,
)
from xwheel.scheduler.check.questions import KNOWN_WAITS, Backoff
from xwheel.storage.open_runs import Ahead, OpenRun
from xwheel.wire.messages import CallbackItem, ExecutionState, StateAnswer

RULES = CheckRules(
    check_after_ms=600_000, gone_ms=120_000, answer_ms=5000, idle_grace_ms=120_000, deadline_grace_ms=30_000
)


def row(**changes: Any) -> OpenRun:
    values: dict[str, Any] = {
        "id": 7,
        "job_id": 1,
        "group_id": 1,
        "partition": 1,
        "state": RunState.RUNNING,
        "created_ms": NOW,
        "address": "http://a:1",
        "instance": "one",
        "dispatched_ms": NOW,
        "accepted_ms": NOW,
        "check_ms": NOW,
        "reason": "",
        "kill_requested": False,
        "started_ms": None,
        "timeout_s": 0,
    }
    return OpenRun(**(values | changes))


def end(decision: Decision | None) -> tuple[RunState, str] | None:
    outcome = decision.outcome if decision else None
    return (outcome.state, outcome.reason) if outcome else None


def answer(state: ExecutionState, running_ms: int = 0) -> StateAnswer:
    return StateAnswer(run_id=7, state=state, running_ms=running_ms)


def test_a_missing_executor_has_its_time_from_the_last_sign_of_either() -> None:
    assert decide_gone(row(), NOW, NOW + 120_000, RULES).check_ms == NOW + 120_001
    assert end(decide_gone(row(), NOW, NOW + 120_001, RULES)) == (RunState.LOST, "instance_gone")
    young = row(accepted_ms=NOW + 60_000)
    assert end(decide_gone(young, NOW, NOW + 180_000, RULES)) is None
    assert end(decide_gone(young, NOW, NOW + 180_001, RULES)) == (RunState.LOST, "instance_gone")
    assert end(decide_gone(row(instance=""), NOW, NOW + 120_001, RULES)) == (RunState.LOST, "executor_gone")


@pytest.mark.parametrize(("kill", "state"), [(False, RunState.TIMED_OUT), (True, RunState.KILLED)])
def test_silence_ends_a_run_with_a_limit_only(kill: bool, state: RunState) -> None:
    limited = row(timeout_s=60, kill_requested=kill)
    assert decide_silent(limited, NOW + 100_000, 60_000, RULES).check_ms == NOW + 120_000
    assert end(decide_silent(limited, NOW + 119_999, 5000, RULES)) is None
    assert end(decide_silent(limited, NOW + 120_000, 5000, RULES)) == (state, "deadline")
    assert end(decide_silent(row(), NOW + 10**9, 5000, RULES)) is None


@pytest.mark.parametrize(
    ("state", "running_ms", "ends"),
    [
        (ExecutionState.ACCEPTED, 0, False),
        (ExecutionState.STARTED, 89_999, False),
        (ExecutionState.STARTED, 90_000, True),
    ],
)
def test_a_limit_counts_from_the_start_of_the_handler(state: ExecutionState, running_ms: int, ends: bool) -> None:
    decision = decide_state(row(timeout_s=60), answer(state, running_ms), NOW + 10**6, 5000, RULES)
    assert end(decision) == ((RunState.TIMED_OUT, "deadline") if ends else None)
    assert decision.kill == ends
    if state is ExecutionState.STARTED and not ends:
        assert decision.check_ms == NOW + 10**6 + 90_000 - running_ms


@pytest.mark.parametrize(
    ("waited_ms", "again_ms"), [(0, 5000), (10_000, 5000), (10_002, 5001), (120_000, 60_000), (10**9, 60_000)]
)
def test_a_run_that_waits_on_its_executor_is_asked_about_the_more_seldom_the_longer_it_waits(
    waited_ms: int, again_ms: int
) -> None:
    now_ms = NOW + waited_ms
    for waiting in (row(), row(state=RunState.DISPATCHING, accepted_ms=None), row(timeout_s=1)):
        decision = decide_state(waiting, answer(ExecutionState.ACCEPTED), now_ms, 1, RULES)
        assert (decision.reason, decision.started_ms) == (f"waits:{now_ms}", None)
        # one that begins now is past its limit and its grace after 31 s
        assert decision.check_ms == now_ms + min(again_ms, 31_000 if waiting.timeout_s else again_ms)
        assert (decision.outcome, decision.kill) == (None, False)
        # an executor that says nothing leaves it as it is
        marked = waiting._replace(reason=decision.reason, timeout_s=0)
        assert decide_silent(marked, now_ms, 1, RULES).reason == decision.reason
        assert decide_gone(marked, now_ms, now_ms, RULES).reason == decision.reason
    quick = replace(RULES, check_after_ms=1000)
    assert decide_state(row(), answer(ExecutionState.ACCEPTED), now_ms, 1, quick).check_ms == now_ms + 1000
    doomed = decide_state(row(kill_requested=True), answer(ExecutionState.ACCEPTED), now_ms, 2000, RULES)
    assert (doomed.check_ms, doomed.kill, doomed.reason) == (now_ms + 2000, True, f"waits:{now_ms}")


def test_the_limit_of_a_run_whose_executor_says_nothing_counts_from_what_is_known_of_its_begin() -> None:
    later_ms = NOW + 10**7
    for known in (row(timeout_s=60, started_ms=later_ms), row(timeout_s=60, reason=f"waits:{later_ms}")):
        assert end(decide_silent(known, later_ms + 119_999, 5000, RULES)) is None
        assert end(decide_silent(known, later_ms + 120_000, 5000, RULES)) == (RunState.TIMED_OUT, "deadline")


def test_a_run_that_is_closed_past_its_limit_keeps_when_it_began() -> None:
    limited, now_ms = row(timeout_s=1, reason=f"waits:{NOW}"), NOW + 10**6
    outcome = decide_state(limited, answer(ExecutionState.STARTED, 59_000), now_ms, 1, RULES).outcome
    assert outcome is not None
    assert (outcome.reason, outcome.started_ms, outcome.took_ms) == ("deadline", now_ms - 59_000, 59_000)


def test_a_run_that_has_begun_says_since_when_and_waits_no_longer() -> None:
    waiting = row(reason=f"waits:{NOW}")
    decision = decide_state(waiting, answer(ExecutionState.STARTED, 3000), NOW + 10_000, 1, RULES)
    assert (decision.reason, decision.started_ms) == ("", NOW + 7000)
    assert decision.check_ms == NOW + 10_000 + RULES.check_after_ms
    # not before it was accepted, whatever the executor's clock says, and once told it stays
    early = decide_state(waiting, answer(ExecutionState.STARTED, 20_000), NOW + 10_000, 1, RULES)
    assert early.started_ms == NOW
    known = row(started_ms=NOW + 6990)
    assert decide_state(known, answer(ExecutionState.STARTED, 3000), NOW + 10_000, 1, RULES).started_ms == NOW + 6990


def test_an_outcome_must_be_of_this_run() -> None:
    right = CallbackItem(run_id=7, job_id=1, created_ms=NOW, code=200, message="ok", reason="\n")
    for item in (None, *(CallbackItem(**{**_fields(right), name: 99}) for name in ("run_id", "job_id", "created_ms"))):
        wrong = StateAnswer(run_id=7, state=ExecutionState.FINISHED, outcome=item)
        assert end(decide_state(row(), wrong, NOW, 5000, RULES)) is None
    good = StateAnswer(run_id=7, state=ExecutionState.FINISHED, outcome=right)
    decision = decide_state(row(), good, NOW, 5000, RULES)
    assert decision.outcome is not None
    assert (decision.outcome.created_ms, decision.outcome.message) == (NOW, "ok")
    assert end(decision) == (RunState.SUCCEEDED, "")


def test_a_run_to_kill_that_is_not_there_waits_for_bytes_on_their_way() -> None:
    doomed = row(kill_requested=True, state=RunState.DISPATCHING, accepted_ms=None)
    unknown = answer(ExecutionState.UNKNOWN)
    assert decide_state(doomed, unknown, NOW + 29_999, 2000, RULES).check_ms == NOW + 31_999
    assert end(decide_state(doomed, unknown, NOW + 30_000, 2000, RULES)) == (RunState.KILLED, "no_report")
    unanswered = row(state=RunState.DISPATCHING, accepted_ms=None)
    assert end(decide_state(unanswered, unknown, NOW + 10**6, 2000, RULES)) is None


def test_marks_are_read_with_their_time() -> None:
    assert read_mark("idle:5") == ("idle", 5)
    assert read_mark("killed:6") == ("killed", 6)
    assert read_mark("waits:7") == ("waits", 7)
    for reason in ("", "idle", "idle:", "idle:x", "other:5"):
        assert read_mark(reason) == ("", 0)
    marked = row(reason=f"killed:{NOW}", instance="")
    assert decide_marked(row(reason=f"idle:{NOW}"), NOW, RULES) is None
    assert end(decide_marked(marked, NOW + 119_999, RULES)) is None
    assert end(decide_marked(marked, NOW + 120_000, RULES)) == (RunState.LOST, "no_report")
    assert end(decide_marked(marked._replace(kill_requested=True), NOW + 120_000, RULES)) == (
        RunState.KILLED,
        "no_report",
    )


def test_a_foreign_queue_is_guessed_from_the_runs_before() -> None:
    mine = row(instance="", dispatched_ms=NOW + 10)
    before = Ahead(1, "http://a:1", NOW, NOW + 50_000)
    assert begun_at(mine, []) == NOW
    assert begun_at(mine, [before]) == NOW + 50_000
    assert begun_at(mine, [before, before._replace(finished_ms=None)]) is None
    others = [
        before._replace(job_id=2, finished_ms=None),
        before._replace(address="http://b:1", finished_ms=None),
        before._replace(dispatched_ms=NOW + 10, finished_ms=None),
    ]
    assert begun_at(mine, others) == NOW


@pytest.mark.parametrize("idle", [True, False, None])
def test_a_foreign_run_past_its_limit_is_over_whatever_its_executor_says(idle: bool | None) -> None:
    limited = row(timeout_s=60, instance="")
    at_ms = NOW + (120_000 if idle is None else 90_000)
    assert end(decide_idle(limited, idle, NOW, at_ms - 1, 5000, RULES)) is None
    decision = decide_idle(limited, idle, NOW, at_ms, 5000, RULES)
    assert (end(decision), decision.kill) == ((RunState.TIMED_OUT, "deadline"), False)
    assert end(decide_idle(limited, idle, None, at_ms, 5000, RULES)) is None  # it waits in the queue


def test_an_error_keeps_the_mark_and_a_busy_job_takes_it_away() -> None:
    marked = row(instance="", reason=f"idle:{NOW}")
    assert decide_idle(marked, None, NOW, NOW + 10, 5000, RULES).reason == f"idle:{NOW}"
    assert decide_idle(marked, False, NOW, NOW + 10, 5000, RULES).reason == ""
    assert decide_idle(marked, True, NOW, NOW + 10, 5000, RULES).check_ms == NOW + 120_000


def test_the_first_look_is_after_ten_minutes_or_past_the_limit() -> None:
    times = {"check_after_ms": 600_000, "deadline_grace_ms": 30_000}
    assert first_check_ms(NOW, 0, **times, is_foreign=True) == NOW + 600_000
    assert first_check_ms(NOW, 60, **times, is_foreign=True) == NOW + 90_000
    assert first_check_ms(NOW, 3600, **times, is_foreign=True) == NOW + 600_000
    # an xwheel executor tells whether it has begun
    assert {first_check_ms(NOW, limit_s, **times, is_foreign=False) for limit_s in (0, 60, 3600)} == {NOW + 5000}
    quick = {"check_after_ms": 1000, "deadline_grace_ms": 0}
    assert {first_check_ms(NOW, limit_s, **quick, is_foreign=False) for limit_s in (0, 1, 60)} == {NOW + 1000}


def test_waits_double_up_to_a_limit_and_are_bounded() -> None:
    waits = Backoff(2000, 60_000)
    assert [waits.next_ms(1) for _ in range(7)] == [2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]
    waits.forget(1)
    assert waits.next_ms(1) == 2000
    for key in range(2, KNOWN_WAITS + 2):
        waits.next_ms(key)
    assert waits.next_ms(1) == 2000  # forgotten: it was tried longest ago


def _fields(item: CallbackItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}
