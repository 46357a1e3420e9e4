"""What a check comes to, without a database or a network."""

from __future__ import annotations

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
    if not ends:
        assert decision.check_ms == NOW + 10**6 + 90_000 - running_ms


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
    assert first_check_ms(NOW, 0, **times) == NOW + 600_000
    assert first_check_ms(NOW, 60, **times) == NOW + 90_000
    assert first_check_ms(NOW, 3600, **times) == NOW + 600_000


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
