"""What is done to jobs, and how often they ask for it."""

from __future__ import annotations

from typing import Any

import pytest
from xwheel.errors import ConflictError, FieldError, NotFoundError, WireError, XwheelError

from xwheel_devtools.verify import actions
from xwheel_devtools.verify.actions import ActionThread
from xwheel_devtools.verify.records import Did


class StubSite:
    """A cluster that answers each call with the next of these."""

    def __init__(self, *answers: XwheelError | dict[str, Any]) -> None:
        self.answers = list(answers)

    def switch(self, job_id: int, *, is_on: bool) -> dict[str, Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, XwheelError):
            raise answer
        return answer


@pytest.mark.parametrize(
    "refusal", [ConflictError("it is started"), NotFoundError("job", 7), FieldError("next_fire", "there is none")]
)
@pytest.mark.parametrize("silences", [0, 2])
def test_a_node_that_says_no_is_asked_no_more_and_one_that_is_away_is(
    monkeypatch: pytest.MonkeyPatch, refusal: XwheelError, silences: int
) -> None:
    monkeypatch.setattr(actions, "ASK_AGAIN_S", 0)
    site: Any = StubSite(*[WireError("no answer")] * silences, refusal)
    thread = ActionThread(site, {}, 0)
    thread._ask(Did.START, 7, lambda: site.switch(7, is_on=True))
    assert site.answers == []
    (action,) = thread.actions
    assert action.answered_ms is not None
