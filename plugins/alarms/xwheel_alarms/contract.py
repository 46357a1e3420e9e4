"""Alarm channels: what they are asked to send, what they must be able to do, and the hook that registers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from xwheel.errors import XwheelError
from xwheel.model import ExecutorGroup, Job, Run
from xwheel.plugin import Hook


class AlarmKind(StrEnum):
    """What an alarm is about."""

    FAILED = "failed"
    LOST = "lost"
    REFUSED = "refused"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"
    STILL_RUNNING = "still_running"
    SCHEDULE_ERROR = "schedule_error"
    RECOVERED = "recovered"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """What a channel is asked to send.

    Attributes:
        id: Stays the same when the alarm is sent again, so that a receiver can recognise a repetition.
        kind: What happened.
        at_ms: When it happened.
        title: One line that names the job and what happened.
        text: The same at length, in lines, of which the title is the first; plain text that may hold any character.
        reason: Short word or message of the run, or empty.
        job: The job; None in a test, and in a summary of several jobs.
        group: The job's group; None as well.
        run: The run that it is about; None where there is none, as in a test or if a job did not run.
        count: How many events this stands for: those that the rule's window or its quiet hours held back count here.
        receivers: Who gets it, in the channel's own form; empty for the channel's default.
        link: Where the console shows the run or the job; empty if the settings do not say where the console is.
    """

    id: int
    kind: AlarmKind
    at_ms: int
    title: str
    text: str
    reason: str
    job: Job | None
    group: ExecutorGroup | None
    run: Run | None
    count: int = 1
    receivers: Sequence[str] = ()
    link: str = ""


class AlarmChannel(Protocol):
    """Sends alarms to people.

    Attributes:
        name: What alarm rules call it in ``channel``.
    """

    name: str

    def send(self, alarm: Alarm) -> str | None:
        """Send it, and return what the other side answered, if anything; a few words that are kept with the attempt.

        Called on a thread of the channel's own, one alarm at a time. It should bound its own waiting: one that takes
        longer than the setting ``alarm.send_timeout_s`` counts as failed.

        Raises:
            AlarmRetryLater: The other side wants to be asked later.
            Exception: Anything else is a failed attempt, too; its message is kept and must hold no secret.
        """


class AlarmRetryLater(XwheelError):  # noqa: N818 - says what to do, not what is wrong
    """A channel's other side wants to be asked later.

    Args:
        message: What it said; must hold no secret.
        after_s: In how many seconds.
    """

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


HOOKS: Final[Mapping[str, Hook]] = {
    "xwheel_register_alarms": Hook(
        kind="alarm channel",
        contract=AlarmChannel,
        words="Return alarm channels; alarm rules name them in ``channel``.",
    )
}
"""The hook that this distribution brings."""
