"""Why runs are in their state: every code that a run's ``reason`` can have, and what it says in a sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RunReason(StrEnum):
    """A short word for how a run ended up in its state; nothing else is ever written into a run that is final."""

    _value_: str
    sentence: str  # what it says; empty where the state says it all

    def __new__(cls, word: str, sentence: str = "") -> RunReason:
        """Return the member of a word, with its sentence."""
        member = str.__new__(cls, word)
        member._value_, member.sentence = word, sentence
        return member

    PLAIN = ""
    MISFIRE = "misfire", "It was due while nothing could fire it, for longer than its misfire threshold."
    WAITING_FOR_EXECUTOR = ("waiting_for_executor", "An earlier run of the job was still waiting for an executor.")
    BLOCKED = "blocked", "An earlier run of the job was still going, and the job discards later ones."
    CHAIN_TOO_DEEP = ("chain_too_deep", "The chain of jobs that run after one another is longer than is allowed.")
    BAD_PARAM = "bad_param", "The parameter could not be made from the results of the runs before it."
    COVERED = "covered", "A newer run of the job took its place."
    EDITED = "edited", "The job's schedule was changed before the run began."
    STOPPED = "stopped", "The job was stopped before the run began."
    DELETED = "deleted", "The job was deleted before the run began."
    CALENDAR = "calendar", "A calendar of the job was changed before the run began."
    PAUSED = "paused", "All schedules were paused before the run began."
    CLOCK = "clock", "The clock was ahead when it was planned, and was set back before it began."
    KILLED_BY_USER = "killed_by_user", "Somebody killed it before it began."
    LATE_OUTCOME = "late_outcome", "The run that it was to repeat turned out to have ended after all."
    UNREACHABLE = "unreachable", "No connection to its executor could be made."
    FAILED_OVER = (
        "failed_over",
        "Its executor was not reached, was not ready or gave it back; another one gets the run, or this one later.",
    )
    EXECUTOR_REFUSED = "executor_refused", "Its executor said no."
    NO_EXECUTOR = "no_executor", "Its group had no live executor that it could go to."
    NO_ROUTE = "no_route", "Its router failed, or chose no executor."
    OVER_LIMIT = "over_limit", "It has more shards than may run in its group at once."
    NO_SOURCE = "no_source", "Its script has no source."
    NO_GLUE_TYPE = "no_glue_type", "Its glue type is not installed."
    INSTANCE_GONE = "instance_gone", "The executor process that had it is gone and reported no end."
    EXECUTOR_GONE = "executor_gone", "The executor that had it is gone and reported no end."
    UNKNOWN_THERE = "unknown_there", "Its executor had accepted it, and does not know it any more."
    NO_REPORT = "no_report", "Its executor has nothing of the job any more and reported no end."
    DEADLINE = "deadline", "Its executor reported no end within the job's time limit."
    TIMED_OUT = "timed_out", "Its executor ended it at the job's time limit."
    KILLED = "killed", "Its executor ended it when it was told to."
    EXECUTOR_STOPPED = "executor_stopped", "Its executor was stopped while it was running."
    NOT_STARTED = "not_started", "Its executor had accepted it, and restarted or stopped before starting it."
    INTERRUPTED = "interrupted", "Its executor ended or crashed while it was running."


# what executors report with an outcome
REPORTED: Final = frozenset(
    {
        RunReason.COVERED,
        RunReason.FAILED_OVER,
        RunReason.TIMED_OUT,
        RunReason.KILLED,
        RunReason.EXECUTOR_STOPPED,
        RunReason.NOT_STARTED,
        RunReason.INTERRUPTED,
    }
)
# a mark says before a colon and a time what the last check of a run found that has not ended
IDLE: Final = "idle"
TOLD: Final = "told"
KILLED: Final = "killed"
WAITS: Final = "waits"
MARKS: Final = {
    IDLE: "Its executor says that it runs nothing of the job, and has not reported an end.",
    TOLD: "Its executor says that it runs nothing of the job, and is told again and again to end it.",
    KILLED: "Its executor says that it ended everything of the job, and has not reported an end.",
    WAITS: "Its executor has it and has not begun it: earlier runs are before it there.",
}
SENTENCES: Final = {reason: reason.sentence for reason in RunReason if reason.sentence}


def read_report(word: str) -> RunReason | None:
    """Return the reason that an executor reports; None if it is a word that this version does not know."""
    found = _KNOWN.get(word)
    return found if found in REPORTED or found is RunReason.PLAIN else None


_KNOWN: Final = {reason.value: reason for reason in RunReason}
