"""Why runs are in their state: every code that a run's ``reason`` can have, and what it says in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class RunReason(StrEnum):
    """A short word for how a run ended up in its state; nothing else is ever written into a run that is final."""

    PLAIN = ""
    """The state says it all."""

    MISFIRE = "misfire"
    WAITING_FOR_EXECUTOR = "waiting_for_executor"
    BLOCKED = "blocked"
    CHAIN_TOO_DEEP = "chain_too_deep"
    BAD_PARAM = "bad_param"
    COVERED = "covered"
    EDITED = "edited"
    STOPPED = "stopped"
    DELETED = "deleted"
    CALENDAR = "calendar"
    PAUSED = "paused"
    KILLED_BY_USER = "killed_by_user"
    LATE_OUTCOME = "late_outcome"
    UNREACHABLE = "unreachable"
    FAILED_OVER = "failed_over"
    EXECUTOR_REFUSED = "executor_refused"
    NO_EXECUTOR = "no_executor"
    NO_ROUTE = "no_route"
    OVER_LIMIT = "over_limit"
    NO_SOURCE = "no_source"
    NO_GLUE_TYPE = "no_glue_type"
    INSTANCE_GONE = "instance_gone"
    EXECUTOR_GONE = "executor_gone"
    UNKNOWN_THERE = "unknown_there"
    NO_REPORT = "no_report"
    DEADLINE = "deadline"
    TIMED_OUT = "timed_out"
    KILLED = "killed"
    EXECUTOR_STOPPED = "executor_stopped"
    NOT_STARTED = "not_started"
    INTERRUPTED = "interrupted"


REPORTED: Final = frozenset(
    {
        RunReason.COVERED,
        RunReason.TIMED_OUT,
        RunReason.KILLED,
        RunReason.EXECUTOR_STOPPED,
        RunReason.NOT_STARTED,
        RunReason.INTERRUPTED,
    }
)
"""What executors report with an outcome."""

# before a colon and a time: what the last check of a run found that is still running
MARKS: Final = ("idle", "killed")
SENTENCES: Final[Mapping[RunReason, str]] = {
    RunReason.MISFIRE: "It was due while nothing could fire it, for longer than its misfire threshold.",
    RunReason.WAITING_FOR_EXECUTOR: "An earlier run of the job was still waiting for an executor.",
    RunReason.BLOCKED: "An earlier run of the job was still going, and the job discards later ones.",
    RunReason.CHAIN_TOO_DEEP: "The chain of jobs that run after one another is longer than is allowed.",
    RunReason.BAD_PARAM: "The parameter could not be made from the results of the runs before it.",
    RunReason.COVERED: "A newer run of the job took its place.",
    RunReason.EDITED: "The job's schedule was changed before the run was sent.",
    RunReason.STOPPED: "The job was stopped before the run was sent.",
    RunReason.DELETED: "The job was deleted before the run was sent.",
    RunReason.CALENDAR: "A calendar of the job was changed before the run was sent.",
    RunReason.PAUSED: "All schedules were paused before the run was sent.",
    RunReason.KILLED_BY_USER: "Somebody killed it before it was sent.",
    RunReason.LATE_OUTCOME: "The run that it was to repeat turned out to have ended after all.",
    RunReason.UNREACHABLE: "No connection to its executor could be made.",
    RunReason.FAILED_OVER: "Its executor was not reached or not ready; another one gets the run, or this one later.",
    RunReason.EXECUTOR_REFUSED: "Its executor said no.",
    RunReason.NO_EXECUTOR: "Its group had no live executor that it could go to.",
    RunReason.NO_ROUTE: "Its router failed, or chose no executor.",
    RunReason.OVER_LIMIT: "It has more shards than may run in its group at once.",
    RunReason.NO_SOURCE: "Its script has no source.",
    RunReason.NO_GLUE_TYPE: "Its glue type is not installed.",
    RunReason.INSTANCE_GONE: "The executor process that had it is gone and reported no end.",
    RunReason.EXECUTOR_GONE: "The executor that had it is gone and reported no end.",
    RunReason.UNKNOWN_THERE: "Its executor had accepted it, and does not know it any more.",
    RunReason.NO_REPORT: "Its executor has nothing of the job any more and reported no end.",
    RunReason.DEADLINE: "Its executor reported no end within the job's time limit.",
    RunReason.TIMED_OUT: "Its executor ended it at the job's time limit.",
    RunReason.KILLED: "Its executor ended it when it was told to.",
    RunReason.EXECUTOR_STOPPED: "Its executor was stopped while it was running.",
    RunReason.NOT_STARTED: "Its executor had accepted it, and restarted or stopped before starting it.",
    RunReason.INTERRUPTED: "Its executor ended or crashed while it was running.",
}
"""What each code says."""


def read_report(word: str) -> RunReason | None:
    """Return the reason that an executor reports; None if it is a word that this version does not know."""
    found = _KNOWN.get(word)
    return found if found in REPORTED or found is RunReason.PLAIN else None


def words_of(code: str) -> str:
    """Return what a code says; empty for one that needs no words or that this version does not know."""
    known = _KNOWN.get(code)
    return "" if known is None else SENTENCES.get(known, "")


_KNOWN: Final = {reason.value: reason for reason in RunReason}
