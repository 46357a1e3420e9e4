"""Alarms: their kinds, rules, what happened, and each attempt to send it.

All times are epoch milliseconds, UTC. All records are frozen; a change is a new row in the database.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from xwheel_alarms.contract import AlarmKind

__all__ = [
    "RULE_KINDS",
    "AlarmAttempt",
    "AlarmKind",
    "AlarmRow",
    "AlarmRule",
    "AlarmState",
    "AlarmTarget",
    "AlarmWhen",
    "AttemptState",
]

RULE_KINDS: Final = frozenset(AlarmKind) - {AlarmKind.RECOVERED, AlarmKind.TEST}
"""What rules may ask for; a notice of recovery has a switch of its own."""


class AlarmWhen(StrEnum):
    """Which ends of a run that is tried again are alarms."""

    EACH = "each"
    LAST = "last"


class AlarmState(StrEnum):
    """What became of an alarm.

    ``new`` is not grouped yet, ``held`` waits for the end of a window or of quiet hours, ``merged`` is counted in
    the notice that ``notice_id`` names, ``told`` was handed to its channels, ``dropped`` was not told and
    ``note`` says why.
    """

    NEW = "new"
    HELD = "held"
    MERGED = "merged"
    TOLD = "told"
    DROPPED = "dropped"


class AttemptState(StrEnum):
    """What became of an attempt to send an alarm."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmTarget:
    """Where a rule sends its alarms.

    Attributes:
        channel: Name of an alarm channel.
        receivers: Addresses in the channel's own words; empty for the channel's default.
    """

    channel: str
    receivers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """Which alarms are sent where, for one job, for the jobs of a group, or for all jobs.

    Attributes:
        job_id: The one job; None for a rule of a group or of all.
        group_id: The group; None for a rule of one job or of all.
        kinds: What it asks for, sorted.
        when: Each bad end, or only the one after which nothing is tried again.
        targets: Where they are sent; a rule without any keeps them silent.
        window_s: After a notice further events of the same job and kind are counted for this long, and sent in one
            notice at its end; 0 sends each.
        recovery: Send a notice when the job succeeds again after an alarm.
        quiet_from: ``HH:MM``, from when nothing is sent; empty for no quiet hours.
        quiet_to: ``HH:MM``, until when; may be earlier than ``quiet_from``, on the next day.
        quiet_timezone: IANA name of the zone of both.
        quiet_pass: Kinds that are sent in quiet hours nevertheless.
        not_run_s: For ``not_run``: how long no due run may have been taken by an executor; 0 if not asked for.
        still_running_s: For ``still_running``: how long a run may take; 0 if not asked for.
        revision: Rises with each change.
    """

    id: int
    name: str
    job_id: int | None
    group_id: int | None
    kinds: tuple[AlarmKind, ...]
    when: AlarmWhen
    targets: tuple[AlarmTarget, ...]
    window_s: int
    recovery: bool
    quiet_from: str
    quiet_to: str
    quiet_timezone: str
    quiet_pass: tuple[AlarmKind, ...]
    not_run_s: int
    still_running_s: int
    enabled: bool
    revision: int
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRow:
    """Something that happened and that a rule asks for.

    Attributes:
        id: Stays the same however often it is sent.
        rule_id: The rule; None in a test.
        job_id: The job; None in a test.
        group_id: Its group at that time; None in a test.
        run_id: The run, or None.
        at_ms: When it happened, or the first of what is counted here.
        last_ms: When the last of what is counted here happened.
        due_ms: When it is to be grouped; None once it is sent, merged or dropped.
        count: How many events it stands for.
        reason: Short word or message.
        message: What the handler or the scheduler said, shortened.
        notice_id: For ``merged``: the alarm that counts it.
        note: Why it is held or was dropped.
    """

    id: int
    rule_id: int | None
    job_id: int | None
    group_id: int | None
    run_id: int | None
    partition: int
    kind: AlarmKind
    state: AlarmState
    at_ms: int
    last_ms: int
    due_ms: int | None
    count: int
    reason: str
    message: str
    notice_id: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmAttempt:
    """One try to send an alarm through one channel.

    Attributes:
        alarm_id: The alarm.
        job_id: Its job; None in a test.
        group_id: Its job's group; None in a test.
        number: 1 for the first try.
        due_ms: When to try; None once it ended.
        started_ms: When the channel was called; None before, or if it was not.
        took_ms: How long that took; None as well.
        answer: What the channel returned, or the error.
    """

    id: int
    alarm_id: int
    job_id: int | None
    group_id: int | None
    partition: int
    channel: str
    receivers: tuple[str, ...]
    number: int
    state: AttemptState
    due_ms: int | None
    started_ms: int | None
    took_ms: int | None
    answer: str
