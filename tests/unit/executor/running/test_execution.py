"""What a run reports that was made to end, and whom its end must not reach."""

from __future__ import annotations

from typing import Any

import pytest

from xwheel.errors import JobKilledError
from xwheel.executor.handlers import describe
from xwheel.executor.running import execution as module
from xwheel.executor.running.execution import KILLED, Execution
from xwheel.model import RunState
from xwheel.wire.messages import TriggerRequest


@pytest.fixture
def execution() -> Execution:
    request = TriggerRequest(run_id=1, job_id=1, created_ms=1)
    return Execution(request, describe("x", lambda: None), request.key)


def test_a_run_that_was_killed_is_killed_whatever_its_handler_makes_of_it(execution: Execution) -> None:
    execution.ending = KILLED
    ends = (execution.succeeded("done", 5), execution.failed(ValueError("no"), 5), execution.outcome(200, "", 5))
    assert [end.state for end in ends] == [RunState.KILLED] * 3


def test_a_thread_that_left_a_run_is_not_interrupted_for_it(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    taken_back: list[int] = []
    monkeypatch.setattr(module, "interrupt", lambda *what: bool(raised.append(what)) or True)
    monkeypatch.setattr(module, "take_back", taken_back.append)
    execution.arm()
    thread_id = execution.thread_id
    execution.inject(JobKilledError)
    execution.disarm()
    assert execution.inject(JobKilledError)
    assert raised == [(thread_id, JobKilledError)]
    assert taken_back == [thread_id]
